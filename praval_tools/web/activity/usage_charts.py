"""Charts of use: calls by day and by name, drawn for wide and for narrow windows; the style sheet shows one of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Final

from attrs import frozen

from praval_tools.journal.index.usage import CallSum
from praval_tools.report.markup import Markup, join_markup
from praval_tools.report.svg import Scale, draw_bar, draw_chart, draw_label, draw_legend, draw_line
from praval_tools.web.activity import parts

PARTS: Final = (("ok", "good", "ended well"), ("failed", "failed", "failed"), ("refused", "bad", "refused"))
"""How calls end: the name of their sum, the class of its colour, its words."""
_TOP: Final = 26.0
_MAX_BAR: Final = 56.0


@frozen(kw_only=True)
class _Window:
    """
    How a chart is drawn for windows of a width.

    Args:
        class_: By which the style sheet shows it there.
        width: Of the chart.
        bottom: Where the bars of days stand.
        days: How many days have a label.
        is_narrow: Whether names stand above their bars, not beside them.
    """

    class_: str
    width: float
    bottom: float
    days: int
    is_narrow: bool = False


_WINDOWS: Final = (
    _Window(class_="broad", width=1_100, bottom=236, days=15),
    _Window(class_="narrow", width=330, bottom=170, days=5, is_narrow=True),
)


def render_days(sums: Sequence[CallSum], since: date, until: date) -> Markup:
    """Return a bar for each day: what ended well, failed, was refused."""
    by_day = {each.day: each for each in sums}
    days = [since + timedelta(days=place) for place in range((until - since).days + 1)]
    charts = (_draw_days([by_day.get(day, CallSum(day=day)) for day in days], days, window) for window in _WINDOWS)
    return join_markup(*charts, _build_legend())


def _draw_days(sums: Sequence[CallSum], days: Sequence[date], window: _Window) -> Markup:
    ticks = find_whole_ticks(max((each.calls for each in sums), default=0))
    left, right = 14 + 8.0 * len(f"{ticks[-1]:,}"), window.width - 20
    scale, width = Scale(0, ticks[-1], 0, window.bottom - _TOP), (right - left) / len(days)
    shapes = [draw_label(0, 12, "calls", class_="small")]
    for tick in ticks:
        y = window.bottom - scale(tick)
        shapes += [
            draw_line(left, y, right, y, "grid"),
            draw_label(left - 8, y + 4, f"{tick:,}", anchor="end", class_="small"),
        ]
    every = math.ceil(len(days) / window.days)
    for place, (day, each) in enumerate(zip(days, sums, strict=True)):
        middle, bar = left + (place + 0.5) * width, min(max(width * 0.8, 1), _MAX_BAR)
        shapes += _draw_day(each, middle - bar / 2, bar, scale, window.bottom)
        if (len(days) - 1 - place) % every == 0:
            label = day.strftime("%m-%d")
            shapes.append(draw_label(middle, window.bottom + 18, label, anchor="middle", class_="small"))
    return draw_chart(
        window.bottom + 26, *shapes, title="Calls by day", width=window.width, class_=window.class_
    )  # fmt: skip


def _draw_day(sums: CallSum, x: float, width: float, scale: Scale, bottom: float) -> Iterator[Markup]:
    y = bottom
    for name, class_, words in PARTS:
        if number := getattr(sums, name):
            height = scale(number)
            y -= height
            yield draw_bar(x, y, width, height, class_, f"{sums.day}: {number:,} {words}")


def find_whole_ticks(highest: int) -> list[int]:
    """Return a few round numbers from 0 to *highest* or a little beyond."""
    if highest < 2:
        return [0, 1]
    first, second, *_ = Scale(0, highest, 0, 1).iter_ticks()
    step = max(1, round(second - first))
    return list(range(0, (math.ceil(highest / step) + 1) * step, step))


def render_names(sums: Sequence[CallSum]) -> Markup:
    """Return a bar for each tool or agent: what ended well, failed, was refused."""
    if not sums:
        return parts.build_note("No calls in this span.")
    return join_markup(*(_draw_names(sums, window) for window in _WINDOWS), _build_legend())


def _draw_names(sums: Sequence[CallSum], window: _Window) -> Markup:
    left, row, top = (0.0, 40, 20) if window.is_narrow else (204.0, 24, 4)
    scale = Scale(0, max(each.calls for each in sums), 0, window.width - left - 66)
    shapes: list[Markup] = []
    for place, each in enumerate(sums):
        x, y = left, float(top + row * place)
        if window.is_narrow:
            shapes.append(draw_label(0, y - 6, each.name, class_="mono"))
        else:
            shapes.append(draw_label(left - 8, y + 13, each.name, anchor="end", class_="mono"))
        for name, class_, words in PARTS:
            if number := getattr(each, name):
                bar = scale(number)
                shapes.append(draw_bar(x, y, max(bar - 1, 1), 16, class_, f"{each.name}: {number:,} {words}"))
                x += bar
        shapes.append(draw_label(x + 6, y + 13, f"{each.calls:,}", class_="small"))
    return draw_chart(
        row * len(sums) + 4, *shapes, title="Calls by name", width=window.width, class_=window.class_
    )  # fmt: skip


def _build_legend() -> Markup:
    return draw_legend(*((class_, words) for _, class_, words in PARTS))
