"""
Whatever was done before: what an agent sees, what is exported, what is explained and what it can call are the same.

The machine does everything that changes access, in any order, and asks `access_model` after each step.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from access_model import OPERATOR, XS, Grant, Who, World
from access_rig import (
    AGENTS,
    BOUNDS,
    NO_RULE,
    TOOLS,
    Base,
    Catalogue,
    actors,
    agents,
    bounds,
    holders,
    modes,
    seconds_of,
    switches,
    tools,
)
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from praval_tools import (
    GrantError,
    NotOwnerError,
    ToolCall,
    UnknownToolError,
)
from praval_tools.access.transitions import rebuild_state

EVERY_NAME = " ".join(TOOLS)
"""A question that every tool answers."""


class Permissions(Base):
    """Rules: tools are lent, taken, blocked, handed over, shared and switched off."""

    @rule(
        tool=tools, to=holders, actor=actors, inside=st.booleans(), lasts=st.none() | st.integers(1, 8),
        most=st.none() | st.integers(1, 3), bound=bounds, delegable=st.booleans(), keyed=st.booleans(),
        seed_form=st.booleans(),
    )  # fmt: skip
    def assign(
        self, tool: str, to: str, actor: str, inside: bool, lasts: int | None, most: int | None, bound: str | None,
        delegable: bool, keyed: bool, seed_form: bool,
    ) -> None:  # fmt: skip
        """Lend a tool, with an end, a count, bounds, further or not."""
        world, until = self.world, None if lasts is None else self.now + lasts
        key = f"{tool} for {to}" if keyed and actor == OPERATOR else None
        expires = None if lasts is None else timedelta(seconds=lasts)
        terms: dict[str, Any] = {"expires": expires, "max_calls": most, "where": BOUNDS[bound], "delegable": delegable}

        def verb(**by: Any) -> Any:
            give = self.registry.assign_tool_to_agent if seed_form else self.registry.grant
            return give(tool, to, key=key, **terms, **by)

        if tool not in world.tools:
            return self.fails(UnknownToolError, seed_form, actor, inside, verb)
        if actor == OPERATOR and world.blocked(tool, to):
            return self.fails(GrantError, seed_form, actor, inside, verb)
        if not world.may_lend(actor, tool, to, self.now):
            return self.refused(NotOwnerError, actor, inside, verb)
        above = {one.id: one for one in world.lendable(actor, tool, self.now) if world.fits(one, until, most, bound)}
        if world.lends_freely(actor, tool):
            above = {}
        elif not above:
            return self.refused(GrantError, actor, inside, verb)
        known = self.grants_of(tool, to)
        given = self.perform(actor, inside, verb)
        fresh = [one for one in self.grants_of(tool, to).values() if one.id not in known]
        old = next((one for one in world.grants.values() if key is not None and one.key == key), None)
        if old is not None:
            return self.declare_again(old, given, fresh, seed_form, (lasts, most, bound, delegable))
        assert seed_form is False or given is (not world.agent(to).retired)
        wanted: list[tuple[Any, ...]] = [(actor, until, most, bound, delegable, None)]
        if above:
            ends = [(one, one.until if until is None else until) for one in above.values()]
            wanted = [(actor, end, one.left if most is None else most, bound, delegable, one.id) for one, end in ends]
        self.compare(tool, to, key, wanted, fresh)
        return None

    @precondition(lambda self: any(one.delegable for one in self.world.grants.values()))
    @rule(
        data=st.data(), to=holders, inside=st.booleans(), lasts=st.none() | st.integers(1, 8),
        most=st.none() | st.integers(1, 3), bound=bounds, delegable=st.booleans(),
    )  # fmt: skip
    def lend_on(
        self, data: st.DataObject, to: str, inside: bool, lasts: int | None, most: int | None, bound: str | None,
        delegable: bool,
    ) -> None:  # fmt: skip
        """Lend what was lent."""
        world = self.world
        held = [one for one in world.grants.values() if one.delegable]
        held = [one for one in held if world.alive(one, self.now)] or held
        source = data.draw(st.sampled_from(held))
        if source.agent in AGENTS:
            self.assign(source.tool, to, source.agent, inside, lasts, most, bound, delegable, False, False)

    @rule(
        to=agents, then=holders, most=st.none() | st.integers(1, 3), bound=bounds, lasts=st.none() | st.integers(1, 3),
        less=st.none() | st.just(1), x=st.sampled_from(XS),
    )  # fmt: skip
    def give(
        self, to: str, then: str, most: int | None, bound: str | None, lasts: int | None, less: int | None, x: int
    ) -> None:  # fmt: skip
        """Take the first tool from two agents, give it to one by a grant alone, which lends it on; both call it."""
        for one in {to, then}:
            self.remove("alpha", one, OPERATOR, False)
        self.assign("alpha", to, OPERATOR, False, lasts, most, bound, True, False, True)
        self.assign("alpha", then, to, True, None, less, None, True, False, False)
        for one in (then, to):
            agent = self.registry.agent(one)
            self.called((one, None), "alpha", x, partial(agent.call, "alpha", x=x))

    @precondition(lambda self: any(one.key for one in self.world.grants.values()))
    @rule(data=st.data(), seed_form=st.booleans())
    def start_again(self, data: st.DataObject, seed_form: bool) -> None:
        """Let start-up code make a grant again by its key."""
        keyed = [one for one in self.world.grants.values() if one.key is not None]
        one = data.draw(st.sampled_from(keyed))
        self.assign(one.tool, one.agent, OPERATOR, False, None, one.most, one.bound, one.delegable, True, seed_form)

    @precondition(lambda self: any(one.until is not None for one in self.world.grants.values()))
    @rule(data=st.data())
    def wait_for_an_end(self, data: st.DataObject) -> None:
        """Let time pass up to the moment at which a grant ends."""
        ends = {one.until for one in self.world.grants.values() if one.until is not None and one.until > self.now}
        if ends:
            self.clock.seconds = data.draw(st.sampled_from(sorted(ends)))

    @precondition(lambda self: any(one.parent and one.live for one in self.world.grants.values()))
    @rule(data=st.data())
    def revoke_a_source(self, data: st.DataObject) -> None:
        """End a grant from which another came."""
        sources = sorted({one.parent for one in self.world.grants.values() if one.parent and one.live})
        source = data.draw(st.sampled_from(sources))
        assert self.world.grants[source].live == self.registry.revoke(source)
        self.model.note("revoke", source)

    @rule(agent=holders, first=st.booleans())
    def block_twice(self, agent: str, first: bool) -> None:
        """Let operator and owner block the same, and one of them lift its own."""
        owner = self.world.tools["alpha"].owner if "alpha" in self.world.tools else None
        if owner is not None:
            self.block("alpha", agent, OPERATOR if first else owner, False)
            self.block("alpha", agent, owner if first else OPERATOR, False)
            self.unblock("alpha", agent, owner, False)

    def fails(
        self, error: type[Exception], seed_form: bool, actor: str, inside: bool, verb: Callable[..., Any]
    ) -> None:  # fmt: skip
        """Expect what cannot be assigned: False in the form of the seeds, an error in the other."""
        if not seed_form:
            return self.refused(error, actor, inside, verb)
        before = self.registry.state
        assert self.perform(actor, inside, verb) is False
        assert before == self.registry.state
        return None

    def compare(
        self, tool: str, to: str, key: str | None, wanted: list[tuple[Any, ...]], fresh: list[Any]
    ) -> None:  # fmt: skip
        """Expect one new grant that says one of *wanted*, or none where an identical one stands; note it."""
        world = self.world
        standing = [
            one.says() for one in world.grants.values()
            if (one.tool, one.agent) == (tool, to) and world.alive(one, self.now)
        ]  # fmt: skip
        if not fresh:
            assert key is None
            assert any(one in standing for one in wanted)
            return
        (one,) = fresh
        bound = next(name for name, where in BOUNDS.items() if where == one.where)
        said = (one.by, seconds_of(one.expires), one.max_calls, bound, one.delegable, one.parent)
        assert said in wanted
        assert key is not None or said not in standing
        by, until, most, bound, delegable, parent = said
        self.model.note("grant", one.id, tool, to, by, until, most, most, bound, delegable, parent, key, made=self.now)

    def declare_again(self, old: Grant, given: Any, fresh: list[Any], seed_form: bool, said: tuple[Any, ...]) -> None:
        """Expect that of a declaration by a key in use what is narrower counts, and the rest is reported."""
        lasts, *others = said
        declared = (None if lasts is None else old.made + lasts, *others)
        stands = replace(old, parent=None)
        if World(grants={old.id: stands}).alive(stands, self.now):
            terms = old.narrower(*declared)
            if terms != (old.until, old.most, old.bound, old.delegable):
                (one,) = fresh
                self.model.note("narrow", old.id, one.id, terms)
                old = self.world.grants[one.id]
                fresh = []
            texts = [str(one) for one in self.registry.problems() if one.kind == "grant-differs"]
            differs = declared != (stands.until, stands.most, stands.bound, stands.delegable)
            assert any(f"{old.key!r}" in one for one in texts) == differs
        assert not fresh
        assert given == self.world.alive(old, self.now) if seed_form else given.id == old.id

    @rule(tool=tools, to=agents)
    def add_tool(self, tool: str, to: str) -> None:
        """Give an agent a tool by `add_tool`: afterwards nothing but a change of the records can end it."""
        world, agent = self.world, self.registry.agent(to)
        if tool not in world.tools:
            return self.refused(UnknownToolError, OPERATOR, False, lambda: agent.add_tool(tool))
        known = self.grants_of(tool, to)
        agent.add_tool(tool)
        fresh = [one for one in self.grants_of(tool, to).values() if one.id not in known]
        if fresh:
            self.compare(tool, to, None, [(OPERATOR, None, None, None, False, None)], fresh)
        ways = self.world.ways(to, tool, self.now)
        assert world.blocked(tool, to) or any(way.lasting for way in ways)
        return None

    @rule(tool=tools, agent=holders, actor=actors, inside=st.booleans())
    def remove(self, tool: str, agent: str, actor: str, inside: bool) -> None:
        """Take a tool away: all ways as the operator, else the grants over which the actor has a say."""
        world = self.world

        def verb(**by: Any) -> bool:
            return self.registry.remove_tool_from_agent(tool, agent, **by)

        mine = [
            one for one in world.grants.values()
            if (one.tool, one.agent) == (tool, agent) and one.live and world.has_say(actor, one)
        ]  # fmt: skip
        if not mine and not world.owns(actor, tool):
            return self.refused(NotOwnerError, actor, inside, verb)
        could, taken = world.may_list((agent, None), tool, self.now), self.perform(actor, inside, verb)
        if actor == OPERATOR and (tool in world.tools or tool in world.agent(agent).lists):
            self.model.note("remove", tool, agent)
        for one in mine if actor != OPERATOR else ():
            self.model.note("revoke", one.id)
        assert taken == (could and not self.world.may_list((agent, None), tool, self.now))
        return None

    @precondition(lambda self: self.world.grants)
    @rule(data=st.data(), actor=actors, inside=st.booleans())
    def revoke(self, data: st.DataObject, actor: str, inside: bool) -> None:
        """End one grant, and what came from it."""
        world = self.world
        one = world.grants[data.draw(st.sampled_from(sorted(world.grants)))]

        def verb(**by: Any) -> bool:
            return self.registry.revoke(one.id, **by)

        if not world.owns(actor, one.tool) and not world.has_say(actor, one):
            return self.refused(NotOwnerError, actor, inside, verb)
        assert one.live == self.perform(actor, inside, verb)
        self.model.note("revoke", one.id)
        return None

    @rule(tool=tools, agent=holders, actor=actors, inside=st.booleans())
    def block(self, tool: str, agent: str, actor: str, inside: bool) -> None:
        """Block an agent from a tool that may come later."""

        def verb(**by: Any) -> Any:
            return self.registry.block(tool, agent, **by)

        if not self.world.owns(actor, tool):
            return self.refused(NotOwnerError, actor, inside, verb)
        made = self.perform(actor, inside, verb)
        assert (tool, agent, actor) == (made.tool, made.agent, made.by)
        self.model.note("block", tool, agent, actor)
        return None

    @rule(tool=tools, agent=holders, actor=actors, inside=st.booleans())
    def unblock(self, tool: str, agent: str, actor: str, inside: bool) -> None:
        """Lift a block: one's own, or every one as the operator."""
        world = self.world

        def verb(**by: Any) -> bool:
            return self.registry.unblock(tool, agent, **by)

        mine = [one for one in world.blocks if one[:2] == (tool, agent) and actor in (OPERATOR, one[2])]
        if not world.owns(actor, tool) or world.blocked(tool, agent) and not mine:
            return self.refused(NotOwnerError, actor, inside, verb)
        assert bool(mine) == self.perform(actor, inside, verb)
        self.model.note("unblock", tool, agent, actor)
        return None

    @rule(tool=tools, to=agents, actor=actors, inside=st.booleans())
    def transfer(self, tool: str, to: str, actor: str, inside: bool) -> None:
        """Hand a tool over."""
        self.owned(tool, actor, inside, lambda **by: self.registry.transfer_ownership(tool, to, **by), ("transfer", to))

    @rule(tool=tools, shared=st.booleans(), actor=actors, inside=st.booleans())
    def share(self, tool: str, shared: bool, actor: str, inside: bool) -> None:
        """Share a tool, or share it no more."""
        verb = self.registry.share_tool if shared else self.registry.unshare_tool
        self.owned(tool, actor, inside, lambda **by: verb(tool, **by), ("share", shared))

    def owned(
        self, tool: str, actor: str, inside: bool, verb: Callable[..., Any], noted: tuple[str, Any]
    ) -> None:  # fmt: skip
        """Do what only the owner and the operator may."""
        if not self.world.owns(actor, tool):
            return self.refused(NotOwnerError, actor, inside, verb)
        if tool not in self.world.tools:
            return self.refused(UnknownToolError, actor, inside, verb)
        self.perform(actor, inside, verb)
        what, value = noted
        return self.model.note(what, tool, value)

    @rule(what=switches, off=st.booleans(), actor=actors, inside=st.booleans())
    def switch(self, what: tuple[str, str], off: bool, actor: str, inside: bool) -> None:
        """Disable or enable a tool, a category, a tag or a namespace, which only the operator may."""
        kind, name = what
        world = self.world
        switched = self.registry.disable if off else self.registry.enable

        def verb(**by: Any) -> None:
            switched(**{kind: name}, **by)

        if actor != OPERATOR:
            return self.refused(NotOwnerError, actor, inside, verb)
        named = {"tool": "name", "category": "category", "tag": "tag", "namespace": "namespace"}[kind]
        known = any(getattr(one, named) == name for one in world.tools.values())
        if not known and (off or what not in world.off):
            return self.refused(UnknownToolError, actor, inside, verb)
        self.perform(actor, inside, verb)
        return self.model.note("switch", kind, name, off)


