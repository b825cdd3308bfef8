"""The rules by which an agent may call a tool, one after the other, and who may change what they read."""

from __future__ import annotations

import gc
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from clocks import HandClock

from praval_tools import (
    AccessWarning,
    Agent,
    GrantError,
    NotOwnerError,
    Outcome,
    Tool,
    ToolAccessError,
    ToolCall,
    ToolRegistry,
    UnknownGrantError,
    UnknownToolError,
    UnknownToolWarning,
)  # fmt: skip

RULES = ["unknown", "disabled", "blocked", "owner", "listed", "shared", "category", "granted"]
Setup = Callable[[ToolRegistry], object]


def pay(amount: int, to: str = "shop") -> str:
    """Pay an amount."""
    return f"{amount} to {to}"


@pytest.fixture
def registry(clock: HandClock) -> ToolRegistry:
    """Return a registry with the tool `pay`, which `bank` owns."""
    made = ToolRegistry(clock=clock)
    made.register_tool(Tool.from_function(pay, owned_by="bank", category="money", tags=["risky"]))
    return made


def outcome(registry: ToolRegistry, agent: Any, **arguments: Any) -> str:
    """Return how a call of `pay` ends."""
    call = ToolCall("c1", "pay", arguments or {"amount": 5})
    return str(registry.toolset(agent).execute(call).outcome)


def declare(registry: ToolRegistry, name: str, **said: Any) -> Agent:
    """Declare an agent whose function does what it is given."""
    return Agent(name, registry=registry, function=lambda work: work(), **said)


def private(registry: ToolRegistry) -> None:
    """Put a private `pay` in the place of the open one."""
    registry.unregister_tool("pay")
    registry.register_tool(Tool.from_function(pay, owned_by="bank", category="money", private=True, shared=True))


def closed(registry: ToolRegistry, name: str, **said: Any) -> Agent:
    """Declare an agent without `auto_discover_tools`."""
    return declare(registry, name, auto_discover_tools=False, **said)


OPENED: dict[str, tuple[Setup, str, str]] = {
    # what was done → who asks, rule
    "4 the owner": (lambda r: None, "bank", "owner"),
    "4 before 5": (lambda r: declare(r, "bank", tools=["pay"]), "bank", "owner"),
    "4 a private tool": (private, "bank", "owner"),
    "5 listed": (lambda r: declare(r, "ann", tools=["pay"]), "ann", "listed"),
    "5 listed, without auto_discover_tools": (lambda r: closed(r, "ann", tools=["pay"]), "ann", "listed"),
    "6 shared": (lambda r: r.share_tool("pay"), "ann", "shared"),
    "7 the category is requested": (lambda r: closed(r, "ann", tool_categories=["money"]), "ann", "category"),
    "8 granted": (lambda r: r.assign_tool_to_agent("pay", "ann"), "ann", "granted"),
    "8 a private tool": (lambda r: [private(r), r.grant("pay", "ann")], "ann", "granted"),
}
FORBIDDEN: dict[str, tuple[Setup, str, str]] = {
    "3 a block beats ownership": (lambda r: r.block("pay", "bank"), "bank", "blocked"),
    "3 a block beats a grant": (lambda r: [r.grant("pay", "ann"), r.block("pay", "ann")], "ann", "blocked"),
    "4 not without auto_discover_tools": (lambda r: closed(r, "bank"), "bank", "no-way"),
    "5 not a private tool": (lambda r: [private(r), declare(r, "ann", tools=["pay"])], "ann", "no-way"),
    "6 not without auto_discover_tools": (lambda r: [r.share_tool("pay"), closed(r, "ann")], "ann", "no-way"),
    "6 not a private tool": (private, "ann", "no-way"),
    "7 not a private tool": (lambda r: [private(r), declare(r, "ann", tool_categories=["money"])], "ann", "no-way"),
    "7 general reaches no owned tool": (
        lambda r: [r.configure("pay", category="general"), declare(r, "ann", tool_categories=["general"])],
        "ann", "no-way",
    ),
    "9 otherwise": (lambda r: None, "ann", "no-way"),
    "9 a category that nobody requested": (lambda r: declare(r, "ann"), "ann", "no-way"),
    "9 removed from the owner": (lambda r: r.remove_tool_from_agent("pay", "bank"), "bank", "no-way"),
    "9 retired": (lambda r: r.retire_agent("bank"), "bank", "retired"),
}  # fmt: skip
OTHERS: dict[str, tuple[Setup, str, str, str]] = {
    "1 no such tool": (lambda r: r.unregister_tool("pay"), "bank", "unknown", "unknown"),
    "2 the tool is disabled": (lambda r: r.disable(tool="pay"), "bank", "disabled", "disabled"),
    "2 its category is disabled": (lambda r: r.disable(category="money"), "bank", "disabled", "disabled"),
    "2 its tag is disabled": (lambda r: r.disable(tag="risky"), "bank", "disabled", "disabled"),
    "2 before 3": (lambda r: [r.block("pay", "bank"), r.disable("pay")], "bank", "disabled", "disabled"),
}
TABLE = {
    **OTHERS,
    **{case: (setup, who, "allowed", rule) for case, (setup, who, rule) in OPENED.items()},
    **{case: (setup, who, "forbidden", rule) for case, (setup, who, rule) in FORBIDDEN.items()},
}
CALLED = {"allowed": "ok", "unknown": "unknown_tool", "disabled": "disabled", "forbidden": "forbidden"}


