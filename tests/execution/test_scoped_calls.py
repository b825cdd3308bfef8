"""Toolsets with a scope, such as deps or a run: as live as others, and on the fast path where others are."""

from __future__ import annotations

import pytest

from praval_tools import Outcome, ToolCall, ToolRegistry, current_agent
from praval_tools.execution.executor import Executor


@pytest.fixture
def registry() -> ToolRegistry:
    """Return a registry with one plain tool."""
    registry = ToolRegistry(name="bank")

    @registry.tool(owned_by="ann")
    def who(number: int) -> str:
        """Say who calls."""
        return f"{current_agent().name} {number}"

    return registry


class TestScopedToolset:
    def test_changes_reach_it(self, registry: ToolRegistry) -> None:
        """A toolset with deps is as live as any other: a block counts from the next call on."""
        toolset = registry.toolset("ann", deps=object())
        assert "ann 1" == toolset.call("who", number=1)
        registry.block("who", "ann")

        assert Outcome.FORBIDDEN is toolset.execute(ToolCall("1", "who", {"number": 1})).outcome
        assert "who" not in toolset
        registry.unblock("who", "ann")
        assert "ann 2" == toolset["who"](number=2)

    def test_takes_the_fast_path(self, registry: ToolRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
        """Tools without a context need no pipeline because deps are passed; nor after a change of the state."""
        toolset = registry.toolset("ann", deps=object())
        toolset.call("who", number=1)
        registry.share_tool("who")
        toolset.call("who", number=1)
        monkeypatch.setattr(Executor, "handle_fast_path_error", None)
        monkeypatch.setattr(Executor, "run_pipeline", None)

        assert "ann 2" == toolset.call("who", number=2)
        assert "ann 2" == toolset.execute(ToolCall("1", "who", {"number": 2})).result

    def test_serves_calls_for_others(self, registry: ToolRegistry) -> None:
        """A call on behalf of another agent goes through the toolset's scope, too."""
        registry.share_tool("who")
        call = ToolCall("1", "who", {"number": 1}, "bob", on_behalf_of=("ann",))

        assert "bob 1" == registry.toolset("bob", deps=object()).execute(call).result
