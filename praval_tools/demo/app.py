"""Builds the demo's registry, with its tools and four agents."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from attrs import define

from praval_tools.access.events import ToolAssigned
from praval_tools.demo import agents
from praval_tools.demo.effects import EffectLog
from praval_tools.demo.question import Question, load_flights_question
from praval_tools.demo.tools import (
    Workspace,
    declare_data_tools,
    declare_fair_comparison,
    declare_report_tools,
    declare_table_tools,
)
from praval_tools.journal import Journal
from praval_tools.registry.agents import Agent
from praval_tools.registry.decorators import agent
from praval_tools.registry.registry import ToolRegistry

APP: Final = "praval_tools.demo:registry"
"""What names the demo's registry to the commands."""


@define
class DemoApp:
    """A registry with the demo's tools and agents, the workspace of the tools, and the agents by name."""

    registry: ToolRegistry
    workspace: Workspace
    agents: dict[str, Agent]


def build_app(question: Question, *, journal: Path | None = None, effects: EffectLog | None = None) -> DemoApp:
    """Declare every tool but the late one, and the four agents; the run is recorded in *journal*, if there is one."""
    registry = ToolRegistry(name="demo", journal=journal)
    workspace = Workspace(question.table, effects if effects is not None else EffectLog())
    for declare in (declare_data_tools, declare_table_tools, declare_report_tools):
        declare(registry, workspace)
    declared = (
        agent("librarian", registry=registry)(agents.run_librarian),
        agent("analyst", tool_categories=["tables"], registry=registry)(agents.run_analyst),
        agent("statistician", tools=["average", "fair_comparison"], registry=registry)(agents.run_statistician),
        agent("reporter", registry=registry)(agents.run_reporter),
    )
    return DemoApp(registry, workspace, {member.name: member for member in declared})


def registry() -> ToolRegistry:
    """Return a new registry with the demo's tools and agents, all tools declared and the raw rows lent."""
    app = build_app(load_flights_question())
    declare_fair_comparison(app.registry, app.workspace)
    agents.lend_rows(app.registry, by="librarian")
    return app.registry


def is_demo_journal(journal: Journal) -> bool:
    """Tell whether the demo wrote *journal*: then `registry` has the tools and agents that it is about."""
    assigned = (entry.event for entry in journal.read(agent="analyst", tool="read_rows", type="tool_assigned"))
    return any(isinstance(event, ToolAssigned) and event.grant.key == agents.SAMPLE_GRANT for event in assigned)