class TestRules:
    """The first rule that applies decides, for every road."""

    @pytest.mark.parametrize("case", TABLE)
    def test_one_decision_for_every_road(self, registry: ToolRegistry, case: str) -> None:
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
    def test_every_rule_is_told_in_order(self, registry: ToolRegistry, case: str) -> None:
        """`explain` tells every rule that it looked at; the first that holds is the one that decided."""
        setup, agent, _, rule = TABLE[case]
        setup(registry)

        told = registry.explain(agent, "pay").tried

        first = next((one.rule for one in told if one.holds), "no-way")
        assert rule == first
        assert (RULES[:1] if rule == "unknown" else RULES) == [one.rule for one in told if one.rule != "retired"]
        assert all(one.why for one in told)

    def test_a_policy_does_not_hide(self, registry: ToolRegistry) -> None:
        """A policy forbids the call; the tool stays listed, since listing depends on the rules alone."""
        registry.add_policy(lambda *_: "not today")

        assert "forbidden" == outcome(registry, "bank")
        assert ["pay"] == list(registry.toolset("bank"))


class TestSwitches:
    """A tool, namespace, category or tag is switched off and on by the operator."""

    @pytest.mark.parametrize("kind", ["tool", "namespace", "category", "tag"])
    def test_off_and_on(self, kind: str) -> None:
        """Whatever was switched off refuses with the reason until it is on again; tools that come later, too."""
        registry = ToolRegistry()
        names = {"tool": "shop-pay", "namespace": "shop", "category": "money", "tag": "risky"}
        tool = Tool.from_function(pay, namespace="shop", category="money", tags=["risky"], shared=True)
        registry.register_tool(tool)

        registry.disable(**{kind: names[kind]}, reason="stocktaking")  # type: ignore[arg-type]
        registry.register_tool(tool, replace=True)
        off = registry.explain("ann", "shop-pay")
        registry.enable(**{kind: names[kind]})  # type: ignore[arg-type]

        assert ("disabled", True) == (off.rule, "stocktaking" in off.reason)
        assert registry.explain("ann", "shop-pay").allowed

    @pytest.mark.parametrize("kind", ["tool", "namespace", "category", "tag"])
    def test_what_does_not_exist(self, registry: ToolRegistry, kind: str) -> None:
        """A name that nothing has is an error that says what was looked for, with near names."""
        with pytest.raises(UnknownToolError, match=f"{kind.capitalize()} 'mone' not found") as caught:
            registry.disable(**{kind: "mone"})  # type: ignore[arg-type]

        assert ("money" in str(caught.value)) == (kind == "category")


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

        told = {name: registry.execute(ToolCall("1", name, {}, "ann")) for name in ("pay", "off", "nix")}

        assert {Outcome.UNKNOWN_TOOL} == {one.outcome for one in told.values()}
        assert 1 == len({one.for_model().replace(name, "?") for name, one in told.items()})


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
        told = {one.rule: one.change for one in registry.explain("ann", "pay").tried}

        assert "transfer_ownership" not in told["owner"]
        assert "@agent" not in told["listed"]
        assert "assign_tool_to_agent('pay', 'ann')" in told["granted"]

    def test_the_refusal_names_who_could_grant(self, registry: ToolRegistry) -> None:
        """The operator reads the owner in the remedy."""
        assert "'bank' or the operator" in registry.explain("ann", "pay").remedy

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


