"""The addresses of the views."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from praval_tools.web.activity.activity import Activity
from praval_tools.web.activity.approvals import ApprovalViews
from praval_tools.web.activity.audit import AuditViews
from praval_tools.web.activity.calls import CallViews
from praval_tools.web.activity.doubts import DoubtViews
from praval_tools.web.activity.event_stream import EventStream, find_last_seq
from praval_tools.web.activity.host import Host
from praval_tools.web.activity.statistics import StatisticsViews

MENU: Final = (
    ("/calls", "Live calls"), ("/runs", "Runs"), ("/approvals", "Approvals"), ("/doubts", "In doubt"),
    ("/audit", "Audit"), ("/statistics", "Statistics"),
)  # fmt: skip
"""The views for the menu: address and title."""
SCRIPT_URL: Final = "/activity/live.js"
"""The script that each page with a stream needs; every page may have it."""
STYLE_URL: Final = "/activity/activity.css"
"""What the views add to the style sheet of reports."""


def build_routes(activity: Activity, host: Host) -> list[Route]:
    """Return the routes of the views, for an app whose routes check who is logged in before."""
    calls, approvals, doubts = CallViews(activity, host), ApprovalViews(activity, host), DoubtViews(activity, host)
    audit, statistics = AuditViews(activity, host), StatisticsViews(activity, host)

    async def stream(request: Request) -> Response:
        topic = request.query_params.get("topic", "")
        if topic not in ("calls", "approvals") and not topic.startswith("run:"):
            raise HTTPException(404, "There is no such topic.")
        return EventStream(
            activity.feed, topic, session=host.get_session_id(request), seq=find_last_seq(request),
            is_session_live=lambda: host.is_session_live(request), person=host.get_person(request),
        )  # fmt: skip

    return [
        Route("/calls", calls.show_latest),
        Route("/calls/content", calls.show_content),
        Route("/runs", calls.show_runs),
        Route("/runs/show", calls.show_run),
        Route("/approvals", approvals.show_requests),
        Route("/approvals/arguments", approvals.show_arguments),
        Route("/approvals/answer", approvals.answer_request, methods=["POST"]),
        Route("/doubts", doubts.show_calls),
        Route("/doubts/show", doubts.show_call),
        Route("/doubts/resolve", doubts.resolve_call, methods=["POST"]),
        Route("/audit", audit.show_events),
        Route("/audit.jsonl", audit.export_json_lines),
        Route("/audit.csv", audit.export_csv),
        Route("/statistics", statistics.show_statistics),
        Route("/activity/stream", stream),
        Route(SCRIPT_URL, show_script),
        Route(STYLE_URL, show_style),
    ]


async def show_script(request: Request) -> Response:
    """Return the script of the views."""
    return _make_file_response("live.js", "text/javascript")


async def show_style(request: Request) -> Response:
    """Return the style sheet of the views."""
    return _make_file_response("activity.css", "text/css")


def _make_file_response(name: str, media_type: str) -> Response:
    text = (files("praval_tools.web.activity") / name).read_text("utf-8")
    return Response(text, media_type=media_type, headers={"x-content-type-options": "nosniff"})
