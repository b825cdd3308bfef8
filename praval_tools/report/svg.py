"""Draws shapes, labels, legends and scales as SVG, for a report's charts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from attrs import frozen

from praval_tools.report.markup import Markup, build_element, escape_text

CHART_WIDTH = 720
_MAX_LABEL = 28
_CHARACTER_WIDTH, _BOLD_CHARACTER_WIDTH = 8, 9  # pixels, of usual letters
_MIN_LOGARITHMIC = 0.001


def draw_chart(
    height: float, *shapes: object, title: str, width: float = CHART_WIDTH, class_: str | None = None
) -> Markup:  # fmt: skip
    """Return a chart, by default of the common width; *title* is for screen readers."""
    box = f"0 0 {width:.0f} {height:.0f}"
    heading = build_element("title", title)
    svg = build_element("svg", heading, *shapes, viewBox=box, role="img", aria_label=title, class_=class_)
    return build_element("div", svg, class_="wide")


def _draw_shape(
    name: str, class_: str | None, *children: object, tooltip: str | None = None, **numbers: float
) -> Markup:
    note = None if tooltip is None else build_element("title", tooltip)
    return build_element(
        name, note, *children, **{key: f"{number:.1f}" for key, number in numbers.items()}, class_=class_
    )


def draw_label(x: float, y: float, value: object, *, anchor: str = "start", class_: str | None = None) -> Markup:
    """Return a text at a place, which is its `start`, `middle` or `end`; cut, so that its start stays inside."""
    width = _BOLD_CHARACTER_WIDTH if class_ == "strong" else _CHARACTER_WIDTH
    longest = min(_MAX_LABEL, int(x / width)) if anchor == "end" else _MAX_LABEL
    text = escape_text(value, max_length=longest)
    return build_element("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, class_=class_)


def draw_line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """Return a straight line."""
    return _draw_shape("line", class_, x1=x1, y1=y1, x2=x2, y2=y2)


def draw_dot(x: float, y: float, radius: float, class_: str, tooltip: str | None = None) -> Markup:
    """Return a filled circle."""
    return _draw_shape("circle", class_, tooltip=tooltip, cx=x, cy=y, r=radius)


def draw_bar(x: float, y: float, width: float, height: float, class_: str, tooltip: str | None = None) -> Markup:
    """Return a rectangle with round corners."""
    return _draw_shape("rect", class_, tooltip=tooltip, x=x, y=y, width=max(width, 0), height=height, rx=3)


def draw_curve(x1: float, y1: float, x2: float, y2: float, class_: str, tooltip: str) -> Markup:
    """Return a line that starts and ends horizontally."""
    middle = (x1 + x2) / 2
    path = f"M{x1:.1f} {y1:.1f}C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    return build_element("path", build_element("title", tooltip), d=path, class_=class_)


def draw_legend(*entries: tuple[str, str]) -> Markup:
    """Return what the colours mean: pairs of class and words."""
    keys = (build_element("span", build_element("i", class_=f"key {name}"), words) for name, words in entries)
    return build_element("p", *keys, class_="legend")


@frozen
class Scale:
    """Maps values from *low* to *high* to coordinates from *left* to *right*, linearly or by their logarithms."""

    low: float
    high: float
    left: float
    right: float
    is_logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """Return the coordinate of *value*."""
        low, high, here = (
            math.log10(max(number, _MIN_LOGARITHMIC)) if self.is_logarithmic else number
            for number in (self.low, self.high, value)
        )
        share = (here - low) / (high - low) if high > low else 0.5
        return self.left + min(1.0, max(0.0, share)) * (self.right - self.left)

    def iter_ticks(self) -> Iterator[float]:
        """Yield a few round values in between."""
        if self.is_logarithmic:
            first, last = round(math.log10(self.low)), round(math.log10(self.high))
            yield from (10.0**power for power in range(first, last + 1))
        elif self.high <= self.low:
            yield self.low
        else:
            rough = (self.high - self.low) / 4
            power = 10.0 ** math.floor(math.log10(rough))
            step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
            yield from (number * step for number in range(math.ceil(self.low / step), math.floor(self.high / step) + 1))


def find_decades(values: Sequence[float]) -> tuple[float, float]:
    """Return the powers of ten around *values*."""
    low, high = min(values, default=1.0), max(values, default=1.0)
    first = math.floor(math.log10(max(low, _MIN_LOGARITHMIC)))
    return 10.0**first, 10.0 ** max(math.ceil(math.log10(max(high, _MIN_LOGARITHMIC))), first + 1)
