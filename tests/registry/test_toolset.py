"""Toolsets and bound tools: plain functions of them, calls by position, and what they show."""

# Tests of: toolset, bound_tool, schema_parameters, dispatch

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import pytest
from agent_tool_programs import add, later, stock  # noqa: F401

from praval_tools import Agent, Tool, ToolRegistry, errors, tool


class Colour(Enum):
    """A colour."""

    RED = "red"


@dataclass
class Point:
    """A place."""

    x: int


class TestFunctions:
    def test_are_real_functions(self, tool_registry: ToolRegistry) -> None:
        """
        `functions()` gives real `def` and `async def` with name, module, docstring, signature and annotations.
        """
        stock(tool_registry)
        first, second = Agent("ann").tools.functions()

        assert ("add", "agent_tool_programs", "Add two numbers.") == (first.__name__, first.__module__, first.__doc__)
        assert "(x: float, y: float = 1) -> float" == str(inspect.signature(first))
        assert {"x": float, "y": float, "return": float} == first.__annotations__
        assert (True, False) == (inspect.isfunction(first), inspect.iscoroutinefunction(first))
        assert (True, True) == (inspect.isfunction(second), inspect.iscoroutinefunction(second))
        assert [3, 3, 2] == [first(1, 2), first(x=1, y=2), asyncio.run(second(2))]

    def test_are_decided_at_each_call(self, tool_registry: ToolRegistry) -> None:
        """
        A function whose tool was taken away in between raises `ToolAccessError`, and works once it is back.
        """
        stock(tool_registry)
        ann = Agent("ann")
        first, second = ann.tools.functions()
        assert 3 == first(1, 2)
        ann.remove_tool("add")
        tool_registry.disable("later")
        for work in (lambda: first(1, 2), lambda: asyncio.run(second(2))):
            with pytest.raises(errors.ToolAccessError):
                work()
        ann.add_tool("add")

        assert 3 == first(1, 2)

    def test_have_names_that_providers_take(self, tool_registry: ToolRegistry) -> None:
        """A function is named as the schemas of its tool are, without the dot of a namespace."""
        tool_registry.tool("shop.add", owned_by="ann")(add)
        (function,) = Agent("ann").tools.functions()

        assert tool_registry.schemas("ann")[0]["function"]["name"] == function.__name__ == "shop_add"

    def test_have_hints_where_only_a_schema_is_known(self, tool_registry: ToolRegistry) -> None:
        """Parameters of a given JSON Schema have hints and defaults; what is left out, or None, is not passed."""
        properties = {
            "count": {"type": "integer"},
            "mode": {"enum": ["fast", "slow"], "default": "fast"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "other": {"$ref": "#/$defs/other"},
            "class": {"type": "string"},
            "no-name": {"type": "string"},
        }
        schema = {"type": "object", "properties": properties, "required": ["count"], "$defs": {"other": {}}}
        tool_registry.register_tool(Tool("order", "Order.", schema, lambda **given: given, owned_by="ann"))
        (function,) = Agent("ann").tools.functions()

        hints = "count: int, mode: Literal['fast', 'slow'] = 'fast', tags: Optional[list[str]] = None"
        shown = str(inspect.signature(function)).replace("typing.", "")
        assert f"(*, {hints}, other: Optional[object] = None)" == shown
        assert {"count": 2, "mode": "slow"} == function(count=2, mode="slow", tags=None)

    @pytest.mark.parametrize("name", ["add", "later"])
    def test_may_fail_as_a_framework_wants(self, tool_registry: ToolRegistry, name: str) -> None:
        """A failed call raises the exception, or returns the value, that is made of the text that models get."""

        stock(tool_registry)
        tools = Agent("ann").tools

        def find_function(failure: Any) -> Any:
            return next(function for function in tools.functions(failure=failure) if function.__name__ == name)

        def call(function: Any) -> Any:
            answer = function(1)
            return asyncio.run(answer) if inspect.isawaitable(answer) else answer

        returning, raising = (find_function(failure) for failure in (lambda text: {"error": text}, LookupError))
        tool_registry.block(name, "ann", reason="asked too often")
        text = f"Tool {name!r} is forbidden for this agent."
        assert {"error": text} == call(returning)
        with pytest.raises(LookupError) as caught:
            call(raising)
        assert (text,) == caught.value.args
        tool_registry.unblock(name, "ann")
        assert call(raising) == call(returning)


class TestBoundTools:
    def test_by_position_and_by_name(self, tool_registry: ToolRegistry) -> None:
        """
        A bound tool, found by name or by its tool, takes arguments by position and by name.
        """
        made = tool(owned_by="ann")(add)
        tools = Agent("ann").tools

        assert [3, 3, 3, 3] == [tools[made](1, 2), tools[made](x=1, y=2), tools["add"](1, y=2), tools["add"]("1", 2)]
        assert 3 == asyncio.run(tools[made].acall(1, y=2))

    def test_an_argument_given_twice(self, tool_registry: ToolRegistry) -> None:
        """
        An argument by its position and by its name, or one too many, is a usage error.
        """
        stock(tool_registry)
        bound = Agent("ann").tools["add"]

        with pytest.raises(errors.ToolUsageError, match="got 'x' twice"):
            bound(1, x=2)
        with pytest.raises(errors.ToolUsageError, match="takes 2 arguments by position, not 3"):
            bound(1, 2, 3)

    def test_a_keyword_only_parameter(self, tool_registry: ToolRegistry) -> None:
        """
        What the function takes by its name alone is not taken by position.
        """

        @tool(owned_by="ann")
        def move(x: int, *, back: bool = False) -> int:
            """Move."""
            return -x if back else x

        with pytest.raises(errors.ToolUsageError):
            Agent("ann").tools[move](1, True)  # type: ignore[call-arg]

    @pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
    def test_take_python_values(self, tool_registry: ToolRegistry, long: bool) -> None:
        """
        A moment, an enum member and a dataclass arrive as equal objects, on the fast path and in the pipeline.
        """
        values = datetime(2026, 1, 2, tzinfo=UTC), Colour.RED, Point(3)

        @tool(owned_by="ann", engine="thread" if long else None)
        def keep(when: datetime, colour: Colour, points: list[Point]) -> list[Any]:
            """Keep them."""
            return [when, colour, *points]

        bound = Agent("ann").tools[keep]

        assert [[*values]] * 2 == [bound(values[0], values[1], [values[2]]) for _ in range(2)]
        assert [*values] == asyncio.run(bound.acall(when=values[0], colour=values[1], points=[values[2]]))

    def test_an_empty_toolset_is_true(self) -> None:
        """
        A registry and a toolset without tools are true, and have length 0.
        """
        registry = ToolRegistry()

        assert [(True, 0)] * 2 == [(bool(one), len(one)) for one in (registry, registry.toolset("ann"))]


def test_only_a_tool_call_is_executed() -> None:
    """Junk given to `execute` is an error that names it, and says what is wanted."""
    registry = ToolRegistry()

    with pytest.raises(errors.ToolUsageError, match="'junk' is not a ToolCall"):
        registry.toolset("ann").execute("junk")  # type: ignore[arg-type]


def test_functions_have_the_description_of_the_schema() -> None:
    """The docstring of a function from `functions()` is the configured description, the whole docstring otherwise."""
    registry = ToolRegistry()

    @registry.tool(shared=True)
    def one() -> int:
        """
        Give one.

        Always.
        """
        return 1

    before = registry.toolset("ann").functions()[0].__doc__
    registry.configure("one", description="Give the number one.")

    assert "Give one.\n\nAlways." == before
    assert "Give the number one." == registry.toolset("ann").functions()[0].__doc__
