"""The command that tells what happened: `audit`."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import click
import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from praval_tools import Outcome
from praval_tools.cli.app_option import app_options
from praval_tools.cli.common import EXIT_PROBLEM, EXIT_USAGE, CommandError, json_option, sanitize_text
from praval_tools.cli.event_text import EventText, describe_event
from praval_tools.cli.journal_option import open_selected_journal
from praval_tools.cli.output import make_console, print_parts
from praval_tools.cli.progress import track_progress
from praval_tools.cli.times import PastTimeParam
from praval_tools.errors import EventFormatError
from praval_tools.journal import Journal, Record, Store
from praval_tools.journal.codec import from_json
from praval_tools.journal.events import EventType

_PAGE_SIZE = 100
_MIN_REASON_WIDTH = 8
_MAX_COLUMN_WIDTHS = {"who": 16, "tool": 20, "what": 24}


class _OutcomeField(msgspec.Struct):
    outcome: str = ""


@click.command("audit")
@click.option("--agent", metavar="AGENT", help="Only calls of this agent, and changes about it.")
@click.option("--tool", metavar="TOOL", help="Only this tool.")
@click.option(
    "--since", metavar="WHEN", type=PastTimeParam(), help="From then on: 90s, 15m, 2h, 7d ago, or an ISO moment (UTC)."
)
@click.option("--until", metavar="WHEN", type=PastTimeParam(), help="Before then.")
@click.option("--outcome", metavar="OUTCOME", type=click.Choice([one.value for one in Outcome]),
              help="Only calls that ended so: ok, forbidden, tool_error, timeout, ...")  # fmt: skip
@click.option("--type", "kind", metavar="TYPE", type=click.Choice([one.value for one in EventType]),
              help="Only events of this type: agent_tool_call, call_refused, tool_blocked, ...")  # fmt: skip
@click.option("--run", "run_id", metavar="RUN", help="Only this run.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Only the latest N of them.")
@json_option
@app_options
@click.pass_context
def audit_command(
    ctx: click.Context, /, *, outcome: str | None, kind: str | None, limit: int | None, as_json: bool, **filters: Any
) -> None:  # fmt: skip
    """
    Show what happened, in order: who called what, what came of it, what was changed, and why.

    Times are in UTC. --json prints one event per line. Exits with 1 where an event cannot be read.
    """
    since, until = filters["since"], filters["until"]
    if since is not None and until is not None and since >= until:
        raise CommandError(f"--since {since.isoformat()} is not before --until {until.isoformat()}.", EXIT_USAGE)
    found = _select_records(open_selected_journal(ctx), outcome, limit, type=kind, **filters)
    broken = _print_json_lines(found) if as_json else _print_table(found)
    if broken:
        text = f"{broken} event{'' if broken == 1 else 's'} could not be read; --json shows what is there."
        raise CommandError(text, EXIT_PROBLEM)


def _select_records(journal: Journal, outcome: str | None, limit: int | None, **filters: Any) -> Iterator[Record]:
    """Return the events that are asked for; of them all only so many are held as are shown at once."""

    def read_after(after: int) -> Iterator[Record]:
        records: Iterator[Record] = journal.store.read(after_seq=after, **filters)
        if limit is not None or not sys.stdout.isatty():
            records = track_progress(records, journal.count(), "Reading")
        return records if outcome is None else (one for one in records if _decode_outcome(one) == outcome)

    return read_after(0) if limit is None else iter(_read_latest(journal.store, read_after, limit))


def _read_latest(store: Store, read: Callable[[int], Iterator[Record]], limit: int) -> deque[Record]:
    """Return the latest *limit* of the records that *read* gives after a place; looks back as far as it has to."""
    end, back = store.last_seq(), max(limit, _PAGE_SIZE)
    while True:
        found = deque(read(max(end - back, 0)), maxlen=limit)
        if len(found) == limit or back >= end:
            return found
        back *= 8


def _decode_outcome(record: Record) -> str:
    try:
        return msgspec.json.decode(record.body, type=_OutcomeField).outcome
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""


def _print_json_lines(records: Iterator[Record]) -> int:
    """Print an event per line; one that is damaged as the text that it is. Returns how many are."""
    broken = 0
    for one in records:
        told = _to_event_json(one)
        broken += told is None
        head = f'{{"seq": {one.seq}, "run_seq": {json.dumps(one.run_seq)}, '
        if told is None:
            told = json.dumps({"id": one.id, "damaged": one.body.decode("utf-8", "backslashreplace")})
        sys.stdout.write(f"{head}{told[1:]}\n")
    return broken


def _to_event_json(record: Record) -> str | None:
    """Return the event's JSON, in ASCII; None: it is none."""
    body = record.body.strip()
    try:
        if type(msgspec.json.decode(body)) is dict and body.isascii() and b"\x7f" not in body and len(body) > 2:
            return body.decode("ascii")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass  # what a model sent may be JSON all the same: very long numbers, halves of surrogate pairs
    try:
        slowly = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return json.dumps(slowly) if isinstance(slowly, dict) and slowly else None


