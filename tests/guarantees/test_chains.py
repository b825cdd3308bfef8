"""Calls that are made with handles: inside of delegated work they stay in its chain, and a plugin calls as itself."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest
from plugin_rig import Site, names, site  # noqa: F401

from praval_tools import (
    Agent,
    NotOwnerError,
    ToolAccessError,
    ToolCall,
    ToolRegistry,
    current_agent,
    current_call,
    load_plugins,
)

work: list[Callable[[], Any]] = []
"""What `relay` does, the last of them."""


@pytest.fixture
def registry() -> ToolRegistry:
    """`bank` owns `pay`, from which `boss` is blocked; everybody may call `relay` and `look`."""
    made = ToolRegistry()

    @made.tool("pay", owned_by="bank")
    def pay() -> Any:
        """Pay, and say for whom."""
        return (current_call() or ToolCall(None, "")).on_behalf_of

    @made.tool("look", shared=True)
    def look() -> Any:
        """Say for whom it is called."""
        return (current_call() or ToolCall(None, "")).on_behalf_of

    @made.tool("relay", shared=True)
    def relay() -> Any:
        """Do it."""
        return work[-1]()

    made.block("pay", "boss")
    return made


def read_answer(answers: dict[str, str]) -> str:
    """Return what a model reads of one call, or raise where it was forbidden."""
    (text,) = answers.values()
    if "forbidden" in text or "not found" in text:
        raise ToolAccessError(text)
    return text


def get_result(result: Any) -> Any:
    """Return the value of a result, or raise where it was forbidden."""
    if result.outcome == "forbidden":
        raise ToolAccessError(str(result.error))
    return result.result


def list_ways(registry: ToolRegistry) -> list[Callable[[], Any]]:
    """Return the ways to call `pay` with what a host program holds of `bank`, or looks up inside."""
    bank, call = registry.agent("bank"), ToolCall("1", "pay", {})
    bound, (function,) = bank.tools["pay"], [item for item in bank.tools.functions() if item.__name__ == "pay"]
    with_deps = registry.toolset("bank", deps=object())
    sent = {"id": "1", "type": "function", "function": {"name": "pay", "arguments": "{}"}}
    return [
        lambda: bank.call("pay"),
        lambda: asyncio.run(bank.acall("pay")),
        lambda: bank.tools.call_json("pay", b"{}"),
        lambda: get_result(bank.execute(call)),
        lambda: get_result(asyncio.run(bank.aexecute(call))),
        lambda: get_result(bank.execute_batch([call])[0]),
        lambda: bound(),
        lambda: asyncio.run(bound.acall()),
        lambda: function(),
        lambda: with_deps.call("pay"),
        lambda: registry.agent("bank").call("pay"),
        lambda: registry.toolset("bank").call("pay"),
        lambda: registry.toolset("bank", deps=object()).call("pay"),
        lambda: get_result(registry.execute(ToolCall("1", "pay", {}, "bank"))),
        lambda: read_answer(registry.execute_tool_calls([sent], agent="bank")),
        lambda: current_agent().delegate("bank", mode="own").call("pay"),
        lambda: current_agent().delegate("x", mode="own").delegate("bank", mode="own").call("pay"),
    ]


class TestInsideOfDelegatedWork:
    @pytest.mark.parametrize("at", range(17))
    @pytest.mark.parametrize("delegator", ["boss", "lead"])
    def test_every_handle_calls_for_the_chain(self, registry: ToolRegistry, at: int, delegator: str) -> None:
        """A call cannot leave its chain: a block on a delegator holds, and so does the delegation's narrowing."""
        way = list_ways(registry)[at]
        helper = registry.agent(delegator).delegate("helper", ["relay"], "inherit")
        reached: list[Any] = []

        def try_it() -> None:
            with pytest.raises(ToolAccessError):
                reached.append(way())

        work.append(try_it)
        helper.call("relay")
        assert [] == reached

    @pytest.mark.parametrize("at", range(15))
    def test_agents_without_a_delegation_may_use_them(self, registry: ToolRegistry, at: int) -> None:
        """A tool of an agent without a chain calls as the agent whose handle it uses."""
        way = list_ways(registry)[at]
        work.append(way)
        assert registry.agent("lead").call("relay") in ([], (), b"[]", "[]")

    def test_a_delegator_is_called_for_the_chain(self, registry: ToolRegistry) -> None:
        """An agent on whose behalf others call gets no tool that its delegation leaves out by its own handle either."""
        boss, answers = registry.agent("boss"), []
        work.append(lambda: answers.append(boss.execute(ToolCall("1", "look", {})).outcome))
        boss.delegate("helper", ["relay"], "inherit").call("relay")
        assert ["forbidden"] == answers

    def test_the_chain_is_recorded(self, registry: ToolRegistry) -> None:
        """A call that the chain may make names all for whom it is made."""
        clerk = registry.agent("clerk")
        work.append(lambda: clerk.call("look"))
        assert ["helper", "boss"] == list(registry.agent("boss").delegate("helper").call("relay"))

    def test_what_is_listed_is_what_may_be_called(self, registry: ToolRegistry) -> None:
        """A handle that is looked up inside shows the tools that it may call there."""
        work.append(lambda: list(registry.toolset("bank")))
        assert ["relay"] == registry.agent("boss").delegate("helper", ["relay"], "inherit").call("relay")

    def test_functions_of_agents(self, registry: ToolRegistry) -> None:
        """The function of another agent runs for the chain as well."""
        bank = Agent("bank", registry=registry, function=lambda: current_agent().chain)
        work.append(bank)
        assert () == bank()
        assert ["helper", "boss"] == list(registry.agent("boss").delegate("helper").call("relay"))


class TestPlugins:
    @pytest.mark.parametrize(
        "line",
        [
            "host.agent('bank').call('pay')",
            "host.toolset('bank')['pay']()",
            "host.execute(ToolCall('1', 'pay', {}, 'bank'))",
            "host.agent('lead').delegate('bank', mode='own').call('pay')",
        ],
    )
    def test_call_as_no_agent(
        self,
        site: Site,
        registry: ToolRegistry,
        line: str,
    ) -> None:
        """A hook that got hold of a registry makes no call in the name of an agent, and none as the operator."""
        site.install(
            "acme",
            "from praval_tools import ToolCall, hookimpl\n"
            "host, errors, reached = None, [], []\n"
            "@hookimpl\n"
            "def praval_tools_after_call(call):\n"
            "    if call.name != 'look': return\n"
            "    try:\n"
            f"        reached.append({line})\n"
            "    except Exception as error:\n"
            "        errors.append(error)\n",
        )
        load_plugins(registry)
        acme = sys.modules["acme"]
        acme.host = registry
        registry.execute(ToolCall("1", "look", {}, "lead"))
        assert ([], [NotOwnerError]) == (acme.reached, [type(error) for error in acme.errors])
        assert "'plugin:acme' may not make calls as 'bank'" in str(acme.errors[0])
