"""Requests to the writer: items, and the thread, future or event loop that waits for their answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from praval_tools.errors import JournalError
from praval_tools.journal.storage.protocol import Answer, Item, find_error


class WriteRequest(Protocol):
    """Items on their way to the writer."""

    @property
    def items(self) -> Sequence[Item]:
        """What is to be written."""

    def complete(self, answers: list[Answer]) -> None:
        """Hand the answers to whoever waits for them."""

    def fail(self, error: JournalError) -> None:
        """Raise *error* where somebody waits: there are no answers."""


class ThreadWriteRequest:
    """A request for which the calling thread waits."""

    __slots__ = ("_answers", "_done_lock", "_error", "items")

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = tuple(items)
        self._answers: list[Answer] = []
        self._error: JournalError | None = None
        self._done_lock = threading.Lock()  # a future would cost ten times as much
        self._done_lock.acquire()

    def complete(self, answers: list[Answer]) -> None:
        """Wake the thread."""
        self._answers, self._error = answers, find_error(answers)
        self._done_lock.release()

    def fail(self, error: JournalError) -> None:
        """Wake the thread, which raises."""
        self._error = error
        self._done_lock.release()

    def wait(self) -> list[Answer]:
        """Return the answers once they are there; an interrupt ends the waiting, not the writing."""
        with self._done_lock:
            if self._error is not None:
                raise self._error
            return self._answers


class FutureWriteRequest:
    """A request whose answers are the result of a future."""

    __slots__ = ("future", "items")

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = tuple(items)
        self.future: Future[list[Answer]] = Future()
        self.future.set_running_or_notify_cancel()  # a request cannot be taken back

    def complete(self, answers: list[Answer]) -> None:
        """Complete the future; its callbacks run here."""
        error = find_error(answers)
        if error is None:
            self.future.set_result(answers)
        else:
            self.future.set_exception(error)

    def fail(self, error: JournalError) -> None:
        """Let the future raise."""
        self.future.set_exception(error)


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

    def complete(self, answers: list[Answer]) -> None:
        """Wake the loop."""
        self._call_in_loop(lambda: self._complete_futures(answers))

    def fail(self, error: JournalError) -> None:
        """Wake the loop, whose tasks raise."""
        self._call_in_loop(lambda: self._fail_futures(error))

    def _call_in_loop(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # the loop was closed, and nobody waits any more
            pass

    def _complete_futures(self, answers: list[Answer]) -> None:
        start = 0
        for future, end in self._futures:
            own_answers, start = answers[start:end], end
            if future.done():  # its task was cancelled
                continue
            error = find_error(own_answers)
            if error is None:
                future.set_result(own_answers)
            else:
                future.set_exception(error)

    def _fail_futures(self, error: JournalError) -> None:
        for future, _ in self._futures:
            if not future.done():
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
            self._flush()  # what a loop left that ended within its iteration
            iteration.loop, iteration.request = loop, LoopWriteRequest(loop)
            loop.call_soon(self._flush)
        return iteration.request.add(items)

    def _flush(self) -> None:
        iteration = self._iteration
        if iteration.loop is None:
            return
        iteration.loop = None
        try:
            self._submit(iteration.request)
        except JournalError as error:  # closed meanwhile
            iteration.request.fail(error)
