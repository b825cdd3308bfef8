"""Policies judge the whole principal: no delegation leads around one, and a policy may look at all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from praval_tools import Ask, Deny, Outcome, ToolCall, ToolRegistry, ToolResult

Execute = Callable[[ToolCall], ToolResult]


@pytest.fixture(params=["fast", "pipeline"])
def registry(request: pytest.FixtureRequest) -> ToolRegistry:
    """A registry in which boss owns `pay`; its calls take the fast path, or the pipeline."""
    made = ToolRegistry(retries=0 if request.param == "fast" else 1)

    @made.tool("pay", owned_by="boss")
    def pay(amount: int) -> int:
        """Pay."""
        return amount

    return made


def call_as(agent: Any, amount: int = 1) -> ToolCall:
    """Return a call of `pay`."""
    return ToolCall(None, "pay", {"amount": amount}, agent)


class TestFailures:
    @pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
    def test_refuse(self, registry: ToolRegistry, execute: Execute, error: type[BaseException]) -> None:
        """What a policy raises is a no, also where the loop that it ran for itself was cancelled."""

        def judge(*_: object) -> None:
            raise error("no")

        registry.add_policy(judge)
        results = [execute(call_as("boss")), *asyncio.run(registry.aexecute_batch([call_as("boss"), call_as("boss")]))]
        assert [Outcome.FORBIDDEN] * 3 == [result.outcome for result in results]


class TestMembers:
    @pytest.mark.parametrize("mode", ["intersect", "inherit", "own"])
    def test_a_refusal_of_one_holds_for_its_delegates(
        self, registry: ToolRegistry, execute: Execute, mode: Any
    ) -> None:
        """A policy of old that refuses boss by its name refuses whoever acts for boss, however far away."""
        registry.share_tool("pay")
        registry.add_policy(lambda agent, tool, arguments: "not boss" if agent == "boss" else None, name="guard")
        boss = registry.agent("boss")
        for agent in (boss, boss.delegate("h1", mode=mode), boss.delegate("h1", mode=mode).delegate("h2", mode=mode)):
            result = execute(call_as(agent))
            assert result.decision is not None
            assert (Outcome.FORBIDDEN, "policy") == (result.outcome, result.decision.rule)
            assert agent.name == result.decision.agent
            assert "policy" == agent.explain("pay", {"amount": 1}).rule
        assert Outcome.OK is execute(call_as("h1")).outcome

    def test_the_reason_names_the_member(self, registry: ToolRegistry) -> None:
        """Where it is not the calling agent that a policy refuses, the reason says who it is."""
        registry.add_policy(lambda agent, *_: "over budget" if agent == "boss" else None, name="guard")
        helper = registry.agent("boss").delegate("helper", mode="inherit")
        decision = registry.execute(call_as(helper)).decision
        assert decision is not None
        assert "Policy 'policy:guard' refuses calls on behalf of 'boss': over budget." == decision.reason

    def test_a_question_about_one_holds_for_its_delegates(self, registry: ToolRegistry, execute: Execute) -> None:
        """Where a policy wants calls of boss approved, those on its behalf wait too; a refusal beats a question."""
        registry.add_policy(lambda agent, *_: Ask("sure?") if agent == "boss" else None)
        helper = registry.agent("boss").delegate("helper", mode="inherit")
        assert Outcome.APPROVAL_REQUIRED is execute(call_as(helper)).outcome
        registry.add_policy(lambda agent, *_: Deny("no") if agent == "helper" else None)
        assert Outcome.FORBIDDEN is execute(call_as(helper)).outcome

    def test_each_member_once(self, registry: ToolRegistry, execute: Execute) -> None:
        """A policy is asked for the agent first, then for each of those for whom it acts, once for each name."""
        asked: list[str | None] = []
        registry.add_policy(lambda agent, *_: asked.append(agent))
        agent = registry.agent("boss")
        for name in ("h1", "h2", "h1"):
            agent = agent.delegate(name, mode="inherit")
        execute(call_as(agent))
        assert ["h1", "h2", "boss"] == asked
        asked.clear()
        registry.execute("7", "pay", {"amount": 1})
        assert [None] == asked


class TestPrincipal:
    def test_is_passed_where_there_is_a_parameter(self, registry: ToolRegistry, execute: Execute) -> None:
        """A policy with a parameter `principal` sees the chain and the delegation, whoever it is asked about."""
        seen: list[Any] = []

        def judge(agent: str | None, tool: object, arguments: object, *, principal: Any) -> None:
            """Look."""
            seen.append((agent, principal.chain, principal.delegation and principal.delegation.tools))

        registry.add_policy(judge)
        execute(call_as(registry.agent("boss").delegate("helper", ["pay"], "inherit")))
        assert [(name, ("boss",), frozenset({"pay"})) for name in ("helper", "boss")] == seen

    def test_the_operator_has_none(self, registry: ToolRegistry) -> None:
        """For a call of the operator it is None."""
        seen: list[object] = []

        def judge(agent: str | None, tool: object, arguments: object, principal: object) -> None:
            """Look."""
            seen.append((agent, principal))

        registry.add_policy(judge)
        registry.execute("7", "pay", {"amount": 1})
        assert [(None, None)] == seen

    def test_names_of_old_parameters(self, registry: ToolRegistry, execute: Execute) -> None:
        """A policy that calls its first parameter `principal` gets the agent's name in it, as in release 0.1."""
        seen: list[object] = []

        def judge(principal: object, tool: object, arguments: object) -> None:
            """Look."""
            seen.append(principal)

        registry.add_policy(judge)
        assert Outcome.OK is execute(call_as("boss")).outcome
        assert ["boss"] == seen
