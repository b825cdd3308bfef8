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
from praval_tools.access.rules import (
    AccessPath,
    AccessRecords,
    AccessResolution,
    PrepaidRecords,
    choose_path,
    resolve_access,
)
from praval_tools.errors import ToolArgumentsError, ToolDefinitionError
from praval_tools.execution.context import CALL, FrameScope, activate_frame, make_frame
from praval_tools.execution.effects import CallEffect, CallPipeline, RequestApproval, RunTool, Sleep
from praval_tools.execution.hooks import notify_after_call
from praval_tools.execution.policies import check_policies
from praval_tools.execution.results import build_not_run_result, build_refused_result
from praval_tools.execution.retries import compute_retry_delay
from praval_tools.names import OPERATOR, shorten_repr
from praval_tools.schema.coercion import Repair
from praval_tools.schema.json_input import copy_json
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.decision import Allow, ApprovalRequest, Ask, Decision
from praval_tools.tools.implementation import BoundArguments, ToolImplementation
from praval_tools.tools.tool import Tool

if TYPE_CHECKING:
    from praval_tools.execution.runtime import Runtime


_MAX_CACHED_VERDICTS: Final = 16_384
_NULL_CONTEXT: Final = nullcontext()


class CallProgress(msgspec.Struct, eq=False):
    """
    What is known of one call through all its attempts.

    `mended`: its arguments, where somebody looked at them; `renewed` takes over what other processes changed, if any;
    `told`: plugins know that it is about to run; `awaited`: async code drives it; None: what came of it is known.
    """

    runtime: Runtime
    call: ToolCall
    principal: Principal | None
    attempts: int = 0
    spent_grants: frozenset[str] = frozenset()
    stored_grants: frozenset[str] = frozenset()
    limits_acquired: bool = False
    limits_release: Callable[[], None] | None = None
    approval: tuple[str, dict[str, Any]] | None = None
    shown_arguments: dict[str, Any] = {}
    coerced_arguments: tuple[ToolImplementation, dict[str, Any], tuple[Repair, ...]] | None = None
    refresh_state: Callable[[], bool] | None = None
    before_hooks_called: bool = False
    is_async: bool | None = False

    def get_approved_arguments(self, tool: Tool[..., Any]) -> dict[str, Any] | None:
        """Return the arguments with which *tool*, as it is defined now, was approved; None: it was not."""
        if self.approval is None or self.approval[0] != tool.fingerprint:
            return None
        return self.approval[1]

    def release_limits(self, run: RunTool | None) -> None:
        """Give its places under limits back, once its function has ended."""
        ended, self.limits_release = self.limits_release, None
        if ended is not None and run is not None and run.job is not None:
            run.job.add_done_callback(ended)
        elif ended is not None:
            ended()


def make_pipeline(
    runtime: Runtime,
    call: ToolCall,
    who: Principal | None,
    *,
    known_result: ToolResult | None = None,
    is_async: bool = False,
) -> CallPipeline:
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
    if isinstance(call.name, str) and (name := runtime.access_store.state.resolve_tool_name(call.name)) != call.name:
        call = replace(call, name=name)
    course = CallProgress(runtime, call, who, is_async=is_async if known_result is None else None)
    steps = _decide_and_run(course) if known_result is None else _return_known_result(known_result)
    if runtime.recorder is not None:
        steps = runtime.recorder.record_call(course, steps)
    return notify_after_call(course, steps) if runtime.hooks.after else steps


def _return_known_result(result: ToolResult) -> CallPipeline:
    return result
    yield


