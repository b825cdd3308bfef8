"""Draws the demo's charts and tables as text: averages per hour, groups with bars, the calls of the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from praval_tools.cli.common import sanitize_text
from praval_tools.cli.output import Glyphs, make_table, to_cell
from praval_tools.demo import phrases
from praval_tools.demo.question import Question
from praval_tools.demo.run_report import RunReport
from praval_tools.demo.statistics import Average, Comparison, select_shown_groups

_HALF_BAR_WIDTH = 5
_MAX_GROUPS = 12
_MAX_LABEL_WIDTH = 26


def render_hourly_averages(question: Question, averages: Sequence[Average], *, glyphs: Glyphs) -> Iterator[Text]:
    """Yield a line per first part of the groups ("2013-02-08"), with a block per second part ("15"), below an axis."""
    days: dict[str, dict[int, Average]] = {}
    for average in averages:
        day, _, hour = average.group.partition(" · ")
        days.setdefault(day, {})[int(hour)] = average
    highest = max(average.mean for average in averages) or 1.0
    first, last = min(map(min, days.values())), max(map(max, days.values()))
    ticks = "".join(f"{hour:<6}" for hour in range(first, last + 1, 3))
    title = f"{sanitize_text(question.profile[1]):<{max(map(len, days))}}"
    yield Text(f"{title}  {ticks:<{2 * (last - first + 1)}}  {sanitize_text(question.measure)}", style="dim")
    for day, hours in days.items():
        blocks = "".join(_render_block(hours.get(hour), highest, glyphs) * 2 for hour in range(first, last + 1))
        rows = sum(average.rows for average in hours.values())
        share = sum(average.mean * average.rows for average in hours.values()) / rows
        yield Text.assemble(to_cell(day), "  ", (blocks, "magenta"), f"  {share:.0%} of {rows:,}")


def _render_block(average: Average | None, highest: float, glyphs: Glyphs) -> str:
    if average is None:
        return " "
    steps = len(glyphs.levels) - 1
    return glyphs.levels[max(1, min(steps, round(average.mean / highest * steps)))]


def build_comparison_table(question: Question, groups: Sequence[Comparison], *, glyphs: Glyphs) -> Table:
    """Return a table of the groups with a bar to the left where less than expected was observed, else to the right."""
    table = make_table(gap=1)
    table.add_column(to_cell(question.by, max_length=_MAX_LABEL_WIDTH), overflow="ellipsis", no_wrap=True)
    for title in (f"{question.table.unit}s", to_cell(question.measure, max_length=14), "expected"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("less" + " " * (2 * _HALF_BAR_WIDTH - 7) + "more", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    shown = select_shown_groups(groups, len(groups))
    scale = max((abs(group.observed - group.expected) for group in shown), default=0.0) or 1.0
    for group in select_shown_groups(groups, _MAX_GROUPS):
        style, verdict_style = ("bold", "bold green") if group.verdict == "stands out" else ("", "dim")
        table.add_row(
            to_cell(group.group, style, max_length=_MAX_LABEL_WIDTH),
            f"{group.rows:,}",
            Text(phrases.format_mean(question, group.observed), style=style),
            phrases.format_mean(question, group.expected),
            _render_bar((group.observed - group.expected) / scale, glyphs, verdict_style),
            Text(group.verdict, style=verdict_style),
        )
    return table


def _render_bar(share: float, glyphs: Glyphs, style: str) -> Text:
    length = min(_HALF_BAR_WIDTH, round(abs(share) * _HALF_BAR_WIDTH))
    bar, empty = glyphs.bar * length, " " * _HALF_BAR_WIDTH
    left, right = (f"{bar:>{_HALF_BAR_WIDTH}}", empty) if share < 0 else (empty, f"{bar:<{_HALF_BAR_WIDTH}}")
    return Text.assemble((left, style), (glyphs.axis, "dim"), (right, style))


def build_calls_table(run_report: RunReport, glyphs: Glyphs) -> Table:
    """Return the calls in order, nested ones indented, with a heading per process."""
    table = make_table()
    for title in ("", "agent", "tool", "outcome"):
        table.add_column(title, no_wrap=True, overflow="ellipsis")
    table.add_column("ms", justify="right", no_wrap=True)
    table.add_column("afterwards", overflow="fold")
    process = 0
    for call in run_report.calls:
        if call.process_number != process:
            process = call.process_number
            table.add_row("", Text(f"process {process}", "dim italic"))
        indent = f"{'  ' * (call.depth - 1)}{glyphs.inside}" if call.depth else ""
        latency = call.record.latency_ms
        table.add_row(
            Text(str(call.number), "dim"),
            to_cell(call.agent),
            Text.assemble((indent, "dim"), to_cell(call.record.tool_name)),
            Text(call.outcome, "green" if call.outcome == "ok" else "bold red"),
            Text("-" if latency is None else f"{latency:.1f}", "dim"),
            Text(call.recovery_text, "bold yellow" if call.recovery else "cyan"),
        )
    return table
