"""Runs batches of calls in parallel: results come in call order, and a failure concerns only its own call."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from praval_tools.errors import JournalError, RegistryClosedError, ReplayMismatchError, ToolError, ToolUsageError
from praval_tools.execution.batch_turns import give_turns
from praval_tools.execution.engines.threads import NoFreeThreadError
from praval_tools.execution.event_loops import is_self_cancelled
from praval_tools.execution.failures import StaleDecisionError
from praval_tools.execution.plain_calls import to_plain_call
from praval_tools.names import get_plain_type, has_type, shorten_repr
from praval_tools.schema.json_values import shorten_value
from praval_tools.tools.call import Outcome, ToolCall, ToolResult

if TYPE_CHECKING:
    from praval_tools.execution.runtime import Runtime

_DEFAULT_PARALLELISM = 16
_ENDS_OF_LOOPS = (KeyboardInterrupt, SystemExit)
_RAISED_ERRORS = (JournalError, ReplayMismatchError)
"""Errors of the journal, not of a single call: raised once all calls have ended."""
ANY_ERROR: Final = (ToolError,)
"""For whoever goes on by the results: a call that could not be made has none, in no record either."""


def _build_invalid_call_result(call: object, error: ToolError | None = None) -> ToolResult:
    """Return the result of an item that is not a call, or of a call that could not be made."""
    outcome = Outcome.INVALID_ARGUMENTS
    plain = to_plain_call(call) if has_type(call, ToolCall) else ToolCall()
    if has_type(error, RegistryClosedError):
        outcome = Outcome.CANCELLED
    elif has_type(error, ToolUsageError) and error.code in ("sync-call-in-event-loop", "missing-deps"):
        outcome = Outcome.TOOL_ERROR
    text, code = f"{shorten_value(call)} is not a ToolCall", "invalid-call"
    if error is not None:
        text, code = str(error), error.code
    return ToolResult(plain.tool_call_id, str(plain.name), None, outcome, None, text, code, exception=error)


def _split_by_concurrency(
    runtime: Runtime, calls: Sequence[object], max_parallel: int | None
) -> tuple[list[int], list[int]]:
    """
    Return the indexes of the calls that run in parallel, and of those that run alone afterwards.

    Raises:
        RegistryClosedError: The registry was closed.
        ToolUsageError: *max_parallel* is not a whole number from 1 on, or this thread holds a `change()` open.
    """
    runtime.access_store.refuse_calls()
    if max_parallel is not None and (type(max_parallel) is not int or max_parallel < 1):
        raise ToolUsageError(
            f"max_parallel={shorten_repr(max_parallel)} is not a whole number from 1 on; leave it out for the default."
        )
    together: list[int] = []
    alone: list[int] = []
    for index, call in enumerate(calls):
        name = to_plain_call(call).name if has_type(call, ToolCall) else None
        record = runtime.access_store.state.find_tool_record(name) if type(name) is str else None
        (together if record is None or record.tool.metadata.concurrency_safe else alone).append(index)
    return together, alone


def run_batch(
    runtime: Runtime,
    calls: Sequence[tuple[object, Callable[[ToolCall], ToolResult]]],
    max_parallel: int | None,
    raised: tuple[type[ToolError], ...] = _RAISED_ERRORS,
) -> list[ToolResult]:
    """Run the calls on the thread engine, at most *max_parallel* at once; tools that must run alone follow."""
    results: list[Any] = [None] * len(calls)

    def run_call(index: int) -> None:
        call, execute = calls[index]
        try:
            results[index] = execute(call) if has_type(call, ToolCall) else _build_invalid_call_result(call)
        except ToolError as error:
            results[index] = error if has_type(error, raised) else _build_invalid_call_result(call, error)

    together, alone = _split_by_concurrency(runtime, [call for call, _ in calls], max_parallel)
    if len(together) > 1 and not runtime.background_loop.is_current_thread:  # its threads would wait for that loop
        has_runs = runtime.recorder is not None and runtime.recorder.has_open_runs
        run_in_turn = give_turns(together, run_call, runtime.threads.release_thread) if has_runs else run_call
        _run_in_threads(runtime, together, run_in_turn, max_parallel or _DEFAULT_PARALLELISM)
    for index in range(len(calls)):  # the rest: a single call, those that run alone, those for which no thread was free
        if results[index] is None:
            run_call(index)
    return _raise_first_error(results)


def _raise_first_error(results: list[Any]) -> list[ToolResult]:
    """Return the results; raise the first error among them, if there is one."""
    for result in results:
        if isinstance(result, ToolError):
            raise result
    return results


def _run_in_threads(
    runtime: Runtime, indexes: Sequence[int], run_call: Callable[[int], None], max_parallel: int
) -> None:
    """Run the calls of *indexes* in at most *max_parallel* threads; return once every call that began has ended."""
    queue = deque(indexes)

    def run_queued_calls() -> None:
        while True:
            try:
                index = queue.popleft()
            except IndexError:
                return
            run_call(index)

    try:
        jobs = [runtime.threads.submit(run_queued_calls) for _ in range(min(max_parallel, len(indexes)))]
        with runtime.threads.release_thread():
            for job in jobs:
                job.wait(None)
    except BaseException:  # an interrupt of this thread: no more calls begin
        queue.clear()
        raise
    for job in jobs:
        if job.error is not None and not has_type(job.error, (StaleDecisionError, NoFreeThreadError)):
            raise job.error


async def run_batch_async(
    runtime: Runtime,
    calls: Sequence[tuple[object, Callable[[ToolCall], Awaitable[ToolResult]]]],
    max_parallel: int | None,
    raised: tuple[type[ToolError], ...] = _RAISED_ERRORS,
) -> list[ToolResult]:
    """Run the calls as tasks, at most *max_parallel* at once; tools that must run alone follow."""
    import asyncio

    results: list[Any] = [None] * len(calls)
    together, alone = _split_by_concurrency(runtime, [call for call, _ in calls], max_parallel)
    semaphore = asyncio.Semaphore(max_parallel or max(1, len(calls)))

    async def run_call(index: int) -> None:
        call, execute = calls[index]
        async with semaphore:
            try:
                results[index] = await execute(call) if has_type(call, ToolCall) else _build_invalid_call_result(call)
            except ToolError as error:
                results[index] = error if has_type(error, raised) else _build_invalid_call_result(call, error)

    await _run_as_tasks(together, run_call)
    for index in alone:
        await run_call(index)
    return _raise_first_error(results)


class _CallFailedError(Exception):
    """A call of a batch raised something that is not a result."""


async def _run_as_tasks(indexes: Sequence[int], run_call: Callable[[int], Awaitable[None]]) -> None:
    """Run the calls of *indexes* at once; what one of them raises ends the others, and is raised then."""
    import asyncio

    failures: list[BaseException] = []

    async def run_task(index: int) -> None:
        try:
            await run_call(index)
        except BaseException as error:  # asyncio asks for its class, which may run code of the tool
            is_cancelled = has_type(error, asyncio.CancelledError) and not is_self_cancelled()
            if is_cancelled or get_plain_type(error) in _ENDS_OF_LOOPS:
                raise
            failures.append(error)
            raise _CallFailedError from None

    try:
        async with asyncio.TaskGroup() as group:
            for index in indexes:
                group.create_task(run_task(index))
    except ExceptionGroup:
        raise failures[0] from None
