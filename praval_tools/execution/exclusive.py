"""Lets a tool that is not concurrency-safe run alone in its registry: other calls wait for it, and it for them."""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import chain
from time import monotonic

from praval_tools.errors import ToolUsageError
from praval_tools.execution.context import ENDED, Frame, iter_active_calls, iter_active_frames
from praval_tools.execution.event_loops import is_event_loop_running
from praval_tools.execution.in_flight import InFlightCounters
from praval_tools.tools.plain_managers import plain_async_manager, plain_manager

_POLL_SECONDS = 0.002


class ExclusiveGate:
    """
    Runs exclusive calls one at a time: new calls wait while it is closed, until no other call is in flight.

    The calls from inside which an exclusive call was made do not count as in flight: they cannot go on before it
    has ended. Nor do those from inside which a call waits for the end of another one. For the same reason calls from
    inside a running tool pass until the exclusive call runs, and the calls that it makes itself pass all the time; an
    exclusive call from inside another one takes its place until it has ended.
    """

    def __init__(
        self, in_flight: InFlightCounters, on_close: Callable[[], None], registry: object, timeout: float | None
    ) -> None:
        self._in_flight, self._on_close, self._registry, self.timeout = in_flight, on_close, registry, timeout
        self._lock = threading.RLock()  # entered itself: an interrupt may come inside of `Condition.__enter__`
        self._condition = threading.Condition(self._lock)
        self._waiters: dict[int, tuple[Frame, ...]] = {}
        self._callers_aside: dict[object, tuple[Frame, ...]] = {}
        self._holders: tuple[Frame, ...] = ()

    def reset_after_fork(self, frames: list[Frame]) -> None:
        """Keep, in a forked process, the turns of this thread's *frames* alone."""
        self._lock = threading.RLock()
        self._condition = threading.Condition(self._lock)
        self._waiters = {id(frame): outer for frame in frames if (outer := self._waiters.get(id(frame))) is not None}
        self._callers_aside = {}
        self._holders = tuple(holder for holder in self._holders if any(holder is frame for frame in frames))

    @property
    def is_closed(self) -> bool:
        """Whether an exclusive call waits or runs."""
        return bool(self._waiters)

    @plain_manager
    def hold_exclusively(self, frame: Frame) -> Iterator[None]:
        """Hold the registry for the sync call of *frame*; waits until no other call is in flight."""
        try:
            self._add_waiter(frame)
            deadline = self._compute_deadline()
            while not self._try_acquire(frame):
                if is_event_loop_running():
                    raise _make_event_loop_error()
                _check_deadline(deadline)
                self._wait_for_change()
            yield
        finally:
            self._release(frame)

    @plain_async_manager
    async def hold_exclusively_async(self, frame: Frame) -> AsyncIterator[None]:
        """Hold the registry for the async call of *frame*; waits without blocking the loop."""
        import asyncio

        try:
            self._add_waiter(frame)
            deadline = self._compute_deadline()
            while not self._try_acquire(frame):
                _check_deadline(deadline)
                await asyncio.sleep(_POLL_SECONDS)
            yield
        finally:
            self._release(frame)

    @plain_manager
    def stand_aside(self) -> Iterator[None]:
        """Let exclusive calls run while a call of this context waits for another; `wait_until_open` comes after it."""
        key = object()
        try:
            with self._lock:
                self._callers_aside[key] = tuple(iter_active_calls(self._registry))
            yield
        finally:
            with self._lock:
                self._callers_aside.pop(key, None)

    def wait_until_open(self) -> None:
        """Wait, as an ordinary sync call, until no exclusive call waits or runs."""
        if not self.blocks_caller():
            return
        deadline = self._compute_deadline()
        while self.blocks_caller():
            if is_event_loop_running():
                raise _make_event_loop_error()
            _check_deadline(deadline)
            self._wait_for_change()

    async def wait_until_open_async(self) -> None:
        """Wait, as an ordinary async call, until no exclusive call waits or runs."""
        if not self.blocks_caller():
            return
        import asyncio

        deadline = self._compute_deadline()
        while self.blocks_caller():
            _check_deadline(deadline)
            await asyncio.sleep(_POLL_SECONDS)

    def blocks_caller(self) -> bool:
        """Tell whether an ordinary call of this context has to wait; asked again once it is counted as in flight."""
        if not self._waiters:
            return False
        holders = self._holders
        if holders:
            return not _is_active(holders[-1])
        return not any(iter_active_calls(self._registry))

    def _compute_deadline(self) -> float:
        return math.inf if self.timeout is None else monotonic() + self.timeout

    def _wait_for_change(self) -> None:
        with self._lock:
            self._condition.wait(_POLL_SECONDS)

    def _add_waiter(self, frame: Frame) -> None:
        with self._lock:
            self._waiters[id(frame)] = tuple(iter_active_calls(self._registry))
        self._on_close()

    def _try_acquire(self, frame: Frame) -> bool:
        """Take the turn for *frame* if no calls are in flight but those that wait for such a turn."""
        with self._lock:
            before = self._holders
            if (before and not _is_active(before[-1])) or self._has_other_calls():
                return False
            self._holders = (*before, frame)
            if self._has_other_calls():  # a call was counted that did not see yet who runs
                self._holders = before
                return False
            return True

    def _release(self, frame: Frame) -> None:
        with self._lock:
            self._waiters.pop(id(frame), None)
            self._holders = tuple(holder for holder in self._holders if holder is not frame)
            self._condition.notify_all()

    def _has_other_calls(self) -> bool:
        callers = chain(self._waiters.values(), self._callers_aside.values())
        waiting = {id(frame) for outer in callers for frame in outer if not frame[ENDED]}
        return self._in_flight.count_in_flight() > len(waiting)


class ExclusiveTimeoutError(Exception):
    """An exclusive call held the registry for longer than a call waits."""


def _check_deadline(deadline: float) -> None:
    if monotonic() > deadline:
        raise ExclusiveTimeoutError


def _is_active(frame: Frame) -> bool:
    return any(active is frame for active in iter_active_frames())


def _make_event_loop_error() -> ToolUsageError:
    return ToolUsageError(
        "A tool that must run alone keeps this sync call waiting, and an event loop runs in this thread: "
        "await acall (or aexecute) instead.",
        "sync-call-in-event-loop",
    )
