"""The view of grants: those that are live, expire soon, have ended, or were never used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Final

from attrs import frozen
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from praval_tools.access.permissions import Grant
from praval_tools.access.records import GrantRecord
from praval_tools.access.rules import get_end_reason, list_live_lineage
from praval_tools.access.state import AccessState
from praval_tools.journal.index.usage import find_latest_uses
from praval_tools.names import format_count
from praval_tools.report.markup import Markup, build_code, build_element, build_row, join_markup
from praval_tools.report.text import sanitize_text
from praval_tools.web.access.access import AccessReader
from praval_tools.web.activity import parts
from praval_tools.web.activity.calls import parse_number
from praval_tools.web.activity.host import Host

STATES: Final = {
    "live": "live", "expiring": "expire within a day", "unused": "live and never used", "spent": "spent",
    "expired": "expired", "revoked": "revoked or ended", "waiting": "wait for their tool", "all": "all",
}  # fmt: skip
"""What the view shows, and how it is called."""

_PAGE_SIZE: Final = 50
_MAX_LOOKUPS: Final = 60
"""Of how many agents a page looks up what they called."""
_SOON: Final = timedelta(days=1)
_TITLES: Final = ("agent", "tool", "state", "limits", "last used (UTC)", "made (UTC)", "why", "id")
_CHIPS: Final = {"expiring": "live, expires soon", "revoked": "ended", "waiting": "waits for its tool"}
_CLASSES: Final = {
    "live": "good", "expiring": "good", "waiting": "doubt", "spent": "calm", "expired": "calm", "revoked": "calm",
}  # fmt: skip


@frozen(kw_only=True)
class ListedGrant:
    """
    A grant, as the view lists it.

    Args:
        record: The grant, and what is used of it.
        state: `live`, `expiring`, `spent`, `expired`, `revoked`, or `waiting` for its tool.
        text: More of that.
    """

    record: GrantRecord
    state: str
    text: str = ""

    @property
    def is_live(self) -> bool:
        """Whether it permits something."""
        return self.state in ("live", "expiring")


UseLookup = Callable[[str], dict[str, datetime]]
"""Returns when an agent last called each tool."""


@frozen
class GrantView:
    """The view of grants."""

    access: AccessReader
    host: Host

    async def show_grants(self, request: Request) -> Response:
        """Show the grants of a state, the latest first, a page of them."""
        chosen = request.query_params.get("state", "live")
        given = {name: request.query_params.get(name, "").strip()[:200] for name in ("agent", "tool")}
        start = parse_number(request, "start") or 0
        content = await run_in_threadpool(self._build, chosen if chosen in STATES else "live", given, start)
        return self.host.render_page(request, "Grants", content)

    def _build(self, chosen: str, given: dict[str, str], start: int) -> Markup:
        state, now = self.access.read_state(), self.access.now()
        find_uses = cache(lambda agent: find_latest_uses(self.access.index, agent))
        records = [record for record in list_records(state) if _fits(record.grant, given)]
        shown, next_start = select_grants(state, records, chosen, start, now, find_uses)
        rows = [_build_row(each, find_uses) for each in shown]
        later = parts.build_link("More", "/grants", **given, state=chosen, start=next_start) if next_start else None
        caption = f"Grants, the latest first: {STATES[chosen]}"
        return parts.build_section(
            "Grants",
            "What was given to one agent for one tool. An agent leads to its rules, and to what revokes a grant.",
            None if self.access.registry is not None else _build_journal_note(),
            _build_choices(chosen, given),
            _build_form(chosen, given),
            parts.build_table(_TITLES, rows, class_="listing grants", caption=caption)
            if rows else parts.build_note("No such grant was found."),
            build_element("p", later) if later is not None else None,
        )  # fmt: skip


def _fits(grant: Grant, given: dict[str, str]) -> bool:
    return all(not value or value == getattr(grant, name) for name, value in given.items())


def list_records(state: AccessState) -> list[GrantRecord]:
    """Return all grants that are known, the latest first, then those that wait for their tools."""
    records = sorted(state.grants.values(), key=_get_age_key, reverse=True)
    for stored, grant in state.iter_pending_grants(None):
        spent = 0 if stored.left is None or grant.max_calls is None else grant.max_calls - stored.left
        records.append(GrantRecord(grant, 0, spent_calls=spent))
    return records


def _get_age_key(record: GrantRecord) -> tuple[float, int]:
    made = record.grant.made
    return 0.0 if made is None else made.timestamp(), record.seq


def classify(state: AccessState, record: GrantRecord, now: datetime) -> ListedGrant:
    """Return a grant with its state at a moment."""
    if reason := get_end_reason(record, now):
        return _describe_end(record, reason)
    if state.find_grant(record.grant.id) is None:
        return ListedGrant(record=record, state="waiting")
    if record.narrowed_by is not None:
        return ListedGrant(record=record, state="revoked", text="another grant of its key took its place")
    if not list_live_lineage(state, record.grant.id, now):
        return ListedGrant(record=record, state="revoked", text="what it came from has ended")
    expires = record.grant.expires
    is_soon = expires is not None and expires - now <= _SOON
    return ListedGrant(record=record, state="expiring" if is_soon else "live")


def _describe_end(record: GrantRecord, reason: str) -> ListedGrant:
    state = "spent" if reason == "spent" else "expired" if reason.startswith("expired at") else "revoked"
    return ListedGrant(record=record, state=state, text=reason if state == "revoked" else "")


def select_grants(
    state: AccessState, records: Sequence[GrantRecord], chosen: str, start: int, now: datetime, find_uses: UseLookup
) -> tuple[list[ListedGrant], int | None]:  # fmt: skip
    """
    Return a page of the grants of a state, and where the next one begins; None: there is none.

    Whether a grant was ever used is looked up for a number of agents; the next page goes on from there.
    """
    shown, agents = list[ListedGrant](), set[str]()
    for place, record in enumerate(records[start:], start=start):
        if len(shown) == _PAGE_SIZE or len(agents) > _MAX_LOOKUPS:
            return shown, place
        each = classify(state, record, now)
        is_chosen = chosen in (each.state, "all") or (chosen == "live" and each.is_live)
        if chosen == "unused" and each.is_live and not record.spent_calls:
            agents.add(record.grant.agent)
            is_chosen = find_last_use(each, find_uses) is None
        if is_chosen:
            shown.append(each)
    return shown, None


def find_last_use(listed: ListedGrant, find_uses: UseLookup) -> datetime | None:
    """Return when the agent of a grant last called its tool since it was made, as far as the latest events say."""
    grant = listed.record.grant
    moment = find_uses(grant.agent).get(grant.tool)
    return None if moment is None or (grant.made is not None and moment < grant.made) else moment


def _build_row(listed: ListedGrant, find_uses: UseLookup) -> Markup:
    record, grant = listed.record, listed.record.grant
    chip = build_element("span", _CHIPS.get(listed.state, listed.state), class_=f"chip {_CLASSES[listed.state]}")
    used = find_last_use(listed, find_uses)
    never = "never" if not record.spent_calls else "–"
    agent = build_element("a", parts.shorten(grant.agent), href=parts.build_cell_url(grant.agent, grant.tool))
    return build_row(
        build_element("th", agent, scope="row"),
        build_element(
            "td", parts.build_link(build_code(parts.shorten(grant.tool)), "/tools/show", name=grant.tool), class_="name"
        ),
        build_element("td", chip, *([" ", parts.shorten(listed.text, 200)] if listed.text else [])),
        build_element("td", *_iter_limits(record), class_="long"),
        never if used is None else parts.build_time(used),
        join_markup(parts.build_time(grant.made), " by ", parts.shorten(grant.person or grant.by)),
        build_element("td", parts.shorten(grant.reason or "–", 300), class_="long"),
        build_element("td", build_code(parts.shorten(grant.id, 12)), class_="id", title=grant.id),
    )  # fmt: skip


def _iter_limits(record: GrantRecord) -> Iterator[Markup]:
    """Yield what a grant is limited to: a number of calls, a time, bounds of arguments."""
    grant = record.grant
    if record.calls_left is None and grant.expires is None and grant.where is None:
        yield Markup("none")
    if record.calls_left is not None:
        yield build_element("p", f"{record.calls_left:,} of {format_count(grant.max_calls or 0, 'call')} left")
    if grant.expires is not None:
        yield build_element("p", "until ", parts.build_time(grant.expires))
    if grant.where is not None:
        yield build_element("p", "where ", build_code(parts.format_value(grant.where)))


def _build_choices(chosen: str, given: dict[str, str]) -> Markup:
    return parts.build_choices(
        "State",
        ((text, parts.build_url("/grants", **given, state=state), state == chosen) for state, text in STATES.items()),
    )


def _build_form(chosen: str, given: dict[str, str]) -> Markup:
    fields = [
        build_element(
            "p", build_element("label", name.capitalize(), for_=name),
            build_element("input", type="search", name=name, id=name, value=value, maxlength=200, autocomplete="off"),
        )
        for name, value in given.items()
    ]  # fmt: skip
    return build_element(
        "form", *fields, build_element("input", type="hidden", name="state", value=chosen),
        build_element("p", build_element("button", "Filter", type="submit")),
        method="get", action="/grants", class_="filters", role="search",
    )  # fmt: skip


def _build_journal_note() -> Markup:
    text = (
        "This page was started for a journal alone: what it holds is shown, and every grant waits for the program that "
        "has its tool. To see which are live, and to change them: praval-tools --app MODULE:REGISTRY ui"
    )
    return parts.build_message(sanitize_text(text))
