"""What a call in another process costs, against the bare pool of the standard library; both in turn, in one program."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import _process_tool
from _measure import Figure, quartiles

from praval_tools import ToolRegistry

_PROCESSES = 2


def calling(rounds: int, calls: int = 50) -> Iterator[Figure]:
    """Yield the time of a call by an agent against that of a call of the pool, as seen by the caller."""
    context = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(_PROCESSES, context) as pool,
        ToolRegistry(engine="process", processes=_PROCESSES) as registry,
    ):
        registry.tool("add", owned_by="calculator")(_process_tool.add)
        call = registry.agent("calculator").call
        ours, theirs, ratios = list[float](), list[float](), list[float]()
        for number in range(rounds + 1):
            bare = _measure(lambda: pool.submit(_process_tool.add, x=1.5, y=2.5).result(), calls)
            own = _measure(lambda: call("add", x=1.5, y=2.5), calls)
            if number:  # the first round starts the processes
                theirs.append(bare)
                ours.append(own)
                ratios.append(own / bare)
    yield Figure("processes:call", statistics.median(ratios), "x", *quartiles(ratios))
    yield Figure("processes:call:us", statistics.median(ours) * 1e6, "us", *(one * 1e6 for one in quartiles(ours)))
    yield Figure("processes:pool:us", statistics.median(theirs) * 1e6, "us", *(one * 1e6 for one in quartiles(theirs)))


def _measure(work: Callable[[], object], calls: int) -> float:
    """Return the seconds of one call; wall time, since most of it is spent elsewhere."""
    start = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - start) / calls
