"""The matrix: agents x tools, with the rule that decides in each cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import field, frozen
from rich.table import Table
from rich.text import Text

from praval_tools import Decision, Grant, Tool, ToolRegistry
from praval_tools.cli.common import sanitize_text
from praval_tools.cli.output import build_rule_cell, to_cell


@frozen
class AccessMatrix:
    """
    The decisions for some agents and tools, at one moment.

    Args:
        agents: Names, in the order of the columns.
        tools: Names, in the order of the rows.
        decisions: One per (agent, tool).
        notes: What a cell says beyond its rule: calls left, bounds.
    """

    agents: tuple[str, ...]
    tools: tuple[str, ...]
    decisions: dict[tuple[str, str], Decision] = field(repr=False)
    notes: dict[tuple[str, str], str] = field(factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return tools, agents, and per tool and agent the rule and whether it allows."""
        cells = {
            tool: {agent: _decision_to_json(self.decisions[agent, tool]) for agent in self.agents}
            for tool in self.tools
        }
        return {"agents": list(self.agents), "tools": list(self.tools), "cells": cells}


def _decision_to_json(decision: Decision) -> dict[str, Any]:
    return {"allowed": decision.allowed, "rule": decision.rule, "reason": decision.reason}


def build_access_matrix(
    registry: ToolRegistry, *, agents: Sequence[str], tools: Sequence[Tool[..., Any]]
) -> AccessMatrix:
    """Ask the registry about every cell."""
    decisions = {(agent, tool.name): registry.explain(agent, tool.name) for tool in tools for agent in agents}
    notes = {
        cell: _format_calls_left(registry, decision.source)
        for cell, decision in decisions.items()
        if decision.allowed and isinstance(decision.source, Grant)
    }
    return AccessMatrix(tuple(agents), tuple(tool.name for tool in tools), decisions, notes)


def _format_calls_left(registry: ToolRegistry, grant: Grant) -> str:
    left = registry.uses_left(grant)
    return "" if left is None else f" ({left} left)"


def build_matrix_tables(matrix: AccessMatrix, width: int) -> Iterator[Table]:
    """Yield one table, or several where the agents do not fit beside each other into *width*."""
    first = max([len("tool"), *(len(sanitize_text(tool)) for tool in matrix.tools)])
    chunk: list[str] = []
    room = width - first - 2
    for agent in matrix.agents:
        wide = _measure_column(matrix, agent) + 2
        if chunk and wide > room + 2:
            yield _build_table(matrix, chunk)
            chunk, room = [], width - first - 2
        chunk.append(agent)
        room -= wide
    yield _build_table(matrix, chunk)


def _measure_column(matrix: AccessMatrix, agent: str) -> int:
    return max(len(sanitize_text(agent)), *(_render_cell(matrix, agent, tool).cell_len for tool in matrix.tools), 1)


def _render_cell(matrix: AccessMatrix, agent: str, tool: str) -> Text:
    decision = matrix.decisions[agent, tool]
    return build_rule_cell(decision.rule, decision.allowed, matrix.notes.get((agent, tool), ""))


def _build_table(matrix: AccessMatrix, agents: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    table.add_column("tool", no_wrap=True, overflow="fold")
    for agent in agents:
        table.add_column(to_cell(agent), no_wrap=True, overflow="fold")
    for tool in matrix.tools:
        table.add_row(to_cell(tool), *(_render_cell(matrix, agent, tool) for agent in agents))
    return table
