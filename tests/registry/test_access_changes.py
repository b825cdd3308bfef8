"""Settings for all tools of a namespace, all of them or none; changes that a named person makes as the operator."""

from __future__ import annotations

from pathlib import Path

import pytest

from praval_tools import (
    InvalidNameError,
    NotOwnerError,
    Tool,
    ToolDefinitionError,
    ToolRegistry,
    ToolUsageError,
    UnknownToolError,
)


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


class TestPerson:
    def test_the_person_is_recorded(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """In grants, blocks and events, and again when a process starts; authority stays the operator's."""
        registry.journal = tmp_path / "runs.db"
        with registry.as_operator(person="olga"):
            grant = registry.grant("query", "ann", reason="as agreed")
            registry.block("sql-query", "ann")
            registry.share_tool("sql-drop")
        registry.unblock("sql-query", "ann")

        assert ("operator", "olga") == (grant.by, grant.person)
        assert "'olga' (operator) granted 'query' to 'ann': as agreed." == registry.explain("ann", "query").reason
        events = [record.event for record in registry.journal.read()]
        assert ["olga", "olga", "olga", ""] == [event.person for event in events]
        assert {"operator"} == {event.by for event in events}
        registry.close()
        with ToolRegistry(journal=tmp_path / "runs.db") as later:
            later.register_tool(Tool.from_function(query))
            assert ["olga"] == [known.person for known in later.grants()]

    def test_a_change_that_ends_later_keeps_the_name(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """Planned inside, made at the end of a `change()` around it."""
        registry.journal = tmp_path / "runs.db"
        with registry.change(), registry.as_operator(person="olga"):
            registry.grant("query", "ann")
        with registry.change():
            with registry.as_operator(person="pia"):
                registry.block("query", "ann")
            registry.share_tool("sql-drop")

        assert ["olga", "pia", ""] == [record.event.person for record in registry.journal.read()]
        registry.close()

    def test_what_a_tool_changes_is_not_the_persons(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """Neither what its code changes nor what a call spends."""
        registry.journal = tmp_path / "runs.db"

        @registry.tool(shared=True)
        def lend() -> bool:
            """Lend a tool as the operator of nobody's name."""
            with registry.as_operator():
                return registry.assign_tool_to_agent("query", "bob")

        with registry.as_operator(person="olga"):
            assert registry.agent("ann").call("lend")

        assert [""] == [grant.person for grant in registry.grants()]
        registry.close()

    def test_a_name_is_one_line(self, registry: ToolRegistry) -> None:
        """As that of a token; the operator is nobody's name."""
        for name in ("operator", "ol\nga", "a:b"):
            with pytest.raises(InvalidNameError):
                registry.as_operator(person=name)