class TestRemovals:
    """What the operator removed is gone until a grant gives it back."""

    @pytest.mark.parametrize(
        "case", ["4 the owner", "5 listed", "6 shared", "7 the category is requested", "8 granted"]
    )
    def test_a_removal_ends_every_way(self, registry: ToolRegistry, case: str) -> None:
        """Whichever rule gave the tool, the call after the removal is refused; a second removal says False."""
        setup, agent, *_ = TABLE[case]
        setup(registry)

        assert [True, False] == [registry.remove_tool_from_agent("pay", agent) for _ in range(2)]
        assert "forbidden" == outcome(registry, agent)

    def test_a_grant_gives_it_back_within_its_bounds_alone(self, registry: ToolRegistry) -> None:
        """After a removal the owner calls its tool by the grant, and only as far as that goes."""
        registry.remove_tool_from_agent("pay", "bank")
        registry.assign_tool_to_agent("pay", "bank", where={"amount": {"maximum": 10}})

        assert ["ok", "forbidden"] == [outcome(registry, "bank", amount=amount) for amount in (5, 50)]

    def test_a_removal_counts_for_a_tool_that_comes_later(self, registry: ToolRegistry) -> None:
        """A listed tool that was removed before it was declared is not there when it comes."""
        declare(registry, "ann", tools=["later"])
        registry.remove_tool_from_agent("later", "ann")
        registry.register_tool(Tool.from_function(pay, name="later", shared=True))

        assert [] == list(registry.toolset("ann"))


class TestBlocks:
    """A block beats every permission."""

    @pytest.mark.parametrize("key", [None, "nightly"])
    def test_the_operator_that_assigns_a_blocked_tool_is_warned(self, registry: ToolRegistry, key: str | None) -> None:
        """Start-up code does not crash on last night's block: it is told that nothing changed, also with a key."""
        registry.assign_tool_to_agent("pay", "ann", key=key)
        registry.block("pay", "ann")

        with pytest.warns(AccessWarning, match="blocked"):
            assert registry.assign_tool_to_agent("pay", "ann", key=key) is False

    def test_an_agent_that_assigns_a_blocked_tool_is_refused(self, registry: ToolRegistry) -> None:
        """The owner does not get around the operator's block."""
        registry.block("pay", "ann")
        with pytest.raises(NotOwnerError):
            registry.assign_tool_to_agent("pay", "ann", by="bank")
        with pytest.raises(NotOwnerError):
            registry.unblock("pay", "ann", by="bank")

    def test_the_owner_lifts_its_own_block(self, registry: ToolRegistry) -> None:
        """Each lifts what it set; the operator lifts all."""
        registry.block("pay", "ann", by="bank")
        registry.block("pay", "ann")

        assert registry.unblock("pay", "ann", by="bank")
        assert "blocked" == registry.explain("ann", "pay").rule
        assert [True, False] == [registry.unblock("pay", "ann") for _ in range(2)]


