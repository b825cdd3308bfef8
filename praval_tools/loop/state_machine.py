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
from praval_tools.loop.replies import added
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

_MOST_WAIT: Final = 60.0
"""Seconds; a provider that wants more is not waited for."""
_UNKNOWN: Final = frozenset({Outcome.IN_DOUBT, Outcome.CANCELLED, Outcome.ENGINE_LOST})
"""Nobody knows whether the tool did its work; a model is not told so, a person is."""
_ENDS: Final = {"refused": StopReason.REFUSED, "truncated": StopReason.TRUNCATED}


class Ask(msgspec.Struct, frozen=True):
    """Ask the model; answered with a `ModelReply`."""

    request: ModelRequest


class Write(msgspec.Struct, frozen=True):
    """Have something written down; answered once it is durable."""

    item: Any


class Batch(msgspec.Struct, frozen=True):
    """Run calls side by side; answered with their results."""

    calls: list[ToolCall]


class Refuse(msgspec.Struct, frozen=True):
    """Have a call written down that is not made; answered with its result."""

    call: ToolCall
    result: ToolResult


class Pause(msgspec.Struct, frozen=True):
    """Wait so many seconds."""

    seconds: float


class Tell(msgspec.Struct, frozen=True):
    """Let the caller know."""

    event: LoopEvent


Step = Ask | Write | Batch | Refuse | Pause | Tell


class Terms(msgspec.Struct, frozen=True, kw_only=True):
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
    form: Format
    instructions: str
    stream: bool
    max_steps: int
    max_calls: int | None
    retries: int
    retry_wait: float


