"""The values of a loop: requests to a model and its replies, events and results; and the `Model` protocol."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import msgspec

from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.reports import ToolReport


class StopReason(StrEnum):
    """Why a loop ended; all but the first can be continued with the id of the run."""

    ANSWER = "answer"
    STEP_LIMIT = "step_limit"
    CALL_LIMIT = "call_limit"
    APPROVAL_REQUIRED = "approval_required"
    IN_DOUBT = "in_doubt"
    REFUSED = "refused"
    TRUNCATED = "truncated"
    EMPTY = "empty"


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """
    A request to a model.

    Args:
        messages: The conversation, in the model's format; you may change the list, not the messages in it.
        tools: The agent's tools, in the model's format; its own to change.
        instructions: The system prompt; empty: none.
        api_format: The format.
        stream: The loop's caller wants pieces of text as they come: an iterator may be returned.
        agent: Whose tools they are.
        step: Which request of the loop it is, from 1.
        run_id: The run, where the loop is journaled.
    """

    messages: list[Any]
    tools: list[dict[str, Any]]
    instructions: str = ""
    api_format: str = "openai-chat"
    stream: bool = False
    agent: str = ""
    step: int = 1
    run_id: str | None = None


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """
    A model's answer to a request.

    Args:
        text: Its text.
        calls: The calls that it asks for, in order: of each its id, name, arguments and reason.
        messages: Its messages in the conversation; by default they are built from text and calls.
        stop: `refused`, `truncated` or `pause` (the model wants to continue by itself); empty: it has ended.
        usage: Tokens, as the provider counts them: `input_tokens`, `output_tokens`.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    messages: tuple[Any, ...] = ()
    stop: str = ""
    usage: dict[str, int] = {}


@runtime_checkable
class Model(Protocol):
    """
    Anything that can be asked: one method, sync or async.

    It returns a text, a `ModelReply`, or a provider's response; its optional attribute `format` names the format
    (`openai-chat` by default). Where the request wants a stream, it may return an iterator, sync or async, of texts
    or of the provider's chunks, with a `ModelReply` at the end or none.
    """

    def reply(self, request: ModelRequest) -> Any:
        """Return the model's answer to *request*."""


class LoopResult(msgspec.Struct, frozen=True, kw_only=True):
    """
    How a loop ended.

    Args:
        reason: Why.
        text: The text of the last reply.
        steps: How many replies there were.
        results: The results of the calls, in order.
        messages: The conversation, in the model's format.
        waiting: The ids of the calls that wait for an approval, or are in doubt.
        usage: The tokens of the replies that were not replayed from the journal.
        run_id: The run to continue with, or None if nothing was recorded.
        answer: What the `answer_tool` of the loop returned; None where it was not called.
        api_format: The model's format, in which the messages are.
    """

    reason: StopReason
    text: str = ""
    steps: int = 0
    results: tuple[ToolResult, ...] = ()
    messages: tuple[Any, ...] = ()
    waiting: tuple[str, ...] = ()
    usage: dict[str, int] = {}
    run_id: str | None = None
    answer: Any = None
    api_format: str = ""

    @property
    def answered(self) -> bool:
        """Whether the model gave an answer."""
        return self.reason is StopReason.ANSWER


# ── events of a stream ───────────────────────────────────────────────────────────────────────────


class TextPiece(msgspec.Struct, frozen=True):
    """A piece of the model's text."""

    text: str
    step: int


class ModelRetried(msgspec.Struct, frozen=True):
    """The model is asked again; its pieces of text in this step are void."""

    step: int
    wait: float
    problem: str


class ModelAnswered(msgspec.Struct, frozen=True):
    """The model has replied; `replayed`: the reply comes from the journal."""

    step: int
    reply: ModelReply
    replayed: bool = False


class CallsEnded(msgspec.Struct, frozen=True):
    """The calls of a reply have ended, in call order."""

    step: int
    results: tuple[ToolResult, ...]


class LoopEnded(msgspec.Struct, frozen=True):
    """The last event of a loop."""

    result: LoopResult


LoopEvent = TextPiece | ModelRetried | ModelAnswered | ToolReport | CallsEnded | LoopEnded
"""Any event of a stream."""
