"""The first page: what waits, what is in doubt, and what happened in the last hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from attrs import frozen
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from praval_tools.journal.index.run_pages import list_open_calls
from praval_tools.journal.index.usage import sum_since
from praval_tools.report.markup import Markup, build_element
from praval_tools.web.activity import parts
from praval_tools.web.activity.activity import Activity
from praval_tools.web.activity.host import Host

_MAX_DOUBTS = 1_000


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
        seq, waiting = index.progress.seq, len(self.activity.list_requests())
        doubts = sum(not call.is_running for call in list_open_calls(index, limit=_MAX_DOUBTS))
        hour = sum_since(index, datetime.now(UTC) - timedelta(hours=1))
        rows = (
            _build_tile(waiting, "call waits for you", "calls wait for you", "/approvals", "ask"),
            _build_tile(doubts, "call in doubt", "calls in doubt", "/doubts", "ask"),
            _build_tile(hour.calls, "call in the last hour", "calls in the last hour", "/calls"),
            _build_tile(hour.refused, "refusal in the last hour", "refusals in the last hour", _REFUSALS, "bad"),
            _build_tile(hour.failed, "failure in the last hour", "failures in the last hour", _FAILURES, "bad"),
        )
        return parts.build_section(
            "What waits, and what happens",
            "",
            parts.build_stream("calls", seq),
            None if index.is_ready else parts.build_progress_note(index.progress.percent),
            parts.build_live_region("counts", build_element("ul", *rows, class_="tiles")),
        )


_REFUSALS = parts.build_url("/audit", type="call_refused", since="1h")
_FAILURES = parts.build_url("/audit", type="agent_tool_result", since="1h")


def _build_tile(number: int, singular: str, plural: str, url: str, class_: str = "") -> Markup:
    value = build_element("b", f"{number:,}", class_=class_ if number and class_ else None)
    text = build_element("span", singular if number == 1 else plural)
    return build_element("li", build_element("a", value, text, href=url))
