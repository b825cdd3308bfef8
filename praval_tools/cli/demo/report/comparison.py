"""Draws the chart of the demo's answer: what was observed and expected in each group."""

from __future__ import annotations

from collections.abc import Sequence

from praval_tools.demo import phrases
from praval_tools.demo.question import Question
from praval_tools.demo.statistics import Comparison, select_shown_groups
from praval_tools.names import format_count
from praval_tools.report.markup import Markup, join_markup
from praval_tools.report.run_charts import ROW_HEIGHT, TOP, draw_axis
from praval_tools.report.svg import (
    CHART_WIDTH,
    Scale,
    draw_chart,
    draw_dot,
    draw_label,
    draw_legend,
    draw_line,
)

_MAX_GROUPS = 16


def render_comparison(question: Question, groups: Sequence[Comparison]) -> Markup:
    """Return what was observed and expected in each group; those that stand out in colour."""
    shown = select_shown_groups(groups, _MAX_GROUPS)
    values = [value for group in shown for value in (group.observed, group.expected)] or [0.0]
    margin = (max(values) - min(values)) * 0.06 or 0.5
    scale = Scale(min(values) - margin, max(values) + margin, 210, CHART_WIDTH - 24)
    bottom = TOP + ROW_HEIGHT * len(shown)
    shapes = list(draw_axis(scale, bottom, lambda tick: phrases.format_mean(question, tick)))
    for number, group in enumerate(shown):
        y, class_ = TOP + ROW_HEIGHT * (number + 0.5), "good" if group.verdict == "stands out" else "calm"
        tooltip = (
            f"{group.group}: {phrases.format_measure(question, group.observed)}, "
            f"expected {phrases.format_mean(question, group.expected)}, "
            f"{format_count(group.rows, question.table.unit)}, {group.verdict}"
        )
        shapes += [
            draw_label(200, y + 4, group.group, anchor="end", class_="strong" if class_ == "good" else None),
            draw_line(scale(group.expected), y, scale(group.observed), y, f"link {class_}"),
            draw_dot(scale(group.expected), y, 4.5, "expected"),
            draw_dot(scale(group.observed), y, 6, class_, tooltip),
        ]
    chart = draw_chart(bottom + 28, *shapes, title=f"{question.measure} by {question.by}: observed and expected")
    return join_markup(chart, draw_legend(("good", "stands out"), ("calm", "within luck"), ("expected", "expected")))
