"""Event loops: one in the background for async tools that sync code calls, and one timer per loop for deadlines."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Coroutine
from functools import lru_cache
from time import monotonic
from types import coroutine
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary, ref

import msgspec

from praval_tools.execution.failures import StaleError, StoppedError

if TYPE_CHECKING:
    import asyncio


def loop_runs_here() -> bool:
    """Tell whether an event loop runs in this thread, without importing asyncio."""
    events: Any = sys.modules.get("asyncio.events")
    return events is not None and events._get_running_loop() is not None


_GRACE = 2.0
"""Seconds beyond its deadline after which a call is given up that the loop does not end."""


class BackgroundLoop:
    """One event loop in a daemon thread, started at first use and kept until closed."""

    def __init__(self) -> None:
        self._closed = False
        self._start_over()

    def _start_over(self) -> None:
        """Begin without a loop; in a forked process the thread of its parent's is gone."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, Any], seconds: float | None = None) -> Any:
        """
        Run *coroutine* there and wait for it; an interrupt of this thread cancels it.

        Its deadline is its own; *seconds*, and some more, count where the loop is blocked and keeps none.

        Raises:
            ExpiredError: The loop does not answer.
            StaleError: The loop was closed.
            StoppedError: It was closed meanwhile, or the work cancelled itself.
        """
        import asyncio
        from concurrent.futures import CancelledError

        if self._process != os.getpid():
            self._start_over()
        with self._lock:
            if self._closed:
                coroutine.close()
                raise StaleError
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="praval-tools-loop", daemon=True
                )
                self._thread.start()
            loop = self._loop
        waiting = asyncio.run_coroutine_threadsafe(_kept(coroutine), loop)
        try:
            value, error = waiting.result(None if seconds is None else seconds + _GRACE)
        except TimeoutError:
            waiting.cancel()
            raise ExpiredError from None
        except CancelledError:
            raise StoppedError from None
        except BaseException:
            waiting.cancel()
            raise
        if error is not None:
            raise error
        return value

    @property
    def here(self) -> bool:
        """Whether this thread is the loop's own."""
        return self._thread is threading.current_thread()

    def close(self, patience: float = 5.0) -> None:
        """
        Cancel what runs there, stop the loop and close it; safe twice.

        What swallows its cancellation, or blocks the loop, is left behind in its thread after *patience* seconds.
        """
        if self._process != os.getpid():
            self._start_over()
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
            self._closed = True
        if loop is None or thread is None:
            return
        import asyncio

        async def end() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await loop.shutdown_asyncgens()

        try:
            asyncio.run_coroutine_threadsafe(end(), loop).result(patience)
        except TimeoutError:
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join(patience)
        if not thread.is_alive():
            loop.close()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run *loop* until it is stopped; a task's SystemExit, which ends a loop, is its awaiter's to handle."""
    while True:
        try:
            loop.run_forever()
            return
        except (KeyboardInterrupt, SystemExit):
            continue


def interrupted() -> bool:
    """Tell whether a CancelledError here is of the work's own making: nobody has cancelled the task that awaits it."""
    import asyncio

    task = asyncio.current_task()
    return task is None or not task.cancelling()


async def _kept(work: Coroutine[Any, Any, Any]) -> tuple[Any, BaseException | None]:
    """Await *work*; what would end the loop's thread is handed to the caller instead."""
    try:
        return await work, None
    except (KeyboardInterrupt, SystemExit) as error:
        return None, error


class Deadline(msgspec.Struct, eq=False):
    """One call's deadline on one loop, among the *others* of its timer."""

    at: float
    task: Any
    others: Any
    expired: bool = False

    def uncancel(self) -> int:
        """Take back the cancellation by which it rang; return how many others are left."""
        task = self.task()
        return task.uncancel() if task is not None else 0


def _nobody() -> None:
    """Stand for the task of work that runs in none."""


class Deadlines:
    """The deadlines of one loop and one duration, in order, behind a single timer."""

    __slots__ = ("_seconds", "active", "ringing")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.active: dict[Deadline, None] = {}
        self.ringing = False

    def start(self, loop: asyncio.AbstractEventLoop, task: Any) -> Deadline:
        """Give *task* the duration from now; it is cancelled when that has passed."""
        # by weak reference: a task holds its loop, which would never be collected with the deadlines that it has here
        made = Deadline(monotonic() + self._seconds, ref(task) if task is not None else _nobody, self.active)
        self.active[made] = None
        if not self.ringing:
            self.ring_in(loop, self._seconds)
        return made

    def ring_in(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """Look again in *seconds*."""
        self.ringing = True
        loop.call_later(seconds, self._ring, loop)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self.ringing, now = False, monotonic()
        for deadline in list(self.active):
            if deadline.at > now:
                self.ring_in(loop, deadline.at - now)
                return
            del self.active[deadline]
            deadline.expired = True
            if (task := deadline.task()) is not None:
                task.cancel()


_deadlines: WeakKeyDictionary[Any, dict[float, Deadlines]] = WeakKeyDictionary()


def deadlines(loop: asyncio.AbstractEventLoop, seconds: float) -> Deadlines:
    """Return the loop's timer for calls that may take *seconds*."""
    mine = _deadlines.get(loop)
    if mine is None:
        mine = _deadlines[loop] = {}
    found = mine.get(seconds)
    if found is None:
        found = mine[seconds] = Deadlines(seconds)
    return found


class ExpiredError(Exception):
    """The deadline of an awaited call has passed."""


@lru_cache(256)
def limit(seconds: float | None) -> Callable[[Coroutine[Any, Any, Any]], Any] | None:
    """Return what awaits a coroutine for at most *seconds*, else raises `ExpiredError`; None: without end."""
    rest = rest_within(seconds)
    if rest is None:
        return None

    async def within(work: Any) -> Any:
        place = [None]
        work = into(place, work)
        waiting = next(work, DONE)
        if waiting is not DONE:
            await rest(work, waiting)
        return place[0]

    return within


DONE: Final = object()
"""What `next` answers for work that has ended at once."""


@coroutine
def into(place: list[Any], work: Any) -> Any:
    """Await *work* and put its value into *place*: what gives no value ends without an exception, which is dear."""
    place[0] = yield from work


@lru_cache(256)
def rest_within(seconds: float | None) -> Callable[[Any, Any], Any] | None:
    """
    Return what awaits the rest of work that has begun, and waits for something; see `limit`.

    What never waits is never late, and asking for the running loop is dear: only who waits gets a deadline.
    """
    if seconds is None:
        return None
    import asyncio

    @coroutine
    def rest(work: Any, waiting: Any) -> Any:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        before = task.cancelling() if task is not None else 0
        deadline = deadlines(loop, seconds).start(loop, task)
        try:
            value = yield from _driven(work, waiting)
        except asyncio.CancelledError:
            if deadline.expired and deadline.uncancel() <= before:
                raise ExpiredError from None
            raise
        except Exception as error:
            if deadline.expired:
                deadline.uncancel()
                raise ExpiredError from error
            raise
        finally:
            deadline.others.pop(deadline, None)
        if deadline.expired:  # it had its reasons to go on, and is done
            deadline.uncancel()
        return value

    return rest


def _driven(work: Any, waiting: Any) -> Any:
    """Drive a coroutine that has begun and waits; return its value."""
    while True:
        try:
            answer = yield waiting
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:  # thrown into the work, which decides
            step, given = work.throw, error
        else:
            step, given = work.send, answer
        try:
            waiting = step(given)
        except StopIteration as end:
            return end.value
