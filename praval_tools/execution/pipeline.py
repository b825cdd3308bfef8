"""
The pipeline of a call as a generator that does no waiting itself.

It yields a `Step` where something has to wait, and the sync and the async driver send back what came of it.
may the agent see the tool → arguments → decide on them → limits → approval → admission and run → again or result.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import partial
from typing import Any, Final

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
from praval_tools.errors import RetryableToolError, ToolArgumentsError, ToolDefinitionError
from praval_tools.execution.context import CALL, FrameScope, activate_frame, make_frame
from praval_tools.execution.effects import CallEffect, RequestApproval, RunTool, Sleep
from praval_tools.execution.policies import check_policies
from praval_tools.execution.progress import CallPipeline, CallProgress
from praval_tools.execution.results import build_not_run_result, build_refused_result
from praval_tools.execution.runtime import Runtime
from praval_tools.names import OPERATOR, shorten_repr
from praval_tools.schema.json_input import copy_json
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.decision import Allow, ApprovalRequest, Ask, Decision
from praval_tools.tools.implementation import BoundArguments
from praval_tools.tools.tool import Tool

_MAX_CACHED_VERDICTS: Final = 16_384
_NULL_CONTEXT: Final = nullcontext()


def make_pipeline(
    runtime: Runtime,
    call: ToolCall,
    who: Principal | None,
    *,
    known_result: ToolResult | None = None,
    progress: CallProgress | None = None,
    is_async: bool = False,
) -> CallPipeline:
    """
    Decide and run one call.

    Every end is a result. A driver answers `RunTool` with a result, or None where the call must be decided again.

    Args:
        runtime: What the calls of the registry share.
        call: The call.
        who: Who calls; None: the operator.
        known_result: What came of it already, to be recorded.
        progress: What the fast path did for the call before it gave it up.
        is_async: The driver is async code's.
    """
    if isinstance(call.name, str) and (name := runtime.access_store.state.resolve_tool_name(call.name)) != call.name:
        call = replace(call, name=name)
    if progress is None:
        progress = CallProgress(call, who)
    progress.call, progress.is_async = call, is_async if known_result is None else None
    steps = _decide_and_run(runtime, progress) if known_result is None else _return_known_result(known_result)
    if runtime.recorder is not None:
        steps = runtime.recorder.record_call(progress, steps)
    return _notify_after_call(runtime, progress, steps) if runtime.hooks.after else steps


def _return_known_result(result: ToolResult) -> CallPipeline:
    return result
    yield


def _notify_after_call(runtime: Runtime, progress: CallProgress, steps: CallPipeline) -> CallPipeline:
    """Drive *steps*, and tell the plugins what came of the call."""
    result = yield from steps
    runtime.notify_after_call(progress.call, result)
    return result


def _decide_and_run(runtime: Runtime, progress: CallProgress) -> CallPipeline:
    run: RunTool | None = None
    try:
        while True:
            runtime.access_store.refuse_calls()
            decided = _decide(runtime, progress)
            stops = isinstance(decided, ToolResult) or decided[1] is not None
            if stops and progress.refresh_state is not None and progress.refresh_state():
                continue
            if isinstance(decided, ToolResult):
                return decided
            run, approval = decided
            refused = _acquire_limits(runtime, progress, run)
            if refused is None and approval is not None:
                refused = yield from _request_approval(runtime, progress, run, approval)
                if refused is None:
                    continue
            if refused is not None:
                return refused
            if runtime.hooks.before and not progress.before_hooks_called:
                progress.before_hooks_called = True
                shown = run.tool.implementation.render_for_review(run.bound_arguments)
                runtime.hooks.notify_before_call(run.call, run.tool, shown)
            result: ToolResult | None = yield run
            progress.attempts = run.attempts
            progress.spent_grants, progress.stored_grants = run.spent_grants, run.stored_grants
            if result is None:
                continue
            seconds = _compute_retry_delay(runtime, run, result)
            if seconds is None:
                return result
            yield Sleep(seconds)
            if runtime.access_store.closed:
                return result
    finally:
        progress.release_limits(runtime.limits, None if run is None else run.job)


def _decide(runtime: Runtime, progress: CallProgress) -> ToolResult | tuple[RunTool, Ask | None]:
    """Return the call as it may run now, with the approval that it still needs; or the result that refuses it."""
    call, who = progress.call, progress.principal
    state = runtime.access_store.state
    prepaid = progress.spent_grants | progress.stored_grants
    verdict = _judge_call(runtime, PrepaidRecords(state, prepaid) if prepaid else state, call, who)
    if verdict.refusal is not None:
        if verdict.refusal.rule == "definition" and verdict.record is not None:
            return _build_definition_error_result(call, verdict.record.tool, verdict.refusal)
        return build_refused_result(runtime, call, who, verdict.refusal)
    tool = verdict.record.tool  # type: ignore[union-attr]
    approved = progress.get_approved_arguments(tool)
    implementation = tool.implementation
    path: AccessPath | None = verdict.paths[0]
    runs_user_code = implementation.runs_user_code or progress.coerced_arguments is None
    with _act_as(runtime, who) if runs_user_code else _NULL_CONTEXT:
        bound = _bind_call(runtime, progress, tool, approved, verdict.decision)
        if isinstance(bound, ToolResult):
            return bound
        if verdict.paths[0].bounds:
            path, decision = choose_path(verdict, bound.arguments, partial(implementation.fill_defaults, bound))
            if path is None:
                return build_refused_result(runtime, call, who, decision, bound)
    shown, approval = bound.arguments, None
    if state.policies or tool.metadata.requires_approval:
        shown = implementation.render_for_review(bound)
        answers, progress.policy_answers = progress.policy_answers, None
        if answers is None or answers.tool is not tool or answers.policies is not state.policies:
            answers = check_policies(runtime.registry, state.policies, call.agent, tool, shown)
        if answers.refusal is not None:
            return build_refused_result(runtime, call, who, answers.refusal, bound)
        approval = answers.approval
        if tool.metadata.requires_approval and approval is None:
            approval = Ask(tool.metadata.approval_reason)
    run = RunTool(
        runtime, call, who, tool, bound, verdict, path, state, None,  # type: ignore[arg-type]
        progress.attempts, progress.spent_grants, progress.stored_grants,
    )  # fmt: skip
    progress.shown_arguments = shown
    return run, approval if approved is None else None


def _acquire_limits(runtime: Runtime, progress: CallProgress, run: RunTool) -> ToolResult | None:
    """Take the call's places under limits, once; return the refusal where there is none."""
    if progress.limits_acquired or runtime.limits.is_empty:
        return None
    call = progress.call
    usages = runtime.limits.list_usages(call.agent, run.tool.name)
    refusal = runtime.limits.acquire(usages, call.run_id, progress.limit_places)
    if refusal:
        return build_not_run_result(run, Outcome.LIMITED, f"Tool {run.tool.name!r} is limited: {refusal}.", "limited")
    progress.limits_acquired = True
    return None


