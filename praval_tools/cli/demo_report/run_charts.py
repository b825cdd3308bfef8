"""The charts of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from praval_tools.cli.demo_report.markup import Markup, joined
from praval_tools.cli.demo_report.svg import (
    WIDTH,
    Scale,
    bar,
    decades,
    dot,
    label,
    legend,
    line,
    picture,
)
from praval_tools.cli.demo_summary import fate_of, outcome_of
from praval_tools.demo import phrases
from praval_tools.demo.question import Question
from praval_tools.demo.run_report import Account, Line
from praval_tools.demo.statistics import Comparison

_MOST = 16
_ROW = 28


def colour(outcome: str) -> str:
    """Return the class of what ended in *outcome*."""
    return {"ok": "good", "in_doubt": "doubt", "approval_required": "doubt"}.get(outcome, "bad")


def comparison(question: Question, groups: Sequence[Comparison]) -> Markup:
    """Return what each group has beside what was to be expected of it; those that stand out in colour."""
    judged = [one for one in groups if one.verdict != "too few"] or list(groups)
    if len(judged) > _MOST:
        judged = [*judged[: _MOST // 2], *judged[-_MOST // 2 :]]
    values = [value for one in judged for value in (one.observed, one.expected)] or [0.0]
    margin = (max(values) - min(values)) * 0.06 or 0.5
    scale = Scale(min(values) - margin, max(values) + margin, 210, WIDTH - 24)
    bottom = 12 + _ROW * len(judged)
    shapes = [*_axis(scale, bottom, lambda tick: phrases.amount(question, tick))]
    for number, one in enumerate(judged):
        y, out = 12 + _ROW * (number + 0.5), "good" if one.verdict == "stands out" else "calm"
        told = (
            f"{one.group}: {phrases.measured(question, one.observed)}, "
            f"expected {phrases.amount(question, one.expected)}, {one.rows:,} {question.table.unit}, {one.verdict}"
        )
        shapes += [
            label(200, y + 4, one.group, at="end", class_="strong" if out == "good" else ""),
            line(scale(one.expected), y, scale(one.observed), y, f"link {out}"),
            dot(scale(one.expected), y, 4.5, "expected"),
            dot(scale(one.observed), y, 6, out, told),
        ]
    drawn = picture(bottom + 28, *shapes, title=f"{question.measure} by {question.by}: observed and expected")
    return joined(drawn, legend(("good", "stands out"), ("calm", "within luck"), ("expected", "expected")))


def _axis(scale: Scale, bottom: float, told: object) -> Iterator[Markup]:
    for tick in scale.ticks():
        x = scale(tick)
        yield line(x, 8, x, bottom, "grid")
        yield label(x, bottom + 18, told(tick) if callable(told) else tick, at="middle", class_="small")


def lanes(account: Account) -> Markup:
    """Return the run from left to right, a lane per agent; where the process died a line goes through all lanes."""
    agents = list(dict.fromkeys(one.call.agent or "operator" for one in account.lines))
    across = Scale(0.5, len(account.lines) + 0.5, 128, WIDTH - 12)
    top, bottom = 34, 34 + 46 * len(agents)
    heights = {agent: top + 46 * (number + 0.5) for number, agent in enumerate(agents)}
    shapes: list[Markup] = []
    for agent, y in heights.items():
        shapes += [label(112, y + 4, agent, at="end"), line(122, y, WIDTH - 12, y, "grid")]
    shapes += _deaths(account, across, bottom)
    places: dict[str, tuple[float, float]] = {}
    for one in account.lines:
        x, y = across(one.number), heights[one.call.agent or "operator"] + 14 * one.depth
        places[one.call.tool_call_id] = (x, y)
        if one.call.parent_id in places:
            shapes.append(line(*places[one.call.parent_id], x, y, "thin"))
        if one.fate:
            shapes.append(dot(x, y, 11, "ring"))
        shapes.append(dot(x, y, 6 - 2 * min(one.depth, 1), colour(outcome_of(one)), _told(one)))
    drawn = picture(bottom + 12, *shapes, title="The calls in order, a lane per agent")
    return joined(drawn, legend(("good", "ran"), ("bad", "refused"), ("ring", "in doubt after a death")))


def _deaths(account: Account, across: Scale, bottom: float) -> Iterator[Markup]:
    for before, after in zip(account.lines, account.lines[1:], strict=False):
        if before.process != after.process:
            x = (across(before.number) + across(after.number)) / 2
            yield line(x, 26, x, bottom, "death")
            yield label(x, 18, "killed", at="middle", class_="small bad")
    if account.lines and account.lines[-1].process != account.processes:  # it died in the last call
        x = across(len(account.lines) + 0.5)
        yield line(x, 26, x, bottom, "death")
        yield label(x, 18, "killed", at="end", class_="small bad")


def _told(one: Line) -> str:
    later = fate_of(one)
    return f"{one.number}. {one.call.agent} {one.call.tool_name}: {outcome_of(one)}{', ' if later else ''}{later}"


def per_agent(account: Account) -> Markup:
    """Return how many calls each agent made, and how they ended."""
    counts: dict[str, Counter[str]] = {}
    for one in account.lines:
        counts.setdefault(one.call.agent or "operator", Counter())[outcome_of(one)] += 1
    most = max((found.total() for found in counts.values()), default=1)
    scale = Scale(0, most, 128, WIDTH - 60)
    shapes: list[Markup] = []
    for number, (agent, found) in enumerate(counts.items()):
        y, done = 6 + 36 * number, 0
        shapes.append(label(116, y + 17, agent, at="end"))
        for outcome, calls in sorted(found.items(), key=lambda pair: (pair[0] != "ok", pair[0])):
            told = f"{agent}: {calls} {outcome}"
            shapes.append(bar(scale(done) + 1, y, scale(done + calls) - scale(done) - 2, 24, colour(outcome), told))
            done += calls
        shapes.append(label(scale(done) + 8, y + 17, done, class_="small"))
    return picture(12 + 36 * len(counts), *shapes, title="Calls per agent")


def outcomes(account: Account) -> Markup:
    """Return how all calls ended, as one bar."""
    found = sorted(account.outcomes.items(), key=lambda pair: -pair[1])
    scale = Scale(0, max(len(account.lines), 1), 0, WIDTH)
    done, shapes = 0, []
    for outcome, calls in found:
        left, right = scale(done), scale(done + calls)
        shapes.append(bar(left + 1, 0, right - left - 2, 34, colour(outcome), f"{outcome}: {calls}"))
        shapes.append(label(left + 12, 22, f"{outcome} {calls}", class_="inside"))
        done += calls
    return picture(36, *shapes, title="How the calls ended")


def latency(account: Account) -> Markup:
    """Return how long each call took, a row per tool, the slowest above."""
    times: dict[str, list[Line]] = {}
    for one in account.lines:
        if one.call.latency_ms is not None:
            times.setdefault(one.call.tool_name, []).append(one)
    values = [one.call.latency_ms or 0.0 for found in times.values() for one in found]
    scale = Scale(*decades(values), 150, WIDTH - 24, logarithmic=True)
    rows = sorted(times.items(), key=lambda pair: -max(one.call.latency_ms or 0.0 for one in pair[1]))
    bottom = 12 + _ROW * len(rows)
    shapes = [*_axis(scale, bottom, lambda tick: f"{tick:g} ms")]
    for number, (tool, found) in enumerate(rows):
        y = 12 + _ROW * (number + 0.5)
        shapes.append(label(138, y + 4, tool, at="end", class_="mono"))
        for one in found:
            took = one.call.latency_ms or 0.0
            shapes.append(dot(scale(took), y, 6, "speed", f"{tool}: {took:.2f} ms"))
    return picture(bottom + 28, *shapes, title="How long each call took")
