"""Changes of access inside of delegated work: each of those for whom it is done must be entitled to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from praval_tools import (
    Agent,
    GrantError,
    InvalidNameError,
    NotOwnerError,
    Tool,
    ToolAccessError,
    ToolRegistry,
)

CHANGES: dict[str, Callable[[ToolRegistry], Any]] = {
    "share": lambda registry: registry.share_tool("victim"),
    "grant": lambda registry: registry.grant("victim", "eve"),
    "assign": lambda registry: registry.assign_tool_to_agent("victim", "eve"),
    "remove": lambda registry: registry.remove_tool_from_agent("victim", "ann"),
    "block": lambda registry: registry.block("victim", "ann"),
    "transfer": lambda registry: registry.transfer_ownership("victim", "mal"),
    "unregister": lambda registry: registry.unregister_tool("victim"),
    "register": lambda registry: registry.register_tool(make_tool("trap")),
    "register for an owner": lambda registry: registry.register_tool(make_tool("trap", owned_by="bank")),
    "list": lambda registry: registry.agent("bank").add_tool(lambda_tool),
}


def lambda_tool() -> str:
    """Do nothing."""
    return ""


def make_tool(name: str, **metadata: Any) -> Any:
    """Return a tool."""
    return Tool.from_function(lambda_tool, name=name, **metadata)


@pytest.fixture
def registry() -> ToolRegistry:
    """`bank` owns `victim`, which `ann` may call; `mal` owns `own`, which makes a change."""
    made = ToolRegistry()

    @made.tool("victim", owned_by="bank")
    def victim() -> str:
        """Pay."""
        return "paid"

    made.grant("victim", "ann")
    return made


def change_inside(registry: ToolRegistry, change: Callable[[ToolRegistry], Any], agent: Agent) -> None:
    """Make a change inside of a tool of *agent*."""

    @registry.tool("own", owned_by="mal", shared=True, retry_on=(NotOwnerError,))
    def own() -> None:
        """Change something."""
        change(registry)

    agent.call("own")


class TestChanges:
    @pytest.mark.parametrize("name", CHANGES)
    def test_need_every_member(self, registry: ToolRegistry, name: str) -> None:
        """Who delegates to an agent changes nothing in that agent's name alone."""
        refusals: list[str] = []

        def change(registry: ToolRegistry) -> None:
            with pytest.raises(NotOwnerError) as refusal:
                CHANGES[name](registry)
            refusals.append(refusal.value.actor)

        before = registry.state
        change_inside(registry, change, registry.agent("mal").delegate("bank", mode="inherit"))
        assert ["mal"] == refusals
        assert before.tools["victim"] == registry.state.tools["victim"]
        assert {"victim", "own"} == set(registry.state.tools)
        assert before.grants == registry.state.grants

    @pytest.mark.parametrize("name", CHANGES)
    def test_of_an_owner_for_itself(self, registry: ToolRegistry, name: str) -> None:
        """An agent that is its own delegate changes what it may change anyway."""
        change_inside(registry, CHANGES[name], registry.agent("bank").delegate("bank"))

    @pytest.mark.parametrize("is_revoked", [False, True])
    def test_a_key_of_the_delegator_gives_no_authority(self, *, is_revoked: bool) -> None:
        """What the delegator made with the same key, less or over by now, does not say that it may lend this."""
        registry = ToolRegistry()

        @registry.tool("victim", owned_by="bank")
        def victim() -> str:
            """Pay."""
            return "paid"

        registry.grant("victim", "ann", delegable=True, max_calls=2)
        registry.grant("victim", "mal", delegable=True)
        made = registry.grant("victim", "eve", by="ann", key="k", max_calls=1)
        _ = is_revoked and registry.revoke(made)

        def lend(registry: ToolRegistry) -> None:
            with pytest.raises(GrantError, match="50 calls where the grant that it comes from has 2 left"):
                registry.grant("victim", "eve", key="k", max_calls=50)
            registry.grant("victim", "eve", key="k", max_calls=2)

        change_inside(registry, lend, registry.agent("ann").delegate("mal", mode="inherit"))
        assert [2] == [grant.max_calls for grant in registry.grants(agent="eve", by="mal")]

    def test_the_operator_inside_is_the_operator(self, registry: ToolRegistry) -> None:
        """What is done as the operator inside of delegated work needs nobody else."""

        def change(registry: ToolRegistry) -> None:
            with registry.as_operator():
                registry.share_tool("victim")

        change_inside(registry, change, registry.agent("mal").delegate("bank", mode="inherit"))
        assert registry.state.tools["victim"].tool.metadata.shared


class TestDelegatedAgentObjects:
    def test_are_no_bare_names(self, registry: ToolRegistry) -> None:
        """Where an agent is meant for itself, an agent object that acts for others is refused, not stripped of them."""
        sub = registry.agent("bank").delegate("bank", [], "inherit")
        for use in (
            lambda: registry.agent("ann").delegate(sub, mode="own"),
            lambda: registry.grant("victim", sub),
            lambda: registry.assign_tool_to_agent("victim", sub),
            lambda: registry.remove_tool_from_agent("victim", sub),
            lambda: registry.block("victim", sub),
            lambda: registry.unblock("victim", sub),
            lambda: registry.transfer_ownership("victim", sub),
            lambda: registry.retire_agent(sub),
            lambda: registry.limits.set(agent=sub, per_minute=1),
        ):
            with pytest.raises(InvalidNameError, match="'bank' acts for 'bank' here"):
                use()


class TestAgentsOfOtherRegistries:
    def test_are_looked_up_here(self, registry: ToolRegistry) -> None:
        """`registry.agent` of another registry's agent is this registry's agent of the same name and delegation."""
        other = ToolRegistry(name="other")
        declared = Agent("ann", registry=other)
        assert declared is other.agent(registry.agent("ann"))
        foreign = other.agent(registry.agent("boss").delegate("ann", tools=[]))
        assert (other, ("boss",)) == (foreign.registry, foreign.chain)
        with pytest.raises(ToolAccessError):
            other.agent(registry.agent("ann")).call("victim")
