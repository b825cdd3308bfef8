"""What turns the pipeline's wishes into deeds: one driver for sync code, one for async code."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from praval_tools.errors import ToolUsageError
from praval_tools.execution.lanes import ExpiredError
from praval_tools.execution.loops import deadlines, loop_runs_here
from praval_tools.execution.pipeline import Run, StaleError, broke, succeeded
from praval_tools.model.calls import Outcome, ToolResult

if TYPE_CHECKING:
    from praval_tools.execution.executor import Executor
    from praval_tools.execution.threads import Job

Steps = Generator[Run, ToolResult | None, ToolResult]


def drive(executor: Executor, steps: Steps) -> ToolResult:
    """Run the pipeline from sync code."""
    answer: ToolResult | None = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        answer = _run(executor, step)


async def drive_async(executor: Executor, steps: Steps) -> ToolResult:
    """Run the pipeline from async code."""
    answer: ToolResult | None = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        answer = await _arun(executor, step)


def _run(executor: Executor, run: Run) -> ToolResult | None:
    started, tool = executor.clock.monotonic(), run.tool
    engine = tool.metadata.engine or executor.options.engine
    try:
        if tool.is_async:
            _refuse_in_loop(tool.name)
            return executor.background.run(_awaited(executor, run))  # type: ignore[no-any-return]
        if engine == "thread" or tool.metadata.timeout is not None:
            return _in_thread(executor, run, started)
        return succeeded(run, run.enter(), started)
    except StaleError:
        return None
    except (Exception, SystemExit) as error:  # the tool seam: whatever it raises is a result
        if isinstance(error, ToolUsageError) and error.code == "sync-call-in-event-loop":
            raise
        return broke(run, error, started)


def _refuse_in_loop(name: str) -> None:
    if loop_runs_here():
        raise ToolUsageError(
            f"Tool {name!r} is async and an event loop runs in this thread, which a sync call would block: "
            f"await acall (or aexecute) instead.",
            "sync-call-in-event-loop",
        )


def _in_thread(executor: Executor, run: Run, started: float) -> ToolResult | None:
    job = executor.threads.submit(run.enter)
    if job is None:
        return _no_room(run)
    nested = executor.threads.inside
    if nested:
        executor.threads.lose()
    try:
        if not job.wait(run.tool.metadata.timeout):
            return _give_up(executor, run, job)
    finally:
        if nested:
            executor.threads.found()
    return _of(run, job, started)


def _of(run: Run, job: Job, started: float) -> ToolResult | None:
    error = job.error
    if error is None:
        return succeeded(run, job.value, started)
    if isinstance(error, StaleError):
        return None
    if isinstance(error, Exception | SystemExit):
        return broke(run, error, started)
    raise error


def _give_up(executor: Executor, run: Run, job: Job) -> ToolResult:
    runs = not job.claim()
    if runs:
        executor.threads.lose()
        job.when_done(executor.threads.found)
    return _late(run, run.tool.metadata.timeout or 0.0, runs)


def _late(run: Run, seconds: float, runs: bool) -> ToolResult:
    more = " It may still be running." if runs else ""
    return ToolResult(
        run.call.tool_call_id, run.tool.name, run.call.agent, Outcome.TIMEOUT, None,
        f"Tool {run.tool.name!r} did not finish within {seconds:g} s.{more}", "tool-timeout", seconds * 1000,
        run.attempts, run.bound.repairs, decision=run.path.decision,
    )  # fmt: skip


def _no_room(run: Run) -> ToolResult:
    return ToolResult(
        run.call.tool_call_id, run.tool.name, run.call.agent, Outcome.LIMITED, None,
        "No thread is free: too many calls that timed out are still running.", "limited",
        repairs=run.bound.repairs, decision=run.path.decision,
    )  # fmt: skip


async def _arun(executor: Executor, run: Run) -> ToolResult | None:
    tool, started = run.tool, executor.clock.monotonic()
    if tool.is_async:
        return await _awaited(executor, run)
    engine = tool.metadata.engine or executor.options.engine
    quick = engine == "inline" or (engine is None and tool.metadata.speed == "instant")
    if quick and tool.metadata.timeout is None:
        try:
            return succeeded(run, run.enter(), started)
        except StaleError:
            return None
        except (Exception, SystemExit) as error:  # the tool seam: whatever it raises is a result
            return broke(run, error, started)
    return await _in_thread_async(executor, run, started)


async def _awaited(executor: Executor, run: Run) -> ToolResult | None:
    import asyncio

    started, seconds = executor.clock.monotonic(), executor.timeout(run.tool)
    loop = asyncio.get_running_loop()
    timer = deadlines(loop, seconds) if seconds is not None else None
    deadline = timer.start(asyncio.current_task()) if timer is not None else None
    try:
        return succeeded(run, await run.aenter(), started)
    except StaleError:
        return None
    except asyncio.CancelledError:
        if deadline is not None and deadline.expired and deadline.task.uncancel() == 0:
            return _late(run, seconds or 0.0, runs=False)
        raise
    except (Exception, SystemExit) as error:  # the tool seam: whatever it raises is a result
        if isinstance(error, ExpiredError):
            return _late(run, seconds or 0.0, runs=False)
        return broke(run, error, started)
    finally:
        if timer is not None and deadline is not None:
            timer.stop(deadline)


async def _in_thread_async(executor: Executor, run: Run, started: float) -> ToolResult | None:
    import asyncio

    job = executor.threads.submit(run.enter)
    if job is None:
        return _no_room(run)
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not done.done():
            done.set_result(None)

    def tell() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle)

    job.when_done(tell)
    try:
        async with asyncio.timeout(run.tool.metadata.timeout):
            await done
    except TimeoutError:
        return _give_up(executor, run, job)
    except asyncio.CancelledError:
        job.claim()
        raise
    return _of(run, job, started)
