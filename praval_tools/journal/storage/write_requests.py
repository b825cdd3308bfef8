"""Requests to the writer thread: items, and the thread, future or event loop that waits for their answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from praval_tools.errors import JournalError
from praval_tools.journal.storage.protocol import Answer, Item, find_error

WriteResult = list[Answer] | JournalError
"""The answers to the items of a request; or why there are none."""


class WriteRequest(Protocol):
    """Items on their way to the writer."""

    @property
    def items(self) -> Sequence[Item]:
        """What is to be written."""

    def complete(self, result: WriteResult) -> None:
        """Hand the answers, or the error, to whoever waits for them."""


def _find_result_error(result: WriteResult) -> JournalError | None:
    """Return the error that the waiting side gets."""
    return result if isinstance(result, JournalError) else find_error(result)


class ThreadWriteRequest:
    """A request for which the calling thread waits."""

    __slots__ = ("_done_lock", "_result", "items")

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = tuple(items)
        self._result: WriteResult = []
        self._done_lock = threading.Lock()  # a future would cost ten times as much
        self._done_lock.acquire()

    def complete(self, result: WriteResult) -> None:
        """Wake the thread."""
        self._result = _find_result_error(result) or result
        self._done_lock.release()

    def wait(self) -> list[Answer]:
        """Return the answers once they are there; an interrupt ends the waiting, not the writing."""
        with self._done_lock:
            if isinstance(self._result, JournalError):
                raise self._result
            return self._result


class FutureWriteRequest:
    """A request whose answers are the result of a future."""

    __slots__ = ("future", "items")

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = tuple(items)
        self.future: Future[list[Answer]] = Future()
        self.future.set_running_or_notify_cancel()  # a request cannot be taken back

    def complete(self, result: WriteResult) -> None:
        """Complete the future; its callbacks run here."""
        _complete_future(self.future, result)


class LoopWriteRequest:
    """What the tasks of one event loop append in one iteration of it: one request, and one wake-up, for all of them."""

    __slots__ = ("_futures", "_loop", "items")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.items: list[Item] = []
        self._loop = loop
        self._futures: list[tuple[asyncio.Future[list[Answer]], int]] = []

    def add(self, items: Sequence[Item]) -> asyncio.Future[list[Answer]]:
        """Add the *items* of one task, and return the future that it awaits."""
        future = self._loop.create_future()
        self.items.extend(items)
        self._futures.append((future, len(self.items)))
        return future

    def complete(self, result: WriteResult) -> None:
        """Wake the loop."""
        try:
            self._loop.call_soon_threadsafe(self._complete_futures, result)
        except RuntimeError:  # the loop was closed, and nobody waits any more
            pass

    def _complete_futures(self, result: WriteResult) -> None:
        start = 0
        for future, end in self._futures:
            if not future.done():  # else its task was cancelled
                _complete_future(future, result if isinstance(result, JournalError) else result[start:end])
            start = end


def _complete_future(future: Future[list[Answer]] | asyncio.Future[list[Answer]], result: WriteResult) -> None:
    error = _find_result_error(result)
    if error is None:
        future.set_result(result)  # type: ignore[arg-type]  # where there is no error, they are answers
    else:
        future.set_exception(error)


class _LoopIteration(threading.local):
    """The loop that runs in this thread, and the request of its current iteration."""

    loop: asyncio.AbstractEventLoop | None = None
    request: LoopWriteRequest


class LoopBatcher:
    """
    Submits what the tasks of a loop append, once per iteration of the loop.

    So that 64 tasks that were woken together are one group for the writer, and not a group of one and one of 63.
    """

    def __init__(self, submit: Callable[[WriteRequest], None]) -> None:
        self._submit = submit
        self._iteration = _LoopIteration()

    def add(self, items: Sequence[Item]) -> asyncio.Future[list[Answer]]:
        """Add *items* of a task of the running loop."""
        loop, iteration = asyncio.get_running_loop(), self._iteration
        if iteration.loop is not loop:
            self.flush()  # what a loop left that ended within its iteration
            iteration.loop, iteration.request = loop, LoopWriteRequest(loop)
            loop.call_soon(self.flush)
        return iteration.request.add(items)

    def flush(self) -> None:
        """Submit what was added in this thread, which comes before what is written from now on."""
        iteration = self._iteration
        if iteration.loop is None:
            return
        iteration.loop = None
        try:
            self._submit(iteration.request)
        except JournalError as error:  # closed meanwhile
            iteration.request.complete(error)