def _decide_and_run(course: CallProgress) -> CallPipeline:
    runtime, run = course.runtime, None
    try:
        while True:
            runtime.access_store.refuse_calls()
            decided = _decide(course)
            stops = isinstance(decided, ToolResult) or decided[1] is not None
            if stops and course.refresh_state is not None and course.refresh_state():
                continue
            if isinstance(decided, ToolResult):
                return decided
            run, asked = decided
            stopped = _acquire_limits(course, run)
            if stopped is None and asked is not None:
                stopped = yield from _request_approval(course, run, asked)
                if stopped is None:
                    continue
            if stopped is not None:
                return stopped
            if runtime.hooks.before and not course.before_hooks_called:
                course.before_hooks_called = True
                runtime.hooks.notify_before_call(run, run.tool.implementation.render_for_review(run.bound_arguments))
            result: ToolResult | None = yield run
            course.attempts, course.spent_grants, course.stored_grants = (
                run.attempts,
                run.spent_grants,
                run.stored_grants,
            )
            if result is None:
                continue
            seconds = compute_retry_delay(runtime, run, result)
            if seconds is None:
                return result
            yield Sleep(seconds)
            if runtime.access_store.closed:
                return result
    finally:
        course.release_limits(run)


def _decide(course: CallProgress) -> ToolResult | tuple[RunTool, Ask | None]:
    """Return the call as it may run now, with the wish for an approval that it has not yet; or why it may not."""
    runtime, call, who = course.runtime, course.call, course.principal
    state = runtime.access_store.state
    has_paid = course.spent_grants | course.stored_grants
    verdict = _judge_call(runtime, PrepaidRecords(state, has_paid) if has_paid else state, call, who)
    if verdict.refusal is not None:
        if verdict.refusal.rule == "definition" and verdict.record is not None:
            return _build_definition_error_result(call, verdict.record.tool, verdict.refusal)
        return build_refused_result(runtime, call, who, verdict.refusal)
    tool = verdict.record.tool  # type: ignore[union-attr]
    approved = course.get_approved_arguments(tool)
    definition = tool.implementation
    path: AccessPath | None = verdict.paths[0]
    with _act_as(runtime, who) if definition.runs_user_code or course.coerced_arguments is None else _NULL_CONTEXT:
        bound = _bind_call(course, tool, approved, verdict.decision)
        if isinstance(bound, ToolResult):
            return bound
        if verdict.paths[0].bounds:
            path, decision = choose_path(verdict, bound.arguments, partial(definition.fill_defaults, bound))
            if path is None:
                return build_refused_result(runtime, call, who, decision, bound)
    shown, asked = bound.arguments, None
    if state.policies or tool.metadata.requires_approval:
        shown = definition.render_for_review(bound)
        denied, asked = check_policies(runtime.registry, state, call.agent, tool, shown)
        if denied is not None:
            return build_refused_result(runtime, call, who, denied, bound)
        if tool.metadata.requires_approval and asked is None:
            asked = Ask(tool.metadata.approval_reason)
    attempts, paid, settled = course.attempts, course.spent_grants, course.stored_grants
    run = RunTool(runtime, call, who, tool, bound, verdict, path, state, None, attempts, paid, settled)  # type: ignore[arg-type]
    course.shown_arguments = shown
    return run, asked if approved is None else None


def _acquire_limits(course: CallProgress, run: RunTool) -> ToolResult | None:
    """Take the call's places under limits, once; return the refusal where there is none."""
    if course.limits_acquired or course.runtime.limits.is_empty:
        return None
    why, course.limits_release = course.runtime.limits.acquire(course.call.agent, run.tool.name, course.call.run_id)
    if why:
        return build_not_run_result(run, Outcome.LIMITED, f"Tool {run.tool.name!r} is limited: {why}.", "limited")
    course.limits_acquired = True
    return None


def _request_approval(course: CallProgress, run: RunTool, asked: Ask) -> Generator[CallEffect, Any, ToolResult | None]:
    """Have the call approved; return why it may not run, None where it may, after another look at everything."""
    course.call = call = run.call.with_id()
    tool, now, approvals = run.tool, course.runtime.clock.now(), course.runtime.approvals
    run.frame[CALL] = call
    request = ApprovalRequest(
        tool_call_id=str(call.tool_call_id), tool=tool.name, agent=call.agent, chain=call.on_behalf_of,
        arguments=copy_json(course.shown_arguments), risk_level=tool.metadata.risk_level, reason=asked.reason,
        run_id=call.run_id, fingerprint=tool.fingerprint, asked=now, expires=now + approvals.lifetime,
    )  # fmt: skip
    answer = approvals.take_answer(request)
    if answer is None:
        answer = yield RequestApproval(request)
    if isinstance(answer, Allow):
        arguments = run.bound_arguments.arguments if answer.arguments is None else answer.arguments
        course.approval = request.fingerprint, copy_json(arguments)
        return None
    if answer is None:
        approvals.add_pending(request)
        why = f" ({asked.reason})" if asked.reason else ""
        text = f"Tool {tool.name!r} needs an approval{why} and did not run."
        return build_not_run_result(run, Outcome.APPROVAL_REQUIRED, text, "approval-required")
    why = f": {answer.reason}" if answer.reason else ""
    text = f"The approval of tool {tool.name!r} was denied{why}."
    return build_not_run_result(run, Outcome.APPROVAL_DENIED, text, "approval-denied")