VERBS: dict[str, tuple[Callable[..., Any], str]] = {
    # verb → call, who may besides the operator: "owner", or nobody
    "share": (lambda r, **by: r.share_tool("pay", **by), "owner"),
    "unshare": (lambda r, **by: r.unshare_tool("pay", **by), "owner"),
    "transfer": (lambda r, **by: r.transfer_ownership("pay", "ann", **by), "owner"),
    "unregister": (lambda r, **by: r.unregister_tool("pay", **by), "owner"),
    "replace": (lambda r, **by: r.register_tool(Tool.from_function(pay), replace=True, **by), "owner"),
    "block": (lambda r, **by: r.block("pay", "cid", **by), "owner"),
    "unblock": (lambda r, **by: r.unblock("pay", "cid", **by), "owner"),
    "assign": (lambda r, **by: r.assign_tool_to_agent("pay", "cid", **by), "owner"),
    "assign by key": (lambda r, **by: r.assign_tool_to_agent("pay", "dot", key="k", **by), "owner"),
    "remove": (lambda r, **by: r.remove_tool_from_agent("pay", "dot", **by), "owner"),
    "revoke": (lambda r, **by: r.revoke(r.grants(agent="dot")[0], **by), "owner"),
    "disable": (lambda r, **by: r.disable("pay", **by), ""),
    "enable": (lambda r, **by: r.enable("pay", **by), ""),
    "configure": (lambda r, **by: r.configure("pay", risk_level="high", **by), ""),
    "policy": (lambda r, **by: r.add_policy(lambda *_: None, **by), ""),
    "retire": (lambda r, **by: r.retire_agent("dot", **by), ""),
    "clear": (lambda r, **by: r.clear_registry(**by), ""),
}


class TestVerbs:
    """Who may change what."""

    @pytest.mark.parametrize("inside", [False, True])
    @pytest.mark.parametrize("actor", ["operator", "bank", "ann"])
    @pytest.mark.parametrize("name", VERBS)
    def test_nobody_else_gets_through(self, registry: ToolRegistry, name: str, actor: str, inside: bool) -> None:
        """The operator may all, the owner what concerns its tool, others nothing: named by the host or running."""
        verb, besides = VERBS[name]
        registry.grant("pay", "dot", key="k")
        run: Callable[..., Any] = declare(registry, actor) if actor != "operator" and inside else lambda work: work()
        by = {} if actor == "operator" or inside else {"by": actor}
        before = registry.state

        if actor == "operator" or (actor == "bank" and besides == "owner"):
            run(lambda: verb(registry, **by))
        else:
            with pytest.raises(NotOwnerError):
                run(lambda: verb(registry, **by))
            assert before == registry.state

    def test_an_agent_cannot_speak_for_another(self, registry: ToolRegistry) -> None:
        """Inside of an agent, `by=` names nobody else, neither the owner nor the operator."""
        ann = declare(registry, "ann")
        for by in ("bank", "operator"):
            with pytest.raises(NotOwnerError):
                ann(lambda: registry.share_tool("pay", by=by))

    def test_an_agent_that_is_called_like_the_operator_is_not_the_operator(self, registry: ToolRegistry) -> None:
        """No name makes an agent the operator, neither declared nor delegated."""
        with pytest.raises(ValueError, match="operator"):
            declare(registry, "operator")
        with pytest.raises(ValueError, match="operator"):
            registry.agent("ann").delegate("operator")

    def test_the_owner_does_not_undo_a_disabling(self, registry: ToolRegistry) -> None:
        """What the operator switched off stays off when the owner takes its tool out and brings it again."""
        registry.disable(tool="pay")
        registry.unregister_tool("pay", by="bank")
        registry.register_tool(Tool.from_function(pay, owned_by="bank"), by="bank")

        assert "disabled" == outcome(registry, "bank")


