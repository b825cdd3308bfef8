"""
Pages of the operator's page over a journal of a million events: the time from the request to the whole page.

Of an export it is the time to its first bytes.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import httpx
from _measure import Figure, quartiles
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import Message

from praval_tools.journal import open_journal
from praval_tools.report.markup import Markup
from praval_tools.web.activity.activity import Activity
from praval_tools.web.activity.routes import build_routes
from praval_tools.web.server.start import StartView

_PAGES: Final = {
    "start": "/",
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

_EXPORTS: Final = {
    "export-json-lines": "/audit.jsonl",
    "export-csv": "/audit.csv",
    "export-search": "/audit.csv?agent=agent-0000&outcome=timeout",
}
_STATUS: Final = Path("/proc/self/status")
_CLEAR_PEAK: Final = Path("/proc/self/clear_refs")


class PlainHost:
    """Shows the content alone, to an operator."""

    def render_page(self, request: Request, title: str, content: Markup, *, status: int = 200) -> Response:
        return HTMLResponse(content, status)

    def find_operator(self, request: Request) -> str | None:
        return "operator"

    def get_session_id(self, request: Request) -> str:
        return "bench"

    def get_person(self, request: Request) -> str:
        return "operator"

    def is_session_live(self, request: Request) -> bool:
        return True

    def build_form_token(self, request: Request) -> Markup:
        return Markup("")

    def is_form_genuine(self, request: Request, fields: Mapping[str, str]) -> bool:
        return True


def measure(path: Path, *, quick: bool) -> Iterator[Figure]:
    """
    Yield the slowest page's median, each page's, what making the index costs, and the memory.

    Args:
        path: A journal.
        quick: Fewer rounds.
    """
    before = start_peak()
    with closing(open_journal(path)) as journal:
        activity = Activity(journal, path.parent)
        start = time.perf_counter()
        activity.index.catch_up()
        seconds = time.perf_counter() - start
        host, rounds = PlainHost(), 7 if quick else 25
        start_page = Route("/", StartView(activity, host).show_counts)
        app = Starlette(routes=[start_page, *build_routes(activity, host)])
        try:
            times = asyncio.run(time_pages(app, _PAGES, rounds))
            times |= asyncio.run(_time_exports(app, rounds))
        finally:
            activity.close()
        peak = read_peak()
    yield from list_page_figures("web", times)
    yield Figure("web:index:s", seconds, "s")
    yield Figure("web:memory:mb", peak - before, "MB")


def list_page_figures(part: str, times: Mapping[str, Sequence[float]]) -> Iterator[Figure]:
    """Yield the median of the slowest page, and that of each."""
    slowest = max(times.values(), key=statistics.median)
    yield Figure(f"{part}:page:ms", statistics.median(slowest), "ms", *quartiles(slowest))
    for name, values in times.items():
        yield Figure(f"{part}:page:{name}:ms", statistics.median(values), "ms", *quartiles(values))


async def time_pages(app: Starlette, pages: Mapping[str, str], rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds that each page takes, in turn."""
    times: dict[str, list[float]] = {name: [] for name in pages}
    async with open_client(app) as client:
        for _ in range(rounds):
            for name, page in pages.items():
                start = time.perf_counter()
                answer = await client.get(page)
                times[name].append((time.perf_counter() - start) * 1_000)
                assert answer.status_code == 200, (page, answer.text)
    return times


def open_client(app: Starlette) -> httpx.AsyncClient:
    """Return a client of an application in this process."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://bench")


async def _time_exports(app: Starlette, rounds: int) -> dict[str, list[float]]:
    return {name: [await _time_first_bytes(app, page) for _ in range(rounds)] for name, page in _EXPORTS.items()}


async def _time_first_bytes(app: Starlette, page: str) -> float:
    """Return the milliseconds until the first bytes of an answer are there; the client leaves then."""
    path, _, query = page.partition("?")
    scope = {
        "type": "http", "method": "GET", "path": path, "query_string": query.encode(), "headers": [], "scheme": "http",
    }  # fmt: skip
    first: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def receive() -> Message:
        await first
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        assert message.get("status", 200) == 200, page
        if message.get("body") and not first.done():
            first.set_result(time.perf_counter())

    start = time.perf_counter()
    serving = asyncio.ensure_future(app(scope, receive, send))
    milliseconds = (await asyncio.wait_for(first, 60) - start) * 1_000
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving
    return milliseconds


def start_peak() -> float:
    """Forget how much memory the process had before, where the system can; return what it has now, in MB."""
    with suppress(OSError):
        _CLEAR_PEAK.write_text("5")
    return read_peak()


def read_peak() -> float:
    """Return the most memory that this process had since then, in MB."""
    with suppress(OSError):
        fields = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines() if ":" in line)
        return int(fields["VmHWM"].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
