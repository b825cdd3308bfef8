"""Folders to work in, and an agent that may call the tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cattrs
import pytest
from praval_tools import Agent, Outcome, ToolCall, ToolRegistry

from praval_tools_files import plugin

Make = Callable[..., Agent]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The declared folder; a secret lies beside it."""
    folder = tmp_path / "home"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    return folder


@pytest.fixture
def make(home: Path) -> Make:
    """Makes an agent with all tools, from settings as a host would read them from a file."""

    def made(**settings: Any) -> Agent:
        declared = {"roots": [{"name": "home", "path": str(home), "writable": True}], "approve_writes": False}
        structured = cattrs.structure({**declared, **settings}, plugin.praval_tools_settings())
        registry = ToolRegistry()
        for tool in plugin.praval_tools_register_tools(structured):
            registry.register_tool(tool)
            registry.assign_tool_to_agent(tool.name, "ann")
        return registry.agent("ann")

    return made


@pytest.fixture
def ann(make: Make) -> Agent:
    """An agent that may read and write."""
    return make()


Refused = Callable[..., str]


@pytest.fixture
def refused(ann: Agent) -> Refused:
    """Calls a tool that must fail with an error of this class; returns what it says."""

    def call(kind: str, tool: str, agent: Agent = ann, **arguments: Any) -> str:
        result = agent.execute(ToolCall(name=tool, arguments=arguments))
        assert (Outcome.TOOL_ERROR, kind) == (result.outcome, result.error_type), result.error
        return result.error or ""

    return call
