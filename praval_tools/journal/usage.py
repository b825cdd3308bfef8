"""What is known of the use of one tool, or of one tool by one agent."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any, Final

from praval_tools.journal.quantile_sketch import QuantileSketch
from praval_tools.tools.call import Outcome

STATS_VERSION: Final = 1
"""Of the JSON of a file."""

_NANOSECONDS_PER_MS: Final = 1_000_000
_OK: Final = Outcome.OK
_MAX_MS: Final = 1e12


class UsageCounts:
    """Counts, times and durations; equal for equal calls in any order, since durations are whole nanoseconds."""

    __slots__ = ("_failures", "_first_used", "_last_used", "_successes", "_total_ns")

    def __init__(self) -> None:
        self._successes = self._total_ns = 0
        self._failures: dict[Outcome, int] = {}
        self._first_used: datetime | None = None
        self._last_used: datetime | None = None

    def add(self, outcome: Outcome, duration_ms: float | None, when: datetime) -> None:
        """Count one call; of a duration that is no number, or negative since a clock was set, zero counts."""
        first, last = self._first_used, self._last_used
        if first is None or last is None:
            self._first_used = self._last_used = when
        elif when > last:
            self._last_used = when
        elif when < first:
            self._first_used = when
        if outcome is not _OK:  # enum members hash slowly, and most calls end well
            self._failures[outcome] = self._failures.get(outcome, 0) + 1
            return
        self._successes += 1
        if duration_ms is not None and duration_ms > 0:
            self._total_ns += int(min(duration_ms, _MAX_MS) * _NANOSECONDS_PER_MS + 0.5)

    def merge(self, other: UsageCounts) -> None:
        """Count the calls of *other*, too."""
        self._successes += other._successes
        self._total_ns += other._total_ns
        for outcome, count in other._failures.items():
            self._failures[outcome] = self._failures.get(outcome, 0) + count
        if other._first_used is not None and (self._first_used is None or other._first_used < self._first_used):
            self._first_used = other._first_used
        if other._last_used is not None and (self._last_used is None or other._last_used > self._last_used):
            self._last_used = other._last_used

    def summarize(self) -> dict[str, Any]:
        """
        Return it under the seed's names, as JSON values.

        `avg_duration_ms` is of the successful calls, None where there are none.
        """
        successes, failures = self._successes, sum(self._failures.values())
        outcomes = {_OK: successes, **self._failures}
        return {
            "uses": successes + failures,
            "successes": successes,
            "failures": failures,
            "outcomes": {one.value: outcomes[one] for one in Outcome if outcomes.get(one)},
            "first_used": self._first_used.isoformat() if self._first_used else None,
            "last_used": self._last_used.isoformat() if self._last_used else None,
            "total_duration_ms": self._total_ns / _NANOSECONDS_PER_MS,
            "avg_duration_ms": self._total_ns / _NANOSECONDS_PER_MS / successes if successes else None,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` makes the same of; the derived figures stand in it for human readers."""
        return {**self.summarize(), "total_duration_ns": self._total_ns}

    @classmethod
    def from_dict(cls, given: Any) -> UsageCounts:
        """
        Return what `to_dict` described.

        Raises:
            ValueError: It describes none.
        """
        made = cls()
        outcomes, total = _get_member(given, "outcomes", dict), _get_member(given, "total_duration_ns", int)
        if not all(type(one) is int and one > 0 for one in outcomes.values()) or total < 0 or not outcomes:
            raise ValueError("calls and nanoseconds are counted in whole numbers")
        counts = {Outcome(name): count for name, count in outcomes.items()}
        made._successes, made._failures = counts.pop(_OK, 0), counts
        made._first_used, made._last_used = _get_time(given), _get_time(given, "last_used")
        made._total_ns = total
        return made


class ToolUsage:
    """What is known of the use of one tool: by agent, and the durations of all successful calls."""

    __slots__ = ("agents", "sketch")

    def __init__(self) -> None:
        self.agents: dict[str, UsageCounts] = {}
        self.sketch = QuantileSketch()

    def summarize(self) -> dict[str, Any]:
        """Return the figures of all agents together, with quantiles; None where no call told its duration."""
        whole = UsageCounts()
        for one in self.agents.values():
            whole.merge(one)
        shares = (("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99))
        return {**whole.summarize(), **{name: self.sketch.quantile(share) for name, share in shares}}

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` makes the same of; the figures of the whole stand in it for human readers."""
        agents = {name: one.to_dict() for name, one in sorted(self.agents.items())}
        return {**self.summarize(), "agents": agents, "sketch": self.sketch.to_dict()}

    @classmethod
    def from_dict(cls, given: Any) -> ToolUsage:
        """
        Return what `to_dict` described.

        Raises:
            ValueError: It describes none.
        """
        made = cls()
        made.agents = {name: UsageCounts.from_dict(one) for name, one in _get_member(given, "agents", dict).items()}
        if not made.agents:
            raise ValueError("somebody used each tool")
        made.sketch = QuantileSketch.from_dict(_get_member(given, "sketch", dict))
        return made


def _get_member(given: Any, name: str, kind: type) -> Any:
    found = given.get(name) if type(given) is dict else None
    if type(found) is not kind:
        raise ValueError(f"{name} is missing, or no {kind.__name__}")
    return found


def parse_tools(content: Any) -> dict[str, ToolUsage]:
    """
    Return the tools that the JSON of a file of this version describes.

    Raises:
        ValueError: It is none.
    """
    if _get_member(content, "v", int) != STATS_VERSION:
        raise ValueError(f"it is of version {content['v']}, and this release reads {STATS_VERSION}")
    return {name: ToolUsage.from_dict(one) for name, one in _get_member(content, "tools", dict).items()}


def _get_time(given: Any, name: str = "first_used") -> datetime:
    moment = datetime.fromisoformat(_get_member(given, name, str))
    if moment.tzinfo is None:
        raise ValueError(f"{name} has no time zone")
    return moment.astimezone(UTC)


def is_duration(value: Any) -> bool:
    """Tell whether *value* can be a duration: None, or a number from 0 on."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf)
