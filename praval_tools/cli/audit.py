"""The command `audit`: shows the events of the journal, one per line."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC
from itertools import islice
from typing import Any

import click
import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from praval_tools import Outcome
from praval_tools.cli.app_option import report_options
from praval_tools.cli.common import CommandError, UsageError, sanitize_text
from praval_tools.cli.journal_option import open_selected_journal
from praval_tools.cli.output import make_console, make_table, print_message
from praval_tools.cli.progress import track_progress
from praval_tools.cli.times import PastTimeParam, format_iso_time
from praval_tools.journal import Journal, Record, Store
from praval_tools.journal.events import EventType
from praval_tools.names import format_count
from praval_tools.report.event_lines import NOT_JSON, describe_record, write_json_line
from praval_tools.report.event_text import EventText

_PAGE_SIZE = 100
_TIME_WIDTH, _MIN_REASON_WIDTH = len("12:00:00"), 8
_MAX_COLUMN_WIDTHS = {"actor": 16, "tool": 20, "action": 24, "arguments": 40}
_MIN_WIDE_WIDTH = 120
"""The width from which the arguments are a column of their own; below it they stand before the reason."""


class _OutcomeField(msgspec.Struct):
    outcome: str = ""


@click.command("audit")
@click.option("--agent", metavar="AGENT", help="Only calls that this agent makes itself, and changes about it.")
@click.option("--tool", metavar="TOOL", help="Only this tool.")
@click.option(
    "--since", metavar="WHEN", type=PastTimeParam(), help="From then on: 90s, 15m, 2h, 7d ago, or an ISO time (UTC)."
)
@click.option("--until", metavar="WHEN", type=PastTimeParam(), help="Before then.")
@click.option(
    "--outcome",
    metavar="OUTCOME",
    type=click.Choice([outcome.value for outcome in Outcome]),
    help="Only calls with this outcome: ok, forbidden, tool_error, timeout, ...",
)
@click.option(
    "--type",
    metavar="TYPE",
    type=click.Choice([event_type.value for event_type in EventType]),
    help="Only events of this type: agent_tool_call, call_refused, tool_blocked, ...",
)
@click.option("--run", "run_id", metavar="RUN", help="Only this run.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Only the latest N of them.")
@report_options
def audit_command(
    ctx: click.Context, /, *, outcome: str | None, limit: int | None, as_json: bool, **filters: Any
) -> None:
    """
    Show what happened, in order: who called what, how it ended, what was changed, and why.

    Times are in UTC. --json prints one event per line. Exits with 1 where an event cannot be read.
    """
    since, until = filters["since"], filters["until"]
    if since is not None and until is not None and since >= until:
        raise UsageError(f"--since {since.isoformat()} is not before --until {until.isoformat()}.")
    records = _select_records(open_selected_journal(ctx), outcome, limit, **filters)
    unreadable = _print_json_lines(records) if as_json else _print_table(records)
    if unreadable:
        raise CommandError(f"{format_count(unreadable, 'event')} could not be read; --json shows their content.")


def _select_records(journal: Journal, outcome: str | None, limit: int | None, **filters: Any) -> Iterator[Record]:
    """Return the selected records; without a limit they are read as they are printed."""

    def read_after(seq: int) -> Iterator[Record]:
        records: Iterator[Record] = journal.store.read(after_seq=seq, **filters)
        if limit is not None or not sys.stdout.isatty():
            records = track_progress(records, journal.count(), "Reading")
        return records if outcome is None else (record for record in records if _decode_outcome(record) == outcome)

    return read_after(0) if limit is None else iter(_read_latest(journal.store, read_after, limit))


def _read_latest(store: Store, read_after: Callable[[int], Iterator[Record]], limit: int) -> deque[Record]:
    """Return the latest *limit* of the selected records; looks back only as far as it has to."""
    end, distance = store.last_seq(), max(limit, _PAGE_SIZE)
    while True:
        latest = deque(read_after(max(end - distance, 0)), maxlen=limit)
        if len(latest) == limit or distance >= end:
            return latest
        distance *= 8


def _decode_outcome(record: Record) -> str:
    try:
        return msgspec.json.decode(record.body, type=_OutcomeField).outcome
    except NOT_JSON:
        return ""


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────


def _print_json_lines(records: Iterator[Record]) -> int:
    """Print an event per line, a damaged one as text; return how many are damaged."""
    damaged = 0
    for record in records:
        line, is_readable = write_json_line(record)
        damaged += not is_readable
        sys.stdout.write(line)
    return damaged


# ── the table ────────────────────────────────────────────────────────────────────────────────────


def _print_table(records: Iterator[Record]) -> int:
    """Print the events page by page; return how many could not be read."""
    console, widths, unreadable, day = make_console(), dict[str, int](), 0, ""
    while page := [(record, describe_record(record)) for record in islice(records, _PAGE_SIZE)]:
        unreadable += sum(text.action == "unreadable" for _, text in page)
        if not widths:
            widths = _compute_widths(page)
            if console.is_terminal and console.width < _MIN_WIDE_WIDTH:
                del widths["arguments"]
            if not console.is_terminal:
                _write_row("time", "seq", EventText("who", "tool", "what", "why", None, "arguments"), widths)
        if console.is_terminal:
            day = _print_page(console, page, widths, day)
            continue
        for record, text in page:
            _write_row(format_iso_time(record.time), str(record.seq), text, widths)
    if not widths:
        print_message("No such events.")
    return unreadable


def _compute_widths(page: list[tuple[Record, EventText]]) -> dict[str, int]:
    """Return the widths of the columns for the first page; the rest of a line is for the reason."""
    widths = {"seq": max(3, *(len(str(record.seq)) for record, _ in page))}
    for name, maximum in _MAX_COLUMN_WIDTHS.items():
        used = (cell_len(sanitize_text(getattr(text, name))) for _, text in page)
        widths[name] = min(maximum, max(len(name), *used))
    return widths


def _print_page(console: Console, page: list[tuple[Record, EventText]], widths: dict[str, int], day: str) -> str:
    """Print a page in a terminal, a heading per day; return the day of the last event."""
    table = _build_table(widths, console.width)
    for record, text in page:
        time = record.time.astimezone(UTC)
        if (today := f"{time:%Y-%m-%d}") != day:
            if table.rows:
                console.print(table)
                table = _build_table(widths, console.width)
            console.print(Text(f"{today} (UTC)", style="bold"))
            day = today
        style = "" if text.is_good is None else "green" if text.is_good else "red"
        cells = [
            (f"{time:%H:%M:%S}", "dim"),
            (record.seq, "dim"),
            (text.actor, ""),
            (text.tool, ""),
            (text.action, style),
        ]
        if "arguments" in widths:
            cells += [(_shorten_arguments(text), ""), (text.reason, "dim")]
        else:
            arguments = f"({_shorten_arguments(text)}) " if text.arguments else ""
            cells.append((f"{arguments}{text.reason}", "dim"))
        table.add_row(*(Text(sanitize_text(cell), style=style) for cell, style in cells))
    console.print(table)
    return day


def _build_table(widths: dict[str, int], width: int) -> Table:
    table = make_table(show_header=False)
    table.add_column(width=_TIME_WIDTH, no_wrap=True)
    table.add_column(width=widths["seq"], justify="right")
    for name in _MAX_COLUMN_WIDTHS:
        if name in widths:
            table.add_column(width=widths[name], overflow="fold")
    rest = width - _TIME_WIDTH - sum(widths.values()) - 2 * (len(widths) + 1)
    table.add_column(width=max(rest, _MIN_REASON_WIDTH), overflow="ellipsis", no_wrap=True)
    return table


def _shorten_arguments(text: EventText) -> str:
    return sanitize_text(text.arguments, max_length=_MAX_COLUMN_WIDTHS["arguments"])


def _write_row(time: str, seq: str, text: EventText, widths: dict[str, int]) -> None:
    """Print a line for a pipe or a file, its number first: nothing is cut but the arguments."""
    cells = [f"{seq:<{widths['seq']}}", f"{time:<20}"]
    values = {name: getattr(text, name) for name in _MAX_COLUMN_WIDTHS} | {"arguments": _shorten_arguments(text)}
    cells += [f"{sanitize_text(value) or '-':<{widths[name]}}" for name, value in values.items()]
    sys.stdout.write("  ".join((*cells, sanitize_text(text.reason))).rstrip() + "\n")
