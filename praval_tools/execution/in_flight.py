"""Which calls are inside their functions now."""

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
    One entry for each call of one agent to one tool that is inside now, and a few more.

    A list, since its `append` and `pop` are atomic and the cheapest count that threads can share.
    Those that it always has keep Python from giving its memory back, and taking it anew, with every call.
    """

    __slots__ = ("__weakref__", "agent", "tool")

    def __init__(self, agent: str | None, tool: str) -> None:
        super().__init__(_PLACEHOLDERS)
        self.agent, self.tool = agent, tool

    @property
    def in_flight(self) -> int:
        """How many calls are inside."""
        return len(self) - len(_PLACEHOLDERS)

    __hash__ = object.__hash__  # type: ignore[assignment]


class InFlightCounters:
    """The gauges of one registry; a gauge lives as long as somebody holds it, and those of late calls longer."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._counters: WeakValueDictionary[tuple[str | None, str], InFlightCounter] = WeakValueDictionary()
        self._retained: dict[tuple[str | None, str], InFlightCounter] = {}

    def reset_after_fork(self, mine: Iterable[tuple[str | None, str]]) -> None:
        """Count, in a forked process, the calls of this thread alone."""
        self._lock = threading.RLock()
        for gauge in self._counters.values():
            gauge[:] = _PLACEHOLDERS
        for agent, tool in mine:
            self.get_counter(agent, tool).append(None)

    def get_counter(self, agent: str | None, tool: str) -> InFlightCounter:
        """Return the gauge of *agent* and *tool*."""
        late = self._retained.get((agent, tool))
        if late is not None:
            return late
        with self._lock:
            found = self._counters.get((agent, tool))
            if found is None:
                found = self._counters[agent, tool] = InFlightCounter(agent, tool)
            if len(self._retained) >= _MAX_RETAINED:
                self._retained.clear()
            self._retained[agent, tool] = found
            return found

    def count_in_flight(self, agent: str | None = None, tool: str | None = None) -> int:
        """Count the calls inside, of one agent, of one tool, or all."""
        with self._lock:
            gauges = list(self._counters.values())
        return sum(
            one.in_flight
            for one in gauges
            if (agent is None or one.agent == agent) and (tool is None or one.tool == tool)
        )

    def drain(self, agent: str | None, tool: str | None, timeout: float | None, own: int = 0) -> int:
        """Wait until nobody is inside but the caller's *own* calls, at most *timeout* seconds; return how many are."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = threading.Event()
        while (left := self.count_in_flight(agent, tool) - own) > 0 and (
            deadline is None or time.monotonic() < deadline
        ):
            pause.wait(0.001)
        return max(left, 0)