class AccessMachine(Catalogue, Permissions):
    """Rules that call, and what holds after every step."""

    @precondition(lambda self: len(self.handles) < 7)
    @rule(
        data=st.data(), name=st.sampled_from(("sub", "bob", "cid")),
        mode=modes,
        only=st.none() | st.lists(tools, min_size=1, max_size=3),
    )  # fmt: skip
    def delegate(self, data: st.DataObject, name: str, mode: Any, only: list[str] | None) -> None:
        """Let an agent act on behalf of another one."""
        parent: Who = data.draw(st.sampled_from(list(self.handles)))
        who = (name, (mode, parent, None if only is None else frozenset(only)))
        self.handles[who] = self.handles[parent].delegate(name, only, mode)

    @rule(data=st.data(), tool=tools)
    def keep(self, data: st.DataObject, tool: str) -> None:
        """Keep what a toolset gives now: its values and functions."""
        who: Who = data.draw(st.sampled_from(list(self.handles)))
        toolset = self.handles[who].tools
        bound = toolset.get(tool)
        if bound is not None:
            functions = [one for one in toolset.functions() if inspect.getdoc(one) and one.__name__ == tool]
            self.held.extend((who, tool, one) for one in (bound, *functions))

    @rule(
        data=st.data(), tool=tools, x=st.sampled_from(XS), how=st.sampled_from(("execute", "call", "toolset", "name"))
    )
    def call(self, data: st.DataObject, tool: str, x: int, how: str) -> None:
        """Call a tool in one of the ways in which agents do."""
        who: Who = data.draw(st.sampled_from(list(self.handles)))
        agent = self.handles[who]
        if how == "call" or how == "name" and who[1] is not None:
            return self.called(who, tool, x, lambda: agent.call(tool, x=x))
        if how == "execute":
            return self.called(who, tool, x, lambda: agent.execute(ToolCall("c", tool, {"x": x})))
        if how == "toolset":
            return self.called(who, tool, x, lambda: agent.tools.execute(ToolCall("c", tool, f'{{"x": {x}}}')))
        return self.called(who, tool, x, lambda: self.registry.execute(ToolCall("c", tool, {"x": x}, who[0])))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), x=st.sampled_from(XS))
    def call_kept(self, data: st.DataObject, x: int) -> None:
        """Call what was kept of a toolset, however long ago: it is decided anew."""
        who, tool, bound = data.draw(st.sampled_from(self.held))
        self.called(who, tool, x, lambda: bound(x=x))

    @rule(data=st.data(), x=st.sampled_from(XS), times=st.integers(1, 3), counted=st.booleans())
    def call_listed(self, data: st.DataObject, x: int, times: int, counted: bool) -> None:
        """Call a tool that somebody sees, perhaps until a count is used up."""
        world = self.world
        seen = [(who, name) for who in self.handles for name in world.tools if world.may_list(who, name, self.now)]
        if counted:
            spending = [(who, name) for who, name in seen if world.spends(who, name, self.now, x)]
            lines = [(who, name) for who, name in spending if len(world.spends(who, name, self.now, x)) > 1]
            seen = lines or spending
        if seen:
            who, tool = data.draw(st.sampled_from(seen))
            for _ in range(times):
                self.called(who, tool, x, lambda: self.handles[who].call(tool, x=x))

    @invariant()
    def one_resolver(self) -> None:
        """What is listed, exported and explained is what would be called, for every agent and tool."""
        world = self.world
        for who, agent in self.handles.items():
            expected = [name for name in world.tools if world.may_list(who, name, self.now)]
            toolset = agent.tools
            exported = [one["function"]["name"] for one in toolset.schemas("openai-chat")]
            assert expected == [one.name for one in self.registry.get_tools_for_agent(agent)]
            assert expected == list(toolset) == list(toolset.keys()) == agent.list_tools()
            assert expected == [name for name, _ in toolset.items()]
            assert sorted(expected) == exported
            assert sorted(expected) == sorted(one.name for one in self.registry.search(EVERY_NAME, agent, 100))
            for tool in TOOLS:
                assert (tool in expected) == (tool in toolset) == agent.tool_exists(tool)
                self.explains(world, who, agent, tool, tool in expected)

    def explains(self, world: World, who: Who, agent: Any, tool: str, listed: bool) -> None:
        """Expect the explanations of one agent and tool, with and without arguments."""
        without = self.registry.explain(agent, tool)
        assert listed == without.allowed == agent.tools.explain(tool).allowed
        rules = set()
        for x in XS:
            outcome, by_rule = world.decide(who, tool, self.now, x)
            found = self.registry.explain(agent, tool, {"x": x})
            assert (outcome, by_rule) == (found.outcome, NO_RULE.get(found.rule, found.rule))
            if (outcome == "allowed") == listed:
                rules.add(by_rule)
            if who[1] is None:
                holding = [one.rule for one in found.tried if one.holds]
                assert (holding[:1] == [found.rule]) == (found.rule not in NO_RULE) or found.rule == "out-of-bounds"
                assert found.allowed <= bool(holding)
        assert NO_RULE.get(without.rule, without.rule) in rules
        if who[1] is None:
            assert [without.rule] == [one.rule for one in without.tried if one.holds][:1] or without.rule == "no-way"
            assert (without.rule == "no-way") == (not any(one.holds for one in without.tried))

    @invariant()
    def the_same_records(self) -> None:
        """Owners, flags, places and counts are the model's, and the events alone lead to the same state."""
        world = self.world
        shown = {one.name: (one.metadata.owned_by, one.metadata.shared) for one in self.registry.list_all_tools()}
        assert list(world.tools) == list(shown)
        assert {one.name: (one.owner, one.shared) for one in world.tools.values()} == shown
        assert [one.name for one in world.tools.values() if one.shared] == [
            one.name for one in self.registry.get_shared_tools()
        ]
        for one in world.grants.values():
            assert one.left == self.registry.uses_left(one.id)
        assert rebuild_state(self.events) == self.registry.state


AccessMachine.TestCase.settings = settings(stateful_step_count=30)
TestAccessMachine = pytest.mark.filterwarnings(
    "ignore::praval_tools.AccessWarning", "ignore::praval_tools.UnknownToolWarning"
)(AccessMachine.TestCase)
