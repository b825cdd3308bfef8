"""Objects that code of an agent takes as names of an attached agent's tools are no keys there."""

# Tests of: integrations/agent_tools, integrations/installation

from __future__ import annotations

from typing import Any

from praval_chats import registry  # noqa: F401
from praval_rig import (
    fresh,  # noqa: F401
    praval,
)
from watchers import Odd, actors

from praval_tools import ToolCall, ToolRegistry
from praval_tools.compat.praval.catalogue import get_catalogue
from praval_tools.integrations.praval import attach, install


def run(x: int) -> int:
    """Run."""
    return x


def test_of_entries(registry: ToolRegistry) -> None:
    """Broken promise: an object was kept as the name of an entry, and compared as the host."""
    theirs, name = praval.Agent("analyst", provider="script"), Odd("odd")
    entry = {"function": run, "description": "Run.", "parameters": {"x": {"type": "integer"}}}
    with attach(theirs, registry):
        write = registry.tool("write", shared=True, description="Write.")
        write(lambda: theirs.tools.__setitem__(name, entry))
        assert registry.execute(ToolCall("1", "write", {}, "analyst")).success
        actors.clear()
        written: Any = theirs.tools
        written["odd"] = entry
        assert [str, str] == [type(one) for one in written.written]
        assert all(type(one) is str for one in theirs._registry_tools)
    assert actors == []


def test_of_agents_that_were_asked_for(registry: ToolRegistry) -> None:
    """Broken promise: an object was kept as the name of an agent that had asked for its tools."""
    with install(registry):
        asked: Any = Odd("odd")
        praval.get_tool_registry().get_tools_for_agent(asked)
        assert all(type(one) is str for one in get_catalogue(registry).reported_tools)
