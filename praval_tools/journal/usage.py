"""What is known of the use of one tool, or of one tool by one agent."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any, Final

from praval_tools.journal.quantile_sketch import Sketch
from praval_tools.tools.call import Outcome

VERSION: Final = 1
"""Of the JSON of a file."""

_NANOSECONDS: Final = 1_000_000
_OK: Final = Outcome.OK
_MOST_MS: Final = 1e12


class Usage:
    """Counts, times and durations; equal for equal calls in any order, since durations are whole nanoseconds."""

    __slots__ = ("_failures", "_first", "_last", "_successes", "_total")

    def __init__(self) -> None:
        self._successes = self._total = 0
        self._failures: dict[Outcome, int] = {}
        self._first: datetime | None = None
        self._last: datetime | None = None

    def add(self, outcome: Outcome, duration_ms: float | None, when: datetime) -> None:
        """Count one call; of a duration that is no number, or negative since a clock was set, zero counts."""
        first, last = self._first, self._last
        if first is None or last is None:
            self._first = self._last = when
        elif when > last:
            self._last = when
        elif when < first:
            self._first = when
        if outcome is not _OK:  # enum members hash slowly, and most calls end well
            self._failures[outcome] = self._failures.get(outcome, 0) + 1
            return
        self._successes += 1
        if duration_ms is not None and duration_ms > 0:
            self._total += int(min(duration_ms, _MOST_MS) * _NANOSECONDS + 0.5)

    def take(self, other: Usage) -> None:
        """Count the calls of *other*, too."""
        self._successes += other._successes
        self._total += other._total
        for outcome, count in other._failures.items():
            self._failures[outcome] = self._failures.get(outcome, 0) + count
        if other._first is not None and (self._first is None or other._first < self._first):
            self._first = other._first
        if other._last is not None and (self._last is None or other._last > self._last):
            self._last = other._last

    def shown(self) -> dict[str, Any]:
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
            "first_used": self._first.isoformat() if self._first else None,
            "last_used": self._last.isoformat() if self._last else None,
            "total_duration_ms": self._total / _NANOSECONDS,
            "avg_duration_ms": self._total / _NANOSECONDS / successes if successes else None,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` makes the same of; the derived figures stand in it for human readers."""
        return {**self.shown(), "total_duration_ns": self._total}

    @classmethod
    def from_dict(cls, given: Any) -> Usage:
        """
        Return what `to_dict` described.

        Raises:
            ValueError: It describes none.
        """
        made = cls()
        outcomes, total = _member(given, "outcomes", dict), _member(given, "total_duration_ns", int)
        if not all(type(one) is int and one > 0 for one in outcomes.values()) or total < 0 or not outcomes:
            raise ValueError("calls and nanoseconds are counted in whole numbers")
        counts = {Outcome(name): count for name, count in outcomes.items()}
        made._successes, made._failures = counts.pop(_OK, 0), counts
        made._first, made._last = _moment(given), _moment(given, "last_used")
        made._total = total
        return made


class ToolUsage:
    """What is known of the use of one tool: by agent, and the durations of all successful calls."""

    __slots__ = ("agents", "sketch")

    def __init__(self) -> None:
        self.agents: dict[str, Usage] = {}
        self.sketch = Sketch()

    def shown(self) -> dict[str, Any]:
        """Return the figures of all agents together, with quantiles; None where no call told its duration."""
        whole = Usage()
        for one in self.agents.values():
            whole.take(one)
        shares = (("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99))
        return {**whole.shown(), **{name: self.sketch.quantile(share) for name, share in shares}}

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` makes the same of; the figures of the whole stand in it for human readers."""
        agents = {name: one.to_dict() for name, one in sorted(self.agents.items())}
        return {**self.shown(), "agents": agents, "sketch": self.sketch.to_dict()}

    @classmethod
    def from_dict(cls, given: Any) -> ToolUsage:
        """
        Return what `to_dict` described.

        Raises:
            ValueError: It describes none.
        """
        made = cls()
        made.agents = {name: Usage.from_dict(one) for name, one in _member(given, "agents", dict).items()}
        if not made.agents:
            raise ValueError("somebody used each tool")
        made.sketch = Sketch.from_dict(_member(given, "sketch", dict))
        return made


def _member(given: Any, name: str, kind: type) -> Any:
    found = given.get(name) if type(given) is dict else None
    if type(found) is not kind:
        raise ValueError(f"{name} is missing, or no {kind.__name__}")
    return found


def read_tools(content: Any) -> dict[str, ToolUsage]:
    """
    Return the tools that the JSON of a file of this version describes.

    Raises:
        ValueError: It is none.
    """
    if _member(content, "v", int) != VERSION:
        raise ValueError(f"it is of version {content['v']}, and this release reads {VERSION}")
    return {name: ToolUsage.from_dict(one) for name, one in _member(content, "tools", dict).items()}


def _moment(given: Any, name: str = "first_used") -> datetime:
    moment = datetime.fromisoformat(_member(given, name, str))
    if moment.tzinfo is None:
        raise ValueError(f"{name} has no time zone")
    return moment.astimezone(UTC)


def is_duration(value: Any) -> bool:
    """Tell whether *value* can be a duration: None, or a number from 0 on."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf)