def _act_as(runtime: Runtime, who: Principal | None) -> AbstractContextManager[Any]:
    """Act as the caller inside: what it gave, and classes of parameters, may run code of their own."""
    return activate_frame(make_frame(FrameScope(runtime.registry, who, OPERATOR if who is None else who.agent)))


def _judge_call(runtime: Runtime, state: AccessRecords, call: ToolCall, who: Principal | None) -> AccessResolution:
    name = call.name if isinstance(call.name, str) else shorten_repr(call.name)
    now = runtime.clock.now()
    if who is not None:
        return _judge_cached(runtime, state, who, name, now)
    record = state.find_tool_record(name)
    if record is None:
        return resolve_access(state, Principal(OPERATOR), name, now)
    off = state.find_disabling(record.tool)
    if off is not None:
        return resolve_access(state, Principal(OPERATOR), name, now)
    decision = Decision(True, "allowed", "operator", None, name, "The host program calls.")
    return AccessResolution(record, (AccessPath(decision),))


def _judge_cached(runtime: Runtime, state: AccessRecords, who: Principal, name: str, now: datetime) -> AccessResolution:
    """Judge, or take the verdict of the same state, where nothing but a change of the records can end it."""
    since, known = runtime.verdict_cache
    if since is not state or len(known) > _MAX_CACHED_VERDICTS:
        known = {}
        runtime.verdict_cache = state, known
    verdict = known.get((who, name))
    if verdict is None:
        verdict = resolve_access(state, who, name, now)
        if verdict.paths and verdict.paths[0].is_unconditional:
            known[who, name] = verdict
    return verdict


def _build_definition_error_result(call: ToolCall, tool: Tool[..., Any], decision: Decision) -> ToolResult:
    """Return the result of a call to a tool whose hints lead nowhere."""
    try:
        _ = tool.implementation.compiled
        text, code, found = decision.reason, ToolDefinitionError.code, None
    except ToolDefinitionError as error:
        text, code, found = str(error), error.code, error
    return ToolResult(
        call.tool_call_id, tool.name, call.agent, Outcome.TOOL_ERROR, None, text, code, decision=decision,
        exception=found,
    )  # fmt: skip


def bind_arguments(runtime: Runtime, tool: Tool[..., Any], arguments: Any) -> BoundArguments:
    """
    Return the arguments as the tool will get them, under its options and the registry's.

    Raises:
        ToolArgumentsError: They do not fit.
        ToolDefinitionError: A hint of the tool leads nowhere.
    """
    strict, options = tool.metadata.strict_arguments, runtime.options
    return tool.implementation.bind(
        arguments, strict=options.strict_arguments if strict is None else strict,
        max_bytes=options.max_argument_bytes, max_depth=options.max_argument_depth,
    )  # fmt: skip


def _bind_call(
    course: CallProgress, tool: Tool[..., Any], approved: dict[str, Any] | None, decision: Decision
) -> BoundArguments | ToolResult:
    call = course.call
    try:
        if approved is not None:
            return bind_arguments(course.runtime, tool, approved)
        if course.coerced_arguments is not None and course.coerced_arguments[0] is tool.implementation:
            return tool.implementation.bind_coerced(*course.coerced_arguments[1:])
        return bind_arguments(course.runtime, tool, call.arguments)
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