class TestGrants:
    """A grant admits calls within its end, its count and its bounds."""

    def test_it_ends_at_its_moment(self, registry: ToolRegistry, clock: HandClock) -> None:
        """Up to the moment it is a way, from it on it is none."""
        registry.grant("pay", "ann", expires=timedelta(seconds=10))
        found = []
        for seconds in (0, 9, 1):
            clock.moment += timedelta(seconds=seconds)
            found.append((outcome(registry, "ann"), list(registry.toolset("ann"))))

        assert [("ok", ["pay"]), ("ok", ["pay"]), ("forbidden", [])] == found

    def test_it_admits_as_many_calls_as_it_says(self, registry: ToolRegistry) -> None:
        """The count is spent by calls that run, and by nothing else."""
        grant = registry.grant("pay", "ann", max_calls=2, where={"amount": {"maximum": 10}})
        found = [outcome(registry, "ann", amount=amount) for amount in (5, 50, "none", 5, 5)]

        assert ["ok", "forbidden", "invalid_arguments", "ok", "forbidden"] == found
        assert 0 == registry.uses_left(grant)

    @pytest.mark.parametrize(
        "wish",
        [
            {"expires": datetime(2040, 1, 1)}, {"expires": timedelta(seconds=-1)}, {"expires": 10},
            {"max_calls": 0}, {"max_calls": True}, {"where": {"amuont": {"maximum": 1}}},
        ],
        ids=str,
    )  # fmt: skip
    def test_what_makes_no_sense_is_an_error(self, registry: ToolRegistry, wish: dict[str, Any]) -> None:
        """A naive or past moment, a count of none and unknown parameters are refused at once."""
        before = registry.state
        with pytest.raises(GrantError):
            registry.assign_tool_to_agent("pay", "ann", **wish)
        assert before == registry.state

    def test_an_identical_one_is_not_recorded_twice(self, registry: ToolRegistry) -> None:
        """The same wish in the same name is the grant that stands; another bound is another grant."""
        bounds = [{"amount": {"maximum": most}} for most in (9, 99, 9)]
        made = [registry.grant("pay", "ann", where=one).id for one in bounds]

        assert (made[0], 2) == (made[2], len(registry.grants()))

    def test_the_oldest_count_is_spent_and_only_where_it_must_be(self, registry: ToolRegistry) -> None:
        """An uncounted way that admits the call spends nothing; of counted ones the oldest is spent."""
        first, second = (registry.grant("pay", "ann", max_calls=calls) for calls in (2, 3))
        registry.grant("pay", "ann", where={"amount": {"minimum": 40}})
        outcome(registry, "ann", amount=50)
        assert [2, 3] == [registry.uses_left(one) for one in (first, second)]
        outcome(registry, "ann", amount=5)
        assert [1, 3] == [registry.uses_left(one) for one in (first, second)]

    def test_a_grant_that_narrows_nothing_warns(self, registry: ToolRegistry) -> None:
        """Bounds beside an open way bound nothing, and the warning says to remove first."""
        with pytest.warns(AccessWarning, match="remove_tool_from_agent"):
            registry.assign_tool_to_agent("pay", "bank", max_calls=1)

    def test_a_key_is_one_grant_for_ever(self, registry: ToolRegistry) -> None:
        """Start-up code gets the same grant again, with what is left of it, revoked or not."""
        made = [registry.grant("pay", "ann", key="k", max_calls=2)]
        outcome(registry, "ann")
        made.append(registry.grant("pay", "ann", key="k", max_calls=2))
        assert (made[0].id, 1) == (made[1].id, registry.uses_left(made[1]))

        registry.revoke(made[0])
        assert registry.assign_tool_to_agent("pay", "ann", key="k", max_calls=2) is False
        assert "forbidden" == outcome(registry, "ann")

    def test_an_unknown_grant_is_said(self, registry: ToolRegistry) -> None:
        """Revoking what is no grant is an error that names the id as it was given."""
        with pytest.raises(UnknownGrantError, match="no grant 'g-7';") as caught:
            registry.revoke("g-7")

        assert "g-7" == caught.value.args[0]

    def test_an_unknown_tool_is_said(self, registry: ToolRegistry) -> None:
        """The form of the seeds warns with near names and says False, the other raises."""
        with pytest.warns(UnknownToolWarning, match="'pay'"):
            assert registry.assign_tool_to_agent("pai", "ann") is False
        with pytest.raises(UnknownToolError, match="'pay'"):
            registry.grant("pai", "ann")

    @pytest.mark.parametrize("end", ["unregister", "retire"])
    def test_the_end_of_tool_or_agent_ends_grants(self, registry: ToolRegistry, end: str) -> None:
        """A tool or an agent that comes back starts without the old grants."""
        registry.grant("pay", "ann")
        registry.unregister_tool("pay") if end == "unregister" else registry.retire_agent("ann")
        registry.register_tool(Tool.from_function(pay)) if end == "unregister" else declare(registry, "ann")

        assert ([], "no-way") == (registry.grants(), registry.explain("ann", "pay").rule)


