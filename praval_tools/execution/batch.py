"""Several calls at once: results in call order, and one failure never touches its neighbours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from praval_tools.errors import ToolError
from praval_tools.model.calls import Outcome, ToolCall, ToolResult
from praval_tools.naming import shorten

if TYPE_CHECKING:
    from praval_tools.execution.executor import Executor

_AT_ONCE = 16


def _junk(call: Any, error: ToolError | None = None) -> ToolResult:
    text = str(error) if error is not None else f"{shorten(call)} is not a ToolCall"
    name = str(getattr(call, "name", ""))
    return ToolResult(getattr(call, "tool_call_id", None), name, None, Outcome.INVALID_ARGUMENTS, None, text,
                      error.code if error is not None else "invalid-call")  # fmt: skip


def _lonely(executor: Executor, call: Any) -> bool:
    record = executor.ledger.state.record(call.name) if isinstance(getattr(call, "name", None), str) else None
    return record is not None and not record.tool.metadata.concurrency_safe


def batch(
    executor: Executor, calls: Sequence[tuple[Any, Callable[[ToolCall], ToolResult]]], most: int | None
) -> list[ToolResult]:
    """Run the calls on the thread engine, at most *most* at once; what must run alone runs afterwards."""
    results: list[ToolResult | None] = [None] * len(calls)

    def one(at: int) -> None:
        call, execute = calls[at]
        try:
            results[at] = execute(call) if isinstance(call, ToolCall) else _junk(call)
        except ToolError as error:
            results[at] = _junk(call, error)

    together = [at for at, (call, _) in enumerate(calls) if not _lonely(executor, call)]
    alone = [at for at in range(len(calls)) if at not in set(together)]
    if len(together) == 1:
        alone, together = sorted(alone + together), []
    _spread(executor, together, one, most or _AT_ONCE)
    for at in alone:
        one(at)
    return [result for result in results if result is not None]


def _spread(executor: Executor, places: list[int], one: Callable[[int], None], most: int) -> None:
    """Work through *places* in at most *most* threads."""
    waiting = iter(places)

    def work() -> None:
        while (at := next(waiting, None)) is not None:
            one(at)

    nested = executor.threads.inside
    if nested:
        executor.threads.lose()
    jobs = [executor.threads.submit(work) for _ in range(min(most, len(places)))]
    work_here = all(job is None for job in jobs)
    if work_here:
        work()
    for job in jobs:
        if job is not None:
            job.wait(None)
            if job.error is not None:
                raise job.error
    if nested:
        executor.threads.found()


async def batch_async(
    executor: Executor, calls: Sequence[tuple[Any, Callable[[ToolCall], Awaitable[ToolResult]]]], most: int | None
) -> list[ToolResult]:
    """Run the calls as tasks, at most *most* at once; what must run alone runs afterwards."""
    import asyncio

    results: list[ToolResult | None] = [None] * len(calls)
    room = asyncio.Semaphore(most or max(1, len(calls)))

    async def one(at: int) -> None:
        call, execute = calls[at]
        async with room:
            try:
                results[at] = await execute(call) if isinstance(call, ToolCall) else _junk(call)
            except ToolError as error:
                results[at] = _junk(call, error)

    together = [at for at, (call, _) in enumerate(calls) if not _lonely(executor, call)]
    async with asyncio.TaskGroup() as group:
        for at in together:
            group.create_task(one(at))
    for at in range(len(calls)):
        if results[at] is None:
            await one(at)
    return [result for result in results if result is not None]
