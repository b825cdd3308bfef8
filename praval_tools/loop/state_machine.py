"""
The course of a loop, without doing anything itself: it says what is to be done next, and is told what came of it.

Send the tools, run the calls as one batch, return the results, again, until the model answers.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final

import msgspec

from praval_tools.errors import JournalError, ModelError
from praval_tools.formats import Format
from praval_tools.loop.replies import add_usage
from praval_tools.loop.values import (
    CallsEnded,
    LoopEvent,
    LoopResult,
    ModelAnswered,
    ModelReply,
    ModelRequest,
    ModelRetried,
    StopReason,
)
from praval_tools.tools.call import Outcome, ToolCall, ToolResult

_MAX_RETRY_WAIT: Final = 60.0
"""Seconds; a provider that wants more is not waited for."""
_UNCERTAIN_OUTCOMES: Final = frozenset({Outcome.IN_DOUBT, Outcome.CANCELLED, Outcome.ENGINE_LOST})
"""Nobody knows whether the tool did its work; a model is not told so, a person is."""
_STOP_REASONS: Final = {"refused": StopReason.REFUSED, "truncated": StopReason.TRUNCATED}


class AskModel(msgspec.Struct, frozen=True):
    """Ask the model; answered with a `ModelReply`."""

    request: ModelRequest


class WriteItem(msgspec.Struct, frozen=True):
    """Have something written down; answered once it is durable."""

    item: Any


class RunBatch(msgspec.Struct, frozen=True):
    """Run calls side by side; answered with their results."""

    calls: list[ToolCall]


class RefuseCall(msgspec.Struct, frozen=True):
    """Have a call written down that is not made; answered with its result."""

    call: ToolCall
    result: ToolResult


class Pause(msgspec.Struct, frozen=True):
    """Wait so many seconds."""

    seconds: float


class EmitEvent(msgspec.Struct, frozen=True):
    """Let the caller know."""

    event: LoopEvent


LoopEffect = AskModel | WriteItem | RunBatch | RefuseCall | Pause | EmitEvent


class LoopOptions(msgspec.Struct, frozen=True, kw_only=True):
    """
    How a loop goes.

    Args:
        agent: Whose tools are offered.
        form: The model's format.
        instructions: What the model is told beforehand.
        stream: The caller reads along.
        max_steps: Most replies.
        max_calls: Most calls; None: any number.
        retries: How often a request is sent again that may succeed later.
        retry_wait: Seconds before the first of them, doubled each time; what a provider says counts more.
    """

    agent: str
    model_format: Format
    instructions: str
    stream: bool
    max_steps: int
    max_calls: int | None
    retries: int
    retry_wait: float


class LoopStateMachine:
    """
    One loop on its way.

    Args:
        terms: How it goes.
        toolset: The agent's tools.
        show: Gives the tools as the model gets them.
        offers: Tells whether a tool, by its name, is among those that this loop may be about.
        now: A clock, in seconds.
        talk: Its record; None: nothing is written down.
    """

    def __init__(
        self, options: LoopOptions, export_tools: Any, is_offered: Any, *, now: Any, model_log: Any = None
    ) -> None:
        self._options, self._export_tools, self._is_offered, self._now, self._model_log = (
            options,
            export_tools,
            is_offered,
            now,
            model_log,
        )
        self._messages: list[Any] = []
        self._results: list[ToolResult] = []
        self._usage: dict[str, int] = {}
        self._call_count = self._step = 0
        self._last_text, self._is_replayed = "", False

    def run_loop(self, messages: Sequence[Any]) -> Generator[LoopEffect, Any, LoopResult]:
        """Go on from *messages* to the end."""
        self._messages = list(messages)
        for step in range(1, self._options.max_steps + 1):
            self._step = step
            reply = yield from self._get_reply()
            self._last_text = reply.text
            self._messages += reply.messages or self._options.model_format.assistant(reply.calls, reply.text)
            if not reply.calls or reply.stop in _STOP_REASONS:  # calls of half a reply may be half themselves
                if reply.stop == "pause":
                    continue
                empty = StopReason.ANSWER if reply.text.strip() else StopReason.EMPTY
                return self._build_result(_STOP_REASONS.get(reply.stop, empty))
            results = yield from self._process_calls(reply)
            if (ended := self._find_halt_result(results)) is not None:
                return ended
            answers = [
                msgspec.structs.replace(one, tool_call_id=call.tool_call_id)
                for one, call in zip(results, reply.calls, strict=True)
            ]
            self._messages += self._options.model_format.results(answers)
            if any(one.error_type == "call-limit" for one in results):
                return self._build_result(StopReason.CALL_LIMIT)
        return self._build_result(StopReason.STEP_LIMIT)

    def _build_result(self, reason: StopReason, waiting: Sequence[str] = ()) -> LoopResult:
        return LoopResult(
            reason=reason, text=self._last_text, steps=self._step, results=tuple(self._results),
            messages=tuple(self._messages), waiting=tuple(waiting), usage=self._usage,
            run_id=None if self._model_log is None else self._model_log.run_id,
        )  # fmt: skip

    # ── the model ────────────────────────────────────────────────────────────────────────────────

    def _get_reply(self) -> Generator[LoopEffect, Any, ModelReply]:
        known = None if self._model_log is None else self._model_log.find_reply(self._step)
        self._is_replayed = known is not None
        if known is not None:
            reply = _reply_from_json(known, self._options.model_format.name)
            yield EmitEvent(ModelAnswered(self._step, reply, True))
            return reply
        started = self._now()
        reply = yield from self._ask_with_retries()
        if self._model_log is not None:
            took = (self._now() - started) * 1000
            folded = _reply_to_json(reply, self._options.model_format.name)
            item = self._model_log.prepare_reply_item(self._step, folded, reply.calls, took)
            try:
                self._model_log.check_written((yield WriteItem(item)))
            except JournalError as error:
                self._model_log.handle_write_error(error)
        self._usage = add_usage(self._usage, reply.usage.items())
        yield EmitEvent(ModelAnswered(self._step, reply))
        return reply

    def _ask_with_retries(self) -> Generator[LoopEffect, Any, ModelReply]:
        terms, wait = self._options, self._options.retry_wait
        for attempt in range(terms.retries + 1):
            request = ModelRequest(
                messages=list(self._messages), tools=self._export_tools(), instructions=terms.instructions,
                api_format=terms.model_format.name, stream=terms.stream, agent=terms.agent, step=self._step,
                run_id=None if self._model_log is None else self._model_log.run_id,
            )  # fmt: skip
            try:
                reply: ModelReply = yield AskModel(request)
                return reply
            except ModelError as error:
                pause = min(wait, _MAX_RETRY_WAIT) if error.retry_after is None else error.retry_after
                if not error.retryable or attempt == terms.retries or pause > _MAX_RETRY_WAIT:
                    raise
                yield EmitEvent(ModelRetried(self._step, pause, str(error)))
                yield Pause(pause)
                wait *= 2
        raise AssertionError("the last attempt returns or raises")

    # ── the calls ────────────────────────────────────────────────────────────────────────────────

    def _process_calls(self, reply: ModelReply) -> Generator[LoopEffect, Any, list[ToolResult]]:
        most = self._options.max_calls
        room = len(reply.calls) if most is None else max(0, most - self._call_count)
        mine = [self._with_call_id(one) for one in reply.calls[:room]]
        self._call_count += len(mine)
        if self._is_replayed and self._model_log is not None and self._model_log.is_masked(self._step):
            results = [self._model_log.replay_result(one) for one in mine]
        else:
            results = yield from self._run_offered_calls(mine)
        results += [self._build_call_limit_result(one) for one in reply.calls[room:]]
        self._results += results
        yield EmitEvent(CallsEnded(self._step, tuple(results)))
        return results

    def _run_offered_calls(self, calls: list[ToolCall]) -> Generator[LoopEffect, Any, list[ToolResult]]:
        """Run the calls of tools that are offered, as one batch, and refuse the others."""
        offered = [self._is_offered(one.name) for one in calls]
        made = [one for one, may in zip(calls, offered, strict=True) if may]
        ran = iter((yield RunBatch(made)) if made else ())
        results = []
        for call, may in zip(calls, offered, strict=True):
            if may:
                results.append(next(ran))
            else:
                results.append((yield RefuseCall(call, self._build_not_offered_result(call))))
        return results

    def _build_not_offered_result(self, call: ToolCall) -> ToolResult:
        text = f"Tool {call.name!r} is not offered in this conversation."
        return ToolResult(
            call.tool_call_id, call.name, self._options.agent, Outcome.FORBIDDEN, error=text, error_type="not-offered"
        )

    def _with_call_id(self, call: ToolCall) -> ToolCall:
        """Return a call with an id of this step, in the run."""
        given = call.tool_call_id or ""
        if self._model_log is None:
            return msgspec.structs.replace(call, agent=None)
        name = self._model_log.build_call_id(self._step, given)
        return msgspec.structs.replace(call, tool_call_id=name, run_id=self._model_log.run_id, agent=None)

    def _build_call_limit_result(self, call: ToolCall) -> ToolResult:
        text = f"This was not run: a conversation makes at most {self._options.max_calls} calls."
        return ToolResult(
            call.tool_call_id, call.name, self._options.agent, Outcome.LIMITED, error=text, error_type="call-limit"
        )

    def _find_halt_result(self, results: Sequence[ToolResult]) -> LoopResult | None:
        """Return how the loop ends where a person has to say something first."""
        unknown = [one.tool_call_id or "" for one in results if one.outcome in _UNCERTAIN_OUTCOMES]
        if unknown:
            return self._build_result(StopReason.IN_DOUBT, unknown)
        waiting = [one.tool_call_id or "" for one in results if one.outcome is Outcome.APPROVAL_REQUIRED]
        return self._build_result(StopReason.APPROVAL_REQUIRED, waiting) if waiting else None


# ── a reply in the journal ───────────────────────────────────────────────────────────────────────


def _reply_to_json(reply: ModelReply, api_format: str) -> dict[str, Any]:
    calls = [
        {"id": one.tool_call_id, "name": one.name, "arguments": one.arguments, "reason": one.reason}
        for one in reply.calls
    ]
    return {
        "text": reply.text, "calls": calls, "messages": list(reply.messages), "stop": reply.stop, "usage": reply.usage,
        "format": api_format,
    }  # fmt: skip


def _reply_from_json(kept: dict[str, Any], api_format: str) -> ModelReply:
    """Return a recorded reply; its messages are made anew where another format than the present one was spoken."""
    messages = kept["messages"] if kept.get("format", api_format) == api_format else ()
    calls = [
        ToolCall(one["id"], one["name"], one["arguments"], reason=one.get("reason") or "") for one in kept["calls"]
    ]
    return ModelReply(
        text=kept["text"], calls=tuple(calls), messages=tuple(messages), stop=kept["stop"],
        usage=kept.get("usage") or {},
    )  # fmt: skip
