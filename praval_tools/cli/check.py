"""The command that finds what is wrong before an agent does: `check`."""

from __future__ import annotations

import click
from rich.text import Text

from praval_tools import plugin_reports
from praval_tools.cli.app_option import app_options
from praval_tools.cli.common import PROBLEM, json_option, shown
from praval_tools.cli.journal_option import registry_of
from praval_tools.cli.output import cell, print_all, print_json, screen


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
    registry = registry_of(ctx)
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
        console = screen()
        for problem in problems:
            print_all(console, _line(problem))
        found = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}" if problems else "no problems"
        style = "bold red" if problems else "bold green"
        print_all(console, Text.assemble((found, style), f" in {tools} tools and {agents} agents."))
    if problems:
        ctx.exit(PROBLEM)


def _line(problem: dict[str, str]) -> Text:
    text = Text.assemble((problem["kind"], "red"), " ", cell(problem["subject"], "bold"))
    text.append(f": {shown(problem['message'])}")
    if problem["remedy"]:
        text.append(f"\n  {shown(problem['remedy'])}", style="dim")
    return text
