"""The command `check`: finds what is wrong in a registry before an agent does."""

from __future__ import annotations

import click
from rich.text import Text

from praval_tools.cli.app_option import report_options
from praval_tools.cli.common import EXIT_PROBLEM, format_count, sanitize_text
from praval_tools.cli.journal_option import open_selected_registry
from praval_tools.cli.output import print_json, print_result, to_cell
from praval_tools.cli.remedies import write_as_commands


@click.command("check")
@report_options
def check_command(ctx: click.Context, as_json: bool) -> None:
    """
    Import the app, resolve every reference, and report what is wrong.

    Finds type hints that do not resolve, tools that agents list and nobody declares, owners that are not agents,
    tools that nobody can reach. Exits with 1 where anything is wrong.
    """
    registry = open_selected_registry(ctx)
    names = ("kind", "subject", "message", "remedy")
    problems = [
        {name: write_as_commands(str(getattr(problem, name))) for name in names} for problem in registry.problems()
    ]
    tools, agents = len(registry.list_all_tools()), len(registry.agents)
    if as_json:
        print_json({"tools": tools, "agents": agents, "problems": problems})
    else:
        for problem in problems:
            print_result(_render_problem(problem))
        summary = (format_count(len(problems), "problem"), "bold red") if problems else ("no problems", "bold green")
        print_result(Text.assemble(summary, f" in {format_count(tools, 'tool')} and {format_count(agents, 'agent')}."))
    if problems:
        ctx.exit(EXIT_PROBLEM)


def _render_problem(problem: dict[str, str]) -> Text:
    text = Text.assemble((problem["kind"], "red"), " ", to_cell(problem["subject"], "bold"))
    text.append(f": {sanitize_text(problem['message'])}")
    if problem["remedy"]:
        text.append(f"\n  {sanitize_text(problem['remedy'])}", style="dim")
    return text
