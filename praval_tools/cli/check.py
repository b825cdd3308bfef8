"""The command that finds what is wrong before an agent does: `check`."""

from __future__ import annotations

import click
from rich.text import Text

from praval_tools import plugin_reports
from praval_tools.cli.app_option import app_options
from praval_tools.cli.common import EXIT_PROBLEM, json_option, sanitize_text
from praval_tools.cli.journal_option import open_selected_registry
from praval_tools.cli.output import make_console, print_json, print_parts, to_cell


@click.command("check")
@json_option
@app_options
@click.pass_context
def check_command(ctx: click.Context, as_json: bool) -> None:
    """
    Import the app, resolve every reference, and report what is wrong.

    Finds type hints that do not resolve, tools that agents list and nobody declares, owners that are no agents,
    tools that nobody can reach. Exits with 1 where anything is wrong.
    """
    registry = open_selected_registry(ctx)
    problems = [
        {"kind": one.kind, "subject": one.subject, "message": one.message, "remedy": one.remedy}
        for one in registry.problems()
    ]
    problems += [
        {"kind": "plugin", "subject": one.distribution, "message": str(one.error), "remedy": ""}
        for one in plugin_reports(registry)
        if one.failed
    ]
    tools, agents = len(registry.list_all_tools()), len(registry.agents)
    if as_json:
        print_json({"tools": tools, "agents": agents, "problems": problems})
    else:
        console = make_console()
        for problem in problems:
            print_parts(console, _render_problem(problem))
        found = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}" if problems else "no problems"
        style = "bold red" if problems else "bold green"
        print_parts(console, Text.assemble((found, style), f" in {tools} tools and {agents} agents."))
    if problems:
        ctx.exit(EXIT_PROBLEM)


def _render_problem(problem: dict[str, str]) -> Text:
    text = Text.assemble((problem["kind"], "red"), " ", to_cell(problem["subject"], "bold"))
    text.append(f": {sanitize_text(problem['message'])}")
    if problem["remedy"]:
        text.append(f"\n  {sanitize_text(problem['remedy'])}", style="dim")
    return text
