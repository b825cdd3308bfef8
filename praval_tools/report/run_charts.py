"""Draws a report's charts of calls: timeline, outcomes, calls per agent, latencies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from praval_tools.journal.history import History
from praval_tools.report.markup import Markup, join_markup
from praval_tools.report.svg import (
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

ROW_HEIGHT, TOP = 28, 12
"""Height of a row of a chart, and space above the first."""

_AGENT_HEIGHT = 46
_TIMELINE_LEGEND = (
    ("good", "ended well"), ("failed", "failed"), ("bad", "refused"), ("doubt", "waits or in doubt"),
    ("ring", "in doubt after a crash"),
)  # fmt: skip
_OUTCOME_CLASSES = {
    "ok": "good", "in_doubt": "doubt", "approval_required": "doubt",
    "tool_error": "failed", "timeout": "failed", "cancelled": "failed", "engine_lost": "failed",
}  # fmt: skip


def get_outcome_class(outcome: str) -> str:
    """Return the CSS class for an outcome; that of a refusal is `bad`."""
    return _OUTCOME_CLASSES.get(outcome, "bad")


def draw_axis(scale: Scale, bottom: float, format_tick: Callable[[float], str]) -> Iterator[Markup]:
    """Yield lines and labels for round values of *scale*."""
    for tick in scale.iter_ticks():
        x = scale(tick)
        yield draw_line(x, 8, x, bottom, "grid")
        yield draw_label(x, bottom + 18, format_tick(tick), anchor="middle", class_="small")


def render_timeline(history: History, *, process_end: str | None, row_height: int = _AGENT_HEIGHT) -> Markup:
    """
    Return the calls from left to right, a row per agent, and a line through all rows where another process goes on.

    Args:
        history: The calls.
        process_end: What is written at such a line; None: no lines, where processes take turns.
        row_height: Of the row of an agent.
    """
    agents = list(dict.fromkeys(call.agent for call in history.calls))
    numbers = [call.number for call in history.calls]
    scale = Scale(min(numbers, default=1) - 0.5, max(numbers, default=1) + 0.5, 128, CHART_WIDTH - 12)
    top = 8 if process_end is None else 34
    heights = {agent: top + row_height * (number + 0.5) for number, agent in enumerate(agents)}
    bottom = top + row_height * len(agents)
    shapes: list[Markup] = []
    for agent, y in heights.items():
        shapes += [draw_label(112, y + 4, agent, anchor="end"), draw_line(122, y, CHART_WIDTH - 12, y, "grid")]
    if process_end is not None:
        shapes += _draw_process_ends(history, scale, bottom, process_end)
    places: dict[str | None, tuple[float, float]] = {}
    for call in history.calls:
        x, y = places[call.record.tool_call_id] = scale(call.number), heights[call.agent] + 14 * call.depth
        if call.record.parent_id in places:
            shapes.append(draw_line(*places[call.record.parent_id], x, y, "thin"))
        if call.recovery:
            shapes.append(draw_dot(x, y, 11, "ring"))
        recovery = f", {call.recovery_text}" if call.recovery_text else ""
        tooltip = f"{call.number}. {call.record.agent} {call.record.tool_name}: {call.outcome}{recovery}"
        shapes.append(draw_dot(x, y, 6 - 2 * min(call.depth, 1), get_outcome_class(call.outcome), tooltip))
    chart = draw_chart(bottom + 12, *shapes, title="The calls in order, a row per agent")
    return join_markup(chart, draw_legend(*_TIMELINE_LEGEND))


def _draw_process_ends(history: History, scale: Scale, bottom: float, text: str) -> Iterator[Markup]:
    calls = history.calls
    for before, after in zip(calls, calls[1:], strict=False):
        if before.process_number != after.process_number:
            yield from _draw_process_end((scale(before.number) + scale(after.number)) / 2, bottom, "middle", text)
    if calls and calls[-1].process_number != history.process_count:  # it crashed in the last call
        yield from _draw_process_end(scale(calls[-1].number + 0.5), bottom, "end", text)


def _draw_process_end(x: float, bottom: float, anchor: str, text: str) -> Iterator[Markup]:
    yield draw_line(x, 26, x, bottom, "death")
    yield draw_label(x, 18, text, anchor=anchor, class_="small bad")


def render_calls_per_agent(history: History) -> Markup:
    """Return how many calls each agent made, and how they ended."""
    agents: dict[str, Counter[str]] = {}
    for call in history.calls:
        agents.setdefault(call.agent, Counter())[call.outcome] += 1
    scale = Scale(0, max((counts.total() for counts in agents.values()), default=1), 128, CHART_WIDTH - 60)
    shapes: list[Markup] = []
    for number, (agent, counts) in enumerate(agents.items()):
        y, total = 6 + 36 * number, 0
        shapes.append(draw_label(116, y + 17, agent, anchor="end"))
        for outcome, calls in sorted(counts.items(), key=lambda pair: (pair[0] != "ok", pair[0])):
            left, right = scale(total) + 1, scale(total + calls) - 1
            class_ = get_outcome_class(outcome)
            shapes.append(draw_bar(left, y, right - left, 24, class_, f"{agent}: {calls} {outcome}"))
            total += calls
        shapes.append(draw_label(scale(total) + 8, y + 17, total, class_="small"))
    return draw_chart(12 + 36 * len(agents), *shapes, title="Calls per agent")


def render_outcomes(history: History) -> Markup:
    """Return how all calls ended, as one bar."""
    scale = Scale(0, max(len(history.calls), 1), 0, CHART_WIDTH)
    total, shapes = 0, []
    for outcome, calls in history.outcome_counts.most_common():
        left, right = scale(total), scale(total + calls)
        shapes.append(draw_bar(left + 1, 0, right - left - 2, 34, get_outcome_class(outcome), f"{outcome}: {calls}"))
        shapes.append(draw_label(left + 12, 22, f"{outcome} {calls}", class_="inside"))
        total += calls
    return draw_chart(36, *shapes, title="How the calls ended")


def render_latencies(history: History) -> Markup:
    """Return how long each call took, a row per tool, the slowest at the top."""
    tools: dict[str, list[float]] = {}
    for call in history.calls:
        if call.record.latency_ms is not None:
            tools.setdefault(call.record.tool_name, []).append(call.record.latency_ms)
    decades = find_decades([latency for latencies in tools.values() for latency in latencies])
    scale = Scale(*decades, 150, CHART_WIDTH - 24, is_logarithmic=True)
    bottom = TOP + ROW_HEIGHT * len(tools)
    shapes = list(draw_axis(scale, bottom, lambda tick: f"{tick:g} ms"))
    for number, (tool, latencies) in enumerate(sorted(tools.items(), key=lambda pair: -max(pair[1]))):
        y = TOP + ROW_HEIGHT * (number + 0.5)
        shapes.append(draw_label(138, y + 4, tool, anchor="end", class_="mono"))
        shapes += [draw_dot(scale(latency), y, 6, "speed", f"{tool}: {latency:.2f} ms") for latency in latencies]
    return draw_chart(bottom + 28, *shapes, title="How long each call took")
