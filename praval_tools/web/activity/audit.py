"""The view of the audit trail: a search, and its export as lines of JSON and as CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

from attrs import frozen
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from praval_tools.config.times import parse_span, parse_time
from praval_tools.journal.events import EventType
from praval_tools.journal.index.search import (
    ACCESS_CHANGES,
    APPROVALS,
    FAILED,
    REFUSED,
    EventPage,
    EventQuery,
    iter_events,
    list_values,
    search_events,
)
from praval_tools.journal.storage.protocol import Record
from praval_tools.report.event_lines import describe_record, iter_csv, write_json_line
from praval_tools.report.markup import Markup, build_code, build_element, build_row, join_markup
from praval_tools.report.run_charts import get_outcome_class
from praval_tools.tools.call import Outcome
from praval_tools.web.activity import parts
from praval_tools.web.activity.activity import Activity
from praval_tools.web.activity.calls import parse_number
from praval_tools.web.activity.host import Host

_PAGE_SIZE: Final = 50
_FIELDS: Final = ("agent", "tool", "outcome", "rule", "type", "since", "until")
_TIME_HELP: Final = "2h, 7d, or 2026-12-31T18:00 (UTC)"
_PLACEHOLDER: Final = "1h, 7d, 2026-12-31"
_KINDS: Final[dict[str, dict[str, str]]] = {
    "everything": {}, "failed": {"outcome": FAILED}, "refused": {"outcome": REFUSED},
    "approvals": {"type": APPROVALS}, "changes of access": {"type": ACCESS_CHANGES},
}  # fmt: skip
"""Searches that are asked for often, which keep agent, tool and times."""
_DECIDED: Final = (Outcome.FORBIDDEN, Outcome.DISABLED, Outcome.UNKNOWN_TOOL)
"""How calls end of which a rule decides that they do not begin."""


@frozen
class AuditViews:
    """The views of the audit trail."""

    activity: Activity
    host: Host

    async def show_events(self, request: Request) -> Response:
        """Show the events that fit a search, the latest first."""
        given, before = _read_fields(request), parse_number(request, "before")
        try:
            query = parse_query(given)
        except ValueError as error:
            content, status = await run_in_threadpool(self._build, given, None, before, str(error)), 400
        else:
            content, status = await run_in_threadpool(self._build, given, query, before, ""), 200
        return self.host.render_page(request, "Audit", content, status=status)

    def _build(self, given: dict[str, str], query: EventQuery | None, before: int | None, problem: str) -> Markup:
        index, found = self.activity.index, Markup("")
        if query is not None and not index.is_ready:
            found = parts.build_progress_note(index.progress.percent)
        elif query is not None:
            page = search_events(index, self.activity.store, query, before=before, limit=_PAGE_SIZE)
            found = _build_page(page, given)
        outcomes, rules = list_values(index, "outcome"), list_values(index, "rule")
        return parts.build_section(
            "Audit",
            "Every call, refusal, answer and change of access, with who did it and why. Nothing is left out.",
            _build_kinds(given),
            _build_form(given, outcomes, rules),
            parts.build_message(problem, "message problem") if problem else None,
            found,
        )

    async def export_json_lines(self, request: Request) -> Response:
        """Return all events that fit a search, a line of JSON each."""
        return await self._export(request, "jsonl", "application/x-ndjson", _iter_json_lines)

    async def export_csv(self, request: Request) -> Response:
        """Return all events that fit a search as CSV."""
        return await self._export(request, "csv", "text/csv; charset=utf-8", iter_csv)

    async def _export(
        self, request: Request, ending: str, media_type: str, write: Callable[[Iterable[Record]], Iterable[str]]
    ) -> Response:
        try:
            query = parse_query(_read_fields(request))
        except ValueError as error:
            content = parts.build_message(str(error), "message problem")
            return self.host.render_page(request, "Audit", content, status=400)
        if not self.activity.index.is_ready:
            content = parts.build_progress_note(self.activity.index.progress.percent)
            return self.host.render_page(request, "Audit", content, status=503)
        records = iter_events(self.activity.index, self.activity.store, query)
        name = f"audit-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.{ending}"
        headers = {
            "content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store",
            "x-content-type-options": "nosniff",
        }  # fmt: skip
        return StreamingResponse(write(records), media_type=media_type, headers=headers)


def _iter_json_lines(records: Iterable[Record]) -> Iterable[str]:
    return (write_json_line(record)[0] for record in records)


def _read_fields(request: Request) -> dict[str, str]:
    return {name: request.query_params.get(name, "").strip()[:500] for name in _FIELDS}


def parse_query(fields: dict[str, str]) -> EventQuery:
    """
    Return the search that the fields of the form describe; empty ones do not count.

    Raises:
        ValueError: A time cannot be read, or the span is empty.
    """
    given = {name: value for name, value in fields.items() if value}
    since, until = (_parse_time(given.pop(name, ""), name) for name in ("since", "until"))
    if since is not None and until is not None and since >= until:
        raise ValueError("The span is empty: it begins after its end.")
    return EventQuery(**given, since=since, until=until)


def _parse_time(text: str, name: str) -> datetime | None:
    if not text:
        return None
    try:
        span = None if (moment := parse_time(text)) is not None else parse_span(text)
        if span is not None:
            moment = datetime.now(UTC) - span
    except OverflowError as error:
        raise ValueError(f"{name}: the time is too long ago.") from error
    if moment is None:
        raise ValueError(f"{name}: this is not a time; write {_TIME_HELP}.")
    return moment


def _build_kinds(given: dict[str, str]) -> Markup:
    kept = {name: given[name] for name in ("agent", "tool", "since", "until")}
    chosen = {name: value for name, value in given.items() if name not in kept and value}
    return parts.build_choices(
        "Kind",
        ((words, parts.build_url("/audit", **kept, **fields), fields == chosen) for words, fields in _KINDS.items()),
    )


def _build_form(given: dict[str, str], outcomes: list[str], rules: list[str]) -> Markup:
    types = [ACCESS_CHANGES, APPROVALS, *(kind.value for kind in EventType)]
    choices = {"outcome": [FAILED, REFUSED, *outcomes], "rule": rules, "type": types}
    fields = []
    for name in _FIELDS:
        if name in choices:
            field = _build_choice(name, choices[name], given[name])
        else:
            placeholder = _PLACEHOLDER if name in ("since", "until") else None
            field = build_element(
                "input", type="search", name=name, id=name, value=given[name], maxlength=500, placeholder=placeholder
            )
        label = f"{name.capitalize()} (UTC)" if name in ("since", "until") else name.capitalize()
        fields.append(build_element("p", build_element("label", label, for_=name), field))
    return build_element(
        "form", *fields, build_element("p", build_element("button", "Search", type="submit")),
        method="get", action="/audit", class_="filters", role="search",
    )  # fmt: skip


def _build_choice(name: str, values: list[str], chosen: str) -> Markup:
    known = values if not chosen or chosen in values else [chosen, *values]
    options = (
        build_element("option", value.replace("_", " "), value=value, selected="" if value == chosen else None)
        for value in known
    )
    return build_element("select", build_element("option", "any", value=""), *options, name=name, id=name)


def _build_page(page: EventPage, given: dict[str, str]) -> Markup:
    titles = ("number", "time (UTC)", "who", "tool", "what", "arguments", "why", "run")
    if page.records:
        rows = list(map(_build_row, page.records))
        table = parts.build_table(titles, rows, class_="listing brief", caption="Events, the latest first")
    else:
        table = parts.build_note("No such event was found here." if page.is_partial else "There are no such events.")
    text = "Search further back" if page.is_partial else "Older events"
    older = build_element("p", parts.build_link(text, "/audit", **given, before=page.before))
    export = build_element(
        "p", "All that fit, as ", parts.build_link("lines of JSON", "/audit.jsonl", **given), " or ",
        parts.build_link("CSV", "/audit.csv", **given), ".", class_="fine",
    )  # fmt: skip
    return join_markup(table, older if page.before is not None else None, export)


def _get_problem_class(action: str) -> str:
    """Return the colour of what did not go well: that of the outcome with which *action* begins, or of a refusal."""
    return get_outcome_class(action.partition(",")[0])


def _build_row(record: Record) -> Markup:
    text = describe_record(record)
    class_ = "calm" if text.is_good is None else "good" if text.is_good else _get_problem_class(text.action)
    why = parts.build_why_link(record) if text.action in _DECIDED else None
    return build_row(
        build_element("td", str(record.seq), class_="number"),
        parts.build_time(record.time),
        build_element("td", parts.shorten(text.actor), class_="name"),
        build_code(parts.shorten(text.tool)),
        build_element("span", parts.shorten(text.action.replace("_", " ")), class_=f"chip {class_}"),
        build_element("td", build_code(parts.shorten(text.arguments, parts.MAX_PREVIEW)), class_="long"),
        build_element("td", parts.shorten(text.reason, 300), *([" ", why] if why is not None else []), class_="long"),
        parts.build_run_cell(record.run_id),
    )