def _request_approval(
    runtime: Runtime, progress: CallProgress, run: RunTool, approval: Ask
) -> Generator[CallEffect, Any, ToolResult | None]:
    """Have the call approved; return why it may not run, None where it may, after everything is decided again."""
    progress.call = call = run.call.with_id()
    tool, now, approvals = run.tool, runtime.clock.now(), runtime.approvals
    run.frame[CALL] = call
    request = ApprovalRequest(
        tool_call_id=str(call.tool_call_id), tool=tool.name, agent=call.agent, chain=call.on_behalf_of,
        arguments=copy_json(progress.shown_arguments), risk_level=tool.metadata.risk_level, reason=approval.reason,
        run_id=call.run_id, fingerprint=tool.fingerprint, asked=now, expires=now + approvals.lifetime,
    )  # fmt: skip
    answer = approvals.take_answer(request)
    if answer is None:
        answer = yield RequestApproval(request)
    if isinstance(answer, Allow):
        arguments = run.bound_arguments.arguments if answer.arguments is None else answer.arguments
        progress.approval = request.fingerprint, copy_json(arguments)
        return None
    if answer is None:
        approvals.add_pending(request)
        reason = f" ({approval.reason})" if approval.reason else ""
        text = f"Tool {tool.name!r} needs an approval{reason} and did not run."
        return build_not_run_result(run, Outcome.APPROVAL_REQUIRED, text, "approval-required")
    reason = f": {answer.reason}" if answer.reason else ""
    text = f"The approval of tool {tool.name!r} was denied{reason}."
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
    """Return the result of a call to a tool with unresolved hints."""
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
        ToolDefinitionError: A hint of the tool is unresolved.
    """
    strict, options = tool.metadata.strict_arguments, runtime.options
    return tool.implementation.bind(
        arguments, strict=options.strict_arguments if strict is None else strict,
        max_bytes=options.max_argument_bytes, max_depth=options.max_argument_depth,
    )  # fmt: skip


def _bind_call(
    runtime: Runtime, progress: CallProgress, tool: Tool[..., Any], approved: dict[str, Any] | None, decision: Decision
) -> BoundArguments | ToolResult:
    call = progress.call
    try:
        if approved is not None:
            return bind_arguments(runtime, tool, approved)
        if progress.coerced_arguments is not None and progress.coerced_arguments[0] is tool.implementation:
            return tool.implementation.bind_coerced(*progress.coerced_arguments[1:])
        return bind_arguments(runtime, tool, call.arguments)
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


def _compute_retry_delay(runtime: Runtime, run: RunTool, result: ToolResult) -> float | None:
    """
    Return the seconds until the call is tried again; None: it is not.

    Tried again are errors that say so, those that the tool lists in `retry_on`, and time-outs of idempotent tools.
    The wait doubles each time, give or take a quarter, so that many that failed at once do not come back at once.
    """
    if result.outcome is Outcome.OK or run.attempts > runtime.get_retries(run.tool):
        return None
    meta = run.tool.metadata
    if result.outcome is Outcome.TIMEOUT:
        again = meta.idempotent is True
    elif result.outcome is Outcome.TOOL_ERROR:
        again = isinstance(result.exception, (RetryableToolError, *meta.retry_on))
    else:
        again = False
    if not again:
        return None
    return float(runtime.options.retry_wait * 2 ** (run.attempts - 1) * runtime.rng.uniform(0.75, 1.25))
