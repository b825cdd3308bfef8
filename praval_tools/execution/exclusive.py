"""Lets a tool that is not concurrency-safe run alone in its registry."""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from time import monotonic
from typing import Any

from praval_tools.errors import ToolUsageError
from praval_tools.execution.context import ENDED, Frame, iter_active_calls, iter_active_frames
from praval_tools.execution.event_loops import is_event_loop_running
from praval_tools.execution.in_flight import InFlightCounters

_POLL_SECONDS = 0.002


class ExclusiveGate:
    """
    One tool alone at a time: new calls wait while it is closed, and the lone call runs once nobody else is inside.

    The calls that a lone call was called from do not count as inside: they cannot go on before it has had its turn.
    For the same reason calls from inside of a running tool pass until the lone call runs, and what the lone call
    itself calls passes all the time; a lone call from inside of a lone call takes its place until it is done.
    """

    def __init__(
        self, gauges: InFlightCounters, closing: Callable[[], None], home: Any, patience: float | None
    ) -> None:
        self._in_flight, self._on_close, self._registry, self._timeout = gauges, closing, home, patience
        self._condition = threading.Condition()
        self._waiters: dict[int, tuple[Frame, ...]] = {}
        self._holders: tuple[Frame, ...] = ()

    def reset_after_fork(self, mine: list[Frame]) -> None:
        """Keep, in a forked process, the turns of this thread alone."""
        self._condition = threading.Condition()
        self._waiters = {id(one): held for one in mine if (held := self._waiters.get(id(one))) is not None}
        self._holders = tuple(turn for turn in self._holders if any(turn is one for one in mine))

    @property
    def is_closed(self) -> bool:
        """Whether a lone call waits or runs."""
        return bool(self._waiters)

    @contextmanager
    def hold_exclusively(self, frame: Frame) -> Iterator[None]:
        """Hold the registry for the sync call of *frame*; waits until nobody else is inside."""
        try:
            self._add_waiter(frame)
            until = self._compute_deadline()
            while not self._try_acquire(frame):
                if is_event_loop_running():
                    raise _make_event_loop_error()
                _check_deadline(until)
                self._wait_for_change()
            yield
        finally:
            self._release(frame)

    @asynccontextmanager
    async def hold_exclusively_async(self, frame: Frame) -> AsyncIterator[None]:
        """Hold the registry for the async call of *frame*; waits without blocking the loop."""
        import asyncio

        try:
            self._add_waiter(frame)
            until = self._compute_deadline()
            while not self._try_acquire(frame):
                _check_deadline(until)
                await asyncio.sleep(_POLL_SECONDS)
            yield
        finally:
            self._release(frame)

    def wait_until_open(self) -> None:
        """Wait, as an ordinary sync call, until nobody needs the registry for itself."""
        if not self.blocks_caller():
            return
        until = self._compute_deadline()
        while self.blocks_caller():
            if is_event_loop_running():
                raise _make_event_loop_error()
            _check_deadline(until)
            self._wait_for_change()

    async def wait_until_open_async(self) -> None:
        """Wait, as an ordinary async call, until nobody needs the registry for itself."""
        if not self.blocks_caller():
            return
        import asyncio

        until = self._compute_deadline()
        while self.blocks_caller():
            _check_deadline(until)
            await asyncio.sleep(_POLL_SECONDS)

    def blocks_caller(self) -> bool:
        """Tell whether an ordinary call of this context has to wait; asked again once its gauge is raised."""
        if not self._waiters:
            return False
        turns = self._holders
        if turns:
            return not _is_active(turns[-1])
        return not any(iter_active_calls(self._registry))

    def _compute_deadline(self) -> float:
        return math.inf if self._timeout is None else monotonic() + self._timeout

    def _wait_for_change(self) -> None:
        with self._condition:
            self._condition.wait(_POLL_SECONDS)

    def _add_waiter(self, frame: Frame) -> None:
        with self._condition:
            self._waiters[id(frame)] = tuple(iter_active_calls(self._registry))
        self._on_close()

    def _try_acquire(self, frame: Frame) -> bool:
        """Take the turn for *frame* if nobody is inside but those who wait for such a turn."""
        with self._condition:
            before = self._holders
            if (before and not _is_active(before[-1])) or self._has_other_calls():
                return False
            self._holders = (*before, frame)
            if self._has_other_calls():  # somebody raised a gauge and did not see yet who runs
                self._holders = before
                return False
            return True

    def _release(self, frame: Frame) -> None:
        with self._condition:
            self._waiters.pop(id(frame), None)
            self._holders = tuple(one for one in self._holders if one is not frame)
            self._condition.notify_all()

    def _has_other_calls(self) -> bool:
        waiting = {id(one) for held in self._waiters.values() for one in held if not one[ENDED]}
        return self._in_flight.count_in_flight() > len(waiting)


class ExclusiveTimeoutError(Exception):
    """The registry was held by a lone call for as long as anybody waits."""


def _check_deadline(until: float) -> None:
    if monotonic() > until:
        raise ExclusiveTimeoutError


def _is_active(frame: Frame) -> bool:
    return any(one is frame for one in iter_active_frames())


def _make_event_loop_error() -> ToolUsageError:
    return ToolUsageError(
        "A tool that must run alone keeps this sync call waiting, and an event loop runs in this thread: "
        "await acall (or aexecute) instead.",
        "sync-call-in-event-loop",
    )
