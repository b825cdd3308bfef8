"""Who a call is made by: what it says, and who is running when it is made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from praval_tools import Agent, Outcome, ToolCall, ToolContext, ToolRegistry, ToolResult, current_call

_work: list[Callable[[], Any]] = []
"""What `relay` does, the last of them."""


@pytest.fixture
def registry() -> ToolRegistry:
    """A bank: `helper` and `boss` may both call `pay` and `read`, `clerk` too; `relay` makes any call from inside."""
    made = ToolRegistry()

    @made.tool("pay", owned_by="boss")
    def pay() -> list[Any]:
        """Pay, and say for whom."""
        call = current_call()
        assert call is not None
        return [call.agent, call.on_behalf_of]

    @made.tool("read", owned_by="boss")
    def read() -> list[Any]:
        """Read, and say for whom."""
        call = current_call()
        assert call is not None
        return [call.agent, call.on_behalf_of]

    @made.tool("relay", owned_by="boss")
    def relay() -> None:
        """Do it."""
        _work[-1]()

    for name in ("pay", "read", "relay"):
        for agent in ("helper", "clerk"):
            made.assign_tool_to_agent(name, agent)
    return made


def relay_through(agent: Agent, work: Callable[[], Any]) -> Any:
    """Do *work* inside of a tool of *agent*, and return what it returns."""
    results: list[Any] = []
    _work.append(lambda: results.append(work()))
    agent.call("relay")
    return results[0]


def run_inside(registry: ToolRegistry, agent: Agent, call: ToolCall) -> ToolResult:
    """Return the result of a call that a tool of *agent* makes."""
    result: ToolResult = relay_through(agent, lambda: registry.execute(call))
    return result


class TestAgentObjects:
    def test_keep_their_delegation(self, registry: ToolRegistry, execute: Callable[[ToolCall], ToolResult]) -> None:
        """A call whose agent is a delegated agent object acts for the whole chain, with its narrowing."""
        sub = registry.agent("boss").delegate("helper", tools=["read"])
        read, pay = (execute(ToolCall(None, name, {}, sub)) for name in ("read", "pay"))  # type: ignore[arg-type]
        assert ["helper", ("boss",)] == read.result
        assert ("helper", Outcome.FORBIDDEN, "delegation") == (pay.agent, pay.outcome, pay.decision.rule)  # type: ignore[union-attr]

    def test_blocks_on_members_count(self, registry: ToolRegistry, execute: Callable[[ToolCall], ToolResult]) -> None:
        """A block on an agent stops the calls of those that act for it, however the call names them."""
        sub = registry.agent("boss").delegate("helper")
        registry.block("pay", "boss")
        assert "blocked" == execute(ToolCall(None, "pay", {}, sub)).decision.rule  # type: ignore[union-attr, arg-type]
        assert "blocked" == execute(ToolCall(None, "pay", {}, "helper", None, ("boss",))).decision.rule  # type: ignore[union-attr]
        assert Outcome.OK is execute(ToolCall(None, "pay", {}, "helper")).outcome

    def test_in_batches_and_toolsets(self, registry: ToolRegistry) -> None:
        """The same in a batch, and where the toolset of that agent runs the call."""
        sub = registry.agent("boss").delegate("helper", tools=["read"])
        calls = [ToolCall(str(at), "pay", {}, sub) for at in range(3)]  # type: ignore[arg-type]
        assert {Outcome.FORBIDDEN} == {result.outcome for result in registry.execute_batch(calls)}
        assert {Outcome.FORBIDDEN} == {result.outcome for result in sub.execute_batch(calls)}
        assert {Outcome.FORBIDDEN} == {result.outcome for result in asyncio.run(registry.aexecute_batch(calls))}

    def test_a_chain_that_is_not_theirs(self, registry: ToolRegistry) -> None:
        """What a call says beside the object adds to an agent that acts for itself, and else has to agree with it."""
        plain, sub = registry.agent("helper"), registry.agent("boss").delegate("helper")
        added = registry.execute(ToolCall(None, "pay", {}, plain, None, ["boss"]))  # type: ignore[arg-type]
        agreed = registry.execute(ToolCall(None, "pay", {}, sub, None, ["boss"]))  # type: ignore[arg-type]
        assert [["helper", ("boss",)]] * 2 == [added.result, agreed.result]
        other = registry.execute(ToolCall(None, "pay", {}, sub, None, ("clerk",)))  # type: ignore[arg-type]
        assert (Outcome.FORBIDDEN, "no-agent") == (other.outcome, other.decision.rule)  # type: ignore[union-attr]
        assert "'helper' acts for 'boss'" in str(other.error)


class TestInsideOfDelegatedWork:
    @pytest.mark.parametrize("said", [(), [], ("boss",), ["boss"], None])
    def test_the_same_agent_stays_whole(self, registry: ToolRegistry, said: Any) -> None:
        """Whatever a call says of its chain, the principal that runs stays the one that it is."""
        sub = registry.agent("boss").delegate("helper", tools=["relay", "read"])
        for name, outcome in (("read", Outcome.OK), ("pay", Outcome.FORBIDDEN)):
            result = run_inside(registry, sub, ToolCall(None, name, {}, "helper", None, said))
            assert (outcome, "helper") == (result.outcome, result.agent)

    @pytest.mark.parametrize("agent", ["helper", "clerk", "boss"])
    @pytest.mark.parametrize("said", [("clerk",), ("helper",), ("boss", "clerk"), 5, ("no:name",)])
    def test_another_chain_is_refused(self, registry: ToolRegistry, agent: str, said: Any) -> None:
        """A chain that leaves out who is running runs nothing."""
        sub = registry.agent("boss").delegate("helper", tools=["relay"])
        result = run_inside(registry, sub, ToolCall(None, "pay", {}, agent, None, said))
        assert Outcome.FORBIDDEN is result.outcome

    @pytest.mark.parametrize("agent", ["clerk", "boss"])
    def test_another_agent_represents_the_chain(self, registry: ToolRegistry, agent: str) -> None:
        """A call that names another agent than the one that runs is decided for that one too."""
        sub = registry.agent("boss").delegate("helper", tools=["relay", "read"])
        read = run_inside(registry, sub, ToolCall(None, "read", {}, agent))
        assert [agent, ("helper", "boss")] == read.result
        assert Outcome.FORBIDDEN is run_inside(registry, sub, ToolCall(None, "pay", {}, agent)).outcome

    def test_plain_handles_are_no_way_out(self, registry: ToolRegistry) -> None:
        """An object of the same agent without its delegation, or a look-up by name, stands for who is running."""
        plain, sub = registry.agent("helper"), registry.agent("boss").delegate("helper", tools=["relay"])
        inside = run_inside(registry, sub, ToolCall(None, "pay", {}, plain))  # type: ignore[arg-type]
        assert Outcome.FORBIDDEN is inside.outcome

        @registry.tool("look", owned_by="boss")
        def look(context: ToolContext) -> list[Any]:
            """Look up who is running."""
            name = str(context.agent)
            found = context.registry.agent(name), context.registry.toolset(name)
            return [found[0].chain, list(found[1])]

        registry.assign_tool_to_agent("look", "helper")
        assert [("boss",), ["look"]] == registry.agent("boss").delegate("helper", tools=["look"]).call("look")

    def test_delegates_of_who_runs(self, registry: ToolRegistry) -> None:
        """Who runs may hand on what it may: the longer chain holds it."""
        sub = registry.agent("boss").delegate("helper", tools=["relay", "read"])
        further = sub.delegate("clerk")
        read = run_inside(registry, sub, ToolCall(None, "read", {}, further))  # type: ignore[arg-type]
        assert ["clerk", ("helper", "boss")] == read.result

    def test_agents_without_a_chain_name_others(self, registry: ToolRegistry) -> None:
        """A tool of an agent that acts for nobody may make the call of another agent, as the host's code does."""
        result = run_inside(registry, registry.agent("clerk"), ToolCall(None, "pay", {}, "helper"))
        assert ["helper", ()] == result.result

    def test_in_threads_of_a_batch(self, registry: ToolRegistry) -> None:
        """Calls that a batch makes in other threads are made by who runs the batch."""
        sub = registry.agent("boss").delegate("helper", tools=["relay"])
        calls = [ToolCall(str(at), "pay", {}, "helper", None, []) for at in range(4)]  # type: ignore[arg-type]
        results = relay_through(sub, lambda: registry.execute_batch(calls))
        assert [Outcome.FORBIDDEN] * 4 == [result.outcome for result in results]