# ── the table ────────────────────────────────────────────────────────────────────────────────────


def _print_table(records: Iterator[Record]) -> int:
    """Print the events page by page; returns how many could not be read."""
    console, widths, broken, day = make_console(), dict[str, int](), 0, ""
    while page := [(one, _describe_record(one)) for one in islice(records, _PAGE_SIZE)]:
        broken += sum(told.what == "unreadable" for _, told in page)
        first = not widths
        widths = widths or _compute_widths(page)
        if console.is_terminal:
            day = _print_page(console, page, widths, day)
        else:
            _write_page(page, widths, titles=first)
    if not widths:
        print_parts(make_console(stderr=True), Text("No such events."))
    return broken


def _describe_record(record: Record) -> EventText:
    try:
        return describe_event(from_json(record.body, event_id=record.id))
    except EventFormatError as error:
        return EventText(record.agent or "", record.tool or "", "unreadable", "; ".join(error.problems), False)


def _compute_widths(page: list[tuple[Record, EventText]]) -> dict[str, int]:
    """Return the widths of the columns, as the first page needs them; the rest of a line is for the reason."""
    widths = {"seq": max(3, *(len(str(one.seq)) for one, _ in page))}
    for name, most in _MAX_COLUMN_WIDTHS.items():
        widths[name] = min(most, max(len(name), *(cell_len(sanitize_text(getattr(told, name))) for _, told in page)))
    return widths


def _print_page(console: Console, page: list[tuple[Record, EventText]], widths: dict[str, int], day: str) -> str:
    """Print a page in a terminal: each day once, names whole, reasons as far as there is room."""
    table = _build_table(widths, console.width)
    for record, told in page:
        when = record.time.astimezone(UTC)
        if (today := f"{when:%Y-%m-%d}") != day:
            if table.rows:
                console.print(table)
                table = _build_table(widths, console.width)
            console.print(Text(f"{today} (UTC)", style="bold"))
            day = today
        style = "" if told.good is None else "green" if told.good else "red"
        table.add_row(
            Text(f"{when:%H:%M:%S}", style="dim"), Text(str(record.seq), style="dim"), sanitize_text(told.who),
            sanitize_text(told.tool), Text(sanitize_text(told.what), style=style), Text(sanitize_text(told.why), style="dim"),
        )  # fmt: skip
    console.print(table)
    return day


def _build_table(widths: dict[str, int], width: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False, show_edge=False)
    table.add_column(width=8, no_wrap=True)
    table.add_column(width=widths["seq"], justify="right")
    for name in _MAX_COLUMN_WIDTHS:
        table.add_column(width=widths[name], overflow="fold")
    rest = width - 8 - sum(widths.values()) - 2 * (len(widths) + 1)
    table.add_column(width=max(rest, _MIN_REASON_WIDTH), overflow="ellipsis", no_wrap=True)
    return table


def _write_page(page: list[tuple[Record, EventText]], widths: dict[str, int], *, titles: bool) -> None:
    """Print a page for a program or a file: whole moments, nothing cut."""
    if titles:
        _write_row("time", "seq", EventText("who", "tool", "what", "why"), widths)
    for record, told in page:
        _write_row(_format_timestamp(record.time), str(record.seq), told, widths)


def _write_row(when: str, seq: str, told: EventText, widths: dict[str, int]) -> None:
    cells = [f"{when:<20}", f"{seq:>{widths['seq']}}"]
    cells += [f"{sanitize_text(getattr(told, name)) or '-':<{widths[name]}}" for name in _MAX_COLUMN_WIDTHS]
    text = "  ".join((*cells, sanitize_text(told.why))).rstrip()
    sys.stdout.write(text.encode("utf-8", "replace").decode() + "\n")


def _format_timestamp(when: datetime) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
