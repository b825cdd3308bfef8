"""Which calls are inside their functions now."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Final
from weakref import WeakValueDictionary

_MOST_LATE: Final = 1_024
_IDLE: Final = (None,) * 4


class Gauge(list[None]):
    """
    One entry for each call of one agent to one tool that is inside now, and a few more.

    A list, since its `append` and `pop` are atomic and the cheapest count that threads can share.
    Those that it always has keep Python from giving its memory back, and taking it anew, with every call.
    """

    __slots__ = ("__weakref__", "agent", "tool")

    def __init__(self, agent: str | None, tool: str) -> None:
        super().__init__(_IDLE)
        self.agent, self.tool = agent, tool

    @property
    def inside(self) -> int:
        """How many calls are inside."""
        return len(self) - len(_IDLE)

    __hash__ = object.__hash__  # type: ignore[assignment]


class Gauges:
    """The gauges of one registry; a gauge lives as long as somebody holds it, and those of late calls longer."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._gauges: WeakValueDictionary[tuple[str | None, str], Gauge] = WeakValueDictionary()
        self._late: dict[tuple[str | None, str], Gauge] = {}

    def start_over(self, mine: Iterable[tuple[str | None, str]]) -> None:
        """Count, in a forked process, the calls of this thread alone."""
        self._lock = threading.RLock()
        for gauge in self._gauges.values():
            gauge[:] = _IDLE
        for agent, tool in mine:
            self.of(agent, tool).append(None)

    def of(self, agent: str | None, tool: str) -> Gauge:
        """Return the gauge of *agent* and *tool*."""
        late = self._late.get((agent, tool))
        if late is not None:
            return late
        with self._lock:
            found = self._gauges.get((agent, tool))
            if found is None:
                found = self._gauges[agent, tool] = Gauge(agent, tool)
            if len(self._late) >= _MOST_LATE:
                self._late.clear()
            self._late[agent, tool] = found
            return found

    def inside(self, agent: str | None = None, tool: str | None = None) -> int:
        """Count the calls inside, of one agent, of one tool, or all."""
        with self._lock:
            gauges = list(self._gauges.values())
        return sum(
            one.inside for one in gauges if (agent is None or one.agent == agent) and (tool is None or one.tool == tool)
        )

    def drain(self, agent: str | None, tool: str | None, timeout: float | None, own: int = 0) -> int:
        """Wait until nobody is inside but the caller's *own* calls, at most *timeout* seconds; return how many are."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = threading.Event()
        while (left := self.inside(agent, tool) - own) > 0 and (deadline is None or time.monotonic() < deadline):
            pause.wait(0.001)
        return max(left, 0)
