"""Settings for all tools of a namespace: as for one tool, all of them or none."""

from __future__ import annotations

import pytest

from praval_tools import NotOwnerError, Tool, ToolDefinitionError, ToolRegistry, ToolUsageError, UnknownToolError


def query(text: str) -> str:
    """Ask the database."""
    return text


def drop(table: str) -> str:
    """Drop a table."""
    return table


@pytest.fixture
def registry() -> ToolRegistry:
    """A registry with two tools of the namespace `sql`, and one of none."""
    registry = ToolRegistry()
    for function in (query, drop):
        registry.register_tool(Tool.from_function(function, namespace="sql"))
    registry.register_tool(Tool.from_function(query))
    return registry


class TestConfigureNamespace:
    def test_every_tool_of_it(self, registry: ToolRegistry) -> None:
        """What is set for a namespace is set for each of its tools, and for no other."""
        registry.configure(namespace="sql", timeout=3, requires_approval=True)

        metadata = {tool.name: tool.metadata for tool in registry}
        assert {"sql-query": 3, "sql-drop": 3, "query": None} == {name: one.timeout for name, one in metadata.items()}
        assert ["sql-query", "sql-drop"] == [name for name, one in metadata.items() if one.requires_approval]

    def test_a_tool_of_its_own_comes_after(self, registry: ToolRegistry) -> None:
        """What is set for one tool afterwards counts for it, as with two settings of one tool."""
        registry.configure(namespace="sql", timeout=3)
        registry.configure("sql-drop", timeout=9)

        assert (3, 9) == tuple(registry.get_tool(name).metadata.timeout for name in ("sql-query", "sql-drop"))

    def test_it_widens_nothing(self, registry: ToolRegistry) -> None:
        """Settings of a namespace give nobody a tool: sharing and owners have methods of their own."""
        with pytest.raises(ToolUsageError, match="there are methods for that"):
            registry.configure(namespace="sql", shared=True)

        assert [] == registry.get_tools_for_agent("ann")

    def test_all_or_none(self, registry: ToolRegistry) -> None:
        """A value that does not fit changes no tool."""
        with pytest.raises(ToolDefinitionError):
            registry.configure(namespace="sql", timeout=3, risk_level="crticial")

        assert [None] * 3 == [tool.metadata.timeout for tool in registry]

    def test_an_unknown_namespace(self, registry: ToolRegistry) -> None:
        """A namespace that no tool is in is an error with similar names."""
        with pytest.raises(UnknownToolError, match="Namespace 'sqll' not found. Did you mean 'sql'"):
            registry.configure(namespace="sqll", timeout=3)

    def test_one_target(self, registry: ToolRegistry) -> None:
        """It takes a tool or a namespace, and the error shows how."""
        with pytest.raises(ToolUsageError, match="one tool, or namespace="):
            registry.configure(timeout=3)
        with pytest.raises(ToolUsageError, match="one tool, or namespace="):
            registry.configure("query", namespace="sql", timeout=3)

    def test_the_operator_alone(self, registry: ToolRegistry) -> None:
        """Agents configure no namespace, as they configure no tool."""
        with pytest.raises(NotOwnerError):
            registry.configure(namespace="sql", timeout=3, by="ann")
