"""
The pipeline of a call as a generator that does no waiting itself.

It yields a `Step` where something has to wait, and the sync and the async driver send back what came of it.
may the agent see the tool → arguments → decide on them → limits → approval → admission and run → again or result.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from praval_tools.access.records import Principal
from praval_tools.access.rules import Facts, Paid, Path, Verdict, choose, judge
from praval_tools.errors import ToolArgumentsError, ToolDefinitionError
from praval_tools.execution.context import CALL, Site, frame_of, running
from praval_tools.execution.effects import Approve, Run, Sleep, Step, Steps
from praval_tools.execution.hooks import announced
from praval_tools.execution.policies import asked_policies
from praval_tools.execution.results import refused, stopped_by
from praval_tools.execution.retries import retry_in
from praval_tools.names import OPERATOR, shorten
from praval_tools.schema.arguments import plain_copy
from praval_tools.schema.coercion import Repair
from praval_tools.tools.approval import Allow, ApprovalRequest
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.decision import Ask, Decision
from praval_tools.tools.implementation import Bound, Definition
from praval_tools.tools.tool import Tool

if TYPE_CHECKING:
    from praval_tools.execution.runtime import Runtime


_MOST_VERDICTS: Final = 16_384
_NOTHING: Final = nullcontext()


class Course(msgspec.Struct, eq=False):
    """
    What is known of one call through all its attempts.

    `mended`: its arguments, where somebody looked at them; `renewed` takes over what other processes changed, if any;
    `told`: plugins know that it is about to run; `awaited`: async code drives it; None: what came of it is known.
    """

    runtime: Runtime
    call: ToolCall
    who: Principal | None
    attempts: int = 0
    paid: frozenset[str] = frozenset()
    settled: frozenset[str] = frozenset()
    limited: bool = False
    ended: Callable[[], None] | None = None
    approved: tuple[str, dict[str, Any]] | None = None
    shown: dict[str, Any] = {}
    mended: tuple[Definition, dict[str, Any], tuple[Repair, ...]] | None = None
    renewed: Callable[[], bool] | None = None
    told: bool = False
    awaited: bool | None = False

    def approval_of(self, tool: Tool[..., Any]) -> dict[str, Any] | None:
        """Return the arguments with which *tool*, as it is defined now, was approved; None: it was not."""
        if self.approved is None or self.approved[0] != tool.fingerprint:
            return None
        return self.approved[1]

    def end(self, run: Run | None) -> None:
        """Give its places under limits back, once its function has ended."""
        ended, self.ended = self.ended, None
        if ended is not None and run is not None and run.job is not None:
            run.job.when_done(ended)
        elif ended is not None:
            ended()


def pipeline(
    runtime: Runtime, call: ToolCall, who: Principal | None, *, known: ToolResult | None = None, awaited: bool = False
) -> Steps:
    """
    Decide and run one call.

    Every way out is a result. A driver answers `Run` with a result, or None where the call must be decided again.

    Args:
        runtime: What the calls of the registry share.
        call: The call.
        who: Who calls; None: the operator.
        known: What came of it already, to be written down.
        awaited: The driver is async code's.
    """
    if isinstance(call.name, str) and (name := runtime.ledger.state.own_name(call.name)) != call.name:
        call = replace(call, name=name)
    course = Course(runtime, call, who, awaited=awaited if known is None else None)
    steps = _decided_and_run(course) if known is None else _known(known)
    if runtime.recorder is not None:
        steps = runtime.recorder.recorded(course, steps)
    return announced(course, steps) if runtime.hooks.after else steps


def _known(result: ToolResult) -> Steps:
    return result
    yield


def _decided_and_run(course: Course) -> Steps:
    runtime, run = course.runtime, None
    try:
        while True:
            runtime.ledger.refuse_calls()
            decided = _decided(course)
            stops = isinstance(decided, ToolResult) or decided[1] is not None
            if stops and course.renewed is not None and course.renewed():
                continue
            if isinstance(decided, ToolResult):
                return decided
            run, asked = decided
            stopped = _limited(course, run)
            if stopped is None and asked is not None:
                stopped = yield from _approved(course, run, asked)
                if stopped is None:
                    continue
            if stopped is not None:
                return stopped
            if runtime.hooks.before and not course.told:
                course.told = True
                runtime.hooks.begin(run, run.tool.definition_.shown(run.bound))
            result: ToolResult | None = yield run
            course.attempts, course.paid, course.settled = run.attempts, run.paid, run.settled
            if result is None:
                continue
            seconds = retry_in(runtime, run, result)
            if seconds is None:
                return result
            yield Sleep(seconds)
            if runtime.ledger.closed:
                return result
    finally:
        course.end(run)


def _decided(course: Course) -> ToolResult | tuple[Run, Ask | None]:
    """Return the call as it may run now, with the wish for an approval that it has not yet; or why it may not."""
    runtime, call, who = course.runtime, course.call, course.who
    state = runtime.ledger.state
    has_paid = course.paid | course.settled
    verdict = _verdict(runtime, Paid(state, has_paid) if has_paid else state, call, who)
    if verdict.refusal is not None:
        if verdict.refusal.rule == "definition" and verdict.record is not None:
            return _undefined(call, verdict.record.tool, verdict.refusal)
        return refused(runtime, call, who, verdict.refusal)
    tool = verdict.record.tool  # type: ignore[union-attr]
    approved = course.approval_of(tool)
    definition = tool.definition_
    path: Path | None = verdict.paths[0]
    with _as(runtime, who) if definition.runs_code or course.mended is None else _NOTHING:
        bound = _bind(course, tool, approved, verdict.decision)
        if isinstance(bound, ToolResult):
            return bound
        if verdict.paths[0].bounds:
            path, decision = choose(verdict, bound.arguments, partial(definition.filled, bound))
            if path is None:
                return refused(runtime, call, who, decision, bound)
    shown, asked = bound.arguments, None
    if state.policies or tool.metadata.requires_approval:
        shown = definition.shown(bound)
        denied, asked = asked_policies(runtime.home, state, call.agent, tool, shown)
        if denied is not None:
            return refused(runtime, call, who, denied, bound)
        if tool.metadata.requires_approval and asked is None:
            asked = Ask(tool.metadata.approval_reason)
    attempts, paid, settled = course.attempts, course.paid, course.settled
    run = Run(runtime, call, who, tool, bound, verdict, path, state, None, attempts, paid, settled)  # type: ignore[arg-type]
    course.shown = shown
    return run, asked if approved is None else None


def _limited(course: Course, run: Run) -> ToolResult | None:
    """Take the call's places under limits, once; return the refusal where there is none."""
    if course.limited or course.runtime.limits.none:
        return None
    why, course.ended = course.runtime.limits.begin(course.call.agent, run.tool.name, course.call.run_id)
    if why:
        return stopped_by(run, Outcome.LIMITED, f"Tool {run.tool.name!r} is limited: {why}.", "limited")
    course.limited = True
    return None


