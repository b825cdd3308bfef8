"""Lets a tool that is not concurrency-safe run alone in its registry."""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from time import monotonic
from typing import Any

from praval_tools.errors import ToolUsageError
from praval_tools.execution.context import OVER, Frame, calls_inside, live
from praval_tools.execution.event_loops import loop_runs_here
from praval_tools.execution.in_flight import Gauges

_POLL = 0.002


class Turnstile:
    """
    One tool alone at a time: new calls wait while it is closed, and the lone call runs once nobody else is inside.

    The calls that a lone call was called from do not count as inside: they cannot go on before it has had its turn.
    For the same reason calls from inside of a running tool pass until the lone call runs, and what the lone call
    itself calls passes all the time; a lone call from inside of a lone call takes its place until it is done.
    """

    def __init__(self, gauges: Gauges, closing: Callable[[], None], home: Any, patience: float | None) -> None:
        self._gauges, self._closing, self._home, self._patience = gauges, closing, home, patience
        self._changed = threading.Condition()
        self._tickets: dict[int, tuple[Frame, ...]] = {}
        self._turns: tuple[Frame, ...] = ()

    def start_over(self, mine: list[Frame]) -> None:
        """Keep, in a forked process, the turns of this thread alone."""
        self._changed = threading.Condition()
        self._tickets = {id(one): held for one in mine if (held := self._tickets.get(id(one))) is not None}
        self._turns = tuple(turn for turn in self._turns if any(turn is one for one in mine))

    @property
    def closed(self) -> bool:
        """Whether a lone call waits or runs."""
        return bool(self._tickets)

    @contextmanager
    def alone(self, frame: Frame) -> Iterator[None]:
        """Hold the registry for the sync call of *frame*; waits until nobody else is inside."""
        try:
            self._arrive(frame)
            until = self._until()
            while not self._takes(frame):
                if loop_runs_here():
                    raise _would_block()
                _refuse_after(until)
                self._wait()
            yield
        finally:
            self._leave(frame)

    @asynccontextmanager
    async def aalone(self, frame: Frame) -> AsyncIterator[None]:
        """Hold the registry for the async call of *frame*; waits without blocking the loop."""
        import asyncio

        try:
            self._arrive(frame)
            until = self._until()
            while not self._takes(frame):
                _refuse_after(until)
                await asyncio.sleep(_POLL)
            yield
        finally:
            self._leave(frame)

    def pass_through(self) -> None:
        """Wait, as an ordinary sync call, until nobody needs the registry for itself."""
        if not self.holds_up():
            return
        until = self._until()
        while self.holds_up():
            if loop_runs_here():
                raise _would_block()
            _refuse_after(until)
            self._wait()

    async def apass_through(self) -> None:
        """Wait, as an ordinary async call, until nobody needs the registry for itself."""
        if not self.holds_up():
            return
        import asyncio

        until = self._until()
        while self.holds_up():
            _refuse_after(until)
            await asyncio.sleep(_POLL)

    def holds_up(self) -> bool:
        """Tell whether an ordinary call of this context has to wait; asked again once its gauge is raised."""
        if not self._tickets:
            return False
        turns = self._turns
        if turns:
            return not _is_live(turns[-1])
        return not any(calls_inside(self._home))

    def _until(self) -> float:
        return math.inf if self._patience is None else monotonic() + self._patience

    def _wait(self) -> None:
        with self._changed:
            self._changed.wait(_POLL)

    def _arrive(self, frame: Frame) -> None:
        with self._changed:
            self._tickets[id(frame)] = tuple(calls_inside(self._home))
        self._closing()

    def _takes(self, frame: Frame) -> bool:
        """Take the turn for *frame* if nobody is inside but those who wait for such a turn."""
        with self._changed:
            before = self._turns
            if (before and not _is_live(before[-1])) or self._busy():
                return False
            self._turns = (*before, frame)
            if self._busy():  # somebody raised a gauge and did not see yet who runs
                self._turns = before
                return False
            return True

    def _leave(self, frame: Frame) -> None:
        with self._changed:
            self._tickets.pop(id(frame), None)
            self._turns = tuple(one for one in self._turns if one is not frame)
            self._changed.notify_all()

    def _busy(self) -> bool:
        waiting = {id(one) for held in self._tickets.values() for one in held if not one[OVER]}
        return self._gauges.inside() > len(waiting)


class NoTurnError(Exception):
    """The registry was held by a lone call for as long as anybody waits."""


def _refuse_after(until: float) -> None:
    if monotonic() > until:
        raise NoTurnError


def _is_live(frame: Frame) -> bool:
    return any(one is frame for one in live())


def _would_block() -> ToolUsageError:
    return ToolUsageError(
        "A tool that must run alone keeps this sync call waiting, and an event loop runs in this thread: "
        "await acall (or aexecute) instead.",
        "sync-call-in-event-loop",
    )
