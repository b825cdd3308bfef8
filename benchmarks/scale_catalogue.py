"""
One process that knows a million tools and a hundred thousand agents: what that takes in seconds and in memory.

`python benchmarks/scale_catalogue.py [--tools N] [--agents N] [--write]`

Takes some minutes and 10 GB at full size, so `make bench` leaves it out. `--write` puts the figures into
`scale_costs.json`, from which `scale.py` prints its tables.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from _catalogue import functions
from _scale_costs import write_section

from praval_tools import Agent, ToolRegistry, tool

_TOOLS: Final = 1_000_000
_AGENTS: Final = 100_000
_BLOCK: Final = 10_000
_SAMPLES: Final = 300
_PAGE_SIZE: Final = os.sysconf("SC_PAGE_SIZE")

Costs = dict[str, float]


def _read_memory() -> int:
    """Return how many bytes of memory this process has."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_SIZE


@contextmanager
def _measured(costs: Costs, key: str) -> Iterator[None]:
    """Add the seconds and the gigabytes that the body takes to *costs*."""
    memory, began = _read_memory(), time.perf_counter()
    yield
    spent = time.perf_counter() - began
    gc.collect()
    costs[f"{key}_s"] = round(spent, 1)
    costs[f"{key}_gb"] = round((_read_memory() - memory) / 1e9, 2)
    print(f"{key:10} {spent:8.1f} s {costs[f'{key}_gb']:8.2f} GB", flush=True)


def _time_calls(action: Callable[[int], object], numbers: list[int]) -> float:
    """Return the median microseconds of an action."""
    spent = []
    for number in numbers:
        began = time.perf_counter()
        action(number)
        spent.append(time.perf_counter() - began)
    return round(statistics.median(spent) * 1e6, 1)


def measure(tools: int, agents: int) -> Costs:
    """Return the seconds and gigabytes of each step, and the microseconds of a look-up, a call and a change then."""
    costs: Costs = {"tools": tools, "agents": agents}
    registry = ToolRegistry(name="large")
    made: list[Callable[..., object]] = []
    with _measured(costs, "functions"):
        for start in range(0, tools, _BLOCK):
            made += functions(min(_BLOCK, tools - start), f"tool_{start // _BLOCK}_")
    with _measured(costs, "tools"):
        for number, function in enumerate(made):
            tool(owned_by=f"agent_{number % agents}", registry=registry)(function)
    with _measured(costs, "agents"):
        for number in range(agents):
            Agent(f"agent_{number}", registry=registry)
    names = [function.__name__ for function in made]
    with _measured(costs, "grants"):
        for number, name in enumerate(names):  # each tool to one agent more
            registry.assign_tool_to_agent(name, f"agent_{(number + 1) % agents}")
    numbers = random.Random(1).sample(range(agents), min(_SAMPLES, agents))
    costs["list_us"] = _time_calls(lambda number: registry.get_tools_for_agent(f"agent_{number}"), numbers)
    costs["explain_us"] = _time_calls(lambda number: registry.explain(f"agent_{number}", names[number]), numbers)
    toolset = registry.toolset("agent_0")
    toolset.call(names[0], x=1.0)
    costs["call_us"] = _time_calls(lambda number: toolset.call(names[0], x=float(number)), numbers)

    def change(number: int) -> None:
        registry.assign_tool_to_agent(names[number], f"agent_{(number + 2) % agents}")

    costs["change_us"] = _time_calls(change, numbers)

    def change_and_call(number: int) -> None:
        registry.remove_tool_from_agent(names[number], f"agent_{(number + 2) % agents}")
        began = time.perf_counter()
        toolset.call(names[0], x=1.0)
        after.append(time.perf_counter() - began)

    after: list[float] = []
    _time_calls(change_and_call, numbers)
    costs["call_after_change_us"] = round(statistics.median(after) * 1e6, 1)
    costs["process_gb"] = round(_read_memory() / 1e9, 2)
    return costs


def main() -> None:
    """Measure, print, and write the figures where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=int, default=_TOOLS)
    parser.add_argument("--agents", type=int, default=_AGENTS)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    costs = measure(given.tools, given.agents)
    for key, value in costs.items():
        print(f"{key:24} {value:14,.2f}")
    if given.write:
        write_section("catalogue", costs)


if __name__ == "__main__":
    main()
