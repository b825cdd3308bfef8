"""Calls that are made with handles: inside of delegated work they stay in its chain, and a plugin calls as itself."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from plugin_rig import Site, names, site  # noqa: F401

from praval_tools import (
    Agent,
    InvalidNameError,
    NotOwnerError,
    ToolAccessError,
    ToolCall,
    ToolRegistry,
    ToolUsageError,
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


attempts: list[type[BaseException] | None] = []
"""What the calls of the classes below raised."""


@dataclass
class Order:
    """A parameter whose class calls `pay`."""

    item: int = 1

    def __post_init__(self) -> None:
        attempts.append(get_error(lambda: current_agent().call("pay")))


class Rows:
    """A result that calls `pay` when it is written."""

    def to_dicts(self) -> list[Any]:
        """Return no rows."""
        attempts.append(get_error(lambda: current_agent().call("pay")))
        return []


def finish(awaitable: Any) -> Any:
    """Await something that never waits; a loop would end what is left of an async generator."""
    with pytest.raises(StopIteration) as end:
        next(awaitable.__await__())
    return end.value.value


def begin_work(registry: ToolRegistry, kind: str, pay: Callable[[], Any]) -> Callable[[], Any]:
    """Let `bank` begin work that does *pay* later; return what has the work go on, or end."""

    def iterate() -> Iterator[Any]:
        try:
            yield 1
            yield pay()
        finally:
            pay()

    async def iterate_async() -> AsyncIterator[Any]:
        try:
            yield 1
            yield pay()
        finally:
            pay()

    async def wait() -> Any:
        return pay()

    class Later:
        def __iter__(self) -> Later:
            return self

        def __next__(self) -> Any:
            return pay()

        def __await__(self) -> Any:
            return wait().__await__()

        go_on = __next__

    functions: dict[str, Callable[[], Any]] = {
        "generator": iterate,
        "async generator": iterate_async,
        "coroutine": wait,
    }
    returned: Any = Agent("bank", registry=registry, function=functions.get(kind.split(":")[0], Later))()
    if kind == "generator:next":
        next(returned)
    if kind.startswith("generator"):
        return returned.close if kind == "generator:end" and next(returned) else lambda: next(returned)
    if kind.startswith("async"):
        finish(anext(returned))
        return lambda: finish(returned.aclose() if kind.endswith("end") else anext(returned))
    if kind == "iterator":
        return lambda: next(returned)
    return returned.go_on if kind == "method" else lambda: finish(returned)


class TestWorkBegunOutside:
    @pytest.mark.parametrize(
        "kind",
        [
            "generator:next", "generator:end", "async generator:next", "async generator:end", "coroutine", "iterator",
            "awaitable", "method",
        ],
    )  # fmt: skip
    def test_goes_on_for_the_chain(self, registry: ToolRegistry, kind: str) -> None:
        """What an agent's function left to be run later calls for those who have it go on."""
        answers: list[Any] = []
        go_on = begin_work(registry, kind, lambda: answers.append(get_error(lambda: current_agent().call("pay"))))
        work.append(lambda: get_error(go_on))
        registry.agent("boss").delegate("helper", ["relay"], "inherit").call("relay")
        assert [ToolAccessError] == answers

    def test_of_another_chain_is_refused(self, registry: ToolRegistry) -> None:
        """Work that is done for others does not go on for these; where it ends, it may do nothing."""
        log: list[Any] = []

        def iterate() -> Iterator[int]:
            try:
                yield 1
            finally:
                log.append(get_error(lambda: current_agent().call("look")))
                log.append(get_error(lambda: registry.share_tool("pay")))

        bank, begun = Agent("bank", registry=registry, function=iterate), list[Any]()
        work.append(lambda: begun.append(bank()) or next(begun[0]))
        registry.agent("lead").delegate("x").call("relay")
        work.append(lambda: log.append(get_error(lambda: next(begun[0]))))
        registry.agent("boss").delegate("helper").call("relay")
        assert [ToolUsageError, NotOwnerError, InvalidNameError] == log

    @pytest.mark.parametrize("code", ["explain", "call_json"])
    def test_code_of_classes(self, registry: ToolRegistry, code: str) -> None:
        """Classes of parameters and results run for the chain, whoever's handle it is that meets them."""

        @registry.tool("order", shared=True)
        def order(given: Order) -> Any:
            """Order something."""
            return Rows()

        attempts.clear()

        bank = registry.agent("bank")
        work.append(
            (lambda: bank.explain("order", {"given": {}}).allowed)
            if code == "explain"
            else (lambda: bank.tools.call_json("order", b'{"given": {}}'))
        )
        assert registry.agent("boss").delegate("helper").call("relay") in (True, b"[]")
        assert {ToolAccessError} == set(attempts)


def get_error(attempt: Callable[[], object]) -> type[BaseException] | None:
    """Return the type of what *attempt* raises."""
    try:
        attempt()
    except Exception as error:
        return type(error)
    return None


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
