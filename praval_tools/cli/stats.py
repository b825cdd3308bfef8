"""The command that counts: `stats`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from praval_tools.cli.app_option import app_options
from praval_tools.cli.common import PROBLEM, Failure, json_option
from praval_tools.cli.journal_option import journal_of
from praval_tools.cli.output import cell, grid, print_all, print_json, screen
from praval_tools.cli.progress import watched
from praval_tools.cli.times import lasted
from praval_tools.errors import EventFormatError
from praval_tools.journal import Journal
from praval_tools.journal.codec import from_json
from praval_tools.journal.events import EventType
from praval_tools.journal.stats import UsageStats
from praval_tools.names import near

_ENDS = (EventType.AGENT_TOOL_RESULT, EventType.CALL_REFUSED)
_WIDE = 140
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
    counted, broken = _counted(journal_of(ctx), tool)
    found = counted.get_all_stats() if agent is None else counted.get_agent_stats().get(agent, {})
    if as_json:
        print_json(found)
    elif found:
        console = screen()
        for number, table in enumerate(_tables(found, console.width)):
            print_all(console, *([""] if number else []), table)
    else:
        _say_none(counted, tool, agent)
    if broken:
        raise Failure(f"{broken} events could not be read and are not counted; see audit --json.", PROBLEM)


def _counted(journal: Journal, tool: str | None) -> tuple[UsageStats, int]:
    """Return the statistics, and how many events could not be read."""
    made, broken = UsageStats(), 0
    for record in watched(journal.store.read(tool=tool), journal.count(), "Counting"):
        if record.type not in _ENDS:
            continue
        try:
            made.record_event(from_json(record.body, event_id=record.id))
        except EventFormatError:
            broken += 1
    return made, broken


def _say_none(counted: UsageStats, tool: str | None, agent: str | None) -> None:
    agents = counted.get_agent_stats()
    fix = near(agent, agents) if agent is not None else ()
    meant = f" Did you mean {' or '.join(map(repr, fix))}?" if fix else ""
    of, by = f" of {tool!r}" if tool is not None else "", f" by {agent!r}" if agent is not None else ""
    print_all(screen(stderr=True), cell(f"No use{of}{by} is recorded.{meant}"))


def _tables(found: dict[str, dict[str, Any]], width: int) -> Iterator[Table]:
    """Yield a table of the figures and one of when and why not, as one where there is room for it."""
    quantiles = [name for name in _QUANTILES if any(name in one for one in found.values())]
    numbers = ["uses", "ok", "failed", "avg", *(name[:3] for name in quantiles)]
    left, right = [], []
    for one in found.values():
        counts = [f"{one[name]:,}" for name in ("uses", "successes", "failures")]
        left.append([*counts, *(lasted(one.get(name)) or "-" for name in ("avg_duration_ms", *quantiles))])
        right.append([_when(one["first_used"]), _when(one["last_used"]), _failures(one)])
    words = ["first used (UTC)", "last used (UTC)", "failed by"]
    if width >= _WIDE:
        yield _table(list(found), numbers, words, [one + other for one, other in zip(left, right, strict=True)])
    else:
        yield _table(list(found), numbers, [], left)
        yield _table(list(found), [], words, right)


def _table(tools: list[str], numbers: list[str], words: list[str], rows: list[list[str]]) -> Table:
    cells: list[list[Text | str]] = [[cell(tool, "bold"), *row] for tool, row in zip(tools, rows, strict=True)]
    table = grid(("tool", *numbers, *words), cells, keep=range(len(numbers) + 1))
    for column in table.columns[1 : len(numbers) + 1]:
        column.justify = "right"
    return table


def _when(moment: str | None) -> str:
    return "-" if moment is None else f"{moment[:10]} {moment[11:19]}"


def _failures(one: dict[str, Any]) -> str:
    failed = [f"{count} {outcome}" for outcome, count in one["outcomes"].items() if outcome != "ok"]
    return ", ".join(failed) or "-"