class TestLending:
    """Who holds a delegable grant lends it on, only narrower."""

    @pytest.mark.parametrize(
        "wish", [{"max_calls": 4}, {"expires": timedelta(hours=2)}, {"where": {"to": {"const": "x"}}}]
    )
    def test_a_wider_one_is_refused(self, registry: ToolRegistry, wish: dict[str, Any]) -> None:
        """More calls, a later end, or bounds beside those of the source are an error."""
        registry.grant(
            "pay", "ann", delegable=True, max_calls=3, expires=timedelta(hours=1), where={"to": {"const": "shop"}}
        )
        with pytest.raises(GrantError):
            registry.grant("pay", "cid", by="ann", **wish)

    def test_a_call_spends_the_whole_line(self, registry: ToolRegistry) -> None:
        """A call under a derived grant spends every grant that it came from, and obeys all their bounds."""
        line = [registry.grant("pay", "ann", delegable=True, max_calls=3, where={"amount": {"maximum": 10}})]
        line.append(
            registry.grant("pay", "cid", by="ann", max_calls=2, delegable=True, where={"amount": {"minimum": 3}})
        )
        line.append(registry.grant("pay", "dot", by="cid", max_calls=1))

        assert ["forbidden", "forbidden", "ok", "forbidden"] == [
            outcome(registry, "dot", amount=amount) for amount in (1, 50, 5, 5)
        ]
        assert [2, 1, 0] == [registry.uses_left(one) for one in line]

    def test_revoking_reaches_all_that_came_from_it(self, registry: ToolRegistry) -> None:
        """The holder takes back what it lent; revoking the source takes everything."""
        source = registry.grant("pay", "ann", delegable=True)
        lent = [registry.grant("pay", to, by="ann") for to in ("cid", "dot")]
        assert registry.remove_tool_from_agent("pay", "cid", by="ann")
        assert ["forbidden", "ok"] == [outcome(registry, one.agent) for one in lent]

        registry.revoke(source)
        assert [] == registry.grants()

    def test_any_of_several_grants_may_be_lent_from(self, registry: ToolRegistry) -> None:
        """Grants add up: a later, narrower one does not keep its holder from lending from the wider."""
        wide = registry.grant("pay", "ann", delegable=True, max_calls=5)
        registry.grant("pay", "ann", delegable=True, max_calls=1)

        assert wide.id == registry.grant("pay", "cid", by="ann", max_calls=3).parent


class TestDelegation:
    """A sub-agent acts in a chain."""

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
    def test_the_rules_told_are_those_that_decided(self, registry: ToolRegistry, mode: Any) -> None:
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
