"""Counts the calls that are in flight: inside of their functions now."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Final
from weakref import WeakValueDictionary

_MAX_RETAINED: Final = 1_024
_PLACEHOLDERS: Final = (None,) * 4


class InFlightCounter(list[None]):
    """
    One entry for each call of one agent to one tool that is in flight, and a few placeholders.

    A list, since its `append` and `pop` are atomic and the cheapest count that threads can share.
    The placeholders keep Python from freeing its memory, and allocating it again, with every call.
    """

    __slots__ = ("__weakref__", "agent", "tool")

    def __init__(self, agent: str | None, tool: str) -> None:
        super().__init__(_PLACEHOLDERS)
        self.agent, self.tool = agent, tool

    @property
    def in_flight(self) -> int:
        """How many calls are in flight."""
        return len(self) - len(_PLACEHOLDERS)

    __hash__ = object.__hash__  # type: ignore[assignment]


class InFlightCounters:
    """The counters of one registry; each lives as long as somebody holds it, those of recent calls longer."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._counters: WeakValueDictionary[tuple[str | None, str], InFlightCounter] = WeakValueDictionary()
        self._retained: dict[tuple[str | None, str], InFlightCounter] = {}

    def reset_after_fork(self, calls: Iterable[tuple[str | None, str]]) -> None:
        """Count, in a forked process, only the *calls* of this thread: the agent and tool of each."""
        self._lock = threading.RLock()
        for counter in self._counters.values():
            counter[:] = _PLACEHOLDERS
        for agent, tool in calls:
            self.get_counter(agent, tool).append(None)

    def get_counter(self, agent: str | None, tool: str) -> InFlightCounter:
        """Return the counter of *agent* and *tool*."""
        retained = self._retained.get((agent, tool))
        if retained is not None:
            return retained
        with self._lock:
            counter = self._counters.get((agent, tool))
            if counter is None:
                counter = self._counters[agent, tool] = InFlightCounter(agent, tool)
            if len(self._retained) >= _MAX_RETAINED:
                self._retained.clear()
            self._retained[agent, tool] = counter
            return counter

    def count_in_flight(self, agent: str | None = None, tool: str | None = None) -> int:
        """Count the calls in flight: of one agent, of one tool, or all."""
        with self._lock:
            counters = list(self._counters.values())
        return sum(
            counter.in_flight
            for counter in counters
            if (agent is None or counter.agent == agent) and (tool is None or counter.tool == tool)
        )

    def drain(self, agent: str | None, tool: str | None, timeout: float | None, own: int = 0) -> int:
        """
        Wait at most *timeout* seconds until no calls are in flight but the caller's *own*.

        Returns:
            How many other calls are still in flight.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = threading.Event()
        while (left := self.count_in_flight(agent, tool) - own) > 0 and (
            deadline is None or time.monotonic() < deadline
        ):
            pause.wait(0.001)
        return max(left, 0)
