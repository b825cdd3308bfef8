"""
The steps of a call, from the decision to the result, as a generator that yields whatever has to wait to its driver.

It yields a `CallEffect` where something has to wait, and the sync or async driver sends back the answer. The order:
may the agent call the tool → arguments → policies → limits → approval → admission and run → retry or result.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from praval_tools.access.records import Principal, list_members
from praval_tools.access.rules import (
    AccessPath,
    AccessRecords,
    AccessResolution,
    RecordsBeforeSpending,
    choose_path,
    resolve_access,
)
from praval_tools.access.state import AccessState
from praval_tools.errors import RetryableToolError, ToolArgumentsError, ToolDefinitionError
from praval_tools.execution.approvals import describe_approved_tool, write_exactly
from praval_tools.execution.call_progress import CallPipeline, CallProgress, remote_marked_places, remote_marked_values
from praval_tools.execution.context import CALL, SCOPE, Frame, FrameScope, activate_frame, make_frame
from praval_tools.execution.deps import get_deps
from praval_tools.execution.edited_arguments import find_edit_problem, leave_filled_in_out
from praval_tools.execution.effects import CallEffect, RequestApproval, RunTool, Sleep
from praval_tools.execution.policies import ask_policies, render_for_review
from praval_tools.execution.results import build_not_run_result, build_refused_result
from praval_tools.execution.runtime import Runtime
from praval_tools.names import OPERATOR, has_type, shorten_repr
from praval_tools.schema.coercion import Repair
from praval_tools.schema.json_input import copy_json
from praval_tools.tools.argument_copies import copy_arguments
from praval_tools.tools.argument_spellings import find_marked_places, read_marked_arguments
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.compiled import Arguments
from praval_tools.tools.context import choose_deps
from praval_tools.tools.decision import Allow, Ask, Decision
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.tools.implementation import BoundArguments
from praval_tools.tools.tool import AnyTool

_MAX_CACHED_VERDICTS: Final = 16_384
_NULL_CONTEXT: Final = nullcontext()
_NO_GRANTS: Final[frozenset[str]] = frozenset()
_ASKED_BEFORE: Final = Ask()
"""Why a call needs an approval about which a person was asked before, where nothing else asks for one any more."""


def make_pipeline(
    runtime: Runtime,
    call: ToolCall,
    principal: Principal | None,
    *,
    known_result: ToolResult | None = None,
    progress: CallProgress | None = None,
    is_async: bool = False,
) -> CallPipeline:
    """
    Decide and run one call.

    It ends in a result, except that a mistake of the host program, such as missing deps, is raised.
    A driver answers `RunTool` with a result, or None where the call must be decided again.

    Args:
        runtime: That of the registry.
        call: The call.
        principal: The caller; None for the operator.
        known_result: The result that the call has already, to be recorded.
        progress: The steps that the fast path took before it gave the call up.
        is_async: Whether the driver is async.
    """
    if runtime.check_call is not None:
        runtime.check_call(call)
    if type(call.arguments) is dict:  # what is judged, run and recorded is what the caller gave at one moment
        call = replace(call, arguments=copy_arguments(call.arguments))
    if progress is None:
        progress = CallProgress(call, principal)
    if runtime.recorder is not None or runtime.tracer is not None:
        if marked_values := read_marked_arguments(call.arguments):
            progress.marked_places += find_marked_places(call.arguments)
        progress.marked_values += remote_marked_values.get() + marked_values
        progress.marked_places += remote_marked_places.get()
    runtime.access_store.prepare_lookup()
    if isinstance(call.name, str) and (name := runtime.access_store.state.resolve_tool_name(call.name)) != call.name:
        progress.sent_name, call = call.name, replace(call, name=name)
    progress.call, progress.known_result, progress.is_async = call, known_result, is_async
    steps = _decide_and_run(runtime, progress) if known_result is None else _return_known_result(known_result)
    if runtime.recorder is not None:
        steps = runtime.recorder.record_call(progress, steps)
    if runtime.hooks.after:
        steps = _notify_after_call(runtime, progress, steps)
    return steps if runtime.tracer is None else runtime.tracer.trace_call(progress, steps)


def _return_known_result(result: ToolResult) -> CallPipeline:
    yield from ()
    return result


def _notify_after_call(runtime: Runtime, progress: CallProgress, steps: CallPipeline) -> CallPipeline:
    """Drive *steps*, and notify the plugins of the result of the call."""
    result = yield from steps
    record = runtime.access_store.state.find_tool_record(result.name)
    runtime.hooks.notify_after_call(progress.call, None if record is None else record.tool, result)
    return result


def _decide_and_run(runtime: Runtime, progress: CallProgress) -> CallPipeline:
    """Decide the call, have it run, and do so again where the decision is stale or the call is retried."""
    run: RunTool | None = None
    try:
        while True:
            runtime.access_store.refuse_calls()
            state = runtime.access_store.state
            decided = _decide(runtime, progress, state)
            if progress.refresh_state is not None and (isinstance(decided, ToolResult) or decided[1] is not None):
                grants = _NO_GRANTS if isinstance(decided, ToolResult) else decided[0].counted_grants
                if progress.refresh_state(state, grants - progress.spent_grants - progress.stored_grants):
                    continue
            if isinstance(decided, ToolResult):
                return replace(decided, attempts=progress.attempts) if progress.attempts else decided
            run, approval = decided
            refused = _acquire_limits(runtime, progress, run)
            if refused is None and approval is not None:
                refused = yield from _request_approval(runtime, progress, run, approval)
                if refused is None:
                    continue
            if refused is not None:
                return refused
            _notify_before_call(runtime, progress, run)
            result: ToolResult | None = yield run
            progress.call, progress.attempts = run.frame[CALL], run.attempts  # with the id that it got
            progress.spent_grants, progress.stored_grants = run.spent_grants, run.stored_grants
            if result is None:
                continue
            earlier = progress.note_result(run, result)
            seconds = _compute_retry_delay(runtime, run, result)
            if seconds is None:  # of a retry that was not its turn, or no thread free, there is nothing to say
                return earlier if earlier is not None and result.outcome is Outcome.LIMITED else result
            yield Sleep(seconds)
            if runtime.access_store.closed:
                return result
    finally:
        try:
            progress.release_limits(runtime.limits, run)
        except BaseException:  # an interrupt, which may come before any place was given back
            progress.release_limits(runtime.limits, run)
            raise


def _notify_before_call(runtime: Runtime, progress: CallProgress, run: RunTool) -> None:
    """Notify the plugins that the call is about to run: once, unless its classes make other values for a retry."""
    runs_user_code, was_notified = run.tool.implementation.runs_user_code, progress.before_hooks_called
    if not runtime.hooks.before or (was_notified and not runs_user_code):
        return
    rendered = render_for_review(run.tool, run.bound_arguments, run.call.agent)
    shown = run.bound_arguments.arguments if isinstance(rendered, Decision) else rendered
    notified, progress.notified_arguments, progress.before_hooks_called = progress.notified_arguments, shown, True
    if notified is None or write_exactly(notified) != write_exactly(shown):
        runtime.hooks.notify_before_call(run.call, run.tool, shown)


def _decide(runtime: Runtime, progress: CallProgress, state: AccessState) -> ToolResult | tuple[RunTool, Ask | None]:
    """Return the call as it may run in *state*, with the approval that it needs; or the result that refuses it."""
    call, principal = progress.call, progress.principal
    prepaid = progress.spent_grants | progress.stored_grants
    records = RecordsBeforeSpending(state, prepaid) if prepaid else state
    resolution = resolve_call_access(runtime, records, call, principal)
    if resolution.refusal is not None:
        if resolution.refusal.rule == "definition" and resolution.record is not None:
            return _build_definition_error_result(call, resolution.record.tool, resolution.refusal)
        return build_refused_result(runtime, call, principal, resolution.refusal, None, progress.sent_name)
    tool = resolution.record.tool  # type: ignore[union-attr]
    approved = progress.get_approved_arguments(tool)
    implementation = tool.implementation
    choose_deps(tool.name, implementation.deps_hint, get_deps(runtime.registry))  # before anything is asked or spent
    runs_user_code = implementation.runs_user_code or progress.coerced_arguments is None
    with _activate_caller(runtime, principal, tool.name) if runs_user_code else _NULL_CONTEXT:
        bound = _bind_call(runtime, progress, tool, approved, resolution.decision)
        if isinstance(bound, ToolResult):
            return bound
    path, decision = choose_path(resolution, bound, implementation)
    if path is None:
        return build_refused_result(runtime, call, principal, decision, bound, progress.sent_name)
    run = RunTool(
        runtime, call, principal, tool, bound, resolution, path, state, None,
        progress.attempts, progress.spent_grants, progress.stored_grants,
    )  # fmt: skip
    return _review_call(runtime, progress, run, approved)


def _review_call(
    runtime: Runtime, progress: CallProgress, run: RunTool, approved: dict[str, Any] | None
) -> ToolResult | tuple[RunTool, Ask | None]:
    """Ask the policies; return *run*, with the approval that it still needs, or the result that refuses it."""
    call, principal, tool, state, bound = run.call, run.principal, run.tool, run.state, run.bound_arguments
    shown, approval = bound.arguments, None
    requires_approval = tool.metadata.requires_approval
    if state.policies or requires_approval or progress.was_asked_about:
        run.is_reviewed = True
        rendered = render_for_review(tool, bound, call.agent)
        if isinstance(rendered, Decision):
            return build_refused_result(runtime, call, principal, rendered, bound, progress.sent_name)
        shown = rendered
        answers, progress.policy_answers = progress.policy_answers, None
        if answers is None or answers.tool is not tool or answers.policies is not state.policies:
            answers = ask_policies(runtime.registry, state.policies, principal, tool, shown)
        if answers.refusal is not None:
            return build_refused_result(runtime, call, principal, answers.refusal, bound, progress.sent_name)
        approval = answers.approval
        if requires_approval and approval is None:
            approval = Ask(tool.metadata.approval_reason)
        elif progress.was_asked_about and approval is None:
            approval = _ASKED_BEFORE
    if approved is None:
        progress.shown_arguments = shown
    is_edited = approved is not None and progress.approved_text is None
    if is_edited and (problem := _find_edit_problem(runtime, run, shown)):
        remedy = "Approve the arguments as they are, or deny the call."
        return _refuse_approved(runtime, progress, run, problem, remedy)
    if approval is None or (approved is not None and progress.is_approved_for(shown)):
        return run, None
    if progress.failure is not None:  # what ran is not asked about again
        return progress.failure
    if approved is None:
        return run, approval
    reason = "What the tool would get was changed after it had been approved, by a default or by another definition."
    return _refuse_approved(runtime, progress, run, reason, "Make the call again.")


def _refuse_approved(
    runtime: Runtime, progress: CallProgress, run: RunTool, reason: str, remedy: str
) -> ToolResult:
    decision = Decision(False, "forbidden", "policy", run.call.agent, run.tool.name, reason, remedy)
    return build_refused_result(runtime, run.call, run.principal, decision, run.bound_arguments, progress.sent_name)


def _find_edit_problem(runtime: Runtime, run: RunTool, shown: Arguments) -> str | None:
    bind = partial(bind_arguments, runtime, run.tool)
    with _activate_caller(runtime, run.principal, run.tool.name):
        return find_edit_problem(run.tool.implementation, shown, run.bound_arguments, bind)


def _acquire_limits(runtime: Runtime, progress: CallProgress, run: RunTool) -> ToolResult | None:
    """Take the call's places under limits, once; return the refusal where one has no room."""
    if progress.limits_acquired or runtime.limits.is_empty:
        return None
    call = progress.call
    usages = runtime.limits.list_usages(list_members(progress.principal), run.tool.name)
    run_id = None if progress.is_counted_in_run else call.run_id
    refusal = runtime.limits.acquire(usages, run_id, progress.limit_places)
    if refusal:
        return build_not_run_result(run, Outcome.LIMITED, f"Tool {run.tool.name!r} is limited: {refusal}.", "limited")
    progress.limits_acquired = True
    return None


