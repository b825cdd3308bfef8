"""Pages of the views of access over 10,000 tools and 1,000 agents: the time from the request to the whole page."""

from __future__ import annotations

import asyncio
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Final

import httpx
from _measure import Figure, quartiles
from _web import PlainHost
from _web_journal import make_journal
from starlette.applications import Starlette

from praval_tools import Agent, ToolRegistry
from praval_tools.web.access.access import AccessReader
from praval_tools.web.access.routes import build_routes
from praval_tools.web.activity.activity import Activity

_GRANTS: Final = 5_000
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


def measure(*, quick: bool) -> Iterator[Figure]:
    """Yield the slowest page's median, each page's, and the memory that the pages need."""
    tools, agents = (1_000, 100) if quick else (10_000, 1_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        make_journal(path, 20_000 if quick else 200_000)
        with ToolRegistry(journal=path) as registry:
            fill_registry(registry, agents, tools)
            assert registry.journal is not None
            with closing(Activity(registry.journal, Path(folder))) as activity:
                activity.index.catch_up()
                before = _read_peak()
                medians = asyncio.run(_time_pages(AccessReader(activity, registry), rounds=5 if quick else 15))
                peak = _read_peak()
    slowest = max(medians, key=lambda name: statistics.median(medians[name]))
    times = medians[slowest]
    yield Figure("web-access:page:ms", statistics.median(times), "ms", *quartiles(times))
    for name, values in medians.items():
        yield Figure(f"web-access:page:{name}:ms", statistics.median(values), "ms", *quartiles(values))
    yield Figure("web-access:memory:mb", peak - before, "MB")


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


async def _time_pages(access: AccessReader, *, rounds: int) -> dict[str, list[float]]:
    app = Starlette(routes=build_routes(access, PlainHost()))
    transport = httpx.ASGITransport(app)
    times: dict[str, list[float]] = {name: [] for name in _PAGES}
    async with httpx.AsyncClient(transport=transport, base_url="http://bench") as client:
        for _ in range(rounds):
            for name, page in _PAGES.items():
                start = time.perf_counter()
                answer = await client.get(page)
                times[name].append((time.perf_counter() - start) * 1_000)
                assert answer.status_code == 200, (page, answer.text)
    return times


def _read_peak() -> float:
    """Return the most memory that this process ever had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
