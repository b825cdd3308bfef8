"""The view of statistics: calls, failures, refusals and durations by day, tool and agent, with charts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import urlencode

from attrs import define, field, frozen
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from praval_tools.journal.index.usage import (
    CallSum,
    Kind,
    find_quantile,
    list_durations,
    rank_names,
    rank_partners,
    sum_all,
    sum_by_day,
)
from praval_tools.report.markup import Markup, build_code, build_element, build_row, join_markup
from praval_tools.report.text import format_duration
from praval_tools.web.activity import parts
from praval_tools.web.activity.activity import Activity
from praval_tools.web.activity.host import Host
from praval_tools.web.activity.usage_charts import render_days, render_names

_SPANS: Final = {"1": "today", "7": "7 days", "30": "30 days", "90": "90 days", "": "all days"}
_CACHE_SECONDS: Final = 20.0
_MAX_CACHED: Final = 200
_NAMES: Final = 20


@define
class _Cache:
    """Keeps sections for some seconds: many look at the same figures, and few change at once."""

    sections: dict[object, tuple[float, Markup]] = field(factory=dict)

    def get(self, key: object, build: Callable[[], Markup]) -> Markup:
        now = time.monotonic()
        kept = self.sections.get(key)
        if kept is not None and now - kept[0] < _CACHE_SECONDS:
            return kept[1]
        if len(self.sections) >= _MAX_CACHED:
            self.sections.clear()
        section = build()
        self.sections[key] = (now, section)
        return section


@frozen
class StatisticsViews:
    """The view of statistics."""

    activity: Activity
    host: Host
    _cache: _Cache = field(factory=_Cache)

    async def show_statistics(self, request: Request) -> Response:
        """Show figures of a span of days, of all calls, of one tool, or of one agent."""
        days = request.query_params.get("days", "7")
        tool, agent = (request.query_params.get(name, "").strip()[:500] for name in ("tool", "agent"))
        span = days if days in _SPANS else "7"
        content = await run_in_threadpool(self._build, span, tool, "" if tool else agent)
        return self.host.render_page(request, "Statistics", content)

    def _build(self, span: str, tool: str, agent: str) -> Markup:
        index = self.activity.index
        if not index.is_ready:
            return parts.build_section("Statistics", "", parts.build_progress_note(index.progress.percent))
        key = (span, tool, agent)
        return join_markup(_build_head(span, tool, agent), self._cache.get(key, lambda: self._build_figures(*key)))

    def _build_figures(self, span: str, tool: str, agent: str) -> Markup:
        index, today = self.activity.index, datetime.now(UTC).date()
        kind: Kind = "tool" if tool else "agent" if agent else "all"
        name = tool or agent
        length = int(span or "90")
        since = today - timedelta(days=length - 1)
        by_day = sum_by_day(index, kind, name, since=since, until=today)
        total = sum_all(index, kind, name) if not span else _add_up(by_day)
        days = "The latest 90 days." if not span else "Days are those of UTC."
        sections = [
            parts.build_sum_tiles(total),
            parts.build_section("Calls by day", days, render_days(by_day, since, today)),
        ]
        if kind == "all":
            first, last = (since, today) if span else (None, None)
            tools = rank_names(index, "tool", since=first, until=last, limit=_NAMES)
            agents = rank_names(index, "agent", since=first, until=last, limit=_NAMES)
            sections += [
                parts.build_section("Tools with most calls", "", render_names(tools), _build_names(tools, "tool")),
                parts.build_section("Agents with most calls", "", render_names(agents), _build_names(agents, "agent")),
                self._build_durations([sums.name for sums in tools]),
            ]
        elif kind == "tool":
            partners, note = rank_partners(index, tool=tool, limit=_NAMES), "In its latest 10,000 events."
            sections.append(parts.build_section("By agent", note, render_names(partners)))
            sections.append(self._build_durations([tool]))
        else:
            partners = rank_partners(index, agent=agent, limit=_NAMES)
            note = "In its latest 10,000 events."
            sections.append(parts.build_section("By tool", note, render_names(partners)))
            sections.append(self._build_durations([sums.name for sums in partners]))
        return join_markup(*sections)

    def _build_durations(self, tools: Sequence[str]) -> Markup:
        rows = []
        for tool in tools:
            durations = list_durations(self.activity.index, tool)
            if durations:
                shares = (find_quantile(durations, share) for share in (0.5, 0.95, 0.99))
                cells = (build_element("td", format_duration(value), class_="number") for value in shares)
                slowest = build_element("td", format_duration(durations[-1]), class_="number")
                rows.append(build_row(build_code(parts.shorten(tool)), *cells, slowest))
        lead = "Of the latest 500 calls of each tool that ended well: half of them were faster than the first figure."
        if not rows:
            return parts.build_section("Durations", "", parts.build_note("No call ended well yet."))
        titles = ("tool", "half", "95 %", "99 %", "slowest")
        return parts.build_section(
            "Durations", lead, parts.build_table(titles, rows, class_="listing figures", caption="Durations by tool")
        )


def _add_up(sums: Sequence[CallSum]) -> CallSum:
    return CallSum(
        ok=sum(each.ok for each in sums), failed=sum(each.failed for each in sums),
        refused=sum(each.refused for each in sums), total_ms=sum(each.total_ms for each in sums),
    )  # fmt: skip


def _build_head(span: str, tool: str, agent: str) -> Markup:
    choices = parts.build_choices(
        "Days", ((words, f"/statistics?{_encode(days, tool, agent)}", days == span) for days, words in _SPANS.items())
    )
    title = f"Statistics of tool {tool}" if tool else f"Statistics of agent {agent}" if agent else "Statistics"
    everything = parts.build_link("All tools and agents", "/statistics", days=span) if tool or agent else None
    form = build_element(
        "form",
        *(
            build_element(
                "p", build_element("label", name.capitalize(), for_=name),
                build_element("input", type="search", name=name, id=name, value=value, maxlength=500),
            )
            for name, value in (("tool", tool), ("agent", agent))
        ),
        build_element("input", type="hidden", name="days", value=span),
        build_element("p", build_element("button", "Show", type="submit")),
        method="get", action="/statistics", class_="filters", role="search",
    )  # fmt: skip
    return parts.build_section(
        title, "Calls that ended, from the journal.", choices, form,
        build_element("p", everything) if everything is not None else None,
    )  # fmt: skip


def _encode(days: str, tool: str, agent: str) -> str:
    return urlencode({"days": days, **({"tool": tool} if tool else {"agent": agent} if agent else {})})


def _list_counts(sums: CallSum) -> tuple[int, int, int, int]:
    return sums.calls, sums.ok, sums.failed, sums.refused


def _build_names(sums: Sequence[CallSum], kind: str) -> Markup | None:
    if not sums:
        return None
    rows = [
        build_row(
            parts.build_link(each.name, "/statistics", **{kind: each.name}),
            *(build_element("td", f"{number:,}", class_="number") for number in _list_counts(each)),
            build_element("td", format_duration(each.average_ms) or "–", class_="number"),
        )
        for each in sums
    ]  # fmt: skip
    titles = (kind, "calls", "ended well", "failed", "refused", "average")
    table = parts.build_table(titles, rows, class_="listing figures", caption=f"By {kind}")
    return build_element("details", build_element("summary", "The figures"), table)
