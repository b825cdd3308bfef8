"""The command `journal`, with `path`, `prune` and `copy`: where it is, its size, old events, another store."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from praval_tools.cli.app_option import app_options, report_options
from praval_tools.cli.common import CommandError, CommandGroup, JsonObject, UsageError
from praval_tools.cli.journal_option import open_selected_journal, parse_place
from praval_tools.cli.output import build_key_value_grid, print_json, print_result, report_effect, to_cell
from praval_tools.cli.times import SpanParam
from praval_tools.journal import Journal
from praval_tools.journal.storage.open_store import get_store_name, is_database_url
from praval_tools.lazy_import import load
from praval_tools.names import format_count
from praval_tools.plugins.click_contexts import pass_context


@click.group("journal", cls=CommandGroup, invoke_without_command=True)
@report_options
def journal_command(ctx: click.Context, as_json: bool) -> None:
    """Show where the journal is and what it holds; delete old events."""
    if ctx.invoked_subcommand is not None:
        return
    summary = _describe_journal(open_selected_journal(ctx))
    if as_json:
        print_json(summary)
    else:
        rows = {**summary, "size": _format_size(summary["size"])}
        print_result(build_key_value_grid((name.replace("_", " "), value) for name, value in rows.items()))


def _describe_journal(journal: Journal) -> JsonObject:
    calls_in_doubt = [run.in_doubt for run in journal.runs()]
    name = _get_absolute_name(journal)
    path = Path(name)
    files = () if is_database_url(name) else (path, path.with_name(f"{path.name}-wal"))
    return {
        "path": name,
        "size": sum(file.stat().st_size for file in files if file.exists()) if files else None,
        "events": journal.count(),
        "runs": len(calls_in_doubt),
        "in_doubt": sum(calls_in_doubt),
        "revision": journal.store.revision(),
    }


def _get_absolute_name(journal: Journal) -> str:
    return journal.name if is_database_url(journal.name) else os.path.abspath(journal.name)


def _format_size(size: float | None) -> str:
    if size is None:
        return "that of the database"
    if size < 1_000:
        return f"{size:.0f} B"
    for unit in ("kB", "MB", "GB"):
        size /= 1_000
        if size < 1_000:
            return f"{size:.1f} {unit}"
    return f"{size / 1_000:.1f} TB"


@journal_command.command("path")
@app_options
@pass_context
def path_command(ctx: click.Context) -> None:
    """Print the path or the URL of the journal."""
    sys.stdout.write(f"{_get_absolute_name(open_selected_journal(ctx))}\n")


@journal_command.command("copy")
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@report_options
def copy_command(ctx: click.Context, *, source: str, target: str, as_json: bool) -> None:
    """
    Copy a journal into an empty store, all or nothing.

    So a journal in a file moves to a database, or back. SRC and DST are paths or URLs. What is written into SRC
    meanwhile is not copied: end the programs that use it first.
    """
    places = parse_place(source), parse_place(target)
    if isinstance(places[0], Path) and not places[0].exists():
        raise CommandError(f"There is no journal {source!r}.")
    copied: int = load("praval_tools.journal.storage.copy_store").copy_journal(*places)
    text = f"Copied {format_count(copied, 'event')} from {get_store_name(source)!r} to {get_store_name(target)!r}."
    with report_effect(text):
        if as_json:
            print_json({"source": get_store_name(source), "target": get_store_name(target), "events": copied})
        else:
            print_result(to_cell(text))


@journal_command.command("prune")
@click.option("--older-than", metavar="SPAN", type=SpanParam(), required=True, help="The age: 24h, 90d, 12w.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@report_options
def prune_command(ctx: click.Context, *, older_than: timedelta, yes: bool, as_json: bool) -> None:
    """
    Delete old events for good. Runs that are open or in doubt stay, and so does everything that is still in force.

    A run is deleted as a whole, once its last event is old enough.
    """
    journal = open_selected_journal(ctx)
    try:
        before = datetime.now(UTC) - older_than
    except OverflowError as error:
        raise UsageError("--older-than reaches back before the calendar begins.") from error
    limit = f"before {before:%Y-%m-%d %H:%M} UTC"
    if not yes and not sys.stdin.isatty():
        raise UsageError("Deleted events cannot be restored; confirm with --yes.")
    if not yes and not click.confirm(f"Delete what ended {limit} in {journal.name!r}, for good?", err=True):
        raise CommandError("Nothing was deleted.")
    deleted = journal.prune(before)
    left = journal.count()
    text = f"Deleted {format_count(deleted, 'event')} from {limit}; {left:,} are left."
    with report_effect(text):
        if as_json:
            print_json({"before": before.isoformat(), "gone": deleted, "left": left})
        else:
            print_result(to_cell(text))