def _approved(course: Course, run: Run, asked: Ask) -> Generator[Step, Any, ToolResult | None]:
    """Have the call approved; return why it may not run, None where it may, after another look at everything."""
    course.call = call = run.call.with_id()
    tool, now, approvals = run.tool, course.runtime.clock.now(), course.runtime.approvals
    run.frame[CALL] = call
    request = ApprovalRequest(
        tool_call_id=str(call.tool_call_id), tool=tool.name, agent=call.agent, chain=call.on_behalf_of,
        arguments=plain_copy(course.shown), risk_level=tool.metadata.risk_level, reason=asked.reason,
        run_id=call.run_id, fingerprint=tool.fingerprint, asked=now, expires=now + approvals.lasts,
    )  # fmt: skip
    answer = approvals.taken(request)
    if answer is None:
        answer = yield Approve(request)
    if isinstance(answer, Allow):
        arguments = run.bound.arguments if answer.arguments is None else answer.arguments
        course.approved = request.fingerprint, plain_copy(arguments)
        return None
    if answer is None:
        approvals.keep(request)
        why = f" ({asked.reason})" if asked.reason else ""
        text = f"Tool {tool.name!r} needs an approval{why} and did not run."
        return stopped_by(run, Outcome.APPROVAL_REQUIRED, text, "approval-required")
    why = f": {answer.reason}" if answer.reason else ""
    text = f"The approval of tool {tool.name!r} was denied{why}."
    return stopped_by(run, Outcome.APPROVAL_DENIED, text, "approval-denied")


