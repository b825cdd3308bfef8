"""The command `stats`: how often each tool is used, how long its calls take, and how they end, by the journal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import click
from rich.table import Table

from praval_tools.cli.app_option import report_options
from praval_tools.cli.common import CommandError, JsonObject
from praval_tools.cli.journal_option import open_selected_journal
from praval_tools.cli.output import build_grid, make_console, print_json, print_message, print_parts, to_cell
from praval_tools.cli.progress import track_progress
from praval_tools.cli.times import format_duration, format_time
from praval_tools.errors import EventFormatError
from praval_tools.journal import Journal
from praval_tools.journal.codec import from_json
from praval_tools.journal.events import EventType
from praval_tools.journal.stats import UsageStats
from praval_tools.names import format_count, suggest_names

_FINAL_EVENT_TYPES = (EventType.AGENT_TOOL_RESULT, EventType.CALL_REFUSED)
_MIN_WIDE_WIDTH = 140
_COUNTS = ("uses", "successes", "failures")
_QUANTILES = ("p50_ms", "p95_ms", "p99_ms")


@click.command("stats")
@click.option("--tool", metavar="TOOL", help="Only this tool.")
@click.option("--agent", metavar="AGENT", help="Only the calls of this agent; operator: those of the host program.")
@report_options
def stats_command(ctx: click.Context, *, tool: str | None, agent: str | None, as_json: bool) -> None:
    """
    Show how often each tool is used and how its calls end, from the journal.

    Durations are those of successful calls; p50, p95 and p99 are within 1 %, and of all agents together.
    Calls of tools that do not exist, and calls that wait for an approval, are not counted.
    """
    stats, unreadable = _collect_stats(open_selected_journal(ctx), tool)
    by_tool = stats.get_all_stats() if agent is None else stats.get_agent_stats().get(agent, {})
    if as_json:
        print_json(by_tool)
    elif by_tool:
        console = make_console()
        for number, table in enumerate(_build_tables(by_tool, console.width)):
            print_parts(console, *([""] if number else []), table)
    else:
        of, by = f" of {tool!r}" if tool is not None else "", f" by {agent!r}" if agent is not None else ""
        print_message(f"No use{of}{by} is recorded.{suggest_names(agent, stats.get_agent_stats())}")
    if unreadable:
        raise CommandError(f"{format_count(unreadable, 'event')} could not be read and not counted; see audit --json.")


def _collect_stats(journal: Journal, tool: str | None) -> tuple[UsageStats, int]:
    """Return the statistics, and how many events could not be read."""
    stats, unreadable = UsageStats(), 0
    for record in track_progress(journal.store.read(tool=tool), journal.count(), "Counting"):
        if record.type not in _FINAL_EVENT_TYPES:
            continue
        try:
            stats.record_event(from_json(record.body, event_id=record.id))
        except EventFormatError:
            unreadable += 1
    return stats, unreadable


def _build_tables(by_tool: dict[str, JsonObject], width: int) -> Iterator[Table]:
    """Yield the figures, and times and failures, as one table where there is room for it, else as two."""
    quantiles = [name for name in _QUANTILES if any(name in stats for stats in by_tool.values())]
    figures = [
        (
            *(f"{stats[name]:,}" for name in _COUNTS),
            *(format_duration(stats.get(name)) or "-" for name in ("avg_duration_ms", *quantiles)),
        )
        for stats in by_tool.values()
    ]
    words = [
        (_format_iso(stats["first_used"]), _format_iso(stats["last_used"]), _format_failures(stats["outcomes"]))
        for stats in by_tool.values()
    ]
    figure_titles = ("uses", "ok", "failed", "avg", *(name[:3] for name in quantiles))
    word_titles = ("first used (UTC)", "last used (UTC)", "failed by")
    if width >= _MIN_WIDE_WIDTH:
        rows = [(*left, *right) for left, right in zip(figures, words, strict=True)]
        yield _build_table(by_tool, (*figure_titles, *word_titles), rows, len(figure_titles))
    else:
        yield _build_table(by_tool, figure_titles, figures, len(figure_titles))
        yield _build_table(by_tool, word_titles, words, 0)


def _build_table(
    tools: dict[str, JsonObject], titles: Sequence[str], rows: Sequence[tuple[str, ...]], figure_count: int
) -> Table:
    cells = [(to_cell(tool, "bold"), *row) for tool, row in zip(tools, rows, strict=True)]
    table = build_grid(("tool", *titles), cells, unwrapped_columns=range(figure_count + 1))
    for column in table.columns[1 : figure_count + 1]:
        column.justify = "right"
    return table


def _format_iso(time: str | None) -> str:
    return "-" if time is None else format_time(datetime.fromisoformat(time))


def _format_failures(outcomes: dict[str, int]) -> str:
    return ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items() if outcome != "ok") or "-"
