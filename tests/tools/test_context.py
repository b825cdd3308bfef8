"""`ToolContext.log`: a tool's messages reach whoever follows the registry or drives the call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from praval_tools import Outcome, ToolCall, ToolContext, ToolLog, ToolRegistry
from praval_tools.loop import ToolLoop
from praval_tools.testing import fake_model


@pytest.fixture
def registry() -> ToolRegistry:
    """A registry whose agent has a tool that logs, sync and async."""
    registry = ToolRegistry()

    @registry.tool("copy", owned_by="clerk")
    def copy(name: str, context: ToolContext) -> str:
        """Copy a file."""
        context.log(f"copying {name}")
        context.log("nearly full", level="warning")
        return name

    @registry.tool("acopy", owned_by="clerk")
    async def acopy(name: str, context: ToolContext) -> str:
        """Copy a file."""
        context.log(f"copying {name}")
        await asyncio.sleep(0)
        context.log("nearly full", level="warning")
        return name

    @registry.tool("shout", owned_by="clerk")
    def shout(level: str, context: ToolContext) -> None:
        """Log at any level."""
        context.log("hello", level)  # type: ignore[arg-type]

    return registry


class TestLog:
    @pytest.mark.parametrize("name", ["copy", "acopy"])
    def test_reaches_subscribers(self, registry: ToolRegistry, name: str) -> None:
        """A subscriber gets each message in order, with the call that it is about."""
        heard: list[Any] = []
        registry.subscribe(heard.append)

        registry.execute(ToolCall("c1", name, {"name": "a.txt"}, "clerk"))

        origin: dict[str, Any] = {"tool": name, "agent": "clerk", "tool_call_id": "c1"}
        expected = [
            ToolLog(**origin, text="copying a.txt"),
            ToolLog(**origin, level="warning", text="nearly full"),
        ]
        assert expected == [one for one in heard if isinstance(one, ToolLog)]

    @pytest.mark.parametrize("is_async", [False, True])
    def test_reaches_the_stream_of_a_loop(self, registry: ToolRegistry, is_async: bool) -> None:
        """The stream of a loop yields the messages before the calls have ended, and the loop goes on."""
        loop = ToolLoop(registry.agent("clerk"), fake_model([("copy", {"name": "a.txt"})], "Done."))

        async def read() -> list[Any]:
            return [event async for event in loop.astream("Go.")]

        events = asyncio.run(read()) if is_async else list(loop.stream("Go."))

        assert ["copying a.txt", "nearly full"] == [one.text for one in events if isinstance(one, ToolLog)]
        assert "Done." == events[-1].result.text

    def test_an_unknown_level_is_an_error_of_the_tool(self, registry: ToolRegistry) -> None:
        """A level that is none of the eight fails with the list of them, and nothing is delivered."""
        heard: list[Any] = []
        registry.subscribe(heard.append)

        result = registry.execute(ToolCall("c1", "shout", {"level": "loud"}, "clerk"))

        assert Outcome.TOOL_ERROR is result.outcome
        assert "pass one of debug, info, notice, warning, error, critical, alert, emergency" in str(result.error)
        assert [] == [one for one in heard if isinstance(one, ToolLog)]

    def test_a_message_after_the_end_is_dropped(self, registry: ToolRegistry) -> None:
        """What keeps the context and logs after the call has ended reaches nobody."""
        kept: list[ToolContext] = []
        heard: list[Any] = []
        registry.subscribe(heard.append)

        @registry.tool("keep", owned_by="clerk")
        def keep(context: ToolContext) -> None:
            """Keep the context."""
            kept.append(context)

        registry.execute(ToolCall("c1", "keep", {}, "clerk"))
        kept[0].log("too late")

        assert [] == [one for one in heard if isinstance(one, ToolLog)]
