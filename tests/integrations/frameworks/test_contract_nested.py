# Tests of: integrations/framework_calls
"""An agent of one framework runs inside a tool of an agent of another: it calls as itself, for all who delegated."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import permutations

import pytest
from framework_contract import ModelCall, Script, script
from framework_list import FRAMEWORKS, load_framework

from praval_tools import Agent, ToolRegistry, current_call
from praval_tools.journal.events import AgentToolCall

Caller = tuple[str | None, tuple[str, ...]]
PAIRS = list(permutations([name for name in FRAMEWORKS if name != "openai-agents-tools"], 2))


class Shop:
    """
    Two registries with the same names of agents and tools; in the first, `ask` runs an agent of another framework.

    Args:
        inner: The framework of the agent inside.
        model: Its model.
        is_apart: Whether the agent inside has the tools of the second registry.
    """

    def __init__(self, inner: str, model: Script, is_apart: bool) -> None:
        self.paid: list[tuple[str, Caller]] = []
        self.first, self.second = self._build("first"), self._build("second")
        self.used = self.second if is_apart else self.first

        @self.first.tool("ask", owned_by="boss")
        async def ask() -> str:
            """Ask the helper."""
            framework = load_framework(inner)
            agent = framework.make_agent(framework.make_adapter(self.used), "helper", model)
            outcome = await framework.run(agent)
            if outcome.waiting:
                outcome = await framework.resume(agent, outcome, {"call_0": True})
            return outcome.text or ""

        self.first.grant("ask", "worker")

    def _build(self, name: str) -> ToolRegistry:
        registry = ToolRegistry(name=name, journal="memory")

        def pay() -> str:
            """Pay."""
            call = current_call()
            assert call is not None
            self.paid.append((name, (call.agent, tuple(call.on_behalf_of))))
            return "paid"

        for tool in ("pay", "wire"):
            registry.tool(tool, owned_by="helper", requires_approval=tool == "wire")(pay)
        for agent in ("boss", "helper", "worker"):
            Agent(agent, registry=registry, tools=["pay", "wire"])
        return registry

    def list_records(self) -> Iterator[tuple[str, Caller]]:
        """Yield the calls that were recorded of the tools of the agent inside."""
        for registry in (self.first, self.second):
            assert registry.journal is not None
            for event in registry.journal.events():
                if isinstance(event, AgentToolCall) and event.tool_name != "ask":
                    yield registry.name, (event.agent, tuple(event.chain))


@pytest.mark.parametrize(("outer", "inner"), PAIRS)
@pytest.mark.parametrize("is_apart", [False, True], ids=["one registry", "two registries"])
@pytest.mark.parametrize("mode", ["itself", "intersect"])
@pytest.mark.parametrize("tool", ["pay", "wire", "pay, which its delegator is blocked from"])
def test_calls_are_for_the_whole_chain(outer: str, inner: str, is_apart: bool, mode: str, tool: str) -> None:
    """Both frameworks give their calls one id; the inner agent drops no chain, and nobody approves inside a tool."""
    framework = load_framework(outer)
    name = tool.partition(",")[0]
    shop = Shop(inner, script([ModelCall(name)], "Inner."), is_apart)
    with shop.first, shop.second:
        boss = shop.first.agent("boss")
        if name != tool:
            shop.used.block("pay", "boss")
        caller = boss if mode == "itself" else boss.delegate("worker", mode="intersect")
        asking = script([ModelCall("ask")], "Done.")
        agent = framework.make_agent(framework.make_adapter(shop.first, caller), caller.name, asking)
        assert "Done." == asyncio.run(framework.run(agent)).text

        chain = () if mode == "itself" else ("worker", "boss")
        runs = tool == "pay" or (name == "pay" and mode == "itself")
        assert ([(shop.used.name, ("helper", chain))] if runs else []) == shop.paid
        assert shop.paid == list(shop.list_records())