class TestOtherRegistries:
    def test_the_whole_principal_calls(self, registry: ToolRegistry) -> None:
        """A tool that calls into another registry does so with its delegation: narrowing holds there too."""
        other = ToolRegistry(name="other")

        @other.tool("wipe", owned_by="helper")
        def wipe() -> str:
            """Wipe."""
            return "wiped"

        plain, sub = registry.agent("helper"), registry.agent("boss").delegate("helper", tools=["relay"])
        for make in (
            lambda: other.execute("1", "wipe", {}),
            lambda: other.execute(ToolCall(None, "wipe", {}, "helper")),
        ):
            assert Outcome.OK is relay_through(plain, make).outcome
            refused = relay_through(sub, make)
            assert (Outcome.FORBIDDEN, "delegation") == (refused.outcome, refused.decision.rule)


class TestCallsById:
    def test_inside_of_an_agent_take_the_fast_path(self, registry: ToolRegistry) -> None:
        """`execute(id, name, arguments)` inside of an agent enters a generated function, as every call of it does."""
        files: list[str] = []

        @registry.tool("where", owned_by="helper")
        def where() -> None:
            """Say from where it is called."""
            import sys

            files.append(sys._getframe(1).f_code.co_filename)

        relay_through(registry.agent("helper"), lambda: registry.execute("7", "where", {}))
        assert ["<fast path of where>"] == files
