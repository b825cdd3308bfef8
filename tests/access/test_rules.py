"""The rules by which an agent may call a tool, one after the other."""

# Tests of: rules, records, queries

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
from access_cases import TABLE, declare, outcome, pay

from praval_tools import (
    Outcome,
    Tool,
    ToolAccessError,
    ToolCall,
    ToolRegistry,
)  # fmt: skip

RULES = ["unknown", "disabled", "blocked", "owner", "listed", "shared", "category", "granted"]


CALLED = {"allowed": "ok", "unknown": "unknown_tool", "disabled": "disabled", "forbidden": "forbidden"}


class TestRules:
    """The first rule that applies decides, on every access path."""

    @pytest.mark.parametrize("case", TABLE)
    def test_all_access_paths_share_one_decision(self, registry: ToolRegistry, case: str) -> None:
        """Explaining, listing, exporting and calling give the same answer, with the same rule."""
        setup, agent, expected, rule = TABLE[case]
        setup(registry)
        may = expected == "allowed"

        decision = registry.explain(agent, "pay")

        assert (may, expected, rule) == (decision.allowed, decision.outcome, decision.rule)
        assert CALLED[expected] == outcome(registry, agent)
        assert may == (["pay"] == [tool.name for tool in registry.get_tools_for_agent(agent)])
        assert may == ("pay" in registry.toolset(agent)) == bool(registry.toolset(agent).schemas())

    @pytest.mark.parametrize("case", TABLE)
    def test_every_rule_is_listed_in_order(self, registry: ToolRegistry, case: str) -> None:
        """`explain` tells every rule that it looked at; the first that holds is the one that decided."""
        setup, agent, _, rule = TABLE[case]
        setup(registry)

        rows = registry.explain(agent, "pay").tried

        first = next((one.rule for one in rows if one.holds), "no-way")
        assert rule == first
        assert (RULES[:1] if rule == "unknown" else RULES) == [one.rule for one in rows if one.rule != "retired"]
        assert all(one.why for one in rows)

    def test_a_policy_does_not_hide(self, registry: ToolRegistry) -> None:
        """A policy forbids the call; the tool stays listed, since listing depends on the rules alone."""
        registry.add_policy(lambda *_: "not today")

        assert "forbidden" == outcome(registry, "bank")
        assert ["pay"] == list(registry.toolset("bank"))


class TestWordsToAModel:
    """What a refusal tells the model that asked, and what it keeps for the operator."""

    @pytest.mark.parametrize("name", ["pay", "pai", "Pay"])
    def test_name_nobody_and_nothing_that_is_not_its_own(self, registry: ToolRegistry, name: str) -> None:
        """Neither the owner nor a tool of others is named; near names are of its own toolset."""
        registry.register_tool(Tool.from_function(pay, "paint", shared=True))

        text = registry.execute(ToolCall("1", name, {}, "ann")).for_model()

        assert "bank" not in text
        assert "'pay'" not in text.replace(f"'{name}'", "")
        assert ("'paint'" in text) == (name == "pai")

    def test_the_reason_of_a_disabling_is_the_operators(self, registry: ToolRegistry) -> None:
        """A model learns that the tool is disabled, the operator why."""
        registry.disable("pay", reason="the bank was robbed")
        result = registry.execute(ToolCall("1", "pay", {}, "bank"))

        assert "robbed" not in result.for_model()
        assert result.decision is not None
        assert "robbed" in result.decision.reason

    def test_may_hide_that_there_is_a_tool(self) -> None:
        """`refusals="hide"` answers forbidden and disabled like unknown, in outcome and text."""
        registry = ToolRegistry(refusals="hide")
        registry.register_tool(Tool.from_function(pay, owned_by="bank"))
        registry.register_tool(Tool.from_function(pay, "off", shared=True))
        registry.disable("off")

        results = {name: registry.execute(ToolCall("1", name, {}, "ann")) for name in ("pay", "off", "nix")}

        assert {Outcome.UNKNOWN_TOOL} == {one.outcome for one in results.values()}
        assert 1 == len({one.for_model().replace(name, "?") for name, one in results.items()})


