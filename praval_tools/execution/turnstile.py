"""Lets a tool that is not concurrency-safe run alone in its registry."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

from praval_tools.errors import ToolUsageError
from praval_tools.execution.frames import Frame, frames
from praval_tools.execution.gauges import Gauges
from praval_tools.execution.loops import loop_runs_here

_within: ContextVar[Turnstile | None] = ContextVar("praval_tools_alone", default=None)
_POLL = 0.002


class Turnstile:
    """
    One tool alone at a time: new calls wait while it is closed, and it opens for the lone call once nobody is inside.

    A call that waits for its turn, and all that it was called from, do not count as inside: they cannot go on
    before it has had its turn. Calls from inside of a running tool are not held up, for the same reason.
    """

    def __init__(self, gauges: Gauges, closing: Callable[[], None]) -> None:
        self.closed = 0
        self._gauges, self._closing = gauges, closing
        self._turn = threading.Lock()
        self._count = threading.Lock()
        self._waiting = 0

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the registry for one sync call; waits until nobody is inside."""
        if _within.get() is self:
            yield
            return
        depth = self._arrive()
        try:
            if not self._turn.acquire(blocking=not loop_runs_here()):
                raise _would_block()
            try:
                self._wait()
                yield from self._held()
            finally:
                self._turn.release()
        finally:
            self._leave(depth)

    @asynccontextmanager
    async def aalone(self) -> AsyncIterator[None]:
        """Hold the registry for one async call; waits without blocking the loop."""
        if _within.get() is self:
            yield
            return
        import asyncio

        depth = self._arrive()
        try:
            while not self._turn.acquire(blocking=False):
                await asyncio.sleep(_POLL)
            try:
                while self._busy():
                    await asyncio.sleep(_POLL)
                token = _within.set(self)
                try:
                    yield
                finally:
                    _within.reset(token)
            finally:
                self._turn.release()
        finally:
            self._leave(depth)

    def pass_through(self) -> None:
        """Wait, as an ordinary sync call, until nobody needs the registry for itself."""
        if not self.holds_up():
            return
        if loop_runs_here():
            raise _would_block()
        pause = threading.Event()
        while self.closed:
            pause.wait(_POLL)

    async def apass_through(self) -> None:
        """Wait, as an ordinary async call, until nobody needs the registry for itself."""
        if not self.holds_up():
            return
        import asyncio

        while self.closed:
            await asyncio.sleep(_POLL)

    def holds_up(self) -> bool:
        """Tell whether an ordinary call of this context has to wait; asked again once its gauge is raised."""
        return bool(self.closed) and _within.get() is not self and _depth() == 0

    def _held(self) -> Iterator[None]:
        token = _within.set(self)
        try:
            yield
        finally:
            _within.reset(token)

    def _arrive(self) -> int:
        depth = _depth()
        with self._count:
            self.closed += 1
            self._waiting += depth
        self._closing()
        return depth

    def _leave(self, depth: int) -> None:
        with self._count:
            self.closed -= 1
            self._waiting -= depth

    def _busy(self) -> bool:
        return self._gauges.inside() > self._waiting

    def _wait(self) -> None:
        pause = threading.Event()
        while self._busy():
            if loop_runs_here():
                raise _would_block()
            pause.wait(_POLL)


def _would_block() -> ToolUsageError:
    return ToolUsageError(
        "A tool that must run alone keeps this sync call waiting, and an event loop runs in this thread: "
        "await acall (or aexecute) instead.",
        "sync-call-in-event-loop",
    )


def _depth() -> int:
    """Return how many calls of this context are inside their tools."""
    frame: Frame | None = frames.get()
    depth = 0
    while frame is not None:
        depth += frame.site.tool is not None
        frame = frame.parent
    return depth
