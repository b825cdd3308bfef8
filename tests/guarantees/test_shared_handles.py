"""Handles are shared by all code of a process: nobody makes one stand for another agent or tool."""

# Tests of: registry/agents, registry/bound_tool, loop/loop

from __future__ import annotations

import pytest

from praval_tools import Agent, ToolRegistry
from praval_tools.loop import ToolLoop
from praval_tools.testing import fake_model


@pytest.fixture
def registry() -> ToolRegistry:
    """A registry in which the boss has two tools."""
    registry = ToolRegistry()
    Agent("boss", registry=registry)

    @registry.tool("note", owned_by="boss")
    def note() -> str:
        """Note."""
        return "noted"

    @registry.tool("pay", owned_by="boss")
    def pay() -> str:
        """Pay."""
        return "paid"

    return registry


@pytest.mark.parametrize("attribute", ["name", "registry", "principal", "chain", "tools"])
def test_an_agent_stays_the_same(registry: ToolRegistry, attribute: str) -> None:
    """What the host grants to an agent's handle goes to that agent, whatever others did with the handle."""
    boss = registry.agent("boss")
    with pytest.raises(AttributeError):
        setattr(boss, attribute, "mallory")
    assert ("boss", registry, "boss") == (boss.name, boss.registry, boss.principal.agent)


def test_a_loop_stays_that_of_its_agent(registry: ToolRegistry) -> None:
    """A loop makes the calls of the agent for which it was made, and is recorded as that one."""
    loop = ToolLoop(registry.agent("boss"), fake_model("done"))
    with pytest.raises(AttributeError):
        loop.agent = registry.agent("mallory")  # type: ignore[misc]
    assert "boss" == loop.agent.name


@pytest.mark.parametrize("attribute", ["name", "tool", "metadata", "description", "parameters"])
def test_a_tool_of_an_agent_stays_the_same(registry: ToolRegistry, attribute: str) -> None:
    """Who calls a tool by the handle of an agent calls that tool, whatever others did with the handle."""
    note = registry.toolset("boss")["note"]
    assert note is registry.toolset("boss")["note"]
    with pytest.raises(AttributeError):
        setattr(note, attribute, "pay")
    assert ("note", "note", "noted") == (note.name, note.tool.name, note())
