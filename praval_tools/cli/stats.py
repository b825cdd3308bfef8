"""The command that counts: `stats`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from praval_tools.cli.app_option import app_options
from praval_tools.cli.common import EXIT_PROBLEM, CommandError, json_option
from praval_tools.cli.journal_option import open_selected_journal
from praval_tools.cli.output import build_grid, make_console, print_json, print_parts, to_cell
from praval_tools.cli.progress import track_progress
from praval_tools.cli.times import format_duration
from praval_tools.errors import EventFormatError
from praval_tools.journal import Journal
from praval_tools.journal.codec import from_json
from praval_tools.journal.events import EventType
from praval_tools.journal.stats import UsageStats
from praval_tools.names import find_similar_names

_FINAL_EVENT_TYPES = (EventType.AGENT_TOOL_RESULT, EventType.CALL_REFUSED)
_MIN_WIDE_WIDTH = 140
_QUANTILES = ("p50_ms", "p95_ms", "p99_ms")


@click.command("stats")
@click.option("--tool", metavar="TOOL", help="Only this tool.")
@click.option("--agent", metavar="AGENT", help="Only the calls of this agent; operator: those of the host program.")
@json_option
@app_options
@click.pass_context
def stats_command(ctx: click.Context, *, tool: str | None, agent: str | None, as_json: bool) -> None:
    """
    Show how often each tool is used and how it goes, as the journal tells.

    Durations are those of successful calls; p50, p95 and p99 are within 1 %, and of all agents together.
    Calls of tools that do not exist, and calls that wait for an approval, are no uses.
    """
    counted, broken = _collect_stats(open_selected_journal(ctx), tool)
    found = counted.get_all_stats() if agent is None else counted.get_agent_stats().get(agent, {})
    if as_json:
        print_json(found)
    elif found:
        console = make_console()
        for number, table in enumerate(_build_tables(found, console.width)):
            print_parts(console, *([""] if number else []), table)
    else:
        _print_no_uses(counted, tool, agent)
    if broken:
        raise CommandError(f"{broken} events could not be read and are not counted; see audit --json.", EXIT_PROBLEM)


def _collect_stats(journal: Journal, tool: str | None) -> tuple[UsageStats, int]:
    """Return the statistics, and how many events could not be read."""
    made, broken = UsageStats(), 0
    for record in track_progress(journal.store.read(tool=tool), journal.count(), "Counting"):
        if record.type not in _FINAL_EVENT_TYPES:
            continue
        try:
            made.record_event(from_json(record.body, event_id=record.id))
        except EventFormatError:
            broken += 1
    return made, broken


def _print_no_uses(counted: UsageStats, tool: str | None, agent: str | None) -> None:
    agents = counted.get_agent_stats()
    fix = find_similar_names(agent, agents) if agent is not None else ()
    meant = f" Did you mean {' or '.join(map(repr, fix))}?" if fix else ""
    of, by = f" of {tool!r}" if tool is not None else "", f" by {agent!r}" if agent is not None else ""
    print_parts(make_console(stderr=True), to_cell(f"No use{of}{by} is recorded.{meant}"))


def _build_tables(found: dict[str, dict[str, Any]], width: int) -> Iterator[Table]:
    """Yield a table of the figures and one of when and why not, as one where there is room for it."""
    quantiles = [name for name in _QUANTILES if any(name in one for one in found.values())]
    numbers = ["uses", "ok", "failed", "avg", *(name[:3] for name in quantiles)]
    left, right = [], []
    for one in found.values():
        counts = [f"{one[name]:,}" for name in ("uses", "successes", "failures")]
        left.append([*counts, *(format_duration(one.get(name)) or "-" for name in ("avg_duration_ms", *quantiles))])
        right.append([_format_timestamp(one["first_used"]), _format_timestamp(one["last_used"]), _format_failures(one)])
    words = ["first used (UTC)", "last used (UTC)", "failed by"]
    if width >= _MIN_WIDE_WIDTH:
        yield _build_table(list(found), numbers, words, [one + other for one, other in zip(left, right, strict=True)])
    else:
        yield _build_table(list(found), numbers, [], left)
        yield _build_table(list(found), [], words, right)


def _build_table(tools: list[str], numbers: list[str], words: list[str], rows: list[list[str]]) -> Table:
    cells: list[list[Text | str]] = [[to_cell(tool, "bold"), *row] for tool, row in zip(tools, rows, strict=True)]
    table = build_grid(("tool", *numbers, *words), cells, unwrapped_columns=range(len(numbers) + 1))
    for column in table.columns[1 : len(numbers) + 1]:
        column.justify = "right"
    return table


def _format_timestamp(moment: str | None) -> str:
    return "-" if moment is None else f"{moment[:10]} {moment[11:19]}"


def _format_failures(one: dict[str, Any]) -> str:
    failed = [f"{count} {outcome}" for outcome, count in one["outcomes"].items() if outcome != "ok"]
    return ", ".join(failed) or "-"
