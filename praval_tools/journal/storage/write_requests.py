"""Those who wait for an append: a thread, a future, or the tasks of an event loop, which are woken together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import msgspec

from praval_tools.errors import JournalError
from praval_tools.journal.storage.protocol import Answer, Item


class WriteRequest(Protocol):
    """Items on their way to the writer."""

    @property
    def items(self) -> Sequence[Item]:
        """What is to be written."""

    def complete(self, answers: list[Answer]) -> None:
        """Hand the answers to who waits for them."""

    def fail(self, error: JournalError) -> None:
        """Tell who waits that there are no answers."""


def collect_error(answers: Sequence[Answer]) -> JournalError | None:
    """Return the first error among *answers*, with all of them, or None."""
    for answer in answers:
        error = answer.error
        if error is not None:
            error.answers = [msgspec.structs.replace(one, error=None) if one is answer else one for one in answers]
            return error
    return None


class ThreadWriteRequest:
    """A ticket that the thread which made it waits for."""

    __slots__ = ("_answers", "_done_lock", "_error", "items")

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = tuple(items)
        self._answers: list[Answer] = []
        self._error: JournalError | None = None
        self._done_lock = threading.Lock()
        self._done_lock.acquire()

    def complete(self, answers: list[Answer]) -> None:
        """Wake the thread."""
        self._answers, self._error = answers, collect_error(answers)
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
    """A ticket behind a future."""

    __slots__ = ("future", "items")

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = tuple(items)
        self.future: Future[list[Answer]] = Future()
        self.future.set_running_or_notify_cancel()  # what was handed over can't be taken back

    def complete(self, answers: list[Answer]) -> None:
        """Complete the future; its callbacks run here."""
        error = collect_error(answers)
        if error is None:
            self.future.set_result(answers)
        else:
            self.future.set_exception(error)

    def fail(self, error: JournalError) -> None:
        """Let the future raise."""
        self.future.set_exception(error)


class LoopWriteRequest:
    """What the tasks of one loop append in one round of it: one ticket, and one wake-up, for all of them."""

    __slots__ = ("_futures", "_loop", "items")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.items: list[Item] = []
        self._loop = loop
        self._futures: list[tuple[asyncio.Future[list[Answer]], int]] = []

    def add(self, items: Sequence[Item]) -> asyncio.Future[list[Answer]]:
        """Take *items* of one task, and return what it awaits."""
        future = self._loop.create_future()
        self.items.extend(items)
        self._futures.append((future, len(self.items)))
        return future

    def complete(self, answers: list[Answer]) -> None:
        """Wake the loop."""
        self._call_in_loop(self._complete_futures, answers)

    def fail(self, error: JournalError) -> None:
        """Wake the loop, whose tasks raise."""
        self._call_in_loop(self._fail_futures, error)

    def _call_in_loop(self, tell: Callable[[Any], None], what: object) -> None:
        try:
            self._loop.call_soon_threadsafe(tell, what)
        except RuntimeError:  # the loop was closed, and nobody waits any more
            pass

    def _complete_futures(self, answers: list[Answer]) -> None:
        begin, all_well = 0, True
        for answer in answers:
            if answer.error is not None:
                all_well = False
                break
        for future, end in self._futures:
            mine = answers[begin:end]
            begin = end
            if future.done():  # its task was cancelled
                continue
            error = None if all_well else collect_error(mine)
            if error is None:
                future.set_result(mine)
            else:
                future.set_exception(error)

    def _fail_futures(self, error: JournalError) -> None:
        for future, _ in self._futures:
            if not future.done():
                future.set_exception(error)


class _LoopIteration(threading.local):
    """The loop that runs in this thread, and what its tasks have appended in this round."""

    loop: asyncio.AbstractEventLoop | None = None
    request: LoopWriteRequest


class LoopBatcher:
    """
    Hands over what the tasks of a loop append, once per round of the loop.

    So that 64 tasks that were woken together are one group for the writer, and not a group of one and one of 63.
    """

    def __init__(self, hand_over: Callable[[WriteRequest], None]) -> None:
        self._submit = hand_over
        self._iteration = _LoopIteration()

    def add(self, items: Sequence[Item]) -> asyncio.Future[list[Answer]]:
        """Take *items* from a task of the running loop."""
        loop, here = asyncio.get_running_loop(), self._iteration
        if here.loop is not loop:
            self._flush()  # what a loop left that ended within its round
            here.loop, here.request = loop, LoopWriteRequest(loop)
            loop.call_soon(self._flush)
        return here.request.add(items)

    def _flush(self) -> None:
        here = self._iteration
        if here.loop is None:
            return
        here.loop = None
        try:
            self._submit(here.request)
        except JournalError as error:  # closed meanwhile
            here.request.fail(error)
