"""The command `db`, with `upgrade` and `status`: the tables of a journal's database."""

from __future__ import annotations

from pathlib import Path

import click

from praval_tools.cli.app_option import report_options
from praval_tools.cli.common import EXIT_PROBLEM, CommandGroup, find_command_line
from praval_tools.cli.journal_option import locate_journal
from praval_tools.cli.output import print_json, print_result, report_effect, to_cell
from praval_tools.lazy_import import load


@click.group("db", cls=CommandGroup)
def db_command() -> None:
    """
    Make or upgrade the tables of a journal's database; show their version.

    The tables in a file are made and upgraded when it is opened; those in a database are shared, so you decide when.
    """


@db_command.command("upgrade")
@report_options
def upgrade_command(ctx: click.Context, as_json: bool) -> None:
    """Make the tables of a journal, or bring them to the version of this praval-tools: all or nothing."""
    location = locate_journal(ctx)
    versions = load("praval_tools.journal.storage.schema_version")
    before: str | None = versions.upgrade_tables(location.place)
    current: str = versions.SCHEMA_REVISION
    if before == current:
        text = f"The tables of {location.name!r} are of version {current} already."
    else:
        text = f"The tables of {location.name!r} are of version {current} now; before: {before or 'none'}."
    with report_effect(text):
        if as_json:
            print_json({"journal": location.name, "version": current, "before": before})
        else:
            print_result(to_cell(text))


@db_command.command("status")
@report_options
def status_command(ctx: click.Context, as_json: bool) -> None:
    """Show the version of the tables; exit code 1 where they are missing or of another version."""
    location = locate_journal(ctx)
    if isinstance(location.place, Path) and not location.exists:
        raise location.make_missing_error()
    versions = load("praval_tools.journal.storage.schema_version")
    version: str | None = versions.read_tables_version(location.place)
    needed: str = versions.SCHEMA_REVISION
    if as_json:
        print_json({"journal": location.name, "version": version, "needed": needed})
    elif version == needed:
        print_result(to_cell(f"The tables of {location.name!r} are of version {version}, as needed."))
    else:
        found = f"are of version {version}" if version else "are missing"
        upgrade = f"run {find_command_line(ctx).write('db upgrade')}"
        fix = "upgrade praval-tools" if version and version > needed else upgrade
        print_result(to_cell(f"The tables of {location.name!r} {found}; needed is {needed}: {fix}."))
    if version != needed:
        ctx.exit(EXIT_PROBLEM)
