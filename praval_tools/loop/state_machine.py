"""
The state machine of a loop: it yields the effect to carry out next, and gets its outcome; it does no I/O itself.

Send the tools, run the calls as one batch, return the results, again, until the model answers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

import msgspec

from praval_tools.errors import ModelError
from praval_tools.execution.effects import AppendToJournal
from praval_tools.formats import Format
from praval_tools.loop.replies import JsonObject, add_usage
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
from praval_tools.names import format_count
from praval_tools.runs.model_log import ModelLog
from praval_tools.tools.call import Outcome, ToolCall, ToolResult

_MAX_RETRY_WAIT: Final = 60.0
"""Seconds; a provider that wants more is not waited for."""
_HALTING_OUTCOMES: Final = {
    StopReason.IN_DOUBT: frozenset({Outcome.IN_DOUBT, Outcome.CANCELLED, Outcome.ENGINE_LOST}),
    StopReason.APPROVAL_REQUIRED: frozenset({Outcome.APPROVAL_REQUIRED}),
}
"""Outcomes that are not shown to the model: a person decides first. In doubt: the tool may have done its work."""
_FINAL_REASONS: Final = {StopReason.ANSWER, StopReason.EMPTY, StopReason.REFUSED, StopReason.TRUNCATED}
"""Ends after which a loop cannot be gone on with."""
STOP_REASONS: Final = {
    "refused": StopReason.REFUSED, "truncated": StopReason.TRUNCATED, "pause": StopReason.TRUNCATED
}  # fmt: skip
"""How a loop ends with a reply that is not whole, by its `stop`; a pause without calls is continued instead."""


class AskModel(msgspec.Struct, frozen=True):
    """Ask the model; answered with a `ModelReply`."""

    request: ModelRequest


class RunBatch(msgspec.Struct, frozen=True):
    """Run calls side by side; answered with their results."""

    calls: list[ToolCall]


class RefuseCall(msgspec.Struct, frozen=True):
    """Record a call that is not made; answered with its result."""

    call: ToolCall
    result: ToolResult


class Pause(msgspec.Struct, frozen=True):
    """Wait so many seconds."""

    seconds: float


class EmitEvent(msgspec.Struct, frozen=True):
    """Yield an event to the caller of the loop."""

    event: LoopEvent


LoopEffect = AskModel | AppendToJournal | RunBatch | RefuseCall | Pause | EmitEvent


class LoopOptions(msgspec.Struct, frozen=True, kw_only=True):
    """
    The settings of a loop.

    Args:
        agent: Whose tools are offered.
        model_format: The model's format.
        instructions: The system prompt.
        answer_tool: The tool whose first successful call ends the loop.
        stream: Whether the caller wants events while the model answers.
        max_steps: Most replies.
        max_calls: Most calls; None: any number.
        retries: How often a request is sent again that may succeed later.
        retry_wait: Seconds before the first of them, doubled each time; what a provider says counts more.
    """

    agent: str
    model_format: Format
    instructions: str
    max_steps: int
    max_calls: int | None
    retries: int
    retry_wait: float
    answer_tool: str | None = None
    stream: bool = False


class LoopStateMachine:
    """
    One loop.

    Args:
        options: Its settings.
        add_tools: Returns a request with the agent's tools in the model's format.
        is_offered: Tells whether a tool, by its name, may be called in this loop.
        now: A clock, in seconds.
        model_log: Its record; None: nothing is recorded.
        add_results: Takes note of the results of the calls of a step.
    """

    def __init__(
        self,
        options: LoopOptions,
        add_tools: Callable[[ModelRequest], ModelRequest],
        is_offered: Callable[[object], bool],
        *,
        now: Callable[[], float],
        model_log: ModelLog | None = None,
        add_results: Callable[[Sequence[ToolResult]], None] = lambda results: None,
    ) -> None:
        self._options, self._now, self._model_log = options, now, model_log
        self._add_tools, self._is_offered, self._add_results = add_tools, is_offered, add_results
        self._messages: list[Any] = []
        self._results: list[ToolResult] = []
        self._usage: dict[str, int] = {}
        self._call_count = self._step = 0
        self._last_text, self._is_replayed = "", False

    def run_loop(self, messages: Sequence[Any]) -> Generator[LoopEffect, Any, LoopResult]:
        """Go on from *messages* to the end."""
        self._messages = list(messages)
        if self._model_log is None:
            return (yield from self._run_steps())
        yield from self._model_log.record_beginning()
        result = yield from self._run_steps()
        if result.reason in _FINAL_REASONS:
            self._model_log.end_loop()
        return result

    def _run_steps(self) -> Generator[LoopEffect, Any, LoopResult]:
        for step in range(1, self._options.max_steps + 1):
            self._step = step
            reply = yield from self._get_reply()
            self._last_text = reply.text
            if not (reply.calls and reply.stop):  # a provider refuses calls without results
                self._messages += reply.messages or self._options.model_format.assistant(reply.calls, reply.text)
            if reply.stop == "pause" and not reply.calls:
                continue
            if not reply.calls or reply.stop:  # calls of half a reply may be half themselves
                complete = StopReason.ANSWER if reply.text.strip() else StopReason.EMPTY
                return self._build_result(STOP_REASONS.get(reply.stop, complete))
            results = yield from self._process_calls(reply)
            if (halt_result := self._find_halt_result(results)) is not None:
                return halt_result
            answers = [
                msgspec.structs.replace(result, tool_call_id=call.tool_call_id)
                for result, call in zip(results, reply.calls, strict=True)
            ]
            messages = self._options.model_format.results(answers)
            self._messages += messages
            if self._model_log is not None:
                self._model_log.add_results(reply.calls, results, messages)
            ends = (result for result in results if result.success and result.name == self._options.answer_tool)
            answer = next(ends, None)
            if answer is not None:
                return msgspec.structs.replace(self._build_result(StopReason.ANSWER), answer=answer.result)
            if any(result.error_type == "call-limit" for result in results):
                return self._build_result(StopReason.CALL_LIMIT)
        return self._build_result(StopReason.STEP_LIMIT)

    def _build_result(self, reason: StopReason, waiting: Sequence[str] = ()) -> LoopResult:
        return LoopResult(
            reason=reason,
            text=self._last_text,
            steps=self._step,
            results=tuple(self._results),
            messages=tuple(self._messages),
            waiting=tuple(waiting),
            usage=self._usage,
            run_id=self._run_id,
            api_format=self._options.model_format.name,
        )

    @property
    def _run_id(self) -> str | None:
        return None if self._model_log is None else self._model_log.run_id

    # ── the model ────────────────────────────────────────────────────────────────────────────────

    def _get_reply(self) -> Generator[LoopEffect, Any, ModelReply]:
        recorded = None if self._model_log is None else self._model_log.find_reply(self._step)
        self._is_replayed = recorded is not None
        if recorded is not None:
            reply = _reply_from_json(recorded, self._options.model_format.name)
            yield EmitEvent(ModelAnswered(self._step, reply, True))
            return reply
        started = self._now()
        reply = yield from self._ask_with_retries()
        if self._model_log is not None:
            latency_ms = (self._now() - started) * 1000
            reply_json = _reply_to_json(reply, self._options.model_format.name)
            yield from self._model_log.record_reply(self._step, reply_json, reply.calls, latency_ms)
        self._usage = add_usage(self._usage, reply.usage)
        yield EmitEvent(ModelAnswered(self._step, reply))
        return reply

    def _ask_with_retries(self) -> Generator[LoopEffect, Any, ModelReply]:
        options, wait = self._options, self._options.retry_wait
        for attempt in range(options.retries + 1):
            request = ModelRequest(
                messages=list(self._messages),
                tools=[],
                instructions=options.instructions,
                api_format=options.model_format.name,
                stream=options.stream,
                agent=options.agent,
                step=self._step,
                run_id=self._run_id,
            )
            try:
                reply: ModelReply = yield AskModel(self._add_tools(request))
                return reply
            except ModelError as error:
                pause = min(wait, _MAX_RETRY_WAIT) if error.retry_after is None else error.retry_after
                if not error.retryable or attempt == options.retries or pause > _MAX_RETRY_WAIT:
                    raise
                yield EmitEvent(ModelRetried(self._step, pause, str(error)))
                yield Pause(pause)
                wait *= 2
        raise AssertionError("the last attempt returns or raises")

    # ── the calls ────────────────────────────────────────────────────────────────────────────────

    def _process_calls(self, reply: ModelReply) -> Generator[LoopEffect, Any, list[ToolResult]]:
        limit = self._options.max_calls
        room = len(reply.calls) if limit is None else max(0, limit - self._call_count)
        calls = [self._prepare_call(number, call) for number, call in enumerate(reply.calls[:room])]
        self._call_count += len(calls)
        if self._is_replayed and self._model_log is not None and self._model_log.is_masked(self._step):
            results = [self._model_log.replay_result(call) for call in calls]
        else:
            results = yield from self._run_offered_calls(calls)
        text = f"This was not run: a conversation makes at most {format_count(limit or 0, 'call')}."
        results += [self._refuse_call(call, Outcome.LIMITED, "call-limit", text) for call in reply.calls[room:]]
        self._results += results
        self._add_results(results)
        yield EmitEvent(CallsEnded(self._step, tuple(results)))
        return results

    def _run_offered_calls(self, calls: list[ToolCall]) -> Generator[LoopEffect, Any, list[ToolResult]]:
        """Run the calls of tools that are offered, as one batch, and refuse the others."""
        is_offered = [self._is_offered(call.name) for call in calls]
        offered_calls = [call for call, offered in zip(calls, is_offered, strict=True) if offered]
        offered_results = iter((yield RunBatch(offered_calls)) if offered_calls else ())
        results = []
        for call, offered in zip(calls, is_offered, strict=True):
            if offered:
                results.append(next(offered_results))
            else:
                text = f"Tool {call.name!r} is not offered in this conversation."
                refusal = self._refuse_call(call, Outcome.FORBIDDEN, "not-offered", text)
                results.append((yield RefuseCall(call, refusal)))
        return results

    def _refuse_call(self, call: ToolCall, outcome: Outcome, error_type: str, text: str) -> ToolResult:
        return ToolResult(call.tool_call_id, call.name, self._options.agent, outcome, error=text, error_type=error_type)

    def _prepare_call(self, number: int, call: ToolCall) -> ToolCall:
        """Return a call with an id of this step, in the run, and with its reason as it is recorded."""
        if self._model_log is None:
            return call
        call_id = self._model_log.build_call_id(self._step, call.tool_call_id or "")
        reason = self._model_log.get_reason(self._step, number)
        return msgspec.structs.replace(call, tool_call_id=call_id, run_id=self._run_id, reason=reason)

    def _find_halt_result(self, results: Sequence[ToolResult]) -> LoopResult | None:
        """Return how the loop ends where a person has to decide first."""
        for reason, outcomes in _HALTING_OUTCOMES.items():
            if ids := [result.tool_call_id or "" for result in results if result.outcome in outcomes]:
                return self._build_result(reason, ids)
        return None


# ── a reply in the journal ───────────────────────────────────────────────────────────────────────


def _reply_to_json(reply: ModelReply, api_format: str) -> JsonObject:
    calls = [
        {"id": call.tool_call_id, "name": call.name, "arguments": call.arguments, "reason": call.reason}
        for call in reply.calls
    ]
    return {
        "text": reply.text,
        "calls": calls,
        "messages": list(reply.messages),
        "stop": reply.stop,
        "usage": reply.usage,
        "format": api_format,
    }


def _reply_from_json(recorded: JsonObject, api_format: str) -> ModelReply:
    """Return a recorded reply; without its messages where they are in another format than the present one."""
    calls = (
        ToolCall(call["id"], call["name"], call["arguments"], reason=call.get("reason") or "")
        for call in recorded["calls"]
    )
    return ModelReply(
        text=recorded["text"],
        calls=tuple(calls),
        messages=tuple(recorded["messages"]) if recorded.get("format", api_format) == api_format else (),
        stop=recorded["stop"],
        usage=recorded.get("usage") or {},
    )