def _as(runtime: Runtime, who: Principal | None) -> AbstractContextManager[Any]:
    """Act as the caller inside: what it gave, and classes of parameters, may run code of their own."""
    return running(frame_of(Site(runtime.home, who, OPERATOR if who is None else who.agent)))


def _verdict(runtime: Runtime, state: Facts, call: ToolCall, who: Principal | None) -> Verdict:
    name = call.name if isinstance(call.name, str) else shorten(call.name)
    now = runtime.clock.now()
    if who is not None:
        return _judged(runtime, state, who, name, now)
    record = state.record(name)
    if record is None:
        return judge(state, Principal(OPERATOR), name, now)
    off = state.disabling(record.tool)
    if off is not None:
        return judge(state, Principal(OPERATOR), name, now)
    decision = Decision(True, "allowed", "operator", None, name, "The host program calls.")
    return Verdict(record, (Path(decision),))


def _judged(runtime: Runtime, state: Facts, who: Principal, name: str, now: datetime) -> Verdict:
    """Judge, or take the verdict of the same state, where nothing but a change of the records can end it."""
    since, known = runtime.verdicts
    if since is not state or len(known) > _MOST_VERDICTS:
        known = {}
        runtime.verdicts = state, known
    verdict = known.get((who, name))
    if verdict is None:
        verdict = judge(state, who, name, now)
        if verdict.paths and verdict.paths[0].lasting:
            known[who, name] = verdict
    return verdict


def _undefined(call: ToolCall, tool: Tool[..., Any], decision: Decision) -> ToolResult:
    """Return the result of a call to a tool whose hints lead nowhere."""
    try:
        _ = tool.definition_.compiled
        text, code, found = decision.reason, ToolDefinitionError.code, None
    except ToolDefinitionError as error:
        text, code, found = str(error), error.code, error
    return ToolResult(
        call.tool_call_id, tool.name, call.agent, Outcome.TOOL_ERROR, None, text, code, decision=decision,
        exception=found,
    )  # fmt: skip


def bound_for(runtime: Runtime, tool: Tool[..., Any], arguments: Any) -> Bound:
    """
    Return the arguments as the tool will get them, under its options and the registry's.

    Raises:
        ToolArgumentsError: They do not fit.
        ToolDefinitionError: A hint of the tool leads nowhere.
    """
    strict, options = tool.metadata.strict_arguments, runtime.options
    return tool.definition_.bind(
        arguments, strict=options.strict_arguments if strict is None else strict,
        max_bytes=options.max_argument_bytes, max_depth=options.max_argument_depth,
    )  # fmt: skip


def _bind(
    course: Course, tool: Tool[..., Any], approved: dict[str, Any] | None, decision: Decision
) -> Bound | ToolResult:
    call = course.call
    try:
        if approved is not None:
            return bound_for(course.runtime, tool, approved)
        if course.mended is not None and course.mended[0] is tool.definition_:
            return tool.definition_.bound(*course.mended[1:])
        return bound_for(course.runtime, tool, call.arguments)
    except ToolArgumentsError as error:
        return ToolResult(
            call.tool_call_id, tool.name, call.agent, Outcome.INVALID_ARGUMENTS, None, str(error), error.code,
            decision=decision, exception=error,
        )  # fmt: skip
    except ToolDefinitionError as error:
        return ToolResult(
            call.tool_call_id, tool.name, call.agent, Outcome.TOOL_ERROR, None, str(error), error.code,
            decision=decision, exception=error,
        )  # fmt: skip