def _request_approval(
    runtime: Runtime, progress: CallProgress, run: RunTool, approval: Ask
) -> Generator[CallEffect, Any, ToolResult | None]:
    """Have the call approved; return the result that refuses it, or None where it is to be decided again and run."""
    progress.cancel_limits(runtime.limits)  # a call that waits takes no place
    progress.call = call = run.call.with_id()
    tool, approvals = run.tool, runtime.approvals
    run.frame[CALL] = call
    request = approvals.build_request(call, progress.principal, tool, progress.shown_arguments, approval.reason)
    answer = approvals.take_answer(request)
    if answer is None:
        step = RequestApproval(request, None if approval is _ASKED_BEFORE else approvals.effective_handler)
        answer = yield step
        if answer is None:
            request = step.request if step.is_recorded else approvals.add_pending(request)
            reason = f" ({approval.reason})" if approval.reason else ""
            text = f"Tool {tool.name!r} needs an approval{reason} and did not run."
            result = build_not_run_result(run, Outcome.APPROVAL_REQUIRED, text, "approval-required")
            return replace(result, approval_id=request.id)
        approvals.discard_request(request)
    if isinstance(answer, Allow):
        progress.marked_values += read_marked_arguments(answer.arguments)
        bound: BoundArguments | None = run.bound_arguments
        with _activate_caller(runtime, run.principal, tool.name):
            if answer.arguments is None:
                approved = copy_json(run.bound_arguments.arguments)
                approved_text: str | None = write_exactly(progress.shown_arguments)
            else:
                approved, approved_text = copy_json(answer.arguments), None
                bind = partial(bind_arguments, runtime, tool)
                approved, bound = leave_filled_in_out(tool.implementation, approved, run.bound_arguments, bind)
        progress.approval, progress.approved_text = (describe_approved_tool(tool), approved), approved_text
        if bound is not None:
            progress.judged_arguments = tool.implementation, approved, bound
        return None
    reason = f": {answer.reason}" if answer.reason else ""
    text = f"The approval of tool {tool.name!r} was denied{reason}."
    return build_not_run_result(run, Outcome.APPROVAL_DENIED, text, "approval-denied")


