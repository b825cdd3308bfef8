"""Counts the calls that are in flight, by agent and tool, and waits until there are none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias
from weakref import WeakValueDictionary

_MAX_RETAINED: Final = 1_024
_PLACEHOLDERS: Final = (None,) * 4
_CounterKey: TypeAlias = tuple[tuple[str, ...], str]


class InFlightCounter(list[None]):
    """
    One entry for each call of principals with the same members to one tool that is in flight, and a few placeholders.

    A list, since its `append` and `pop` are atomic and the cheapest count that threads can share.
    The placeholders keep Python from freeing its memory, and allocating it again, with every call.
    """

    __slots__ = ("__weakref__", "members", "tool")

    def __init__(self, members: tuple[str, ...], tool: str) -> None:
        super().__init__(_PLACEHOLDERS)
        self.members, self.tool = members, tool

    @property
    def in_flight(self) -> int:
        """How many calls are in flight."""
        return len(self) - len(_PLACEHOLDERS)

    def reset(self, count: int) -> None:
        """Count so many calls."""
        self[:] = (*_PLACEHOLDERS, *(None,) * count)

    __hash__ = object.__hash__  # type: ignore[assignment]


class InFlightCounters:
    """The counters of one registry; each lives as long as somebody holds it, those of recent calls longer."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._counters: WeakValueDictionary[_CounterKey, InFlightCounter] = WeakValueDictionary()
        self._retained: dict[_CounterKey, InFlightCounter] = {}

    def reset_after_fork(self, calls: Iterable[_CounterKey]) -> None:
        """Count, in a forked process, only the *calls* of this thread: members and tool of each."""
        self._lock = threading.RLock()
        for counter in self._counters.values():
            counter.reset(0)
        for members, tool in calls:
            self.get_counter(members, tool).append(None)

    def get_counter(self, members: tuple[str, ...], tool: str) -> InFlightCounter:
        """Return the counter of the calls of *tool* by principals with these *members*; none for the operator."""
        retained = self._retained.get((members, tool))
        if retained is not None:
            return retained
        with self._lock:
            counter = self._counters.get((members, tool))
            if counter is None:
                counter = self._counters[members, tool] = InFlightCounter(members, tool)
            if len(self._retained) >= _MAX_RETAINED:
                self._retained.clear()
            self._retained[members, tool] = counter
            return counter

    def count_in_flight(self, agent: str | None = None, tool: str | None = None) -> int:
        """Count the calls in flight: of one agent and on its behalf, of one tool, or all."""
        with self._lock:
            counters = list(self._counters.values())
        return sum(
            counter.in_flight
            for counter in counters
            if (agent is None or agent in counter.members) and (tool is None or counter.tool == tool)
        )


def wait_until_none(count: Callable[[], int], timeout: float | None) -> int:
    """Wait at most *timeout* seconds until *count* returns 0 or less; return what it returned last, 0 at least."""
    deadline = None if timeout is None else time.monotonic() + timeout
    pause = threading.Event()
    while (left := count()) > 0 and (deadline is None or time.monotonic() < deadline):
        pause.wait(0.001)
    return max(left, 0)
