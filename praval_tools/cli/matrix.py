"""The command `matrix`: agents x tools, with the deciding rule in each cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click
from rich.table import Table
from rich.text import Text

from praval_tools.cli.app_option import complete_agent, report_options
from praval_tools.cli.common import sanitize_text
from praval_tools.cli.journal_option import open_selected_registry
from praval_tools.cli.listings import warn_if_undeclared
from praval_tools.cli.output import (
    build_rule_cell,
    make_console,
    make_table,
    print_json,
    print_message,
    print_parts,
    to_cell,
)
from praval_tools.names import format_count
from praval_tools.report.access_matrix import AccessMatrix, build_access_matrix, list_agents

_COLUMN_GAP = 2


@click.command("matrix")
@click.option("--agent", "agents", metavar="AGENT", multiple=True, shell_complete=complete_agent,
              help="Only this agent; may be repeated.")  # fmt: skip
@click.option("--category", metavar="CATEGORY", help="Only tools of this category.")
@report_options
def matrix_command(ctx: click.Context, *, agents: tuple[str, ...], category: str | None, as_json: bool) -> None:
    """Show agents x tools, with the deciding rule in each cell; `-`: nothing gives the agent this tool."""
    registry = open_selected_registry(ctx)
    for agent in agents:
        warn_if_undeclared(registry, agent)
    tools = registry.search_tools(category=category)
    titles = list_agents(registry)
    matrix = build_access_matrix(registry, agents=agents or list(titles), tools=tools, titles=titles)
    if as_json:
        print_json(matrix.to_json())
    elif matrix.tools and matrix.agents:
        console = make_console()
        for number, table in enumerate(build_matrix_tables(matrix, console.width)):
            print_parts(console, *([""] if number else []), table)
    else:
        print_message(
            f"Nothing to show: {format_count(len(matrix.agents), 'agent')}, {format_count(len(matrix.tools), 'tool')}."
        )


def build_matrix_tables(matrix: AccessMatrix, width: int) -> Iterator[Table]:
    """Yield one table, or several where the columns of the agents do not all fit into *width*."""
    first_width = max([len("tool"), *(len(sanitize_text(tool)) for tool in matrix.tools)])
    agents: list[str] = []
    room = width - first_width
    for agent in matrix.agents:
        cells = (_render_cell(matrix, agent, tool).cell_len for tool in matrix.tools)
        column_width = max(len(sanitize_text(matrix.get_title(agent))), *cells, 1) + _COLUMN_GAP
        if agents and column_width > room:
            yield _build_table(matrix, agents)
            agents, room = [], width - first_width
        agents.append(agent)
        room -= column_width
    yield _build_table(matrix, agents)


def _render_cell(matrix: AccessMatrix, agent: str, tool: str) -> Text:
    decision = matrix.decisions[agent, tool]
    return build_rule_cell(decision.rule, decision.allowed, matrix.notes.get((agent, tool), ""))


def _build_table(matrix: AccessMatrix, agents: Sequence[str]) -> Table:
    table = make_table(gap=_COLUMN_GAP)
    for title in ("tool", *map(matrix.get_title, agents)):
        table.add_column(to_cell(title), no_wrap=True, overflow="fold")
    for tool in matrix.tools:
        table.add_row(to_cell(tool), *(_render_cell(matrix, agent, tool) for agent in agents))
    return table
