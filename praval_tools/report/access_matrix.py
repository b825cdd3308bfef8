"""The access matrix: agents x tools, with the decision in each cell, at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from attrs import field, frozen

from praval_tools.access.grants import get_grant_record
from praval_tools.access.permissions import Grant
from praval_tools.access.queries import list_undeclared_agents
from praval_tools.access.rules import resolve_access
from praval_tools.execution.context import resolve_agent
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.tools.decision import Decision
from praval_tools.tools.tool import AnyTool

NO_ACCESS_RULES: Final = frozenset(("no-way", "no-agent"))
"""The rules of a refusal for which nothing gives the agent the tool; shown as a dash."""


def list_agents(registry: ToolRegistry) -> dict[str, str]:
    """Return every agent that can call something, by its name as it is shown: of undeclared ones it is said."""
    undeclared = list_undeclared_agents(registry.state, get_runtime(registry).clock.now())
    return {**{name: name for name in registry.agents}, **{name: f"{name} (undeclared)" for name in undeclared}}


@frozen
class AccessMatrix:
    """
    The decisions for some agents and tools, at one moment.

    Args:
        agents: Names, in the order of the columns.
        tools: Names, in the order of the rows.
        decisions: One per (agent, tool).
        notes: What a cell says beyond its rule: how many calls a grant has left.
        titles: How agents are shown, where not by their names.
    """

    agents: tuple[str, ...]
    tools: tuple[str, ...]
    decisions: dict[tuple[str, str], Decision] = field(repr=False)
    notes: dict[tuple[str, str], str] = field(factory=dict)
    titles: dict[str, str] = field(factory=dict)

    def get_title(self, agent: str) -> str:
        """Return how an agent is shown."""
        return self.titles.get(agent, agent)

    def to_json(self) -> dict[str, object]:
        """Return agents, tools, and per tool and agent the rule, its reason, and whether it allows."""
        cells = {tool: {agent: self._cell_to_json(agent, tool) for agent in self.agents} for tool in self.tools}
        return {"agents": list(self.agents), "tools": list(self.tools), "cells": cells}

    def _cell_to_json(self, agent: str, tool: str) -> dict[str, object]:
        decision = self.decisions[agent, tool]
        return {"allowed": decision.allowed, "rule": decision.rule, "reason": decision.reason}


def build_access_matrix(
    registry: ToolRegistry, *, agents: Sequence[str], tools: Sequence[AnyTool], titles: Mapping[str, str] | None = None
) -> AccessMatrix:
    """Decide on every cell, as a call would, of one state and moment."""
    runtime = get_runtime(registry)
    state, now = runtime.access_store.get_fresh_state(), runtime.clock.now()
    principals = {agent: resolve_agent(agent) for agent in agents}
    decisions = {
        (agent, tool.name): resolve_access(state, principal, tool.name, now).decision
        for tool in tools
        for agent, principal in principals.items()
    }
    notes = {
        cell: f" ({calls_left} left)"
        for cell, decision in decisions.items()
        if decision.allowed
        and isinstance(decision.source, Grant)
        and (calls_left := get_grant_record(state, decision.source.id).calls_left) is not None
    }
    return AccessMatrix(tuple(agents), tuple(tool.name for tool in tools), decisions, notes, dict(titles or {}))
