"""Pages of the operator's page over a journal of a million events: the time from the request to the whole page."""

from __future__ import annotations

import asyncio
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

import httpx
from _measure import Figure, quartiles
from _web_journal import make_journal
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from praval_tools.journal import open_journal
from praval_tools.report.markup import Markup
from praval_tools.web.activity.activity import Activity
from praval_tools.web.activity.routes import build_routes

_PAGES: Final = {
    "calls": "/calls",
    "runs": "/runs",
    "run": "/runs/show?id=run-000000",
    "approvals": "/approvals",
    "doubts": "/doubts",
    "audit": "/audit",
    "audit-search": "/audit?agent=agent-0000&outcome=timeout",
    "audit-nothing": "/audit?outcome=ok&type=call_refused",
    "statistics": "/statistics?days=7",
    "statistics-tool": "/statistics?tool=team3.tool_00003&days=30",
}


class PlainHost:
    """Shows the content alone, to an operator."""

    def render_page(self, request: Request, title: str, content: Markup, *, status: int = 200) -> Response:
        return HTMLResponse(content, status)

    def find_operator(self, request: Request) -> str | None:
        return "operator"

    def get_session_id(self, request: Request) -> str:
        return "bench"

    def is_session_live(self, request: Request) -> bool:
        return True

    def build_form_token(self, request: Request) -> Markup:
        return Markup("")

    def is_form_genuine(self, request: Request, fields: Mapping[str, str]) -> bool:
        return True


def measure(*, quick: bool) -> Iterator[Figure]:
    """Yield the slowest page's median, each page's, what making the index costs, and the memory."""
    events = 100_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        make_journal(path, events)
        with closing(open_journal(path)) as journal:
            before = _read_peak()
            activity = Activity(journal, Path(folder))
            start = time.perf_counter()
            activity.index.catch_up()
            seconds = time.perf_counter() - start
            try:
                medians = asyncio.run(_time_pages(activity, rounds=7 if quick else 25))
            finally:
                activity.close()
            peak = _read_peak()
    slowest = max(medians, key=lambda name: statistics.median(medians[name]))
    times = medians[slowest]
    yield Figure("web:page:ms", statistics.median(times), "ms", *quartiles(times))
    for name, values in medians.items():
        yield Figure(f"web:page:{name}:ms", statistics.median(values), "ms", *quartiles(values))
    yield Figure("web:index:s", seconds, "s")
    yield Figure("web:memory:mb", peak - before, "MB")


async def _time_pages(activity: Activity, *, rounds: int) -> dict[str, list[float]]:
    app = Starlette(routes=build_routes(activity, PlainHost()))
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
