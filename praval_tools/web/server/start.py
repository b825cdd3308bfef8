"""The first page: what waits, what is in doubt, what happened in the last hour, and the latest calls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from attrs import frozen
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from praval_tools.journal.history import HistoryCall
from praval_tools.journal.index.run_pages import list_open_calls, read_latest_calls
from praval_tools.journal.index.search import FAILED, REFUSED
from praval_tools.journal.index.usage import sum_since
from praval_tools.names import OPERATOR
from praval_tools.report.markup import Markup, build_code, build_element, build_row, join_markup
from praval_tools.tools.decision import ApprovalRequest
from praval_tools.web.activity import parts
from praval_tools.web.activity.activity import Activity
from praval_tools.web.activity.host import Host

_MAX_DOUBTS, _MAX_REQUESTS, _LATEST_EVENTS, _LATEST_ROWS = 1_000, 5, 100, 10


@frozen
class StartView:
    """The first page."""

    activity: Activity
    host: Host

    async def show_counts(self, request: Request) -> Response:
        """Show the counts, each of which leads to its page."""
        content = await run_in_threadpool(self._build)
        return self.host.render_page(request, "Start", content)

    def _build(self) -> Markup:
        index = self.activity.index
        seq, requests = index.progress.seq, self.activity.list_requests()
        doubts = sum(not call.is_running for call in list_open_calls(index, limit=_MAX_DOUBTS))
        hour = sum_since(index, datetime.now(UTC) - timedelta(hours=1))
        history, _ = read_latest_calls(self.activity.journal, limit=_LATEST_EVENTS)
        tiles = (
            _build_tile(len(requests), "call waits for you", "calls wait for you", "/approvals", "ask"),
            _build_tile(doubts, "call in doubt", "calls in doubt", "/doubts", "ask"),
            _build_tile(hour.calls, "call in the last hour", "calls in the last hour", "/calls"),
            _build_tile(hour.refused, "refusal in the last hour", "refusals in the last hour", _REFUSALS, "bad"),
            _build_tile(hour.failed, "failure in the last hour", "failures in the last hour", _FAILURES, "failed"),
        )
        counts = parts.build_section(
            "What waits, and what happens",
            "",
            parts.build_stream("calls", seq),
            None if index.is_ready else parts.build_progress_note(index.progress.percent),
            parts.build_live_region("counts", build_element("ul", *tiles, class_="tiles")),
        )
        asked = parts.build_live_region("requests", _build_requests(requests))
        latest = parts.build_live_region("latest", _build_calls(history.calls[-_LATEST_ROWS:]))
        return join_markup(counts, asked, latest)


_REFUSALS = parts.build_url("/audit", outcome=REFUSED, since="1h")
_FAILURES = parts.build_url("/audit", outcome=FAILED, since="1h")


def _build_tile(number: int, singular: str, plural: str, url: str, class_: str = "") -> Markup:
    value = build_element("b", f"{number:,}", class_=class_ if number and class_ else None)
    text = build_element("span", singular if number == 1 else plural)
    return build_element("li", build_element("a", value, text, href=url))


def _build_requests(requests: Sequence[ApprovalRequest]) -> Markup | None:
    if not requests:
        return None
    rows = [
        build_row(
            parts.build_time(each.asked), parts.shorten(each.agent or OPERATOR), build_code(parts.shorten(each.tool)),
            each.risk_level, build_element("td", parts.shorten(each.reason, 300), class_="long"),
        )
        for each in requests[:_MAX_REQUESTS]
    ]  # fmt: skip
    titles = ("asked (UTC)", "agent", "tool", "risk", "why")
    table = parts.build_table(titles, rows, caption="Calls that wait, the oldest first")
    link = parts.build_link("Look at them and answer", "/approvals")
    return parts.build_section("Waits for you", "", table, build_element("p", link))


def _build_calls(calls: Sequence[HistoryCall]) -> Markup | None:
    if not calls:
        return None
    rows = [
        build_row(
            parts.build_time(call.record.started or call.record.ended), parts.shorten(call.agent),
            build_code(parts.shorten(call.record.tool_name)), parts.build_outcome(call.outcome),
            build_element("td", parts.shorten(call.record.error or "–", 200), class_="long"),
        )
        for call in reversed(calls)
    ]  # fmt: skip
    titles = ("time (UTC)", "agent", "tool", "outcome", "error")
    table = parts.build_table(titles, rows, caption="The latest calls, the newest first")
    return parts.build_section("Latest calls", "", table, build_element("p", parts.build_link("All calls", "/calls")))
