"""What the tests of LangChain's tools share: a registry, what is shown of a call, and what is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.tools import BaseTool

from praval_tools import Allow, ToolCall, ToolRegistry
from praval_tools.integrations.langchain import import_tools

WORDS = "seven-green-bottles"
"""A secret."""


@pytest.fixture
def registry() -> Iterator[ToolRegistry]:
    """A registry with a journal, in which approvers say yes."""
    with ToolRegistry(journal="memory") as registry:
        registry.set_approval_handler(lambda request: Allow())
        yield registry


def judge(registry: ToolRegistry, tool: BaseTool, **arguments: Any) -> tuple[dict[str, Any], Any]:
    """Return what the approver of a call and a policy are shown, both the same, and what it gives."""
    shown, seen = list[dict[str, Any]](), list[dict[str, Any]]()
    import_tools(registry, [tool], owned_by="bob")
    registry.configure(tool.name, requires_approval=True)
    registry.add_policy(lambda agent, tool, arguments: seen.append(dict(arguments)))
    registry.set_approval_handler(lambda request: shown.append(dict(request.arguments)) or Allow())
    result = asyncio.run(registry.aexecute(ToolCall("1", tool.name, arguments, "bob")))
    (arguments_shown,) = shown
    assert seen and [arguments_shown] * len(seen) == seen
    return arguments_shown, result.result


def record(registry: ToolRegistry, tool: BaseTool, **arguments: Any) -> str:
    """Return what is recorded of a call."""
    import_tools(registry, [tool], owned_by="bob")
    with registry.run("1") as run:
        asyncio.run(registry.aexecute(ToolCall("1", tool.name, arguments, "bob")))
        (recorded,) = run.calls
    return f"{recorded.arguments} {recorded.result}"