class Course:
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

    def __init__(self, terms: Terms, show: Any, offers: Any, *, now: Any, talk: Any = None) -> None:
        self._terms, self._show, self._offers, self._now, self._talk = terms, show, offers, now, talk
        self._messages: list[Any] = []
        self._results: list[ToolResult] = []
        self._usage: dict[str, int] = {}
        self._used = self._step = 0
        self._said, self._replayed = "", False

    def steps(self, messages: Sequence[Any]) -> Generator[Step, Any, LoopResult]:
        """Go on from *messages* to the end."""
        self._messages = list(messages)
        for step in range(1, self._terms.max_steps + 1):
            self._step = step
            reply = yield from self._reply()
            self._said = reply.text
            self._messages += reply.messages or self._terms.form.assistant(reply.calls, reply.text)
            if not reply.calls or reply.stop in _ENDS:  # calls of half a reply may be half themselves
                if reply.stop == "pause":
                    continue
                empty = StopReason.ANSWER if reply.text.strip() else StopReason.EMPTY
                return self._ended(_ENDS.get(reply.stop, empty))
            results = yield from self._calls(reply)
            if (ended := self._halted(results)) is not None:
                return ended
            answers = [
                msgspec.structs.replace(one, tool_call_id=call.tool_call_id)
                for one, call in zip(results, reply.calls, strict=True)
            ]
            self._messages += self._terms.form.results(answers)
            if any(one.error_type == "call-limit" for one in results):
                return self._ended(StopReason.CALL_LIMIT)
        return self._ended(StopReason.STEP_LIMIT)

    def _ended(self, reason: StopReason, waiting: Sequence[str] = ()) -> LoopResult:
        return LoopResult(
            reason=reason, text=self._said, steps=self._step, results=tuple(self._results),
            messages=tuple(self._messages), waiting=tuple(waiting), usage=self._usage,
            run_id=None if self._talk is None else self._talk.run_id,
        )  # fmt: skip

    # ── the model ────────────────────────────────────────────────────────────────────────────────

    def _reply(self) -> Generator[Step, Any, ModelReply]:
        known = None if self._talk is None else self._talk.recorded(self._step)
        self._replayed = known is not None
        if known is not None:
            reply = _unfolded(known, self._terms.form.name)
            yield Tell(ModelAnswered(self._step, reply, True))
            return reply
        started = self._now()
        reply = yield from self._asked()
        if self._talk is not None:
            took = (self._now() - started) * 1000
            folded = _folded(reply, self._terms.form.name)
            item = self._talk.replied(self._step, folded, reply.calls, took)
            try:
                self._talk.written((yield Write(item)))
            except JournalError as error:
                self._talk.lost(error)
        self._usage = added(self._usage, reply.usage.items())
        yield Tell(ModelAnswered(self._step, reply))
        return reply

    def _asked(self) -> Generator[Step, Any, ModelReply]:
        terms, wait = self._terms, self._terms.retry_wait
        for attempt in range(terms.retries + 1):
            request = ModelRequest(
                messages=list(self._messages), tools=self._show(), instructions=terms.instructions,
                api_format=terms.form.name, stream=terms.stream, agent=terms.agent, step=self._step,
                run_id=None if self._talk is None else self._talk.run_id,
            )  # fmt: skip
            try:
                reply: ModelReply = yield Ask(request)
                return reply
            except ModelError as error:
                pause = min(wait, _MOST_WAIT) if error.retry_after is None else error.retry_after
                if not error.retryable or attempt == terms.retries or pause > _MOST_WAIT:
                    raise
                yield Tell(ModelRetried(self._step, pause, str(error)))
                yield Pause(pause)
                wait *= 2
        raise AssertionError("the last attempt returns or raises")

    # ── the calls ────────────────────────────────────────────────────────────────────────────────

    def _calls(self, reply: ModelReply) -> Generator[Step, Any, list[ToolResult]]:
        most = self._terms.max_calls
        room = len(reply.calls) if most is None else max(0, most - self._used)
        mine = [self._placed(one) for one in reply.calls[:room]]
        self._used += len(mine)
        if self._replayed and self._talk is not None and self._talk.is_masked(self._step):
            results = [self._talk.result(one) for one in mine]
        else:
            results = yield from self._run(mine)
        results += [self._beyond(one) for one in reply.calls[room:]]
        self._results += results
        yield Tell(CallsEnded(self._step, tuple(results)))
        return results

    def _run(self, calls: list[ToolCall]) -> Generator[Step, Any, list[ToolResult]]:
        """Run the calls of tools that are offered, as one batch, and refuse the others."""
        offered = [self._offers(one.name) for one in calls]
        made = [one for one, may in zip(calls, offered, strict=True) if may]
        ran = iter((yield Batch(made)) if made else ())
        results = []
        for call, may in zip(calls, offered, strict=True):
            if may:
                results.append(next(ran))
            else:
                results.append((yield Refuse(call, self._hidden(call))))
        return results

    def _hidden(self, call: ToolCall) -> ToolResult:
        text = f"Tool {call.name!r} is not offered in this conversation."
        return ToolResult(
            call.tool_call_id, call.name, self._terms.agent, Outcome.FORBIDDEN, error=text, error_type="not-offered"
        )

    def _placed(self, call: ToolCall) -> ToolCall:
        """Return a call with an id of this step, in the run."""
        given = call.tool_call_id or ""
        if self._talk is None:
            return msgspec.structs.replace(call, agent=None)
        name = self._talk.id_of(self._step, given)
        return msgspec.structs.replace(call, tool_call_id=name, run_id=self._talk.run_id, agent=None)

    def _beyond(self, call: ToolCall) -> ToolResult:
        text = f"This was not run: a conversation makes at most {self._terms.max_calls} calls."
        return ToolResult(
            call.tool_call_id, call.name, self._terms.agent, Outcome.LIMITED, error=text, error_type="call-limit"
        )

    def _halted(self, results: Sequence[ToolResult]) -> LoopResult | None:
        """Return how the loop ends where a person has to say something first."""
        unknown = [one.tool_call_id or "" for one in results if one.outcome in _UNKNOWN]
        if unknown:
            return self._ended(StopReason.IN_DOUBT, unknown)
        waiting = [one.tool_call_id or "" for one in results if one.outcome is Outcome.APPROVAL_REQUIRED]
        return self._ended(StopReason.APPROVAL_REQUIRED, waiting) if waiting else None


# ── a reply in the journal ───────────────────────────────────────────────────────────────────────


def _folded(reply: ModelReply, api_format: str) -> dict[str, Any]:
    calls = [
        {"id": one.tool_call_id, "name": one.name, "arguments": one.arguments, "reason": one.reason}
        for one in reply.calls
    ]
    return {
        "text": reply.text, "calls": calls, "messages": list(reply.messages), "stop": reply.stop, "usage": reply.usage,
        "format": api_format,
    }  # fmt: skip


def _unfolded(kept: dict[str, Any], api_format: str) -> ModelReply:
    """Return a recorded reply; its messages are made anew where another format than the present one was spoken."""
    messages = kept["messages"] if kept.get("format", api_format) == api_format else ()
    calls = [
        ToolCall(one["id"], one["name"], one["arguments"], reason=one.get("reason") or "") for one in kept["calls"]
    ]
    return ModelReply(
        text=kept["text"], calls=tuple(calls), messages=tuple(messages), stop=kept["stop"],
        usage=kept.get("usage") or {},
    )  # fmt: skip
