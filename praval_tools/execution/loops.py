"""Event loops: one in the background for async tools that sync code calls, and one timer per loop for deadlines."""

from __future__ import annotations

import sys
import threading
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import asyncio


def loop_runs_here() -> bool:
    """Tell whether an event loop runs in this thread, without importing asyncio."""
    events: Any = sys.modules.get("asyncio.events")
    return events is not None and events._get_running_loop() is not None


class BackgroundLoop:
    """One event loop in a daemon thread, started at first use and kept until closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run *coroutine* there and wait for it; an interrupt of this thread cancels it."""
        import asyncio

        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="praval-tools-loop", daemon=True)
                self._thread.start()
            loop = self._loop
        waiting = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            return waiting.result()
        except BaseException:
            waiting.cancel()
            raise

    @property
    def here(self) -> bool:
        """Whether this thread is the loop's own."""
        return self._thread is threading.current_thread()

    def close(self) -> None:
        """Cancel what runs there, stop the loop and close it; safe twice."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        import asyncio

        async def end() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await loop.shutdown_asyncgens()

        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Deadline:
    """One call's deadline on one loop."""

    __slots__ = ("at", "expired", "task")

    def __init__(self, at: float, task: Any) -> None:
        self.at, self.task, self.expired = at, task, False


class Deadlines:
    """The deadlines of one loop and one duration, in order, behind a single timer."""

    __slots__ = ("_active", "_loop", "_seconds", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop, self._seconds = loop, seconds
        self._active: dict[Deadline, None] = {}
        self._timer: Any = None

    def start(self, task: Any) -> Deadline:
        """Give *task* the duration from now; it is cancelled when that has passed."""
        made = Deadline(self._loop.time() + self._seconds, task)
        self._active[made] = None
        if self._timer is None:
            self._timer = self._loop.call_at(made.at, self._ring)
        return made

    def stop(self, deadline: Deadline) -> None:
        """Forget a deadline."""
        self._active.pop(deadline, None)

    def _ring(self) -> None:
        self._timer, now = None, self._loop.time()
        for deadline in list(self._active):
            if deadline.at > now:
                self._timer = self._loop.call_at(deadline.at, self._ring)
                return
            del self._active[deadline]
            deadline.expired = True
            deadline.task.cancel()


_deadlines: WeakKeyDictionary[Any, dict[float, Deadlines]] = WeakKeyDictionary()


def deadlines(loop: asyncio.AbstractEventLoop, seconds: float) -> Deadlines:
    """Return the loop's timer for calls that may take *seconds*."""
    mine = _deadlines.get(loop)
    if mine is None:
        mine = _deadlines[loop] = {}
    found = mine.get(seconds)
    if found is None:
        found = mine[seconds] = Deadlines(loop, seconds)
    return found
