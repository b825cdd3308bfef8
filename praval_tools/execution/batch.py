"""Several calls at once: results in call order, and one failure never touches its neighbours."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from praval_tools.errors import JournalError, RegistryClosedError, ReplayMismatchError, ToolError, ToolUsageError
from praval_tools.execution.engines.threads import NoFreeThreadError
from praval_tools.execution.failures import StaleDecisionError
from praval_tools.names import shorten_repr
from praval_tools.tools.call import Outcome, ToolCall, ToolResult

if TYPE_CHECKING:
    from praval_tools.execution.runtime import Runtime

_DEFAULT_PARALLELISM = 16
_RAISED_ERRORS = (JournalError, ReplayMismatchError)
"""What says something of the journal, not of a call: raised, once all calls have ended."""


def _build_invalid_call_result(call: Any, error: ToolError | None = None) -> ToolResult:
    """Return the result of what is no call, or of a call that could not be made."""
    outcome, name = Outcome.INVALID_ARGUMENTS, str(getattr(call, "name", ""))
    if isinstance(error, RegistryClosedError):
        outcome = Outcome.CANCELLED
    elif isinstance(error, ToolUsageError) and error.code == "sync-call-in-event-loop":
        outcome = Outcome.TOOL_ERROR
    text, code = f"{shorten_repr(call)} is not a ToolCall", "invalid-call"
    if error is not None:
        text, code = str(error), error.code
    return ToolResult(getattr(call, "tool_call_id", None), name, None, outcome, None, text, code, exception=error)


def _split_by_concurrency(runtime: Runtime, calls: Sequence[Any], most: Any) -> tuple[list[int], list[int]]:
    """
    Return the places of the calls that run side by side, and of those that run alone afterwards.

    Raises:
        RegistryClosedError: The registry was closed.
        ToolUsageError: *most* is no number of calls, or this thread holds a `change()` open.
    """
    runtime.access_store.refuse_calls()
    if most is not None and (type(most) is not int or most < 1):
        raise ToolUsageError(f"max_parallel={shorten_repr(most)} is no whole number from 1 on; leave it out.")
    together: list[int] = []
    alone: list[int] = []
    for at, call in enumerate(calls):
        name = getattr(call, "name", None)
        record = runtime.access_store.state.find_tool_record(name) if isinstance(name, str) else None
        (together if record is None or record.tool.metadata.concurrency_safe else alone).append(at)
    return together, alone


def run_batch(
    runtime: Runtime, calls: Sequence[tuple[Any, Callable[[ToolCall], ToolResult]]], most: int | None
) -> list[ToolResult]:
    """Run the calls on the thread engine, at most *most* at once; what must run alone runs afterwards."""
    results: list[Any] = [None] * len(calls)

    def run_call(at: int) -> None:
        call, execute = calls[at]
        try:
            results[at] = execute(call) if isinstance(call, ToolCall) else _build_invalid_call_result(call)
        except ToolError as error:
            results[at] = error if isinstance(error, _RAISED_ERRORS) else _build_invalid_call_result(call, error)

    together, alone = _split_by_concurrency(runtime, [call for call, _ in calls], most)
    if len(together) > 1:
        _run_in_threads(runtime, together, run_call, most or _DEFAULT_PARALLELISM)
    for at in range(len(calls)):  # what is left: a single call, what runs alone, what found no thread
        if results[at] is None:
            run_call(at)
    return _raise_journal_error(results)


def _raise_journal_error(results: list[Any]) -> list[ToolResult]:
    """Return the results; raise the first error of the journal, if there is one."""
    for one in results:
        if isinstance(one, _RAISED_ERRORS):
            raise one
    return results


def _run_in_threads(runtime: Runtime, places: Sequence[int], one: Callable[[int], None], most: int) -> None:
    """Work through *places* in at most *most* threads; returns once every call that was begun has ended."""
    waiting, taking = iter(places), threading.Lock()

    def run_queued_calls() -> None:
        while True:
            with taking:
                at = next(waiting, None)
            if at is None:
                return
            one(at)

    jobs = [runtime.threads.submit(run_queued_calls) for _ in range(min(most, len(places)))]
    with runtime.threads.release_thread():
        for job in jobs:
            job.wait(None)
    for job in jobs:
        if job.error is not None and not isinstance(job.error, StaleDecisionError | NoFreeThreadError):
            raise job.error


async def run_batch_async(
    runtime: Runtime, calls: Sequence[tuple[Any, Callable[[ToolCall], Awaitable[ToolResult]]]], most: int | None
) -> list[ToolResult]:
    """Run the calls as tasks, at most *most* at once; what must run alone runs afterwards."""
    import asyncio

    results: list[Any] = [None] * len(calls)
    together, alone = _split_by_concurrency(runtime, [call for call, _ in calls], most)
    room = asyncio.Semaphore(most or max(1, len(calls)))

    async def run_call(at: int) -> None:
        call, execute = calls[at]
        async with room:
            try:
                results[at] = await execute(call) if isinstance(call, ToolCall) else _build_invalid_call_result(call)
            except ToolError as error:
                results[at] = error if isinstance(error, _RAISED_ERRORS) else _build_invalid_call_result(call, error)

    async with asyncio.TaskGroup() as group:
        for at in together:
            group.create_task(run_call(at))
    for at in alone:
        await run_call(at)
    return _raise_journal_error(results)
