"""Pages of the views of access over 10,000 tools, 1,000 agents and a million events: until the whole page is there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Final

from _measure import Figure
from _web import PlainHost, list_page_figures, open_client, read_peak, start_peak, time_pages
from starlette.applications import Starlette

from praval_tools import Agent, ToolRegistry
from praval_tools.web.access.access import AccessReader
from praval_tools.web.access.routes import build_routes
from praval_tools.web.activity.activity import Activity

_GRANTS: Final = 5_000
_ADVICE: Final = "/advice?days=90"
"""Of all events."""
_PAGES: Final = {
    "matrix": "/matrix",
    "matrix-end": "/matrix?agents=960&tools=9950",
    "matrix-name": "/matrix?name=tool_0123&agent=agent-00",
    "matrix-filters": "/matrix?category=category-7&tag=tag-7&risk=low&source=code",
    "cell": "/matrix/cell?agent=agent-0000&tool=team0.tool_00000",
    "tools": "/tools",
    "tools-end": "/tools?start=9950&risk=low",
    "tool": "/tools/show?name=team0.tool_00000",
    "agents": "/agents",
    "agent": "/agents/show?name=agent-0000",
    "graph": "/graph",
    "grants": "/grants",
    "grants-unused": "/grants?state=unused",
    "grants-spent": "/grants?state=spent",
}


def measure(path: Path, *, quick: bool) -> Iterator[Figure]:
    """
    Yield the slowest page's median, each page's, how long advice takes, and the memory that the pages need.

    Args:
        path: A journal.
        quick: Fewer rounds, tools and agents.
    """
    tools, agents = (1_000, 100) if quick else (10_000, 1_000)
    with ToolRegistry(journal=path) as registry:
        fill_registry(registry, agents, tools)
        assert registry.journal is not None
        with closing(Activity(registry.journal, path.parent)) as activity:
            activity.index.catch_up()
            app = Starlette(routes=build_routes(AccessReader(activity, registry), PlainHost()))
            before, rounds = start_peak(), 5 if quick else 15
            times = asyncio.run(time_pages(app, _PAGES, rounds))
            seconds, advice_times = asyncio.run(_time_advice(app, rounds))
            peak = read_peak()
    yield from list_page_figures("web-access", times | advice_times)
    yield Figure("web-access:advice:s", seconds, "s")
    yield Figure("web-access:memory:mb", peak - before, "MB")


async def _time_advice(app: Starlette, rounds: int) -> tuple[float, dict[str, list[float]]]:
    """Return the seconds until advice is made, and the milliseconds of its pages and of another one meanwhile."""
    times: dict[str, list[float]] = {"advice-being-made": [], "matrix-meanwhile": []}
    is_made, start = False, time.perf_counter()
    while not is_made:
        async with open_client(app) as client:
            asked = time.perf_counter()
            is_made = "refresh" not in (await client.get(_ADVICE)).headers
        if not is_made:
            times["advice-being-made"].append((time.perf_counter() - asked) * 1_000)
            times["matrix-meanwhile"] += (await time_pages(app, {"matrix": "/matrix"}, 1))["matrix"]
            await asyncio.sleep(0.1)
    seconds = time.perf_counter() - start
    return seconds, times | await time_pages(app, {"advice": _ADVICE}, rounds)


def fill_registry(registry: ToolRegistry, agents: int, tools: int) -> None:
    """Declare agents and tools: owned, shared, in categories; and grants, some of them counted or with an expiry."""

    def work(path: str, rows: int = 10) -> str:
        """Do a part of the work."""
        return path * rows

    with registry.change():
        for number in range(agents):
            Agent(f"agent-{number:04}", registry=registry, tool_categories=[f"category-{number % 40}"])
        for number in range(tools):
            registry.tool(
                f"team{number % 100}.tool_{number:05}", owned_by=f"agent-{number % agents:04}",
                shared=number % 500 == 0, category=f"category-{number % 400}", tags=[f"tag-{number % 50}"],
            )(work)  # fmt: skip
        for number in range(_GRANTS):
            tool = f"team{number * 7 % tools % 100}.tool_{number * 7 % tools:05}"
            registry.grant(
                tool, f"agent-{number % agents:04}", key=f"grant-{number}", max_calls=number % 9 or None,
                expires=timedelta(hours=number % 50 + 1) if number % 3 else None,
            )  # fmt: skip
