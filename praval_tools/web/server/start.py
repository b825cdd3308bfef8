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
from praval_tools.report.text import format_arguments
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
        tiles = parts.build_tiles(
            _get_tile(len(requests), "call waits for you", "calls wait for you", "/approvals", "ask"),
            _get_tile(doubts, "call in doubt", "calls in doubt", "/doubts", "ask"),
            _get_tile(hour.calls, "call in the last hour", "calls in the last hour", "/calls"),
            _get_tile(hour.refused, "refusal in the last hour", "refusals in the last hour", _REFUSALS, "bad"),
            _get_tile(hour.failed, "failure in the last hour", "failures in the last hour", _FAILURES, "failed"),
        )
        counts = parts.build_section(
            "Now",
            "",
            None if index.is_ready else parts.build_progress_note(index.progress.percent),
            parts.build_live_region("counts", tiles),
            stream=parts.build_stream("calls", seq),
        )
        asked = parts.build_live_region("requests", _build_requests(requests))
        latest = parts.build_live_region("latest", _build_calls(history.calls[-_LATEST_ROWS:]))
        return join_markup(counts, asked, latest)


_REFUSALS = parts.build_url("/audit", outcome=REFUSED, since="1h")
_FAILURES = parts.build_url("/audit", outcome=FAILED, since="1h")


def _get_tile(
    number: int, singular: str, plural: str, url: str, class_: str | None = None
) -> tuple[int, str, str | None, str]:  # fmt: skip
    return number, singular if number == 1 else plural, class_, url


def _build_requests(requests: Sequence[ApprovalRequest]) -> Markup | None:
    if not requests:
        return None
    rows = [
        build_row(
            parts.build_time(each.asked), parts.shorten(each.agent or OPERATOR), build_code(parts.shorten(each.tool)),
            build_element("td", build_code(parts.shorten(format_arguments(each.arguments), 160)), class_="long"),
            each.risk_level, build_element("td", parts.shorten(each.reason, 300), class_="long"),
            build_element(
                "a", "Answer", href=f"/approvals#request-{each.id}", class_="primary", aria_label=f"Answer {each.tool}"
            ),
        )
        for each in requests[:_MAX_REQUESTS]
    ]  # fmt: skip
    titles = ("asked (UTC)", "agent", "tool", "arguments", "risk", "why", "")
    table = parts.build_table(titles, rows, caption="Calls that wait for an approval, the oldest first")
    rest = len(requests) - _MAX_REQUESTS
    link = build_element("p", parts.build_link(f"{rest:,} more", "/approvals")) if rest > 0 else None
    return parts.build_section("Waits for you", "", table, link)


def _build_calls(calls: Sequence[HistoryCall]) -> Markup:
    if not calls:
        text = "No call is recorded yet. Calls appear here as soon as agents of a program with this journal make some."
        return parts.build_section("Latest calls", "", parts.build_note(text))
    rows = [
        build_row(
            parts.build_time(call.record.started or call.record.ended), parts.shorten(call.agent),
            build_code(parts.shorten(call.record.tool_name)), parts.build_call_outcome(call),
            build_element("td", parts.build_reason(call), class_="long"),
        )
        for call in reversed(calls)
    ]  # fmt: skip
    titles = ("time (UTC)", "agent", "tool", "outcome", "why")
    table = parts.build_table(titles, rows, class_="listing brief", caption="The newest first")
    return parts.build_section("Latest calls", "", table, build_element("p", parts.build_link("All calls", "/calls")))
