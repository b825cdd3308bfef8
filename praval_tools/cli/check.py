"""The command `check`: finds what is wrong in a registry and its configuration before an agent does."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import redirect_stdout

import click
from attrs import asdict, frozen
from rich.text import Text

from praval_tools import ConfigProblem, RegistryProblem, ToolRegistry
from praval_tools.cli.app_option import add_working_folder, find_app_spec, report_options
from praval_tools.cli.common import EXIT_PROBLEM, find_command_line, sanitize_text
from praval_tools.cli.config_option import check_selected_config, list_unread_sources, select_config
from praval_tools.cli.journal_option import open_selected_registry
from praval_tools.cli.output import print_json, print_result, to_cell
from praval_tools.config.json_schema import build_config_schema
from praval_tools.errors import ConfigError
from praval_tools.names import format_count
from praval_tools.report.command_line import CommandLine


@frozen
class CheckProblem:
    """
    A problem as it is printed.

    Args:
        kind: What kind it is; `configuration`: it stands in a file.
        subject: What it concerns.
        message: What is wrong, or what is expected.
        remedy: What to do.
        file: The file.
        line: The line in it, from 1; 0 where it is not known.
        key: The path of the key.
    """

    kind: str
    subject: str
    message: str
    remedy: str = ""
    file: str = ""
    line: int = 0
    key: str = ""


@click.command("check")
@click.option("--schema", "is_schema", is_flag=True, help="Print the JSON Schema of configuration files, for editors.")
@report_options
def check_command(ctx: click.Context, as_json: bool, is_schema: bool) -> None:
    """
    Check the configuration and the app: resolve every reference, report what is wrong.

    Of a configuration every mistake is reported with its file, line and key; the modules of its tools are imported,
    no server is connected and no journal is opened.

    Finds type hints that do not resolve, tools that agents list and nobody declares, owners that are not agents,
    tools that nobody can reach. Exits with 1 where anything is wrong.
    """
    if is_schema:
        print_json(build_config_schema())
        return
    registry, problems = _check(ctx)
    tools, agents = (0, 0) if registry is None else (len(registry.list_all_tools()), len(registry.agents))
    unchecked = [] if registry is None else list_unread_sources(registry, select_config(ctx))
    if as_json:
        rows = [asdict(problem) for problem in problems]
        print_json({"tools": tools, "agents": agents, "problems": rows, "unchecked": unchecked})
    else:
        for problem in problems:
            print_result(_render_problem(problem))
        summary = (format_count(len(problems), "problem"), "bold red") if problems else ("no problems", "bold green")
        print_result(Text.assemble(summary, f" in {format_count(tools, 'tool')} and {format_count(agents, 'agent')}."))
        if unchecked:
            names = sanitize_text(", ".join(unchecked))
            print_result(Text(f"Not checked, since nothing is connected: the names of tools of {names}.", "dim"))
    if problems:
        ctx.exit(EXIT_PROBLEM)


def _check(ctx: click.Context) -> tuple[ToolRegistry | None, list[CheckProblem]]:
    """Return the registry, if there is one, and everything that is wrong with it and its configuration."""
    config = select_config(ctx)
    registry: ToolRegistry | None = None
    problems: list[CheckProblem] = []
    if config.declares_registry:
        add_working_folder()
        try:
            with redirect_stdout(sys.stderr):
                registry = check_selected_config(config, has_app=find_app_spec(ctx) is not None)
        except ConfigError as error:
            problems += map(_describe_config_problem, error.problems)
            if config.paths or find_app_spec(ctx) is None:
                return None, problems
    if registry is None or find_app_spec(ctx) is not None:
        registry = open_selected_registry(ctx)
        expected = set[str]()
    else:
        expected = {"unknown-tool"}  # looked for already, with its line; of a server without tools, it may come
        if not registry.agents:
            expected.add("unreachable")  # a program declares the agents
    return registry, [*problems, *_describe_problems(registry.problems(), expected, find_command_line(ctx))]


def _describe_config_problem(problem: ConfigProblem) -> CheckProblem:
    place = f"{problem.file}:{problem.line}" if problem.line else problem.file
    return CheckProblem(
        kind="configuration", subject=place or "configuration", message=_join(problem), file=problem.file,
        line=problem.line, key=problem.key,
    )  # fmt: skip


def _join(problem: ConfigProblem) -> str:
    return f"{problem.key}: {problem.expected}" if problem.key else problem.expected


def _describe_problems(
    problems: Iterable[RegistryProblem], expected: set[str], command_line: CommandLine
) -> list[CheckProblem]:
    """Return problems as they are printed, without those of the *expected* kinds."""
    return [
        CheckProblem(
            problem.kind, problem.subject, command_line.rewrite(problem.message), command_line.rewrite(problem.remedy)
        )
        for problem in problems
        if problem.kind not in expected
    ]


def _render_problem(problem: CheckProblem) -> Text:
    text = Text.assemble((problem.kind, "red"), " ", to_cell(problem.subject, "bold"))
    text.append(f": {sanitize_text(problem.message)}")
    if problem.remedy:
        text.append(f"\n  {sanitize_text(problem.remedy)}", style="dim")
    return text
