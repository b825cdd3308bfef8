"""What every chart of the report is drawn with: shapes, labels, scales."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from attrs import frozen

from praval_tools.cli.demo.report.markup import Markup, build_element, escape_text, join_markup

CHART_WIDTH = 720


def draw_chart(height: float, *shapes: object, title: str) -> Markup:
    """Return a chart of the common width, with what a screen reader says of it."""
    drawn = build_element(
        "svg",
        build_element("title", title),
        *shapes,
        viewBox=f"0 0 {CHART_WIDTH} {height:.0f}",
        role="img",
        aria_label=title,
    )
    return build_element("div", drawn, class_="wide")


def draw_label(
    x: float, y: float, value: object, *, anchor: str = "start", class_: str = "", max_length: int = 28
) -> Markup:
    """Return a text at a place: `start`, `middle` or `end` of it."""
    return build_element(
        "text",
        escape_text(value, max_length=max_length),
        x=f"{x:.1f}",
        y=f"{y:.1f}",
        text_anchor=anchor,
        class_=class_ or None,
    )


def draw_line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """Return a straight line."""
    return build_element("line", x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}", class_=class_)


def draw_dot(x: float, y: float, radius: float, class_: str, told: str | None = None) -> Markup:
    """Return a disc; *told* is what it says when pointed at."""
    note = None if told is None else build_element("title", told)
    return build_element("circle", note, cx=f"{x:.1f}", cy=f"{y:.1f}", r=f"{radius:.1f}", class_=class_)


def draw_bar(x: float, y: float, width: float, height: float, class_: str, told: str | None = None) -> Markup:
    """Return a rectangle; *told* is what it says when pointed at."""
    note = None if told is None else build_element("title", told)
    return build_element(
        "rect", note, x=f"{x:.1f}", y=f"{y:.1f}", width=f"{max(width, 0):.1f}", height=f"{height:.1f}", rx="3",
        class_=class_,
    )  # fmt: skip


def draw_curve(x1: float, y1: float, x2: float, y2: float, class_: str, told: str) -> Markup:
    """Return a line that leaves and arrives level."""
    middle = (x1 + x2) / 2
    way = f"M{x1:.1f} {y1:.1f}C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    return build_element("path", build_element("title", told), d=way, class_=class_)


def draw_legend(*entries: tuple[str, str]) -> Markup:
    """Return what the colours mean: pairs of class and words."""
    return build_element(
        "p",
        *(join_markup(build_element("i", class_=f"key {name}"), words, " ") for name, words in entries),
        class_="legend",
    )


@frozen
class Scale:
    """Values from *low* to *high* on the way from *left* to *right*; by their logarithms if they are so shown."""

    low: float
    high: float
    left: float
    right: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """Return where *value* stands."""
        low, high, here = (math.log10(one) if self.logarithmic else one for one in (self.low, self.high, value))
        share = (here - low) / (high - low) if high > low else 0.5
        return self.left + min(1.0, max(0.0, share)) * (self.right - self.left)

    def iter_ticks(self) -> Iterator[float]:
        """Yield a few round values in between."""
        if self.logarithmic:
            first, last = round(math.log10(self.low)), round(math.log10(self.high))
            yield from (10.0**power for power in range(first, last + 1))
            return
        rough = (self.high - self.low) / 4
        if rough <= 0:
            yield self.low
            return
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
        for number in range(math.ceil(self.low / step), math.floor(self.high / step) + 1):
            yield number * step


def find_decades(values: Sequence[float]) -> tuple[float, float]:
    """Return powers of ten around *values*."""
    low, high = min(values, default=1.0), max(values, default=1.0)
    first = math.floor(math.log10(max(low, 0.001)))
    return 10.0**first, 10.0 ** max(math.ceil(math.log10(max(high, 0.001))), first + 1)
