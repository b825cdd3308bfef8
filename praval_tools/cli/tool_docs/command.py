"""The command `docs`, with `build` and `stubs`: documents that are made of the tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from praval_tools.cli.app_option import app_options, complete_agent
from praval_tools.cli.common import EXIT_OK, EXIT_PROBLEM, CommandGroup, find_command_line
from praval_tools.cli.journal_option import open_declared_registry
from praval_tools.cli.listings import warn_if_undeclared
from praval_tools.cli.output import print_message, print_result, report_effect, to_cell
from praval_tools.cli.tool_docs.build import RENDERERS, prepare_build
from praval_tools.cli.tool_docs.changes import DocFormat, describe_changes
from praval_tools.cli.tool_stubs.prepare import prepare_stubs
from praval_tools.names import format_count
from praval_tools.plugins.click_contexts import pass_context
from praval_tools.report.access_matrix import list_agents

DEFAULT_FOLDER = "tool-docs"
DEFAULT_MODULE = "agent_tools"
_MAX_LINES = 50

check_option = click.option(
    "--check", is_flag=True, help="Write nothing; exit with 1 where it would change something."
)
"""Adds `--check`."""


@click.group("docs", cls=CommandGroup)
def docs_command() -> None:
    """Documents made of the tools: a reference, and type stubs."""


@docs_command.command("build")
@click.option(
    "--format", "doc_format", type=click.Choice(list(RENDERERS)), default="md", show_default=True,
    help="Markdown or HTML.",
)  # fmt: skip
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(DEFAULT_FOLDER),
    help=f"Where the pages go; by default {DEFAULT_FOLDER}, here.",
)
@check_option
@app_options
@pass_context
def build_command(ctx: click.Context, *, doc_format: DocFormat, out: Path, check: bool) -> int:
    """
    Write a reference of the tools by owner and category, to be committed.

    The same tools give the same bytes. What was changed since the last build is on a page of its own. Grants and
    changes of a journal count where --journal names it, or the app has it.
    """
    build = prepare_build(open_declared_registry(ctx), out, doc_format)
    if check:
        lines = build.find_differences()
        options = _list_options({"--format": (doc_format, "md"), "--out": (str(out), DEFAULT_FOLDER)})
        again = find_command_line(ctx).write("docs build", [], options)
        return _print_check([*describe_changes(build.changes), *lines] if lines else [], str(out), again)
    _print_effect(build.write(), str(out), format_count(build.tool_count, "tool"))
    return EXIT_OK


@docs_command.command("stubs")
@click.option("--agent", "agents", metavar="AGENT", multiple=True, shell_complete=complete_agent,
              help="Only this agent; may be repeated.")  # fmt: skip
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Where the module goes; by default here.",
)
@click.option("--module", metavar="NAME", default=DEFAULT_MODULE, show_default=True, help="The name of the module.")
@check_option
@app_options
@pass_context
def stubs_command(ctx: click.Context, *, agents: tuple[str, ...], out: Path, module: str, check: bool) -> int:
    """
    Write a module of your agents and its type stub, so that checkers and editors know their tools.

    In your program, get an agent by that module: agent_tools.get_agent(registry, "analyst"). Then
    analyst.tools.csv_parse( is completed, and mypy and pyright check its arguments.
    """
    registry = open_declared_registry(ctx)
    for agent in agents:
        warn_if_undeclared(registry, agent)
    folder, files = prepare_stubs(registry, agents or list_agents(registry), out, module)
    place = str(out / f"{module}.pyi")
    if check:
        options = _list_options({"--out": (str(out), "."), "--module": (module, DEFAULT_MODULE)})
        options += [word for agent in agents for word in ("--agent", agent)]
        again = find_command_line(ctx).write("docs stubs", [], options)
        return _print_check(list(folder.find_differences(files, ())), place, again)
    _print_effect(folder.write(files, ()), place, format_count(len(set(agents or list_agents(registry))), "agent"))
    return EXIT_OK


def _list_options(values: Mapping[str, tuple[str, str]]) -> list[str]:
    """Return the options, each with its value and its default, that have another value."""
    return [word for option, (value, default) in values.items() if value != default for word in (option, value)]


def _print_effect(count: int, place: str, contents: str) -> None:
    effect = f"Wrote {place}." if count else f"{place} is up to date."
    with report_effect(effect):
        print_result(to_cell(f"Wrote {place}: {contents}, {format_count(count, 'file')} changed." if count else effect))


def _print_check(lines: Iterable[str], place: str, command: str) -> int:
    """Print what differs, and return the exit code."""
    lines = list(lines)
    if not lines:
        print_result(to_cell(f"{place} is up to date."))
        return EXIT_OK
    print_result(*(to_cell(line, max_length=500) for line in lines[:_MAX_LINES]))
    if len(lines) > _MAX_LINES:
        print_result(to_cell(f"and {len(lines) - _MAX_LINES:,} more"))
    print_message(f"{place} is not up to date: run {command}.")
    return EXIT_PROBLEM
