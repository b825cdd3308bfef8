"""The report's charts of the answer and of the run: comparison, timeline, outcomes, latencies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

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
from praval_tools.demo import phrases
from praval_tools.demo.question import Question
from praval_tools.demo.run_report import RunReport
from praval_tools.demo.statistics import Comparison, select_shown_groups

_MAX_GROUPS = 16
_ROW_HEIGHT, _TOP = 28, 12
_AGENT_HEIGHT = 46
_OUTCOME_CLASSES = {"ok": "good", "in_doubt": "doubt", "approval_required": "doubt"}


def get_outcome_class(outcome: str) -> str:
    """Return the CSS class for an outcome."""
    return _OUTCOME_CLASSES.get(outcome, "bad")


def render_comparison(question: Question, groups: Sequence[Comparison]) -> Markup:
    """Return what was observed and expected in each group; those that stand out in colour."""
    shown = select_shown_groups(groups, _MAX_GROUPS)
    values = [value for group in shown for value in (group.observed, group.expected)] or [0.0]
    margin = (max(values) - min(values)) * 0.06 or 0.5
    scale = Scale(min(values) - margin, max(values) + margin, 210, CHART_WIDTH - 24)
    bottom = _TOP + _ROW_HEIGHT * len(shown)
    shapes = list(_draw_axis(scale, bottom, lambda tick: phrases.format_mean(question, tick)))
    for number, group in enumerate(shown):
        y, class_ = _TOP + _ROW_HEIGHT * (number + 0.5), "good" if group.verdict == "stands out" else "calm"
        tooltip = (
            f"{group.group}: {phrases.format_measure(question, group.observed)}, "
            f"expected {phrases.format_mean(question, group.expected)}, {group.rows:,} {question.table.unit}, "
            f"{group.verdict}"
        )
        shapes += [
            draw_label(200, y + 4, group.group, anchor="end", class_="strong" if class_ == "good" else None),
            draw_line(scale(group.expected), y, scale(group.observed), y, f"link {class_}"),
            draw_dot(scale(group.expected), y, 4.5, "expected"),
            draw_dot(scale(group.observed), y, 6, class_, tooltip),
        ]
    chart = draw_chart(bottom + 28, *shapes, title=f"{question.measure} by {question.by}: observed and expected")
    return join_markup(chart, draw_legend(("good", "stands out"), ("calm", "within luck"), ("expected", "expected")))


def _draw_axis(scale: Scale, bottom: float, format_tick: Callable[[float], str]) -> Iterator[Markup]:
    for tick in scale.iter_ticks():
        x = scale(tick)
        yield draw_line(x, 8, x, bottom, "grid")
        yield draw_label(x, bottom + 18, format_tick(tick), anchor="middle", class_="small")


def render_timeline(run_report: RunReport) -> Markup:
    """Return the calls from left to right, a row per agent, and a line through all rows at each crash."""
    agents = list(dict.fromkeys(call.agent for call in run_report.calls))
    scale = Scale(0.5, len(run_report.calls) + 0.5, 128, CHART_WIDTH - 12)
    heights = {agent: 34 + _AGENT_HEIGHT * (number + 0.5) for number, agent in enumerate(agents)}
    bottom = 34 + _AGENT_HEIGHT * len(agents)
    shapes: list[Markup] = []
    for agent, y in heights.items():
        shapes += [draw_label(112, y + 4, agent, anchor="end"), draw_line(122, y, CHART_WIDTH - 12, y, "grid")]
    shapes += _draw_crashes(run_report, scale, bottom)
    places: dict[str | None, tuple[float, float]] = {}
    for call in run_report.calls:
        x, y = places[call.record.tool_call_id] = scale(call.number), heights[call.agent] + 14 * call.depth
        if call.record.parent_id in places:
            shapes.append(draw_line(*places[call.record.parent_id], x, y, "thin"))
        if call.recovery:
            shapes.append(draw_dot(x, y, 11, "ring"))
        recovery = f", {call.recovery_text}" if call.recovery_text else ""
        tooltip = f"{call.number}. {call.record.agent} {call.record.tool_name}: {call.outcome}{recovery}"
        shapes.append(draw_dot(x, y, 6 - 2 * min(call.depth, 1), get_outcome_class(call.outcome), tooltip))
    chart = draw_chart(bottom + 12, *shapes, title="The calls in order, a row per agent")
    return join_markup(chart, draw_legend(("good", "ran"), ("bad", "refused"), ("ring", "in doubt after a crash")))


def _draw_crashes(run_report: RunReport, scale: Scale, bottom: float) -> Iterator[Markup]:
    calls = run_report.calls
    for before, after in zip(calls, calls[1:], strict=False):
        if before.process_number != after.process_number:
            yield from _draw_crash((scale(before.number) + scale(after.number)) / 2, bottom, "middle")
    if calls and calls[-1].process_number != run_report.process_count:  # it crashed in the last call
        yield from _draw_crash(scale(len(calls) + 0.5), bottom, "end")


def _draw_crash(x: float, bottom: float, anchor: str) -> Iterator[Markup]:
    yield draw_line(x, 26, x, bottom, "death")
    yield draw_label(x, 18, "killed", anchor=anchor, class_="small bad")


def render_calls_per_agent(run_report: RunReport) -> Markup:
    """Return how many calls each agent made, and how they ended."""
    agents: dict[str, Counter[str]] = {}
    for call in run_report.calls:
        agents.setdefault(call.agent, Counter())[call.outcome] += 1
    scale = Scale(0, max((counts.total() for counts in agents.values()), default=1), 128, CHART_WIDTH - 60)
    shapes: list[Markup] = []
    for number, (agent, counts) in enumerate(agents.items()):
        y, done = 6 + 36 * number, 0
        shapes.append(draw_label(116, y + 17, agent, anchor="end"))
        for outcome, calls in sorted(counts.items(), key=lambda pair: (pair[0] != "ok", pair[0])):
            left, right = scale(done) + 1, scale(done + calls) - 1
            class_ = get_outcome_class(outcome)
            shapes.append(draw_bar(left, y, right - left, 24, class_, f"{agent}: {calls} {outcome}"))
            done += calls
        shapes.append(draw_label(scale(done) + 8, y + 17, done, class_="small"))
    return draw_chart(12 + 36 * len(agents), *shapes, title="Calls per agent")


def render_outcomes(run_report: RunReport) -> Markup:
    """Return how all calls ended, as one bar."""
    scale = Scale(0, max(len(run_report.calls), 1), 0, CHART_WIDTH)
    done, shapes = 0, []
    for outcome, calls in run_report.outcome_counts.most_common():
        left, right = scale(done), scale(done + calls)
        shapes.append(draw_bar(left + 1, 0, right - left - 2, 34, get_outcome_class(outcome), f"{outcome}: {calls}"))
        shapes.append(draw_label(left + 12, 22, f"{outcome} {calls}", class_="inside"))
        done += calls
    return draw_chart(36, *shapes, title="How the calls ended")


def render_latencies(run_report: RunReport) -> Markup:
    """Return how long each call took, a row per tool, the slowest at the top."""
    tools: dict[str, list[float]] = {}
    for call in run_report.calls:
        if call.record.latency_ms is not None:
            tools.setdefault(call.record.tool_name, []).append(call.record.latency_ms)
    decades = find_decades([latency for latencies in tools.values() for latency in latencies])
    scale = Scale(*decades, 150, CHART_WIDTH - 24, is_logarithmic=True)
    bottom = _TOP + _ROW_HEIGHT * len(tools)
    shapes = list(_draw_axis(scale, bottom, lambda tick: f"{tick:g} ms"))
    for number, (tool, latencies) in enumerate(sorted(tools.items(), key=lambda pair: -max(pair[1]))):
        y = _TOP + _ROW_HEIGHT * (number + 0.5)
        shapes.append(draw_label(138, y + 4, tool, anchor="end", class_="mono"))
        shapes += [draw_dot(scale(latency), y, 6, "speed", f"{tool}: {latency:.2f} ms") for latency in latencies]
    return draw_chart(bottom + 28, *shapes, title="How long each call took")
