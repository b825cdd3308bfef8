"""Wrong calls of public methods: one readable line, with similar names, and nothing of the inside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from praval_tools import Agent, Outcome, ToolCall, ToolRegistry
from praval_tools import agent as declare_agent
from praval_tools.loop import ToolLoop


@pytest.fixture
def registry() -> ToolRegistry:
    """Return a registry with a tool of `ann`."""
    registry = ToolRegistry(name="first")

    @registry.tool("add", owned_by="ann")
    def add(x: int, y: int = 1) -> int:
        """Add."""
        return x + y

    return registry


def misuse(registry: ToolRegistry) -> dict[str, tuple[Callable[[], Any], str]]:
    """Return what is called wrongly, and what is said of it."""
    ann = registry.agent("ann")
    by_name = "takes the tool's arguments by name"
    return {
        "call": (lambda: ann.call("add", 5), f"call() {by_name}: call('add', x=5)."),
        "call two": (lambda: ann.tools.call("add", 5, 6), f"call() {by_name}: call('add', x=5, y=6)."),
        "call unknown": (lambda: ann.call("nope", 5), f"call() {by_name}: call('nope', x=…)."),
        "acall": (lambda: asyncio.run(ann.acall("add", 5)), f"acall() {by_name}: acall('add', x=5)."),
        "execute": (
            lambda: ann.execute("add", {"x": 5}),
            "execute() takes one call: execute(ToolCall(name='add', arguments={'x': 5})).",
        ),
        "grant": (
            lambda: registry.grant("add", "bob", max_call=3),
            "grant() takes no 'max_call'. Did you mean 'max_calls'?",
        ),
        "grant to": (lambda: registry.grant("add", agent="bob"), "grant() needs 'to'."),
        "agent": (
            lambda: Agent("bob", categories=["a"], registry=registry),
            "Agent() takes no 'categories'. Did you mean 'tool_categories'?",
        ),
        "decorated agent": (
            lambda: declare_agent("bob", responds_to=["a"], registry=registry)(lambda: 1),
            "Agent() takes no 'responds_to'. It takes by name: name, tools, tool_categories, auto_discover_tools, "
            "registry, function.",
        ),
        "execute_tool": (
            lambda: registry.execute_tool(name="add", x=1),
            "execute_tool() takes 'name' by position: execute_tool('add', …).",
        ),
        "execute_tool by position": (
            lambda: registry.execute_tool("add", 1),
            "execute_tool() takes by position: name; pass 1 and what follows by name.",
        ),
        "registry": (
            lambda: ToolRegistry(durablity="x"),
            "ToolRegistry() takes no 'durablity'. Did you mean 'durability'?",
        ),
        "register": (
            lambda: registry.register_tool(registry.get_tool("add"), replce=True),
            "register_tool() takes no 'replce'. Did you mean 'replace'?",
        ),
        "limit": (
            lambda: registry.limits.set(tool="add", concurent=3),
            "set() takes no 'concurent'. Did you mean 'concurrent'?",
        ),
        "loop": (lambda: ToolLoop(ann), "ToolLoop() needs 'model'."),
    }


class TestMisuse:
    @pytest.mark.parametrize("case", sorted(misuse(ToolRegistry())))
    def test_says_what_does_not_fit(self, registry: ToolRegistry, case: str) -> None:
        """The error is a `TypeError`, as everywhere in Python, and names what the caller wrote."""
        call, text = misuse(registry)[case]

        with pytest.raises(TypeError) as raised:
            call()

        assert text == str(raised.value).replace(
            "Did you mean 'journal' or 'journal_errors'?", "Did you mean 'journal'?"
        )

    def test_errors_from_inside_are_left_alone(self, registry: ToolRegistry) -> None:
        """A `TypeError` that a method itself raises is not taken for a wrong call."""
        with pytest.raises(TypeError, match="Expected Tool object"):
            registry.register_tool(3)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="are lists"):
            Agent("bob", "add", registry=registry)

    def test_a_call_whose_name_is_misplaced(self, registry: ToolRegistry) -> None:
        """`ToolCall("add", {…})` gives the id first: the result says how to write it, with an agent and without."""
        call = ToolCall("add", {"x": 1})  # type: ignore[arg-type]
        results = [registry.agent("ann").execute(call), registry.execute(call), registry.execute_batch([call])[0]]

        assert {Outcome.UNKNOWN_TOOL, Outcome.FORBIDDEN} == {result.outcome for result in results}
        assert {"A ToolCall begins with its id, and its name is a text: ToolCall(name='add', arguments={'x': 1})."} == {
            result.error for result in results
        }
