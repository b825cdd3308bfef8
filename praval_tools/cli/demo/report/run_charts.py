"""The charts of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from praval_tools.cli.demo.report.markup import Markup, join_markup
from praval_tools.cli.demo.report.svg import (
    CHART_WIDTH,
    Scale,
    draw_bar,
    draw_chart,
    draw_dot,
    draw_label,
    draw_legend,
    draw_line,
    find_decades,
)
from praval_tools.cli.demo.run_summary import describe_recovery, get_outcome_name
from praval_tools.demo import phrases
from praval_tools.demo.question import Question
from praval_tools.demo.run_report import DemoCall, RunReport
from praval_tools.demo.statistics import Comparison

_MAX_GROUPS = 16
_ROW_HEIGHT = 28


def get_outcome_class(outcome: str) -> str:
    """Return the class of what ended in *outcome*."""
    return {"ok": "good", "in_doubt": "doubt", "approval_required": "doubt"}.get(outcome, "bad")


def render_comparison(question: Question, groups: Sequence[Comparison]) -> Markup:
    """Return what each group has beside what was to be expected of it; those that stand out in colour."""
    judged = [one for one in groups if one.verdict != "too few"] or list(groups)
    if len(judged) > _MAX_GROUPS:
        judged = [*judged[: _MAX_GROUPS // 2], *judged[-_MAX_GROUPS // 2 :]]
    values = [value for one in judged for value in (one.observed, one.expected)] or [0.0]
    margin = (max(values) - min(values)) * 0.06 or 0.5
    scale = Scale(min(values) - margin, max(values) + margin, 210, CHART_WIDTH - 24)
    bottom = 12 + _ROW_HEIGHT * len(judged)
    shapes = [*_render_axis(scale, bottom, lambda tick: phrases.format_mean(question, tick))]
    for number, one in enumerate(judged):
        y, out = 12 + _ROW_HEIGHT * (number + 0.5), "good" if one.verdict == "stands out" else "calm"
        told = (
            f"{one.group}: {phrases.format_measure(question, one.observed)}, "
            f"expected {phrases.format_mean(question, one.expected)}, {one.rows:,} {question.table.unit}, {one.verdict}"
        )
        shapes += [
            draw_label(200, y + 4, one.group, anchor="end", class_="strong" if out == "good" else ""),
            draw_line(scale(one.expected), y, scale(one.observed), y, f"link {out}"),
            draw_dot(scale(one.expected), y, 4.5, "expected"),
            draw_dot(scale(one.observed), y, 6, out, told),
        ]
    drawn = draw_chart(bottom + 28, *shapes, title=f"{question.measure} by {question.by}: observed and expected")
    return join_markup(drawn, draw_legend(("good", "stands out"), ("calm", "within luck"), ("expected", "expected")))


def _render_axis(scale: Scale, bottom: float, told: object) -> Iterator[Markup]:
    for tick in scale.iter_ticks():
        x = scale(tick)
        yield draw_line(x, 8, x, bottom, "grid")
        yield draw_label(x, bottom + 18, told(tick) if callable(told) else tick, anchor="middle", class_="small")


def render_swimlanes(account: RunReport) -> Markup:
    """Return the run from left to right, a lane per agent; where the process died a line goes through all lanes."""
    agents = list(dict.fromkeys(one.record.agent or "operator" for one in account.calls))
    across = Scale(0.5, len(account.calls) + 0.5, 128, CHART_WIDTH - 12)
    top, bottom = 34, 34 + 46 * len(agents)
    heights = {agent: top + 46 * (number + 0.5) for number, agent in enumerate(agents)}
    shapes: list[Markup] = []
    for agent, y in heights.items():
        shapes += [draw_label(112, y + 4, agent, anchor="end"), draw_line(122, y, CHART_WIDTH - 12, y, "grid")]
    shapes += _render_crashes(account, across, bottom)
    places: dict[str, tuple[float, float]] = {}
    for one in account.calls:
        x, y = across(one.number), heights[one.record.agent or "operator"] + 14 * one.depth
        places[one.record.tool_call_id] = (x, y)
        if one.record.parent_id in places:
            shapes.append(draw_line(*places[one.record.parent_id], x, y, "thin"))
        if one.recovery:
            shapes.append(draw_dot(x, y, 11, "ring"))
        shapes.append(
            draw_dot(x, y, 6 - 2 * min(one.depth, 1), get_outcome_class(get_outcome_name(one)), _describe_call(one))
        )
    drawn = draw_chart(bottom + 12, *shapes, title="The calls in order, a lane per agent")
    return join_markup(drawn, draw_legend(("good", "ran"), ("bad", "refused"), ("ring", "in doubt after a death")))


def _render_crashes(account: RunReport, across: Scale, bottom: float) -> Iterator[Markup]:
    for before, after in zip(account.calls, account.calls[1:], strict=False):
        if before.process_number != after.process_number:
            x = (across(before.number) + across(after.number)) / 2
            yield draw_line(x, 26, x, bottom, "death")
            yield draw_label(x, 18, "killed", anchor="middle", class_="small bad")
    if account.calls and account.calls[-1].process_number != account.process_count:  # it died in the last call
        x = across(len(account.calls) + 0.5)
        yield draw_line(x, 26, x, bottom, "death")
        yield draw_label(x, 18, "killed", anchor="end", class_="small bad")


def _describe_call(one: DemoCall) -> str:
    later = describe_recovery(one)
    return f"{one.number}. {one.record.agent} {one.record.tool_name}: {get_outcome_name(one)}{', ' if later else ''}{later}"


def render_calls_per_agent(account: RunReport) -> Markup:
    """Return how many calls each agent made, and how they ended."""
    counts: dict[str, Counter[str]] = {}
    for one in account.calls:
        counts.setdefault(one.record.agent or "operator", Counter())[get_outcome_name(one)] += 1
    most = max((found.total() for found in counts.values()), default=1)
    scale = Scale(0, most, 128, CHART_WIDTH - 60)
    shapes: list[Markup] = []
    for number, (agent, found) in enumerate(counts.items()):
        y, done = 6 + 36 * number, 0
        shapes.append(draw_label(116, y + 17, agent, anchor="end"))
        for outcome, calls in sorted(found.items(), key=lambda pair: (pair[0] != "ok", pair[0])):
            told = f"{agent}: {calls} {outcome}"
            shapes.append(
                draw_bar(
                    scale(done) + 1, y, scale(done + calls) - scale(done) - 2, 24, get_outcome_class(outcome), told
                )
            )
            done += calls
        shapes.append(draw_label(scale(done) + 8, y + 17, done, class_="small"))
    return draw_chart(12 + 36 * len(counts), *shapes, title="Calls per agent")


def render_outcomes(account: RunReport) -> Markup:
    """Return how all calls ended, as one bar."""
    found = sorted(account.outcome_counts.items(), key=lambda pair: -pair[1])
    scale = Scale(0, max(len(account.calls), 1), 0, CHART_WIDTH)
    done, shapes = 0, []
    for outcome, calls in found:
        left, right = scale(done), scale(done + calls)
        shapes.append(draw_bar(left + 1, 0, right - left - 2, 34, get_outcome_class(outcome), f"{outcome}: {calls}"))
        shapes.append(draw_label(left + 12, 22, f"{outcome} {calls}", class_="inside"))
        done += calls
    return draw_chart(36, *shapes, title="How the calls ended")


def render_latencies(account: RunReport) -> Markup:
    """Return how long each call took, a row per tool, the slowest above."""
    times: dict[str, list[DemoCall]] = {}
    for one in account.calls:
        if one.record.latency_ms is not None:
            times.setdefault(one.record.tool_name, []).append(one)
    values = [one.record.latency_ms or 0.0 for found in times.values() for one in found]
    scale = Scale(*find_decades(values), 150, CHART_WIDTH - 24, logarithmic=True)
    rows = sorted(times.items(), key=lambda pair: -max(one.record.latency_ms or 0.0 for one in pair[1]))
    bottom = 12 + _ROW_HEIGHT * len(rows)
    shapes = [*_render_axis(scale, bottom, lambda tick: f"{tick:g} ms")]
    for number, (tool, found) in enumerate(rows):
        y = 12 + _ROW_HEIGHT * (number + 0.5)
        shapes.append(draw_label(138, y + 4, tool, anchor="end", class_="mono"))
        for one in found:
            took = one.record.latency_ms or 0.0
            shapes.append(draw_dot(scale(took), y, 6, "speed", f"{tool}: {took:.2f} ms"))
    return draw_chart(bottom + 28, *shapes, title="How long each call took")
