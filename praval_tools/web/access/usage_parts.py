"""What the journal says of the use of a tool or an agent: counts, outcomes, durations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from praval_tools.journal.index.index import JournalIndex
from praval_tools.journal.index.usage import (
    CallSum,
    count_outcomes,
    find_quantile,
    list_durations,
    rank_partners,
    sum_all,
)
from praval_tools.report.markup import Markup, build_element, build_row, join_markup
from praval_tools.report.text import format_duration
from praval_tools.web.activity import parts

_FIGURES: Final = "listing figures"
_PARTNERS: Final = 20
_SHARES: Final = ((0.5, "half"), (0.95, "95 %"), (0.99, "99 %"))


def build_usage(index: JournalIndex, kind: Literal["tool", "agent"], name: str) -> Markup:
    """Return how a tool or an agent was used."""
    if not index.is_ready:
        return parts.build_section("Use", "", parts.build_progress_note(index.progress.percent))
    total = sum_all(index, kind, name)
    links = build_element(
        "p", parts.build_link("By day", "/statistics", **{kind: name}), " · ",
        parts.build_link("Every event", "/audit", **{kind: name}), class_="fine",
    )  # fmt: skip
    if not total.calls:
        return parts.build_section("Use", "", parts.build_note("No call is recorded."), links)
    is_tool = kind == "tool"
    partners = rank_partners(index, tool=name if is_tool else None, agent=None if is_tool else name, limit=_PARTNERS)
    shown = join_markup(
        parts.build_sum_tiles(total),
        _build_partners(partners, "agent" if is_tool else "tool"),
        _build_outcomes(index, kind, name),
        _build_durations(list_durations(index, name)) if is_tool else None,
    )
    return parts.build_section("Use", "Calls that ended, from the journal.", links, shown)


def build_call_count(index: JournalIndex, kind: Literal["tool", "agent"], name: str) -> Markup:
    """Return how many calls ended, as a cell of a table."""
    total = sum_all(index, kind, name)
    return build_element("td", f"{total.calls:,}" if total.calls else "–", class_="number")


def _build_partners(sums: Sequence[CallSum], word: Literal["agent", "tool"]) -> Markup | None:
    if not sums:
        return None
    rows = []
    for each in sums:
        cells = (build_element("td", f"{number:,}", class_="number") for number in (each.ok, each.failed, each.refused))
        name = build_element("th", parts.build_link(each.name, f"/{word}s/show", name=each.name), scope="row")
        rows.append(build_row(name, *cells))
    caption = f"By {word}, in the latest 10,000 events"
    return parts.build_table((word, "ended well", "failed", "refused"), rows, class_=_FIGURES, caption=caption)


def _build_outcomes(index: JournalIndex, kind: Literal["tool", "agent"], name: str) -> Markup:
    rows = [
        build_row(
            build_element("th", parts.build_outcome(outcome), scope="row"),
            build_element("td", f"{number:,}", class_="number"),
            build_element(
                "td", parts.build_link("The latest", "/audit", **{kind: name}, outcome=outcome), class_="number"
            ),
        )
        for outcome, number in count_outcomes(index, kind, name)
    ]
    caption = "How the calls ended, in the latest 10,000 events"
    return parts.build_table(("outcome", "calls", "events"), rows, class_=_FIGURES, caption=caption)


def _build_durations(durations: Sequence[float]) -> Markup | None:
    if not durations:
        return None
    values = [find_quantile(durations, share) for share, _ in _SHARES]
    cells = [build_element("td", format_duration(value), class_="number") for value in (*values, durations[-1])]
    titles = ("share", *(title for _, title in _SHARES), "slowest")
    caption = "Durations of the latest 500 calls that ended well: half of them were faster than the first figure"
    row = build_row(build_element("th", "duration", scope="row"), *cells)
    return parts.build_table(titles, [row], class_=_FIGURES, caption=caption)
