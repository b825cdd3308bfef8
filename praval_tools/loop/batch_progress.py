"""Runs the calls of a reply, and yields what their tools report meanwhile."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from contextvars import copy_context
from queue import SimpleQueue

from praval_tools.execution.batch import ANY_ERROR, run_batch, run_batch_async
from praval_tools.execution.engines.threads import NoFreeThreadError
from praval_tools.execution.failures import StaleDecisionError
from praval_tools.names import has_type
from praval_tools.registry.toolset import Toolset, get_executor
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.reports import ToolReport, report_listener


def has_context_parameter(toolset: Toolset, name: object) -> bool:
    """Tell whether the tool of this name, if the agent has one, takes a `ToolContext`."""
    state = get_executor(toolset).runtime.access_store.state
    record = state.find_tool_record(state.resolve_tool_name(name)) if isinstance(name, str) else None
    return record is not None and bool(record.tool.implementation.context_parameters)


def run_calls(toolset: Toolset, calls: Sequence[ToolCall], max_parallel: int) -> list[ToolResult]:
    """
    Run the calls of a model's reply, as `Toolset.execute_batch` does.

    Raises:
        ToolError: A call could not be made, as the program is; once every other call has ended.
    """
    runtime = get_executor(toolset).runtime
    return run_batch(runtime, [(call, toolset.execute) for call in calls], max_parallel, ANY_ERROR)


async def run_calls_async(toolset: Toolset, calls: Sequence[ToolCall], max_parallel: int) -> list[ToolResult]:
    """Run the calls of a model's reply from async code, as `run_calls` does."""
    runtime = get_executor(toolset).runtime
    return await run_batch_async(runtime, [(call, toolset.aexecute) for call in calls], max_parallel, ANY_ERROR)


def stream_batch(
    toolset: Toolset, calls: Sequence[ToolCall], max_parallel: int
) -> Generator[ToolReport, None, list[ToolResult]]:
    """
    Run *calls* in a thread of the registry, and yield what they report as it comes; returns the results.

    Whoever stops reading waits until the calls have ended, since threads cannot be stopped.
    """
    runtime, queue = get_executor(toolset).runtime, SimpleQueue[ToolReport | None]()
    context = copy_context()
    context.run(report_listener.set, queue.put)
    results: list[ToolResult] = []
    job = context.run(runtime.threads.submit, lambda: results.extend(run_calls(toolset, calls, max_parallel)))
    job.add_done_callback(lambda: queue.put(None))
    try:
        while (report := _wait_for_item(toolset, queue)) is not None:
            yield report
    finally:
        job.wait(None)
    if has_type(job.error, (NoFreeThreadError, StaleDecisionError)):
        return run_calls(toolset, calls, max_parallel)
    if job.error is not None:
        raise job.error
    return results


def _wait_for_item(toolset: Toolset, queue: SimpleQueue[ToolReport | None]) -> ToolReport | None:
    with get_executor(toolset).runtime.threads.release_thread():
        return queue.get()


async def astream_batch(
    toolset: Toolset, calls: Sequence[ToolCall], max_parallel: int
) -> AsyncGenerator[ToolReport | list[ToolResult]]:
    """Run *calls* in a task, and yield what they report as it comes, and the results last; ends them when closed."""
    import asyncio

    loop = asyncio.get_running_loop()
    queue = asyncio.Queue[ToolReport | None]()

    def put_item(item: ToolReport | None) -> None:  # from any thread; the end comes after all reports
        loop.call_soon_threadsafe(queue.put_nowait, item)

    async def run_batch() -> list[ToolResult]:
        report_listener.set(put_item)
        return await run_calls_async(toolset, calls, max_parallel)

    task = asyncio.create_task(run_batch())
    task.add_done_callback(lambda _: put_item(None))
    try:
        while (item := await queue.get()) is not None:
            yield item
        yield task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
