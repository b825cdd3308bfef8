"""Which calls are inside their functions now."""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary


class Gauge(list[None]):
    """
    One entry for each call of one agent to one tool that is inside now.

    A list, since its `append` and `pop` are atomic and the cheapest count that threads can share.
    """

    __slots__ = ("__weakref__", "agent", "tool")

    def __init__(self, agent: str | None, tool: str) -> None:
        super().__init__()
        self.agent, self.tool = agent, tool

    __hash__ = object.__hash__  # type: ignore[assignment]


class Gauges:
    """The gauges of one registry; a gauge lives as long as somebody holds it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gauges: WeakValueDictionary[tuple[str | None, str], Gauge] = WeakValueDictionary()

    def of(self, agent: str | None, tool: str) -> Gauge:
        """Return the gauge of *agent* and *tool*."""
        with self._lock:
            found = self._gauges.get((agent, tool))
            if found is None:
                found = self._gauges[agent, tool] = Gauge(agent, tool)
            return found

    def inside(self, agent: str | None = None, tool: str | None = None) -> int:
        """Count the calls inside, of one agent, of one tool, or all."""
        with self._lock:
            gauges = list(self._gauges.values())
        return sum(
            len(one) for one in gauges if (agent is None or one.agent == agent) and (tool is None or one.tool == tool)
        )
