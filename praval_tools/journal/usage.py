"""Counters of the use of one tool, or of one tool by one agent, and their form in JSON."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final, TypeAlias, TypeVar

from praval_tools.journal.quantile_sketch import QuantileSketch
from praval_tools.tools.call import Outcome

T = TypeVar("T")
JsonObject: TypeAlias = dict[str, object]

STATS_VERSION: Final = 1
"""The version of the JSON of a file."""

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
        """Count one call; a duration that is not a number, or negative because a clock was set, counts as zero."""
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
        """Add the counts of *other*."""
        self._successes += other._successes
        self._total_ns += other._total_ns
        for outcome, count in other._failures.items():
            self._failures[outcome] = self._failures.get(outcome, 0) + count
        times = [time for time in (self._first_used, other._first_used) if time is not None]
        self._first_used = min(times, default=None)
        times = [time for time in (self._last_used, other._last_used) if time is not None]
        self._last_used = max(times, default=None)

    def summarize(self) -> JsonObject:
        """
        Return the figures as JSON values.

        `avg_duration_ms` is of the successful calls, None where there are none.
        """
        successes, failures = self._successes, sum(self._failures.values())
        outcomes = {_OK: successes, **self._failures}
        return {
            "uses": successes + failures,
            "successes": successes,
            "failures": failures,
            "outcomes": {outcome.value: outcomes[outcome] for outcome in Outcome if outcomes.get(outcome)},
            "first_used": self._first_used.isoformat() if self._first_used else None,
            "last_used": self._last_used.isoformat() if self._last_used else None,
            "total_duration_ms": self._total_ns / _NANOSECONDS_PER_MS,
            "avg_duration_ms": self._total_ns / _NANOSECONDS_PER_MS / successes if successes else None,
        }

    def to_dict(self) -> JsonObject:
        """Return the counts for `from_dict`; the derived figures are in it for human readers."""
        return {**self.summarize(), "total_duration_ns": self._total_ns}

    @classmethod
    def from_dict(cls, content: object) -> UsageCounts:
        """
        Return the counts of which `to_dict` made *content*.

        Raises:
            ValueError: The content is not that of `to_dict`.
        """
        usage = cls()
        outcomes, total = _get_member(content, "outcomes", dict), _get_member(content, "total_duration_ns", int)
        if not all(type(count) is int and count > 0 for count in outcomes.values()) or total < 0 or not outcomes:
            raise ValueError("calls and nanoseconds are counted in whole numbers")
        counts = {Outcome(name): count for name, count in outcomes.items()}
        usage._successes, usage._failures, usage._total_ns = counts.pop(_OK, 0), counts, total
        usage._first_used, usage._last_used = _get_time(content, "first_used"), _get_time(content, "last_used")
        return usage


class ToolUsage:
    """Counters of the use of one tool: by agent, and the durations of all successful calls."""

    __slots__ = ("agents", "sketch")

    def __init__(self) -> None:
        self.agents: dict[str, UsageCounts] = {}
        self.sketch = QuantileSketch()

    def summarize(self) -> JsonObject:
        """Return the figures of all agents together, with quantiles; None where no call has a duration."""
        total = UsageCounts()
        for counts in self.agents.values():
            total.merge(counts)
        shares = (("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99))
        return {**total.summarize(), **{name: self.sketch.quantile(share) for name, share in shares}}

    def to_dict(self) -> JsonObject:
        """Return the counters for `from_dict`; the figures of all agents are in it for human readers."""
        agents = {name: counts.to_dict() for name, counts in sorted(self.agents.items())}
        return {**self.summarize(), "agents": agents, "sketch": self.sketch.to_dict()}

    @classmethod
    def from_dict(cls, content: object) -> ToolUsage:
        """
        Return the counters of which `to_dict` made *content*.

        Raises:
            ValueError: The content is not that of `to_dict`.
        """
        usage = cls()
        agents = _get_member(content, "agents", dict).items()
        usage.agents = {name: UsageCounts.from_dict(counts) for name, counts in agents}
        if not usage.agents:
            raise ValueError("a tool has no agent that used it")
        usage.sketch = QuantileSketch.from_dict(_get_member(content, "sketch", dict))
        return usage


def _get_member(content: object, name: str, kind: type[T]) -> T:
    member = content.get(name) if isinstance(content, dict) else None
    if type(member) is not kind:
        raise ValueError(f"{name} is missing, or not a {kind.__name__}")
    return member


def parse_tools(content: object) -> dict[str, ToolUsage]:
    """
    Return the tools that the JSON of a file of this version describes.

    Raises:
        ValueError: It is not such a file.
    """
    version = _get_member(content, "v", int)
    if version != STATS_VERSION:
        raise ValueError(f"it is of version {version}, and this release reads {STATS_VERSION}")
    return {name: ToolUsage.from_dict(usage) for name, usage in _get_member(content, "tools", dict).items()}


def _get_time(content: object, name: str) -> datetime:
    time = datetime.fromisoformat(_get_member(content, name, str))
    if time.tzinfo is None:
        raise ValueError(f"{name} has no time zone")
    return time.astimezone(UTC)


def is_duration(value: object) -> bool:
    """Tell whether *value* can be a duration: None, or a number from 0 on."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf)