def _activate_caller(runtime: Runtime, principal: Principal | None, tool: str) -> AbstractContextManager[Frame]:
    """
    Run code of the caller's arguments and of parameter classes in the name of the caller.

    In the operator's calls it has no rights: a value that another tool returned may be among the arguments.
    """
    if principal is None:
        return activate_tool_frame(tool)
    return activate_frame(make_frame(FrameScope(runtime.registry, principal, principal.agent)))


def resolve_call_access(
    runtime: Runtime, state: AccessRecords, call: ToolCall, principal: Principal | None
) -> AccessResolution:
    """Return what permits or refuses a call in *state*; for nobody in particular, the operator calls."""
    name = call.name if isinstance(call.name, str) else shorten_repr(call.name)
    now = runtime.clock.now()
    if principal is not None:
        return _resolve_cached_access(runtime, state, principal, name, now)
    record = state.find_tool_record(name)
    if record is None:
        return resolve_access(state, Principal(OPERATOR), name, now)
    if state.find_disabled_record(record.tool) is not None:
        return resolve_access(state, Principal(OPERATOR), name, now)
    decision = Decision(True, "allowed", "operator", None, name, "The host program calls.")
    path = AccessPath(decision)
    return AccessResolution(record, (path,), None, ((path,),))


def _resolve_cached_access(
    runtime: Runtime, state: AccessRecords, principal: Principal, name: str, now: datetime
) -> AccessResolution:
    """Resolve the access, or return the cached resolution of the same state where only a change of it can end it."""
    cached_state, verdicts = runtime.verdict_cache
    if cached_state is not state or len(verdicts) > _MAX_CACHED_VERDICTS:
        verdicts = {}
        runtime.verdict_cache = state, verdicts
    resolution = verdicts.get((principal, name))
    if resolution is None:
        resolution = resolve_access(state, principal, name, now)
        if resolution.paths and resolution.paths[0].is_unconditional:
            verdicts[principal, name] = resolution
    return resolution


