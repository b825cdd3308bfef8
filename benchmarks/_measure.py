"""
Timing on a noisy machine with few cores.

A case is never timed alone: directly before each of its samples the bare Python call is timed for as long as it takes
to be precise, and the two are divided. Drift of the clock rate, of neighbours on the core and of caches then hits
both sides of the ratio. What counts is the median of many such ratios, with the quartiles beside it.
Times that stand alone have nothing to be divided by: there the calmest sample counts.
They are CPU time of the process, so that a core taken away costs nothing.
"""

from __future__ import annotations

import asyncio
import gc
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from attrs import field, frozen

_UNROLLED: Final = 10
_BARE_SHARE: Final = 0.4


@frozen
class Figure:
    """One number with its unit and the quartiles around it."""

    key: str
    value: float
    unit: str
    low: float | None = None
    high: float | None = None
    note: str = ""


@frozen
class Case:
    """
    One thing to time.

    Args:
        key: What the figures of the case are called.
        run: Does it *n* times and returns the CPU seconds that it took.
        title: The words of the table.
        made_with: Package and version, where it is not ours.
    """

    key: str
    run: Callable[[int], float]
    title: str
    made_with: str = ""


@frozen
class Series:
    """What was measured of one case: seconds each, and the ratio to the bare call timed directly before."""

    case: Case
    seconds: list[float] = field(factory=list)
    ratios: list[float] = field(factory=list)

    @property
    def time(self) -> float:
        """Median seconds of one call."""
        return statistics.median(self.seconds)

    def alone(self, key: str) -> Figure:
        """Return the time of one call in the calmest sample, in microseconds."""
        return calmest(key, [one * 1e6 for one in self.seconds], "us")

    @property
    def ratio(self) -> float:
        """Median ratio to the bare call."""
        return statistics.median(self.ratios)

    def figures(self) -> list[Figure]:
        """Return the ratio and the time, with their quartiles."""
        key = self.case.key
        return [
            Figure(key, self.ratio, "x", *quartiles(self.ratios), note=self.case.made_with),
            Figure(f"{key}:us", self.time * 1e6, "us", *(one * 1e6 for one in quartiles(self.seconds))),
        ]


def calmest(key: str, values: Sequence[float], unit: str, note: str = "") -> Figure:
    """Return the smallest of several samples, each of many calls, with the quartiles of all."""
    return Figure(key, min(values), unit, *quartiles(values), note)


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the first and the third quartile."""
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4)
    return low, high


def sync_case(key: str, title: str, statement: str, made_with: str = "", **names: Any) -> Case:
    """Return a case of a statement over local *names*, repeated in the body of the loop, whose own cost stays small."""
    body = "\n".join([f"        {statement}"] * _UNROLLED)
    arguments = "".join(f", {name}={name}" for name in names)
    source = f"def run(n, _clock=_clock{arguments}):\n    _start = _clock()\n    for _ in range(n):\n{body}\n"
    return Case(key, _compiled(source + "    return _clock() - _start\n", names), title, made_with)


def async_case(key: str, title: str, statement: str, runner: asyncio.Runner, made_with: str = "", **names: Any) -> Case:
    """Return a case of an awaited statement, on the loop of *runner*."""
    body = "\n".join([f"        {statement}"] * _UNROLLED)
    arguments = "".join(f", {name}={name}" for name in names)
    source = f"async def run(n, _clock=_clock{arguments}):\n    _start = _clock()\n    for _ in range(n):\n{body}\n"
    made = _compiled(source + "    return _clock() - _start\n", names)
    return Case(key, lambda n: float(runner.run(made(n))), title, made_with)


def _compiled(source: str, names: dict[str, Any]) -> Callable[[int], Any]:
    scope: dict[str, Any] = {"_clock": time.process_time, **names}
    exec(compile(source, "<case>", "exec"), scope)
    return scope["run"]  # type: ignore[no-any-return]


def compare(bare: Case, cases: Sequence[Case], *, rounds: int, sample: float = 0.004) -> dict[str, Series]:
    """
    Time *cases* against *bare*, round by round, in a new random order each round.

    Args:
        bare: What all ratios are to.
        cases: What to time.
        rounds: How many samples each case gets.
        sample: Seconds that one sample of a case should last.
    """
    loops = {one.key: _calibrated(one, sample) for one in cases}
    bare_loops = _calibrated(bare, sample * _BARE_SHARE)
    series = {one.key: Series(one) for one in cases}
    series[bare.key] = Series(bare)
    order, chance = list(cases), random.Random(7)
    settle()
    for _ in range(rounds):
        chance.shuffle(order)
        for one in order:
            base = bare.run(bare_loops) / bare_loops
            spent = one.run(loops[one.key]) / loops[one.key]
            series[one.key].seconds.append(spent / _UNROLLED)
            series[one.key].ratios.append(spent / base)
            series[bare.key].seconds.append(base / _UNROLLED)
            series[bare.key].ratios.append(1.0)
    return series


def alternate(first: Case, second: Case, *, rounds: int, sample: float = 0.004) -> tuple[Series, Series]:
    """Time two cases of different keys A B A B; the ratios of the second are to the first."""
    measured = compare(first, [second], rounds=rounds, sample=sample / _BARE_SHARE)
    return measured[first.key], measured[second.key]


def settle() -> None:
    """Keep what is alive out of the garbage collector's rounds, which would charge the peers' imports to the calls."""
    gc.collect()
    gc.freeze()


def _calibrated(case: Case, seconds: float) -> int:
    case.run(3)
    n = 1
    while True:
        spent = case.run(n)
        if spent >= seconds / 4:
            return max(1, round(n * seconds / spent))
        n *= 4
