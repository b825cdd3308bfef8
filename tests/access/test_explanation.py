"""What `explain` proposes, and that it works."""

from __future__ import annotations

import re

import pytest
from access_cases import declare, outcome

from praval_tools import Agent, ToolRegistry
from praval_tools.report.command_line import CommandLine


class TestRemedies:
    """What `explain` proposes works."""

    @pytest.mark.parametrize("rule", ["owner", "listed", "shared", "category", "granted"])
    def test_a_remedy_opens_the_rule_that_it_stands_beside(self, registry: ToolRegistry, rule: str) -> None:
        """Doing what stands beside a rule makes exactly this rule hold."""
        change = next(one.change for one in registry.explain("ann", "pay").tried if one.rule == rule)

        self.follow(registry, change)

        assert rule == registry.explain("ann", "pay").rule
        assert "ok" == outcome(registry, "ann")

    @pytest.mark.parametrize(("rule", "verb"), [("disabled", "disable"), ("blocked", "block")])
    def test_a_refusal_says_how_it_is_lifted(self, registry: ToolRegistry, rule: str, verb: str) -> None:
        """Beside a disabling or a block stands the call that lifts it."""
        registry.disable("pay") if verb == "disable" else registry.block("pay", "bank")
        change = next(one.change for one in registry.explain("bank", "pay").tried if one.rule == rule)

        self.follow(registry, change)

        assert registry.explain("bank", "pay").allowed

    def test_no_remedy_that_changes_nothing(self, registry: ToolRegistry) -> None:
        """Requesting `general` does not reach an owned tool, so that it is not proposed."""
        registry.configure("pay", category="general")
        change = next(one.change for one in registry.explain("ann", "pay").tried if one.rule == "category")

        assert "@agent" not in change

    def test_a_removed_tool_comes_back_by_a_grant(self, registry: ToolRegistry) -> None:
        """Neither a transfer nor a listing gives a removed tool back, so that they are not proposed."""
        registry.remove_tool_from_agent("pay", "ann")
        changes = {one.rule: one.change for one in registry.explain("ann", "pay").tried}

        assert "transfer_ownership" not in changes["owner"]
        assert "@agent" not in changes["listed"]
        assert "assign_tool_to_agent('pay', 'ann')" in changes["granted"]

    def test_a_grant_outside_of_bounds_is_proposed_with_bounds(self, registry: ToolRegistry) -> None:
        """A grant without them would lift the limits: whoever copies the proposal fills them in."""
        registry.grant("pay", "ann", where={"amount": {"maximum": 5}})
        (change,) = [one.change for one in registry.explain("ann", "pay", {"amount": 6}).tried if one.rule == "granted"]

        assert change == "assign_tool_to_agent('pay', 'ann', where={…})"
        assert CommandLine().rewrite(change) == "praval-tools assign pay ann --where '{…}'"

    def test_the_refusal_names_who_could_grant(self, registry: ToolRegistry) -> None:
        """The operator reads the owner in the remedy."""
        assert "'bank' or the operator" in registry.explain("ann", "pay").remedy

    @pytest.mark.parametrize("mode", ["intersect", "inherit", "own"])
    @pytest.mark.parametrize("has_it", [False, True])
    @pytest.mark.parametrize("is_deep", [False, True])
    def test_a_delegate_may_call_after_the_remedy(
        self, registry: ToolRegistry, mode: str, has_it: bool, is_deep: bool
    ) -> None:
        """Each grant that the remedy names is of a member that lacks the tool, and all of them are enough."""
        if has_it:
            registry.grant("pay", "sub")
        boss = declare(registry, "top").delegate("boss") if is_deep else declare(registry, "boss")
        sub = boss.delegate("sub", mode=mode)  # type: ignore[arg-type]
        refusal = sub.explain("pay")
        if refusal.allowed:
            assert (mode, has_it) == ("own", True)
            return

        lacking = re.findall(r"assign_tool_to_agent\('pay', '(\w+)'\)", refusal.remedy)
        for agent in lacking:
            assert registry.assign_tool_to_agent("pay", agent)

        assert sub.explain("pay").allowed
        assert not (has_it or mode == "inherit") or "sub" not in lacking
        assert refusal.rule != "delegation" or f"{lacking[0]!r}, for whom it acts" in refusal.reason

    @pytest.mark.parametrize("mode", ["intersect", "inherit", "own"])
    def test_a_delegation_that_leaves_the_tool_out(self, registry: ToolRegistry, mode: str) -> None:
        """The remedy is to delegate the tool, too, and no grant of what the members have."""
        boss = declare(registry, "boss")
        for agent in ("boss", "sub"):
            registry.grant("pay", agent)

        refusal = boss.delegate("sub", [], mode).explain("pay")  # type: ignore[arg-type]

        assert ("delegation", "'boss' may delegate it to 'sub': tools=[…, 'pay'].") == (refusal.rule, refusal.remedy)
        assert boss.delegate("sub", ["pay"], mode).explain("pay").allowed  # type: ignore[arg-type]

    def test_explaining_spends_nothing(self, registry: ToolRegistry) -> None:
        """However often it is explained, the one call of a grant is still there."""
        grant = registry.grant("pay", "ann", max_calls=1)
        before = registry.state
        for _ in range(3):
            registry.explain("ann", "pay", {"amount": 1})

        assert (1, True) == (registry.uses_left(grant), before is registry.state)

    def test_swapped_arguments_are_recognised(self, registry: ToolRegistry) -> None:
        """`explain(tool, agent)` is answered with the right order."""
        declare(registry, "ann")

        assert "swap" in registry.explain("pay", "ann").remedy

    def test_a_derived_grant_whose_source_is_spent_is_no_way(self, registry: ToolRegistry) -> None:
        """Every answer agrees that a grant is over once the one that it came from is spent."""
        registry.grant("pay", "ann", max_calls=1, delegable=True)
        registry.grant("pay", "cid", by="ann")
        outcome(registry, "ann")

        decision = registry.explain("cid", "pay")

        assert "no-way" == decision.rule
        assert [] == [one.rule for one in decision.tried if one.holds]

    @staticmethod
    def follow(registry: ToolRegistry, change: str) -> None:
        """Do what a remedy says."""
        if change.startswith("@agent("):
            change = f"Agent({change.removeprefix('@agent(')[:-1]}, registry=registry)"
        else:
            change = f"registry.{change}"
        eval(change, {"registry": registry, "Agent": Agent})
