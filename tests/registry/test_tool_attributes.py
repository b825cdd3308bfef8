"""Tools as attributes of toolsets: `agent.tools.csv_parse(…)`."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from praval_tools import Agent, Tool, ToolAccessError, ToolRegistry
from praval_tools.names import fold_name
from praval_tools.registry.tool_attributes import map_attributes, to_attribute_name
from praval_tools.registry.toolset import TOOLSET_ATTRIBUTES

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,6}", fullmatch=True) | st.sampled_from(
    ["class", "call", "keys", "a-b", "a.b", "a_b", "call_"]
)


def make_registry(*names: str) -> ToolRegistry:
    """Return a registry with shared tools that return their own names, and an agent."""
    registry = ToolRegistry()
    for name in names:
        registry.register_tool(Tool.from_function(lambda name=name: name, name, "Say its name.", shared=True))
    Agent("analyst", registry=registry)
    return registry


class TestAttributes:
    @pytest.mark.parametrize(
        ("tool", "attribute"),
        [
            ("csv_parse", "csv_parse"),
            ("sql.query", "sql_query"),
            ("sql-query", "sql_query"),
            ("class", "class_"),
            ("call", "call_"),
            ("keys", "keys_"),
            ("_hidden", None),
            ("A", "A"),
        ],
    )
    def test_names(self, tool: str, attribute: str | None) -> None:
        """The attribute is the name, with `_` for what Python does not allow there, and behind what is taken."""
        assert attribute == to_attribute_name(tool, TOOLSET_ATTRIBUTES)

    @given(st.lists(NAMES, max_size=8, unique_by=fold_name))
    def test_each_attribute_gives_its_tool(self, names: list[str]) -> None:
        """What is said to be an attribute is one, and gives the tool that it stands for; others give none."""
        tools = make_registry(*names).agent("analyst").tools
        attributes = map_attributes(names, TOOLSET_ATTRIBUTES)

        for attribute, tool in attributes.items():
            assert attribute.isidentifier() and tool == getattr(tools, attribute).name == getattr(tools, attribute)()

    def test_two_of_one_attribute(self) -> None:
        """Of `call` and `call_` the attribute `call_` stands for the second one, also for who may not call it."""
        registry = make_registry("call_", "call")
        tools = registry.agent("analyst").tools

        assert "call_" == tools.call_() and {"call_": "call_"} == map_attributes(["call", "call_"], TOOLSET_ATTRIBUTES)
        registry.unregister_tool("call_")
        assert "call" == tools.call_()

    def test_a_misspelt_one(self) -> None:
        """An attribute that stands for no tool is an `AttributeError` with a similar name."""
        tools = make_registry("csv_parse").agent("analyst").tools

        with pytest.raises(AttributeError, match="for the attribute 'csv_prase'. Did you mean 'csv_parse'"):
            tools.csv_prase()

        assert not hasattr(tools, "_x") and not hasattr(tools, "__len_hint__")

    def test_only_what_the_agent_may_call(self) -> None:
        """An attribute is there as long as the agent may call the tool; a held tool is checked at each call."""
        registry = make_registry("csv_parse", "sql-query")
        tools = registry.agent("analyst").tools
        held = tools.csv_parse
        assert {"csv_parse", "sql_query", "call"} <= set(dir(tools))
        registry.block("csv_parse", "analyst")
        registry.block("sql-query", "analyst")

        assert "csv_parse" not in dir(tools) and not hasattr(tools, "csv_parse") and not hasattr(tools, "sql_query")
        with pytest.raises(ToolAccessError):
            held()

    def test_toolsets_stay_what_they_are(self) -> None:
        """Attributes of the toolset come first, and copies are toolsets."""
        registry = make_registry("agent", "call", "principal", "items")
        tools = registry.agent("analyst").tools

        assert "analyst" == tools.agent and "agent" == tools.agent_()
        assert "call" == tools.call("call") == tools.call_()
        assert ["agent", "call", "principal", "items"] == list(dict(tools.items())) == list(copy.copy(tools))

    def test_a_parameter_named_self(self) -> None:
        """A bound tool takes arguments of every name."""
        registry = ToolRegistry()
        schema = {"properties": {"self": {"type": "integer"}}}
        registry.register_tool(Tool("odd", "Odd.", schema, lambda **more: more["self"], shared=True))

        assert 5 == registry.agent("a").tools.odd(self=5)