def _build_definition_error_result(call: ToolCall, tool: AnyTool, decision: Decision) -> ToolResult:
    """Return the result of a call to a tool with unresolved hints."""
    try:
        _ = tool.implementation.compiled
        text, code, exception = decision.reason, ToolDefinitionError.code, None
    except ToolDefinitionError as error:
        text, code, exception = str(error), error.code, error
    return ToolResult(
        call.tool_call_id, tool.name, call.agent, Outcome.TOOL_ERROR, None, text, code, decision=decision,
        exception=exception,
    )  # fmt: skip


def bind_arguments(runtime: Runtime, tool: AnyTool, arguments: object) -> BoundArguments:
    """
    Return the arguments as the tool receives them, by its options and those of the registry.

    Raises:
        ToolArgumentsError: They do not fit.
        ToolDefinitionError: A hint of the tool is unresolved.
    """
    return tool.implementation.bind_coerced(*coerce_arguments(runtime, tool, arguments))


def coerce_arguments(runtime: Runtime, tool: AnyTool, arguments: object) -> tuple[Arguments, tuple[Repair, ...]]:
    """
    Return the arguments as JSON that fits the tool, and what was repaired, by its options and those of the registry.

    Raises:
        ToolArgumentsError: They do not fit.
        ToolDefinitionError: A hint of the tool is unresolved.
    """
    strict, options = tool.metadata.strict_arguments, runtime.options
    return tool.implementation.coerce_arguments(
        arguments, strict=options.strict_arguments if strict is None else strict,
        max_bytes=options.max_argument_bytes, max_depth=options.max_argument_depth,
    )  # fmt: skip


