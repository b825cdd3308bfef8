"""Runs the pipeline of a call: performs the effects that it yields, in sync code and in async code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from praval_tools.errors import ToolUsageError
from praval_tools.execution.call_progress import CallPipeline
from praval_tools.execution.effects import (
    AppendToJournal,
    CallEffect,
    RequestApproval,
    RunTool,
    Sleep,
    WaitForCall,
    WaitForReplay,
)
from praval_tools.execution.engines.errors import CallTimeoutError, EngineError, WorkerRefusedError
from praval_tools.execution.engines.jobs import Job, wait_for_job
from praval_tools.execution.engines.selection import resolve_engine, stays_on_loop, submit_call
from praval_tools.execution.engines.threads import NoFreeThreadError
from praval_tools.execution.event_loops import (
    DeadlineExpiredError,
    Work,
    get_own_cancellation,
    is_event_loop_running,
    make_deadline_runner,
)
from praval_tools.execution.exclusive import ExclusiveTimeoutError
from praval_tools.execution.failures import CallCancelledError, StaleDecisionError
from praval_tools.execution.results import (
    build_not_run_result,
    build_refused_result,
    build_run_cancelled_result,
    build_success_result,
    build_timeout_result,
    build_tool_error_result,
)
from praval_tools.execution.runtime import Runtime
from praval_tools.names import describe_error, get_class_name, has_type
from praval_tools.schema.signature import is_async_callable
from praval_tools.tools.call import Outcome, ToolResult
from praval_tools.tools.decision import ApprovalAnswer, ApprovalRequest, Deny
from praval_tools.tools.frames import await_in_frame, await_in_own_frames, keep_frame


@keep_frame
def drive(runtime: Runtime, steps: CallPipeline) -> ToolResult:
    """Run the pipeline from sync code."""
    try:
        step = next(steps)
        while True:
            try:
                answer = _perform_effect(runtime, step)
            except BaseException as error:  # the pipeline records the failure, and raises it again
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        steps.close()


def _append(step: AppendToJournal) -> object:
    if step.turn.is_over:
        return step.store.append([step.item])[0]
    try:
        written = step.store.submit([step.item])
    finally:
        step.turn.end()  # what the next call writes comes after it
    return written.result()[0]


def _perform_effect(runtime: Runtime, step: CallEffect) -> object:
    """Do what the pipeline waits for, and return its answer."""
    if isinstance(step, AppendToJournal):
        return _append(step)
    if isinstance(step, RunTool):
        return _run_tool(runtime, step)
    if isinstance(step, RequestApproval):
        return _ask_approval(runtime, step)
    if isinstance(step, Sleep):
        return runtime.closing_event.wait(step.seconds)
    if isinstance(step, WaitForReplay):
        return None  # nothing else in this thread makes calls meanwhile
    if not step.future.done():
        _refuse_in_event_loop(f"Call {step.call_id!r} is running already")
        with runtime.threads.release_thread(), runtime.exclusive_gate.stand_aside():
            step.future.result()
        runtime.exclusive_gate.wait_until_open()
    return None


def drive_async(runtime: Runtime, steps: CallPipeline) -> Work[ToolResult]:
    """Run the pipeline from async code; what it enters as it yields an effect, such as a run, holds for the effect."""
    return await_in_own_frames(_drive_async(runtime, steps))


async def _drive_async(runtime: Runtime, steps: CallPipeline) -> ToolResult:
    try:
        step = next(steps)
        while True:
            try:
                if isinstance(step, AppendToJournal):
                    answer = (await step.store.aappend((step.item,)))[0]
                elif isinstance(step, RunTool):
                    is_awaited = stays_on_loop(runtime, step)
                    answer = await (_run_async_tool if is_awaited else _run_sync_tool_async)(runtime, step)
                elif isinstance(step, RequestApproval):
                    answer = await _ask_approval_async(runtime, step)
                else:
                    answer = None
                    await _wait_async(runtime, step)
            except BaseException as error:  # the pipeline records the failure, and raises it again
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        steps.close()


async def _wait_async(runtime: Runtime, step: Sleep | WaitForCall | WaitForReplay) -> None:
    import asyncio

    if isinstance(step, WaitForReplay):
        await step.order.wait(step.number)
    elif isinstance(step, Sleep):
        await asyncio.sleep(step.seconds)
    else:
        with runtime.exclusive_gate.stand_aside():
            await asyncio.shield(asyncio.wrap_future(step.future))
        await runtime.exclusive_gate.wait_until_open_async()


# ── approvals ────────────────────────────────────────────────────────────────────────────────────


def _ask_approval(runtime: Runtime, step: RequestApproval) -> ApprovalAnswer | None:
    """Ask the handler from sync code; return None where there is none, or where it leaves the call waiting."""
    handler, request = step.handler, step.request
    if handler is None:
        return None
    try:
        with runtime.as_operator():
            answer: Any = handler(request.copy())
            if hasattr(answer, "__await__"):
                if is_event_loop_running():
                    answer.close()
                    return Deny("the handler is async, and this is a sync call where an event loop runs")
                with runtime.threads.release_thread():
                    answer = runtime.background_loop.run(await_in_frame(runtime.make_operator_frame(), answer))
    except (Exception, get_own_cancellation()) as error:  # isolation: whatever the handler raises is a denial
        return _deny_for(error)
    return runtime.approvals.interpret_answer(request, answer)


async def _ask_approval_async(runtime: Runtime, step: RequestApproval) -> ApprovalAnswer | None:
    """Ask the handler from async code, a sync one in a thread; return None as `_ask_approval` does."""
    import asyncio

    handler, request = step.handler, step.request
    if handler is None:
        return None
    try:
        async with asyncio.timeout(runtime.approvals.lifetime.total_seconds()):
            answer = await await_in_frame(runtime.make_operator_frame(), _await_handler(runtime, handler, request))
    except TimeoutError:
        return Deny("nobody answered in time")
    except (Exception, get_own_cancellation()) as error:  # isolation: whatever the handler raises is a denial
        return _deny_for(error)
    return runtime.approvals.interpret_answer(request, answer)


def _deny_for(error: BaseException) -> Deny:
    return Deny(f"the handler raised {get_class_name(type(error))}: {describe_error(error)}")


async def _await_handler(
    runtime: Runtime, handler: Callable[[ApprovalRequest], Any], request: ApprovalRequest
) -> object:
    """Return the answer of a handler, of a sync one from a thread."""
    if is_async_callable(handler):
        return await handler(request.copy())

    def call_handler() -> object:
        with runtime.as_operator():
            return handler(request.copy())

    answer = await _call_in_thread_async(runtime, call_handler)
    return await answer if hasattr(answer, "__await__") else answer


async def _call_in_thread_async(runtime: Runtime, work: Callable[[], object]) -> Any:
    """Run *work* on the thread engine and wait for it without blocking the loop."""
    job = runtime.threads.submit(work)
    await wait_for_job(job)
    if job.error is not None:
        raise job.error
    return job.value


# ── functions ────────────────────────────────────────────────────────────────────────────────────


def _run_tool(runtime: Runtime, run: RunTool) -> ToolResult | None:
    started, tool = runtime.clock.monotonic(), run.tool
    engine = resolve_engine(runtime, run)
    try:
        if stays_on_loop(runtime, run):
            _refuse_in_event_loop(f"Tool {tool.name!r} is async")
            return _run_on_background_loop(runtime, run)
        if engine not in (None, "inline") or tool.metadata.timeout is not None:
            return _run_on_engine(runtime, run, started)
        return build_success_result(run, run.run(), started)
    except StaleDecisionError:
        return None
    except CallCancelledError:
        return build_run_cancelled_result(run, started)
    except ExclusiveTimeoutError as error:
        return _build_limited_result(run, error)
    except (Exception, SystemExit) as error:  # the tool seam: whatever it raises is a result
        if has_type(error, ToolUsageError) and not run.attempts:  # not entered: an error of the caller
            raise
        return build_tool_error_result(run, error, started)


def _run_on_background_loop(runtime: Runtime, run: RunTool) -> ToolResult | None:
    """Run an async tool on the registry's own loop; where nobody waits for it any more, it is not entered later."""
    seconds = runtime.get_timeout(run.tool)
    try:
        with runtime.threads.release_thread():
            return runtime.background_loop.run(_run_async_tool(runtime, run), seconds)
    except DeadlineExpiredError:  # the loop is blocked by something else, and did not report it
        return _build_timeout_result(run, seconds, still_runs=not run.prevent_entry())
    except BaseException:  # an interrupt of this thread
        run.prevent_entry()
        raise


