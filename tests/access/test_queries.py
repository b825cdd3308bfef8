"""Questions about a state: who can call something, and which names may be suggested."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from work_counter import count_steps

from praval_tools import Agent, ToolAccessError, ToolCall, ToolRegistry, UnknownToolWarning
from praval_tools.errors import UnknownToolCallError


@pytest.fixture
def bank() -> ToolRegistry:
    """Return a registry with an owner, a tool and an agent without it."""
    registry = ToolRegistry(name="bank")

    @registry.tool("vault.open", owned_by="teller")
    def open_vault(code: int) -> int:
        """Open the vault."""
        return code

    for name in ("teller", "clerk"):
        Agent(name, registry=registry)
    return registry


class TestUndeclaredAgents:
    """Whoever can call something is shown and reported, declared or not."""

    def test_a_misspelt_grantee_is_a_problem(self, bank: ToolRegistry) -> None:
        """A misspelt agent in an assignment is reported with the name that was meant, as a misspelt owner is."""
        bank.assign_tool_to_agent("vault.open", "clrk")
        (problem,) = bank.problems()
        assert ("undeclared-agent", "clrk") == (problem.kind, problem.subject)
        assert "'vault.open'" in problem.message and "Did you mean 'clerk'?" == problem.remedy

    def test_the_remedy_is_said_in_python(self, bank: ToolRegistry) -> None:
        """Broken promise: whoever read the problem of a registry in a program got a command of the command line."""
        for tool in ("vault.open", "vault.close"):
            bank.tool(tool, owned_by="teller", replace=True, description="Use the vault.")(lambda: None)
            bank.assign_tool_to_agent(tool, "stranger")
        (problem,) = [problem for problem in bank.problems() if problem.kind == "undeclared-agent"]
        remedy = "Declare 'stranger', or revoke the grants: registry.grants(agent='stranger') lists them."
        assert remedy == problem.remedy

    def test_a_misspelt_agent_of_a_block_is_a_problem(self, bank: ToolRegistry) -> None:
        """A block of a misspelt agent, which blocks nobody, is reported; one of a name like no other may come early."""
        bank.block("vault.open", "clrk")
        bank.block("vault.open", "somebody_else")
        (problem,) = bank.problems()
        assert ("undeclared-agent", "clrk", "Did you mean 'clerk'?") == (problem.kind, problem.subject, problem.remedy)
        assert problem.message.startswith("A block from 'vault.open' names agent 'clrk'")
        bank.unblock("vault.open", "clrk")
        assert [] == bank.problems()

    def test_it_is_none_any_more_once_the_grant_ended(self, bank: ToolRegistry) -> None:
        """Revoked, spent or declared: nothing is left to report."""
        grant = bank.grant("vault.open", "clrk")
        bank.revoke(grant)
        assert [] == bank.problems()
        bank.assign_tool_to_agent("vault.open", "carol")
        Agent("carol", registry=bank)
        assert [] == bank.problems()


class TestRefusals:
    def test_an_error_speaks_to_the_developer(self, bank: ToolRegistry) -> None:
        """The text of `ToolAccessError` has owner, rule, reason and remedy; what the model reads has none of them."""
        with pytest.raises(ToolAccessError) as caught:
            bank.toolset("clerk").call("vault.open", code=1)
        text = str(caught.value)
        assert all(
            part in text for part in ("owner 'teller'", "rule no-way", "nothing gives it", "assign_tool_to_agent")
        )
        assert caught.value.result is not None
        assert "Tool 'vault.open' is forbidden for this agent." == caught.value.message
        assert caught.value.message in str(caught.value.result.for_model()) and "teller" not in str(
            caught.value.result.for_model()
        )

    def test_a_disabled_tool_says_why(self, bank: ToolRegistry) -> None:
        """The reason for which a tool is disabled is in the error, and not in what the model reads."""
        bank.disable("vault.open", reason="burglars")
        with pytest.raises(ToolAccessError, match="burglars") as caught:
            bank.toolset("teller").call("vault.open", code=1)
        assert "burglars" not in caught.value.message

    def test_a_tool_that_calls_another_tells_its_model_no_more(self, bank: ToolRegistry) -> None:
        """The text for the developer does not reach the model through the error of an outer tool."""

        @bank.tool(owned_by="clerk")
        def outer() -> int:
            """Call what is forbidden."""
            return bank.toolset("clerk").call("vault.open", code=1)  # type: ignore[no-any-return]

        result = bank.execute(ToolCall(None, "outer", {}, "clerk"))
        assert "teller" not in str(result.error)

    def test_bounds_have_a_rule_of_their_own(self, bank: ToolRegistry) -> None:
        """A call outside of the bounds of a grant is refused by `out-of-bounds`, in result, explanation and journal."""
        bank.journal = "memory"
        bank.assign_tool_to_agent("vault.open", "clerk", where={"code": {"maximum": 5}})
        result = bank.execute(ToolCall(None, "vault.open", {"code": 6}, "clerk"))
        assert result.decision is not None and bank.journal is not None
        assert ["out-of-bounds"] * 2 == [result.decision.rule, bank.explain("clerk", "vault.open", {"code": 6}).rule]
        (refusal,) = bank.journal.events(type="call_refused")
        assert "out-of-bounds" == refusal.decision.rule  # type: ignore[union-attr]

    @pytest.mark.parametrize("name", ["vault.open", "vault_open", "vault.opem"])
    def test_what_is_hidden_is_not_confirmed(self, name: str) -> None:
        """With `refusals="hide"` the answer repeats what was sent, and nothing that only the hidden tool has."""
        hiding = ToolRegistry(refusals="hide")

        @hiding.tool("vault.open", owned_by="teller")
        def open_vault(code: int) -> int:
            """Open the vault."""
            return code

        result = hiding.execute(ToolCall("1", name, {"code": 1}, "clerk"))
        assert (name, f"Tool '{name}' not found.") == (result.name, result.error)
        with pytest.raises(UnknownToolCallError) as caught:
            hiding.toolset("clerk").call(name, code=1)
        assert f"Tool '{name}' not found." == str(caught.value)

    def test_what_is_hidden_is_not_confirmed_by_any_way_to_call(self) -> None:
        """By every way to call, a hidden tool answers like a name that no tool has; also once it is disabled."""
        hiding = ToolRegistry(refusals="hide")
        hiding.tool("vault", owned_by="teller")(_pay)
        clerk = Agent("clerk", registry=hiding)

        for _ in range(2):
            assert _ask(hiding, clerk, "vault") == _ask(hiding, clerk, "other")
            hiding.disable("vault", reason="closed")

    def test_a_hidden_refusal_suggests_not_the_tool_itself(self) -> None:
        """A call outside of the bounds does not suggest the tool that it named."""
        hiding = ToolRegistry(refusals="hide")
        hiding.tool("pay", owned_by="bank")(_pay)
        hiding.assign_tool_to_agent("pay", "clerk", where={"amount": {"maximum": 5}})
        assert "Tool 'pay' not found." == hiding.execute(ToolCall(None, "pay", {"amount": 6}, "clerk")).error


def _pay(amount: int) -> int:
    """Pay."""
    return amount


def _ask(registry: ToolRegistry, agent: Agent, name: str) -> list[Any]:
    """Call *name* in every way, and return what the caller reads, with NAME for the name."""
    bound = agent.tools
    call, arguments = ToolCall("1", name, {"amount": 1}, "clerk"), {"amount": 1}
    raw = {"id": "1", "type": "function", "function": {"name": name, "arguments": '{"amount": 1}'}}
    results = [registry.execute(call), asyncio.run(registry.aexecute(call)), *registry.execute_batch([call, call]),
               bound.execute(call), agent.execute(call)]  # fmt: skip
    answers: list[Any] = [(one.outcome, one.error, one.for_model(), one.error_type) for one in results]
    answers.append(registry.execute_tool_calls([raw], agent="clerk"))
    for ask in (
        lambda: bound.call(name, **arguments),
        lambda: asyncio.run(bound.acall(name, **arguments)),
        lambda: agent.call(name, **arguments),
        lambda: asyncio.run(agent.acall(name, **arguments)),
        lambda: bound.call_json(name, '{"amount": 1}'),
    ):
        with pytest.raises(UnknownToolCallError) as caught:
            ask()
        answers.append((type(caught.value), str(caught.value), caught.value.code))
    return [str(one).replace(name, "NAME") for one in answers]


class TestSuggestions:
    def test_an_unknown_name_costs_little_among_ten_thousand(self) -> None:
        """
        Of 10,000 tools some hundred are compared with an unknown name, and the right one is among them.

        All were compared letter by letter, which took most of a second per call.
        """
        registry = ToolRegistry()
        with registry.change():
            for at in range(10_000):
                registry.tool(f"fetch_table_{at:05}", shared=True)(_pay)
            registry.tool("weather_report", shared=True)(_pay)
        results: list[Any] = []
        few = ToolRegistry()
        few.tool("weather_report", shared=True)(_pay)
        few.execute(ToolCall(None, "wether_report", {}, "clerk"))
        steps = count_steps(lambda: results.append(registry.execute(ToolCall(None, "wether_report", {}, "clerk"))))
        assert "Tool 'wether_report' not found. Did you mean 'weather_report'?" == results[0].error
        assert steps < 100_000


class TestRemovingWhatIsNotThere:
    def test_a_misspelt_name_takes_nothing_from_a_later_tool(self, bank: ToolRegistry) -> None:
        """
        Removing a tool that does not exist changes nothing for one that comes later; a block does.

        The seed's own example removed a tool before its owner declared it, and took it from the owner.
        """
        with pytest.warns(UnknownToolWarning, match="nothing was removed. block"):
            assert not bank.agent("clerk").remove_tool("later")
        bank.tool("later", owned_by="clerk")(_pay)
        assert ["later"] == list(bank.toolset("clerk"))

    def test_what_is_listed_is_removed_before_it_comes(self, bank: ToolRegistry) -> None:
        """A tool that the agent lists can be removed before it is declared."""
        Agent("lister", tools=["later"], registry=bank)
        bank.remove_tool_from_agent("later", "lister")
        bank.tool("later", owned_by="clerk")(_pay)
        assert [] == list(bank.toolset("lister"))
