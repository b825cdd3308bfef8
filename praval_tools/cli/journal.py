"""The command about the journal itself: `journal`, with `path` and `prune`."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from praval_tools.cli.app_option import app_options
from praval_tools.cli.common import EXIT_USAGE, CommandError, CommandGroup, json_option
from praval_tools.cli.journal_option import open_selected_journal
from praval_tools.cli.output import build_grid, make_console, print_json, print_parts, to_cell
from praval_tools.cli.times import SpanParam
from praval_tools.journal import Journal

_SIZE_UNITS = ("B", "kB", "MB", "GB", "TB")


@click.group("journal", cls=CommandGroup, invoke_without_command=True)
@json_option
@app_options
@click.pass_context
def journal_command(ctx: click.Context, as_json: bool) -> None:
    """Say where the journal is and what it holds; forget old events."""
    if ctx.invoked_subcommand is not None:
        return
    found = _describe_journal(open_selected_journal(ctx))
    if as_json:
        print_json(found)
        return
    told = {**found, "size": _format_size(found["size"])}
    rows = [(to_cell(name.replace("_", " "), "dim"), to_cell(value)) for name, value in told.items()]
    table = build_grid(("", ""), rows, unwrapped_columns=(0, 1))
    table.show_header = False
    print_parts(make_console(), table)


def _describe_journal(journal: Journal) -> dict[str, Any]:
    runs = doubt = 0
    for one in journal.runs():
        runs += 1
        doubt += one.in_doubt
    path = Path(os.path.abspath(journal.name))
    files = [path, path.with_name(f"{path.name}-wal")]
    return {
        "path": str(path),
        "size": sum(one.stat().st_size for one in files if one.exists()),
        "events": journal.count(),
        "runs": runs,
        "in_doubt": doubt,
        "revision": journal.store.revision(),
    }


def _format_size(count: float) -> str:
    for unit in _SIZE_UNITS:
        if count < 1_000 or unit == _SIZE_UNITS[-1]:
            break
        count /= 1_000
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


@journal_command.command("path")
@app_options
@click.pass_context
def path_command(ctx: click.Context) -> None:
    """Print the path of the journal that the other commands read."""
    sys.stdout.write(f"{os.path.abspath(open_selected_journal(ctx).name)}\n")


@journal_command.command("prune")
@click.option(
    "--older-than", metavar="SPAN", type=SpanParam(), required=True, help="What ended longer ago: 24h, 90d, 12w."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@app_options
@click.pass_context
def prune_command(ctx: click.Context, *, older_than: timedelta, yes: bool, as_json: bool) -> None:
    """
    Forget old events, for good. Runs that are open or in doubt stay, and so does all that holds now.

    A run goes as a whole, once its last event is old.
    """
    journal = open_selected_journal(ctx)
    try:
        before = datetime.now(UTC) - older_than
    except OverflowError as error:
        raise CommandError("--older-than reaches back before the calendar begins.", EXIT_USAGE) from error
    if not yes:
        _confirm_prune(journal, before)
    gone = journal.prune(before)
    if as_json:
        print_json({"before": before.isoformat(), "gone": gone, "left": journal.count()})
    else:
        text = f"Forgot {gone:,} event{'' if gone == 1 else 's'} from before {before:%Y-%m-%d %H:%M} UTC"
        print_parts(make_console(), to_cell(f"{text}; {journal.count():,} are left."))


def _confirm_prune(journal: Journal, before: datetime) -> None:
    if not sys.stdin.isatty():
        raise CommandError("Forgetting cannot be undone; say --yes.", EXIT_USAGE)
    question = f"Forget what ended before {before:%Y-%m-%d %H:%M} UTC in {journal.name!r}, for good?"
    if not click.confirm(question, err=True):
        raise CommandError("Nothing was forgotten.")
