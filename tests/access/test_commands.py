"""Who may change what: switches, blocks, removals, and every other command."""

# Tests of: commands, events, transitions

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from access_cases import TABLE, declare, outcome, pay

from praval_tools import (
    AccessWarning,
    Agent,
    GrantError,
    NotOwnerError,
    Tool,
    ToolRegistry,
    ToolUsageError,
    UnknownToolError,
)  # fmt: skip


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
        """Start-up code does not crash on last night's block: a warning says that nothing changed, also with a key."""
        registry.assign_tool_to_agent("pay", "ann", key=key)
        registry.block("pay", "ann")

        with pytest.warns(AccessWarning, match="blocked"):
            assert registry.assign_tool_to_agent("pay", "ann", key=key) is False

    def test_a_grant_with_a_key_of_who_is_blocked_since_stays(self, registry: ToolRegistry) -> None:
        """Start-up code that makes its grants again does not crash on last night's block; a new grant is an error."""
        made = registry.grant("pay", "ann", key="nightly", max_calls=3)
        registry.block("pay", "ann")

        with pytest.warns(AccessWarning, match="blocked"):
            assert made == registry.grant("pay", "ann", key="nightly", max_calls=3)
        assert "blocked" == registry.explain("ann", "pay").rule
        with pytest.raises(GrantError, match="blocked"):
            registry.grant("pay", "ann", key="another")

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
    "disable by tags": (lambda r, **by: r.disable_by_tags(any=["slow"], **by), ""),
    "freeze": (lambda r, **by: r.freeze(**by), ""),
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


class TestTags:
    """What tools say of themselves is a tag as well."""

    @pytest.fixture
    def shop(self) -> ToolRegistry:
        """Four tools: one says nothing, one is a slow download, one wipes, one has the tag `slow`."""
        made = ToolRegistry()
        metadata: dict[str, dict[str, object]] = {
            "plain": {},
            "download": {"open_world": True, "speed": "slow", "read_only": True, "tags": ["files"]},
            "wipe": {"destructive": True, "requires_approval": True, "tags": ["files"]},
            "count": {"tags": ["slow"]},
        }
        for name, fields in metadata.items():
            made.register_tool(Tool.from_function(pay, name).with_metadata(shared=True, **fields))
        return made

    @pytest.mark.parametrize(
        ("tag", "names"),
        [
            ("read_only", ["download"]),
            ("network", ["download"]),
            ("slow", ["download", "count"]),
            ("destructive", ["wipe"]),
            ("privileged", ["wipe"]),
            ("files", ["download", "wipe"]),
        ],
    )
    def test_predefined_ones(self, shop: ToolRegistry, tag: str, names: list[str]) -> None:
        """Searching, exports and disabling find them; what the operator configures counts."""
        assert names == [tool.name for tool in shop.search_tools(tags=[tag])]
        assert len(names) == len(shop.schemas("bank", tags=[tag]))
        shop.disable(tag=tag)
        assert sorted({"plain", "download", "wipe", "count"} - set(names)) == sorted(shop.toolset("bank"))
        shop.configure("plain", speed="slow")
        assert ("plain" in shop.toolset("bank")) is (tag != "slow")

    def test_disabling_by_several(self, shop: ToolRegistry) -> None:
        """Any of some, all of others; the names of what was disabled come back, once."""
        assert ["download"] == shop.disable_by_tags(any=["network", "destructive"], all=["slow"], reason="no net")
        assert [] == shop.disable_by_tags(any=["network"], reason="no net")
        assert "no net" in shop.explain("bank", "download").reason
        assert ["wipe"] == shop.disable_by_tags(all=["files", "destructive"])
        assert ["count", "plain"] == sorted(shop.toolset("bank"))

    def test_without_tags_it_is_an_error(self, shop: ToolRegistry) -> None:
        """Nothing named is not everything, a text is not a list of letters, and only the operator may."""
        for wrong in ({}, {"any": "slow"}, {"all": "slow"}):
            with pytest.raises(ToolUsageError, match="Name the tags"):
                shop.disable_by_tags(**wrong)  # type: ignore[arg-type]
        with pytest.raises(NotOwnerError):
            shop.disable_by_tags(any=["slow"], by="bank")


class TestFreeze:
    """After `freeze()` the catalogue stays as it is."""

    def test_declarations_are_errors(self, registry: ToolRegistry) -> None:
        """New tools, replaced ones and agents are refused, named, and leave no trace."""
        before = [tool.name for tool in registry.list_all_tools()]
        registry.freeze(reason="started")
        registry.freeze()

        for declare_late, name in (
            (lambda: registry.tool("late")(pay), "late"),
            (lambda: registry.register_tool(Tool.from_function(pay), replace=True), "pay"),
            (lambda: Agent("newcomer", registry=registry), "newcomer"),
        ):
            with pytest.raises(ToolUsageError, match=rf"frozen: .*'{name}'.*before freeze\(\)") as raised:
                declare_late()
            assert "frozen" == raised.value.code
        assert before == [tool.name for tool in registry.list_all_tools()]
        assert "newcomer" not in registry.agents

    def test_changes_of_access_go_on(self, registry: ToolRegistry) -> None:
        """Grants, blocks, switches and configuration count; so does the end of a tool."""
        registry.freeze()
        registry.assign_tool_to_agent("pay", "eve")
        assert "ok" == outcome(registry, "eve")
        registry.disable("pay")
        assert "disabled" == outcome(registry, "eve")
        registry.enable("pay")
        registry.configure("pay", requires_approval=True)
        assert "approval_required" == outcome(registry, "eve")
        assert registry.unregister_tool("pay")