def _refuse_in_event_loop(reason: str) -> None:
    """Raise where an event loop runs in this thread, which a sync call would block."""
    if is_event_loop_running():
        raise ToolUsageError(
            f"{reason} and an event loop runs in this thread, which a sync call would block: "
            f"await acall (or aexecute) instead.",
            "sync-call-in-event-loop",
        )


def _run_on_engine(runtime: Runtime, run: RunTool, started: float) -> ToolResult | None:
    job = submit_call(runtime, run)
    try:
        with runtime.threads.release_thread():
            has_ended = job.wait(_get_patience(runtime, run, job))
    except BaseException:  # an interrupt of this thread
        _give_up_job(run, job)
        raise
    return _build_job_result(run, job, started) if has_ended else _abandon_job(runtime, run, job)


def _get_patience(runtime: Runtime, run: RunTool, job: Job) -> float | None:
    """Return how long to wait for *job*; None, for as long as it takes, where it ends by itself in the call's time."""
    return runtime.get_engine_timeout(run.tool) if job.stop is None else None


def _give_up_job(run: RunTool, job: Job) -> None:
    """Keep *job* from running, or stop it where that is possible."""
    run.abandoned = True
    if not job.claim():
        run.job = job
        if job.stop is not None:
            job.stop()


def _build_job_result(run: RunTool, job: Job, started: float) -> ToolResult | None:
    error = job.error
    if error is None:
        return build_success_result(run, job.value, started)
    if has_type(error, StaleDecisionError):
        return None
    if has_type(error, (NoFreeThreadError, ExclusiveTimeoutError)):
        return _build_limited_result(run, error)
    if has_type(error, CallTimeoutError):
        return _build_timeout_result(run, run.runtime.get_engine_timeout(run.tool))
    if has_type(error, CallCancelledError):
        return build_run_cancelled_result(run, started)
    if has_type(error, WorkerRefusedError):
        run.attempts -= 1  # the function was not entered
        return build_refused_result(run.runtime, run.call, run.principal, error.decision, run.bound_arguments)
    if has_type(error, EngineError):
        return build_not_run_result(run, error.outcome, str(error), error.code)
    if has_type(error, (Exception, SystemExit)):
        return build_tool_error_result(run, error, started)
    raise error


