"""What turns the pipeline's wishes into deeds: one driver for sync code, one for async code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from praval_tools.errors import ToolUsageError
from praval_tools.execution.approvals import Answer
from praval_tools.execution.effects import Append, Approve, Enter, Run, Sleep, Step, Steps, Wait
from praval_tools.execution.engines.custom import EngineError, engine_of, submitted
from praval_tools.execution.engines.threads import NoRoomError, finished
from praval_tools.execution.event_loops import ExpiredError, interrupted, limit, loop_runs_here
from praval_tools.execution.exclusive import NoTurnError
from praval_tools.execution.failures import StaleError, StoppedError, said
from praval_tools.execution.results import broke, cancelled, late, stopped_by, succeeded
from praval_tools.schema.signature import is_async
from praval_tools.tools.approval import ApprovalRequest
from praval_tools.tools.call import Outcome, ToolResult
from praval_tools.tools.decision import Deny

if TYPE_CHECKING:
    from praval_tools.execution.engines.threads import Job
    from praval_tools.execution.runtime import Runtime


def drive(runtime: Runtime, steps: Steps) -> ToolResult:
    """Run the pipeline from sync code."""
    try:
        step = next(steps)
        while True:
            try:
                answer = _done(runtime, step)
            except BaseException as error:  # the pipeline notes what came of it, and raises it again
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        steps.close()


def _done(runtime: Runtime, step: Step) -> Any:
    if isinstance(step, Append):
        return runtime.recorder.store.append([step.item])[0]
    if isinstance(step, Enter):
        return step.lane(step.arguments, step.frame)
    if isinstance(step, Run):
        return _run(runtime, step)
    if isinstance(step, Approve):
        return _ask(runtime, step.request)
    if isinstance(step, Sleep):
        return runtime.closing.wait(step.seconds)
    if not step.settled.done():
        _refuse_in_loop(f"Call {step.call_id!r} is running already")
        with runtime.threads.away():
            step.settled.result()
    return None


async def drive_async(runtime: Runtime, steps: Steps) -> ToolResult:
    """Run the pipeline from async code."""
    try:
        step = next(steps)
        while True:
            try:
                if isinstance(step, Append):
                    answer = (await runtime.recorder.store.aappend((step.item,)))[0]
                elif isinstance(step, Enter):
                    answer = await step.lane(step.arguments, step.frame)
                elif isinstance(step, Run):
                    answer = await (_awaited(runtime, step) if step.tool.is_async else _away(runtime, step))
                elif isinstance(step, Approve):
                    answer = await _aask(runtime, step.request)
                else:
                    answer = await _passed(step)
            except BaseException as error:  # the pipeline notes what came of it, and raises it again
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        steps.close()


async def _passed(step: Sleep | Wait) -> Any:
    import asyncio

    if isinstance(step, Sleep):
        await asyncio.sleep(step.seconds)
    else:
        await asyncio.shield(asyncio.wrap_future(step.settled))


# ── approvals ────────────────────────────────────────────────────────────────────────────────────


def _ask(runtime: Runtime, request: ApprovalRequest) -> Answer | None:
    """Ask the handler from sync code; None: there is none."""
    handler = runtime.approvals.asked
    if handler is None:
        return None
    try:
        with runtime.as_operator():
            answer = handler(request)
            if hasattr(answer, "__await__"):
                if loop_runs_here():
                    answer.close()
                    return Deny("the handler is async, and this is a sync call where an event loop runs")
                with runtime.threads.away():
                    answer = runtime.background.run(_awaitable(answer))
    except Exception as error:  # isolation: whatever the handler raises is a no
        return Deny(f"the handler raised {type(error).__name__}: {said(error)}")
    return runtime.approvals.judged(request, answer)


async def _aask(runtime: Runtime, request: ApprovalRequest) -> Answer | None:
    """Ask the handler from async code, a sync one in a thread; None: there is none."""
    import asyncio

    handler = runtime.approvals.asked
    if handler is None:
        return None
    try:
        with runtime.as_operator():
            async with asyncio.timeout(runtime.approvals.lasts.total_seconds()):
                if is_async(handler):
                    answer = await handler(request)
                else:
                    answer = await _threaded(runtime, lambda: handler(request))
                    answer = await answer if hasattr(answer, "__await__") else answer
    except TimeoutError:
        return Deny("nobody answered in time")
    except Exception as error:  # isolation: whatever the handler raises is a no
        return Deny(f"the handler raised {type(error).__name__}: {said(error)}")
    return runtime.approvals.judged(request, answer)


async def _threaded(runtime: Runtime, work: Callable[[], Any]) -> Any:
    """Run *work* on the thread engine and wait for it without blocking the loop."""
    job = runtime.threads.submit(work)
    await finished(job)
    if job.error is not None:
        raise job.error
    return job.value


async def _awaitable(answer: Any) -> Any:
    return await answer


# ── functions ────────────────────────────────────────────────────────────────────────────────────


def _run(runtime: Runtime, run: Run) -> ToolResult | None:
    started, tool = runtime.clock.monotonic(), run.tool
    engine = engine_of(runtime, run)
    try:
        if tool.is_async:
            _refuse_in_loop(f"Tool {tool.name!r} is async")
            with runtime.threads.away():
                return runtime.background.run(_awaited(runtime, run), runtime.timeout(tool))  # type: ignore[no-any-return]
        if engine not in (None, "inline") or tool.metadata.timeout is not None:
            return _in_thread(runtime, run, started)
        return succeeded(run, run.enter(), started)
    except StaleError:
        return None
    except StoppedError:
        return cancelled(run, started)
    except NoTurnError as error:
        return _no_room(run, error)
    except ExpiredError:  # the loop is blocked by something else, and does not tell
        return _late(run, runtime.timeout(tool), runs=True)
    except (Exception, SystemExit) as error:  # the tool seam: whatever it raises is a result
        if isinstance(error, ToolUsageError) and not run.attempts:  # nothing was entered: the caller is to know
            raise
        return broke(run, error, started)


def _refuse_in_loop(why: str) -> None:
    if loop_runs_here():
        raise ToolUsageError(
            f"{why} and an event loop runs in this thread, which a sync call would block: "
            f"await acall (or aexecute) instead.",
            "sync-call-in-event-loop",
        )


def _in_thread(runtime: Runtime, run: Run, started: float) -> ToolResult | None:
    job = submitted(runtime, run)
    with runtime.threads.away():
        done = job.wait(runtime.patience(run.tool))
    return _of(run, job, started) if done else _give_up(runtime, run, job)


def _of(run: Run, job: Job, started: float) -> ToolResult | None:
    error = job.error
    if error is None:
        return succeeded(run, job.value, started)
    if isinstance(error, StaleError):
        return None
    if isinstance(error, NoRoomError | NoTurnError):
        return _no_room(run, error)
    if isinstance(error, EngineError):
        return stopped_by(run, error.outcome, str(error), error.code)
    if isinstance(error, Exception | SystemExit):
        return broke(run, error, started)
    raise error


def _give_up(runtime: Runtime, run: Run, job: Job) -> ToolResult:
    runs = not job.claim()
    run.given_up = True
    if runs:
        run.job = job
        runtime.threads.lose()
        job.when_done(runtime.threads.found)
    return _late(run, runtime.patience(run.tool), runs)


def _late(run: Run, seconds: float | None, runs: bool = False) -> ToolResult:
    decision, repairs = run.path.decision, run.bound.repairs
    return late(run.call_id, run.tool, run.call.agent, seconds or 0.0, decision, runs, repairs)


def _no_room(run: Run, error: Exception) -> ToolResult:
    text = "No thread is free: each waits for another call, or still runs one that timed out."
    if isinstance(error, NoTurnError):
        text = f"Tool {run.tool.name!r} did not get its turn: another call runs alone in the registry."
    return stopped_by(run, Outcome.LIMITED, text, "limited")


async def _away(runtime: Runtime, run: Run) -> ToolResult | None:
    """Run a sync tool, in place where it is quick, else in a thread."""
    tool, started = run.tool, runtime.clock.monotonic()
    engine = engine_of(runtime, run)
    quick = engine == "inline" or (engine is None and tool.metadata.speed == "instant")
    if quick and tool.metadata.timeout is None:
        try:
            return succeeded(run, run.enter(), started)
        except StaleError:
            return None
        except NoTurnError as error:
            return _no_room(run, error)
        except (Exception, SystemExit) as error:  # the tool seam: whatever it raises is a result
            if run.attempts or not isinstance(error, ToolUsageError):
                return broke(run, error, started)  # else it would have to wait, which a thread can
    return await _in_thread_async(runtime, run, started)


async def _awaited(runtime: Runtime, run: Run) -> ToolResult | None:
    import asyncio

    started, seconds = runtime.clock.monotonic(), runtime.timeout(run.tool)
    within = limit(seconds)
    try:
        work = run.aenter()
        value = await (work if within is None else within(work))
        return succeeded(run, value, started)
    except StaleError:
        return None
    except ExpiredError:
        return _late(run, seconds)
    except NoTurnError as error:
        return _no_room(run, error)
    except asyncio.CancelledError:
        if not interrupted():
            raise
        return cancelled(run, started)
    except (Exception, SystemExit) as error:  # the tool seam: whatever it raises is a result
        return broke(run, error, started)


async def _in_thread_async(runtime: Runtime, run: Run, started: float) -> ToolResult | None:
    import asyncio

    job = submitted(runtime, run)
    try:
        async with asyncio.timeout(runtime.patience(run.tool)):
            await finished(job)
    except TimeoutError:
        return _give_up(runtime, run, job)
    except asyncio.CancelledError:
        run.given_up = True
        if not job.claim():
            run.job = job
        raise
    return _of(run, job, started)