class TestDelegation:
    """A sub-agent is limited by the chain of its delegators."""

    @pytest.mark.parametrize("mode", ["intersect", "inherit", "own"])
    @pytest.mark.parametrize("parent", [False, True])
    @pytest.mark.parametrize("own", [False, True])
    def test_the_mode_says_whose_decision_counts(
        self, registry: ToolRegistry, mode: Any, parent: bool, own: bool
    ) -> None:
        """Both in `intersect`, the parent's in `inherit`, the sub-agent's in `own`; `tools=` narrows each."""
        allowed = {"intersect": parent and own, "inherit": parent, "own": own}[mode]
        for name in ["ann"] * parent + ["sub"] * own:
            registry.grant("pay", name)
        sub, narrowed = (registry.agent("ann").delegate("sub", tools, mode) for tools in (None, []))

        assert [allowed, False] == [one.explain("pay").allowed for one in (sub, narrowed)]
        assert [allowed, False] == ["ok" == outcome(registry, one) for one in (sub, narrowed)]
        assert [["pay"] * allowed, []] == [one.list_tools() for one in (sub, narrowed)]

    @pytest.mark.parametrize("mode", ["intersect", "inherit", "own"])
    @pytest.mark.parametrize("member", ["ann", "sub", "deep"])
    def test_a_block_on_any_member_counts(self, registry: ToolRegistry, mode: Any, member: str) -> None:
        """In every mode, at every depth."""
        registry.share_tool("pay")
        deep = registry.agent("ann").delegate("sub", mode=mode).delegate("deep", mode=mode)
        assert "ok" == outcome(registry, deep)

        registry.block("pay", member)

        assert ("forbidden", "blocked") == (outcome(registry, deep), deep.explain("pay").rule)

    def test_both_sides_are_spent(self, registry: ToolRegistry) -> None:
        """The grants that decided are spent, whoever holds them."""
        made = [registry.grant("pay", name, max_calls=2) for name in ("ann", "sub")]
        outcome(registry, registry.agent("ann").delegate("sub"))

        assert [1, 1] == [registry.uses_left(one) for one in made]

    def test_a_side_with_an_open_way_spends_nothing(self, registry: ToolRegistry) -> None:
        """The sub-agent lists the tool: its older count stays, whatever the parent spends."""
        mine = registry.grant("pay", "sub", max_calls=2)
        declare(registry, "sub", tools=["pay"])
        theirs = registry.grant("pay", "ann", max_calls=2)
        sub = registry.agent("ann").delegate("sub")

        assert "listed" == sub.explain("pay").rule
        outcome(registry, sub)
        assert [2, 1] == [registry.uses_left(one) for one in (mine, theirs)]

    @pytest.mark.parametrize("mode", ["intersect", "inherit"])
    def test_the_rules_listed_are_those_that_decided(self, registry: ToolRegistry, mode: Any) -> None:
        """`explain` of a sub-agent tells the rule that refused or allowed it among those that it tried."""
        sub = registry.agent("bank").delegate("sub", mode=mode)
        registry.grant("pay", "sub")
        allowed = sub.explain("pay")
        registry.block("pay", "bank")
        blocked = sub.explain("pay")

        assert [allowed.rule, blocked.rule] == [
            next(one.rule for one in said.tried if one.holds) for said in (allowed, blocked)
        ]


class TestToolset:
    """Nothing that a toolset hands out runs unchecked."""

    @pytest.mark.parametrize("name", ["pay", "nix", Tool.from_function(pay), 3])
    def test_what_is_not_in_it_is_a_key_error_that_says_whom_to_ask(self, registry: ToolRegistry, name: Any) -> None:
        """A toolset is a mapping: a missing key is a `KeyError`, and the text leads to the explanation."""
        toolset = registry.toolset("ann")

        assert (False, None) == (name in toolset, toolset.get(name))
        with pytest.raises(KeyError, match=r"ann has no tool .*explain\("):
            toolset[name]

    def test_what_was_kept_is_decided_anew(self, registry: ToolRegistry) -> None:
        """A value, a function and a bound method of earlier days are refused after the removal."""
        toolset = registry.toolset("bank")
        kept: list[Callable[..., Any]] = [
            toolset["pay"], *toolset.values(), *toolset.functions(), registry.agent("bank").tools["pay"],
            lambda **given: toolset.call("pay", **given),
        ]  # fmt: skip
        assert ["5 to shop"] * len(kept) == [one(amount=5) for one in kept]

        registry.remove_tool_from_agent("pay", "bank")

        for one in kept:
            with pytest.raises(ToolAccessError):
                one(amount=5)

    def test_the_function_is_not_within_reach(self, registry: ToolRegistry) -> None:
        """Neither the tool nor its function hang on a public attribute of what a toolset gives."""
        bound = registry.toolset("bank")["pay"]
        found = [getattr(bound, name) for name in dir(bound) if not name.startswith("_")]

        assert not any(one is pay or isinstance(one, Tool) for one in found)
        hidden = ("function", "run", "callable", "__wrapped__", "definition_")
        assert not any(hasattr(one, name) for one in (bound, bound.tool) for name in hidden)
        assert pay not in gc.get_referents(registry.toolset("bank").functions()[0])
