"""A call and what came of it."""

from __future__ import annotations

import json
import uuid
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen

from praval_tools.model.encode import Encoder

if TYPE_CHECKING:
    from praval_tools.model.arguments import Repair
    from praval_tools.model.decision import Decision


class Outcome(StrEnum):
    """How a call ended."""

    OK = "ok"
    TOOL_ERROR = "tool_error"
    INVALID_ARGUMENTS = "invalid_arguments"
    UNKNOWN_TOOL = "unknown_tool"
    FORBIDDEN = "forbidden"
    DISABLED = "disabled"
    APPROVAL_REQUIRED = "approval_required"
    APPROVAL_DENIED = "approval_denied"
    LIMITED = "limited"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    IN_DOUBT = "in_doubt"
    ENGINE_LOST = "engine_lost"


@frozen
class ToolCall:
    """
    One request of an agent to run a tool.

    Making one never fails: `arguments` may be a dict, JSON text, bytes or junk, and is judged by the call.
    """

    tool_call_id: str | None = None
    name: str = ""
    arguments: Any = None
    agent: str | None = None
    run_id: str | None = None
    on_behalf_of: tuple[str, ...] = ()

    def with_id(self) -> ToolCall:
        """Return the call with an id, made where none was given."""
        return self if self.tool_call_id is not None else evolve(self, tool_call_id=uuid.uuid4().hex)


@frozen
class ToolResult:
    """
    What came of one call; `success` is true where the tool ran and returned.

    Args:
        tool_call_id: The id of the call, None where none was given and nothing needed one.
        name: The tool's name as it was called.
        agent: Who called; None for the operator.
        outcome: How it ended.
        result: The tool's value, as Python.
        error: One line for a model; None where the outcome is ok.
        error_type: The class of the tool's exception, or the error's stable code.
        latency_ms: Milliseconds from the request to the result.
        attempts: How often the function was entered.
        repairs: What was mended in the arguments.
        replayed: The value was recorded earlier and the tool did not run.
        decision: Why the agent could call it, or not.
    """

    tool_call_id: str | None
    name: str
    agent: str | None = None
    outcome: Outcome = Outcome.OK
    result: Any = None
    error: str | None = None
    error_type: str | None = None
    latency_ms: float | None = None
    attempts: int = 0
    repairs: tuple[Repair, ...] = ()
    replayed: bool = False
    decision: Decision | None = None
    exception: BaseException | None = field(default=None, repr=False, eq=False)

    @property
    def success(self) -> bool:
        """Whether the outcome is `ok`."""
        return self.outcome is Outcome.OK

    def for_model(self, limit: int = 4_000) -> str:
        """
        Return the text that a model reads: the value as JSON or text, or type and message of the error.

        Never a traceback; at most *limit* characters.
        """
        if self.outcome is not Outcome.OK:
            kind = f"{self.error_type}: " if self.error_type and self.outcome is Outcome.TOOL_ERROR else ""
            return cut(f"{kind}{self.error or self.outcome.value}", limit)
        if isinstance(self.result, str):
            return cut(self.result, limit)
        return cut(json.dumps(Encoder().value(self.result), ensure_ascii=False), limit)


def cut(text: str, limit: int) -> str:
    """Return *text* cut to *limit* characters: head and tail, with a marker between."""
    if len(text) <= limit:
        return text
    marker = f"…[{len(text) - limit} characters left out]…"
    if len(marker) >= limit:
        return text[:limit]
    keep = limit - len(marker)
    return text[: keep - keep // 3] + marker + (text[-(keep // 3) :] if keep // 3 else "")
