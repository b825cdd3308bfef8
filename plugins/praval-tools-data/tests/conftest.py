"""A folder of files, and an agent that may call the tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cattrs
import pytest
from praval_tools import Agent, Outcome, ToolCall, ToolRegistry

from praval_tools_data import plugin

Make = Callable[..., Agent]
Refused = Callable[..., str]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The declared folder, with sales in it; a secret lies beside it."""
    folder = tmp_path / "home"
    folder.mkdir()
    (tmp_path / "secret.csv").write_text("secret\n1\n")
    (folder / "sales.csv").write_text(
        "region,amount,day,new\nnorth,3,2026-05-01,true\nsouth,4.5,2026-05-02,false\nnorth,,2026-05-03,true\n"
    )
    return folder


@pytest.fixture
def make(home: Path) -> Make:
    """Makes an agent with all tools, from settings as a host would read them from a file."""

    def made(**settings: Any) -> Agent:
        declared = {"roots": [{"name": "home", "path": str(home), "writable": True}]}
        registry = ToolRegistry()
        structured = cattrs.structure({**declared, **settings}, plugin.praval_tools_settings())
        for tool in plugin.praval_tools_register_tools(structured):
            registry.register_tool(tool)
            registry.assign_tool_to_agent(tool.name, "ann")
        return registry.agent("ann")

    return made


@pytest.fixture
def ann(make: Make) -> Agent:
    """An agent that may read and plot."""
    return make()


@pytest.fixture
def refused(ann: Agent) -> Refused:
    """Calls a tool that must fail with an error of this class; returns what it says."""

    def call(error: str, tool: str, agent: Agent = ann, **arguments: Any) -> str:
        result = agent.execute(ToolCall(name=tool, arguments=arguments))
        assert (Outcome.TOOL_ERROR, error) == (result.outcome, result.error_type), (result.error, result.result)
        return result.error or ""

    return call
