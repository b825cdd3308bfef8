"""
Journaled calls of a registry beside raw grouped inserts of as many events, and the replay of a run.

`python benchmarks/journal_calls.py [--rounds N] [--profile]`

Raw and ours take turns of about 0.1 s, so that a disk that is now fast and now slow is so for both; what counts is the
median of the turns' ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import contextvars
import cProfile
import os
import pstats
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

from _measure import Figure
from journal_store import _CALLERS, _CALLS, _callers, _plain, _raw, _rows, _settled

from praval_tools import ToolRegistry
from praval_tools.registry.toolset import Toolset

_REPLAYED = 10_000


def _registry(path: Path) -> ToolRegistry:
    registry = ToolRegistry(journal=path)

    @registry.tool(owned_by="analyst")
    async def add(x: float, y: float) -> float:
        """Add two numbers."""
        return x + y

    @registry.tool(owned_by="analyst")
    def subtract(x: float, y: float) -> float:
        """Subtract a number from another."""
        return x - y

    return registry


async def _load(tools: Toolset, calls: int) -> None:
    numbers = iter(range(calls))

    async def caller() -> None:
        for number in numbers:
            await tools.acall("add", x=float(number), y=2.0)

    await asyncio.gather(*(caller() for _ in range(_CALLERS)))


def beside_raw(here: Path, rounds: int) -> tuple[list[float], list[float], list[float]]:
    """
    Return journaled calls a second of each turn, and raw events a second: with random ids, and with ids as ours.

    A registry's ids begin with the time, so that a group changes few pages of the index; random ones are what a
    program takes that gives it no thought.
    """
    rates, raws, ordered, calls = list[float](), list[float](), list[float](), _CALLERS * _CALLS
    registry = _registry(here / "ours.db")
    tools = registry.toolset("analyst")
    with ExitStack() as stack:
        plain, other = (stack.enter_context(closing(_plain(here / f"{name}.db"))) for name in ("raw", "ordered"))
        runner = stack.enter_context(asyncio.Runner())
        stack.enter_context(registry)
        for turn in range(rounds):
            place = 2 * calls * turn
            groups = _rows(_callers(_CALLS, new_id=lambda: os.urandom(16).hex()), place, place)
            others = _rows(_callers(_CALLS), place, place)
            with registry.run(f"run-{turn}"), _settled():
                raws.append(2 * calls / _raw(plain, groups))
                ordered.append(2 * calls / _raw(other, others))
                began = time.perf_counter()
                # the runner keeps the context of its birth, in which no run is open
                runner.run(_load(tools, calls), context=contextvars.copy_context())
                rates.append(calls / (time.perf_counter() - began))
    return rates, raws, ordered


def replay(path: Path) -> tuple[float, float]:
    """Return the seconds in which a run of 10,000 calls is opened, and those in which its calls are replayed."""
    opened, replayed = list[float](), list[float]()
    with _registry(path) as registry:
        tools = registry.toolset("analyst")
        with registry.run("nightly"):
            asyncio.run(_load(tools, _REPLAYED))
        for _ in range(5):
            with _settled():
                began = time.perf_counter()
                with registry.run("nightly") as run:
                    there = time.perf_counter()
                    asyncio.run(_load(tools, _REPLAYED))
                    done = time.perf_counter()
                    if run.unused:
                        raise SystemExit("not everything was replayed")
            opened.append(there - began)
            replayed.append(done - there)
    return min(opened), min(replayed)


def sequential(path: Path, calls: int) -> float:
    """Return the median seconds of a sync call that is alone: two commits."""
    took = []
    with _registry(path) as registry:
        tools = registry.toolset("analyst")
        with registry.run("alone"):
            for number in range(calls):
                began = time.perf_counter()
                tools.call("subtract", x=float(number), y=1.0)
                took.append(time.perf_counter() - began)
    return statistics.median(took)


def journaling(rounds: int) -> Iterator[Figure]:
    """Yield what the targets judge: calls a second, their share of raw inserts, a call alone, the replay of a run."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        rates, raws, ordered = beside_raw(here, rounds)
        shares = sorted(200 * rate / raw for rate, raw in zip(rates, raws, strict=True))
        low, middle, high = (shares[int(len(shares) * part)] for part in (0.25, 0.5, 0.75))
        strict = statistics.median(200 * rate / raw for rate, raw in zip(rates, ordered, strict=True))
        opened, replayed = replay(here / "replay.db")
        alone = sequential(here / "alone.db", 300)
        beside = _beside_one_that_computes(here / "beside.db", 40)
    raw, like = (f"{statistics.median(some):,.0f} raw events a second" for some in (raws, ordered))
    two = "two commits"
    yield Figure("journal:calls", statistics.median(rates), "/s", note=f"{_CALLERS} tasks, SQLite, synchronous=FULL")
    yield Figure("journal:share", middle, "%", low, high, note=f"two events a call; {raw}, random ids")
    yield Figure("journal:share-ordered", strict, "%", note=f"the same; {like}, ids in order as ours are")
    yield Figure("journal:alone", alone * 1000, "ms", note=f"a sync call that nobody shares a commit with: {two}")
    yield Figure("journal:beside", beside * 1000, "ms", note="the same, while another thread computes")
    yield Figure("journal:replay", opened + replayed, "s", note=f"{_REPLAYED:,} calls; of it {opened:.3f} s to open")


def _beside_one_that_computes(path: Path, calls: int) -> float:
    """Return what `sequential` does, while another thread never leaves the interpreter of its own accord."""
    over = threading.Event()

    def compute() -> None:
        while not over.is_set():
            sum(range(1_000))

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        return sequential(path, calls)
    finally:
        over.set()
        thread.join()


def main() -> None:
    """Measure all and print it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        if given.profile:
            with _registry(here / "profile.db") as registry, registry.run("run"), cProfile.Profile() as profile:
                asyncio.run(_load(registry.toolset("analyst"), 5_000))
            pstats.Stats(profile).sort_stats("tottime").print_stats(45)
            return
    for one in journaling(given.rounds):
        print(f"{one.key:16} {one.value:12,.3f} {one.unit:4} {one.note}")


if __name__ == "__main__":
    main()
