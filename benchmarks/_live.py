"""Readers and writers at once: a revocation is seen by the next call, and no reader waits for a writer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Final

from _measure import Figure
from _peers import add

from praval_tools import ToolAccessError, ToolRegistry, tool

_THREADS: Final = 8


class _Callers:
    """Threads that call one tool as fast as they can; refusals are part of the game."""

    def __init__(self, registry: ToolRegistry, agent: str, name: str) -> None:
        self.calls, self.refused, self._stop = 0, 0, False
        self._call, self._name = registry.toolset(agent).call, name
        self._threads = [threading.Thread(target=self._run) for _ in range(_THREADS)]

    def _run(self) -> None:
        while not self._stop:
            try:
                self._call(self._name, x=1.5, y=2.5)
                self.calls += 1
            except ToolAccessError:
                self.refused += 1

    def __enter__(self) -> _Callers:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop = True
        for one in self._threads:
            one.join()


def revoking(times: int) -> Iterator[Figure]:
    """Yield how many of *times* revocations were followed by an entry into the function."""
    registry, entered = ToolRegistry(name="revoking"), list[float]()

    def counted(x: float, y: float) -> float:
        """Add two numbers, and remember that it ran."""
        entered.append(x)
        return x + y

    tool("counted", registry=registry)(counted)
    late, took = 0, list[float]()
    with _Callers(registry, "caller", "counted") as callers:
        for _ in range(times):
            registry.assign_tool_to_agent("counted", "caller")
            time.sleep(0.002)
            start = time.perf_counter()
            registry.remove_tool_from_agent("counted", "caller")
            registry.drain(tool="counted", timeout=5)
            took.append(time.perf_counter() - start)
            seen = len(entered)
            time.sleep(0.002)
            late += len(entered) != seen
    registry.close()
    yield Figure(
        "live:late", late, "count", note=f"{times} revocations, {callers.calls:,} calls, {callers.refused:,} refused"
    )
    yield Figure("live:revoke", sorted(took)[len(took) // 2] * 1000, "ms", note="revoke and drain, beside 8 callers")


def waiting(seconds: float) -> Iterator[Figure]:
    """
    Yield the longest time between two calls of a reader while a writer holds a change open all the time.

    A reader that waited for the writer would show the whole time that the change was open.
    """
    registry = ToolRegistry(name="waiting")
    tool("add", owned_by="caller", registry=registry)(add)
    call = registry.toolset("caller").call
    inside, over = threading.Event(), threading.Event()

    def write() -> None:
        with registry.change():
            registry.assign_tool_to_agent("add", "somebody")
            inside.set()
            over.wait(seconds)

    call("add", x=1.5, y=2.5)
    writer = threading.Thread(target=write)
    writer.start()
    inside.wait(5)
    longest, calls = 0.0, 0
    end = last = time.perf_counter()
    end += seconds * 0.8
    while last < end:
        call("add", x=1.5, y=2.5)
        now = time.perf_counter()
        longest, last, calls = max(longest, now - last), now, calls + 1
    over.set()
    writer.join()
    registry.close()
    yield Figure("live:wait", longest * 1000, "ms", note=f"{calls:,} calls while a change was open for {seconds:g} s")
