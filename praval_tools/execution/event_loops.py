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

from praval_tools.execution.failures import CallCancelledError, StaleDecisionError

if TYPE_CHECKING:
    import asyncio


def is_event_loop_running() -> bool:
    """Tell whether an event loop runs in this thread, without importing asyncio."""
    events: Any = sys.modules.get("asyncio.events")
    return events is not None and events._get_running_loop() is not None


_GRACE_SECONDS = 2.0
"""Seconds beyond its deadline after which a call is given up that the loop does not end."""


class BackgroundLoop:
    """One event loop in a daemon thread, started at first use and kept until closed."""

    def __init__(self) -> None:
        self._closed = False
        self._reset_after_fork()

    def _reset_after_fork(self) -> None:
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
            self._reset_after_fork()
        with self._lock:
            if self._closed:
                coroutine.close()
                raise StaleDecisionError
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_run_until_stopped, args=(self._loop,), name="praval-tools-loop", daemon=True
                )
                self._thread.start()
            loop = self._loop
        waiting = asyncio.run_coroutine_threadsafe(_capture_exit(coroutine), loop)
        try:
            value, error = waiting.result(None if seconds is None else seconds + _GRACE_SECONDS)
        except TimeoutError:
            waiting.cancel()
            raise DeadlineExpiredError from None
        except CancelledError:
            raise CallCancelledError from None
        except BaseException:
            waiting.cancel()
            raise
        if error is not None:
            raise error
        return value

    @property
    def is_current_thread(self) -> bool:
        """Whether this thread is the loop's own."""
        return self._thread is threading.current_thread()

    def close(self, patience: float = 5.0) -> None:
        """
        Cancel what runs there, stop the loop and close it; safe twice.

        What swallows its cancellation, or blocks the loop, is left behind in its thread after *patience* seconds.
        """
        if self._process != os.getpid():
            self._reset_after_fork()
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
            self._closed = True
        if loop is None or thread is None:
            return
        import asyncio

        async def cancel_tasks() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await loop.shutdown_asyncgens()

        try:
            asyncio.run_coroutine_threadsafe(cancel_tasks(), loop).result(patience)
        except TimeoutError:
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join(patience)
        if not thread.is_alive():
            loop.close()


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    """Run *loop* until it is stopped; a task's SystemExit, which ends a loop, is its awaiter's to handle."""
    while True:
        try:
            loop.run_forever()
            return
        except (KeyboardInterrupt, SystemExit):
            continue


def is_self_cancelled() -> bool:
    """Tell whether a CancelledError here is of the work's own making: nobody has cancelled the task that awaits it."""
    import asyncio

    task = asyncio.current_task()
    return task is None or not task.cancelling()


async def _capture_exit(work: Coroutine[Any, Any, Any]) -> tuple[Any, BaseException | None]:
    """Await *work*; what would end the loop's thread is handed to the caller instead."""
    try:
        return await work, None
    except (KeyboardInterrupt, SystemExit) as error:
        return None, error


class Deadline(msgspec.Struct, eq=False):
    """One call's deadline on one loop, among the *others* of its timer."""

    expires_at: float
    task: Any
    active: Any
    expired: bool = False

    def uncancel(self) -> int:
        """Take back the cancellation by which it rang; return how many others are left."""
        task = self.task()
        return task.uncancel() if task is not None else 0


def _return_no_task() -> None:
    """Stand for the task of work that runs in none."""


class DeadlineTimer:
    """The deadlines of one loop and one duration, in order, behind a single timer."""

    __slots__ = ("_seconds", "active", "is_scheduled")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.active: dict[Deadline, None] = {}
        self.is_scheduled = False

    def start_deadline(self, loop: asyncio.AbstractEventLoop, task: Any) -> Deadline:
        """Give *task* the duration from now; it is cancelled when that has passed."""
        # by weak reference: a task holds its loop, which would never be collected with the deadlines that it has here
        made = Deadline(monotonic() + self._seconds, ref(task) if task is not None else _return_no_task, self.active)
        self.active[made] = None
        if not self.is_scheduled:
            self.schedule_check(loop, self._seconds)
        return made

    def schedule_check(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """Look again in *seconds*."""
        self.is_scheduled = True
        loop.call_later(seconds, self._cancel_expired, loop)

    def _cancel_expired(self, loop: asyncio.AbstractEventLoop) -> None:
        self.is_scheduled, now = False, monotonic()
        for deadline in list(self.active):
            if deadline.expires_at > now:
                self.schedule_check(loop, deadline.expires_at - now)
                return
            del self.active[deadline]
            deadline.expired = True
            if (task := deadline.task()) is not None:
                task.cancel()


_deadline_timers: WeakKeyDictionary[Any, dict[float, DeadlineTimer]] = WeakKeyDictionary()


def get_deadline_timer(loop: asyncio.AbstractEventLoop, seconds: float) -> DeadlineTimer:
    """Return the loop's timer for calls that may take *seconds*."""
    mine = _deadline_timers.get(loop)
    if mine is None:
        mine = _deadline_timers[loop] = {}
    found = mine.get(seconds)
    if found is None:
        found = mine[seconds] = DeadlineTimer(seconds)
    return found


class DeadlineExpiredError(Exception):
    """The deadline of an awaited call has passed."""


@lru_cache(256)
def make_deadline_runner(seconds: float | None) -> Callable[[Coroutine[Any, Any, Any]], Any] | None:
    """Return what awaits a coroutine for at most *seconds*, else raises `ExpiredError`; None: without end."""
    rest = make_deadline_resumer(seconds)
    if rest is None:
        return None

    async def run_with_deadline(work: Any) -> Any:
        place = [None]
        work = store_result(place, work)
        waiting = next(work, DONE)
        if waiting is not DONE:
            await rest(work, waiting)
        return place[0]

    return run_with_deadline


DONE: Final = object()
"""What `next` answers for work that has ended at once."""


@coroutine
def store_result(place: list[Any], work: Any) -> Any:
    """Await *work* and put its value into *place*: what gives no value ends without an exception, which is dear."""
    place[0] = yield from work


@lru_cache(256)
def make_deadline_resumer(seconds: float | None) -> Callable[[Any, Any], Any] | None:
    """
    Return what awaits the rest of work that has begun, and waits for something; see `limit`.

    What never waits is never late, and asking for the running loop is dear: only who waits gets a deadline.
    """
    if seconds is None:
        return None
    import asyncio

    @coroutine
    def resume_with_deadline(work: Any, waiting: Any) -> Any:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        before = task.cancelling() if task is not None else 0
        deadline = get_deadline_timer(loop, seconds).start_deadline(loop, task)
        try:
            value = yield from _drive_coroutine(work, waiting)
        except asyncio.CancelledError:
            if deadline.expired and deadline.uncancel() <= before:
                raise DeadlineExpiredError from None
            raise
        except Exception as error:
            if deadline.expired:
                deadline.uncancel()
                raise DeadlineExpiredError from error
            raise
        finally:
            deadline.active.pop(deadline, None)
        if deadline.expired:  # it had its reasons to go on, and is done
            deadline.uncancel()
        return value

    return resume_with_deadline


def _drive_coroutine(work: Any, waiting: Any) -> Any:
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