def _bind_call(
    runtime: Runtime, progress: CallProgress, tool: AnyTool, approved: dict[str, Any] | None, decision: Decision
) -> BoundArguments | ToolResult:
    call, implementation, judged = progress.call, tool.implementation, progress.judged_arguments
    if judged is not None and judged[0] is implementation and judged[1] is approved:
        return judged[2]  # classes may make other values of the same arguments
    try:
        if approved is not None:
            bound = bind_arguments(runtime, tool, approved)
        else:
            coerced = progress.coerced_arguments
            if coerced is None or coerced[0] is not implementation:
                arguments, repairs = coerce_arguments(runtime, tool, call.arguments)
                coerced = progress.coerced_arguments = implementation, arguments, repairs
            bound = implementation.bind_coerced(copy_json(coerced[1]), coerced[2])  # each attempt gets its own
        progress.judged_arguments = implementation, approved, bound
        return bound
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
    Return the seconds until the call is tried again, or None where it is not.

    Retried are `RetryableToolError`, the errors of the tool's `retry_on`, and time-outs of idempotent tools.
    The wait doubles each time, give or take a quarter, so that many that failed at once do not come back at once.
    """
    if result.outcome is Outcome.OK or not 0 < run.attempts <= runtime.get_retries(run.tool):  # or never entered
        return None
    from random import Random  # only who may try again pays for it

    meta = run.tool.metadata
    if result.outcome is Outcome.TIMEOUT:
        is_retryable = meta.idempotent is True
    elif result.outcome is Outcome.TOOL_ERROR:
        with activate_frame(make_frame(run.frame[SCOPE])):  # its classes may be code of the tool
            is_retryable = has_type(result.exception, (RetryableToolError, *meta.retry_on))
    else:
        is_retryable = False
    if not is_retryable:
        return None
    spread = Random().uniform(0.75, 1.25)  # noqa: S311  # hides nothing
    return float(runtime.options.retry_wait * 2 ** (run.attempts - 1) * spread)