def _abandon_job(runtime: Runtime, run: RunTool, job: Job) -> ToolResult:
    still_runs = not job.claim()
    run.abandoned = True
    if still_runs:
        run.job = job
        runtime.threads.mark_thread_blocked()
        job.add_done_callback(runtime.threads.mark_thread_available)
    return _build_timeout_result(run, runtime.get_engine_timeout(run.tool), still_runs)


def _build_timeout_result(run: RunTool, seconds: float | None, still_runs: bool = False) -> ToolResult:
    return build_timeout_result(
        run.call_id, run.tool, run.call.agent, seconds or 0.0, run.path.decision, still_runs=still_runs,
        repairs=run.bound_arguments.repairs, attempts=run.attempts,
    )  # fmt: skip


def _build_limited_result(run: RunTool, error: Exception) -> ToolResult:
    text = "No thread is free: each waits for another call, or still runs one that timed out."
    if resolve_engine(run.runtime, run) == "process":
        text = "No process is free: each waits for another call."
    if has_type(error, ExclusiveTimeoutError):
        text = f"Tool {run.tool.name!r} did not get its turn: another call runs alone in the registry."
    return build_not_run_result(run, Outcome.LIMITED, text, "limited")


async def _run_sync_tool_async(runtime: Runtime, run: RunTool) -> ToolResult | None:
    """Run a sync tool from async code: in place where it is quick, else in a thread."""
    tool, started = run.tool, runtime.clock.monotonic()
    engine = resolve_engine(runtime, run)
    is_quick = engine == "inline" or (engine is None and tool.metadata.speed == "instant")
    if is_quick and tool.metadata.timeout is None:
        try:
            return build_success_result(run, run.run(), started)
        except StaleDecisionError:
            return None
        except ExclusiveTimeoutError as error:
            return _build_limited_result(run, error)
        except CallCancelledError:
            return build_run_cancelled_result(run, started)
        except (Exception, SystemExit) as error:  # the tool seam: whatever it raises is a result
            if run.attempts or not has_type(error, ToolUsageError):
                return build_tool_error_result(run, error, started)  # else it would have to wait, which a thread can
    return await _run_on_engine_async(runtime, run, started)


async def _run_async_tool(runtime: Runtime, run: RunTool) -> ToolResult | None:
    started, seconds = runtime.clock.monotonic(), runtime.get_timeout(run.tool)
    run_with_deadline = None if run.fast_function is not None else make_deadline_runner(seconds)  # it has its own
    try:
        work = run.run_async()
        value = await (work if run_with_deadline is None else run_with_deadline(work))
        return build_success_result(run, value, started)
    except StaleDecisionError:
        return None
    except DeadlineExpiredError:
        return _build_timeout_result(run, seconds)
    except ExclusiveTimeoutError as error:
        return _build_limited_result(run, error)
    except (CallCancelledError, get_own_cancellation()):
        return build_run_cancelled_result(run, started)
    except (Exception, SystemExit) as error:  # the tool seam: whatever it raises is a result
        return build_tool_error_result(run, error, started)


async def _run_on_engine_async(runtime: Runtime, run: RunTool, started: float) -> ToolResult | None:
    import asyncio

    job = submit_call(runtime, run)
    try:
        async with asyncio.timeout(_get_patience(runtime, run, job)):
            await wait_for_job(job)
    except TimeoutError:
        return _abandon_job(runtime, run, job)
    except BaseException:  # a cancellation, or the end of the coroutine
        _give_up_job(run, job)
        raise
    return _build_job_result(run, job, started)
