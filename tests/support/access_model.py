"""
A model of the access rules that shares no code with the package.

It keeps the list of everything that was done, as plain tuples, and answers every question by going through
that list from its start. Moments are whole seconds of its own clock.
An agent is `(name, None)`, a sub-agent `(name, (mode, parent, tools))`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Who = tuple[str, Any]
OPERATOR = "operator"
XS = (5, 50)
WITHIN: dict[str | None, tuple[int, ...]] = {None: XS, "low": (5,), "high": (50,)}
"""Which arguments `x` a bound admits."""


@dataclass
class Tool:
    """A tool as it is now."""

    name: str
    owner: str | None
    shared: bool
    private: bool
    category: str
    tag: str
    namespace: str


@dataclass
class Agent:
    """What the operator's code says about an agent."""

    lists: set[str] = field(default_factory=set)
    categories: frozenset[str] = frozenset()
    auto: bool = True
    declared: bool = False
    retired: bool = False


@dataclass
class Grant:
    """A grant and what is left of it."""

    id: str
    tool: str
    agent: str
    by: str
    until: int | None
    left: int | None
    most: int | None
    bound: str | None
    delegable: bool
    parent: str | None
    key: str | None
    live: bool = True
    made: int = 0

    def narrower(
        self, until: int | None, most: int | None, bound: str | None, delegable: bool
    ) -> tuple[int | None, int | None, str | None, bool]:
        """Return its terms with those of a later declaration that are narrower."""
        ends = [one for one in (self.until, until) if one is not None]
        counts = [one for one in (self.most, most) if one is not None]
        return (
            min(ends, default=None), min(counts, default=None), bound if self.bound is None else self.bound,
            self.delegable and delegable,
        )  # fmt: skip

    def says(self) -> tuple[Any, ...]:
        """Return what makes another grant of the same tool and agent identical."""
        return self.by, self.until, self.most, self.bound, self.delegable, self.parent


@dataclass
class Way:
    """One way to a tool: its rule, the grants that it rests on, the arguments that it admits."""

    rule: str
    grants: tuple[Grant, ...] = ()

    @property
    def counted(self) -> bool:
        """Whether a call spends something."""
        return any(one.left is not None for one in self.grants)

    @property
    def lasting(self) -> bool:
        """Whether it holds for all arguments, for ever."""
        return not self.counted and all(one.until is None and one.bound is None for one in self.grants)

    def admits(self, x: int) -> bool:
        """Tell whether it admits a call with *x*."""
        return all(x in WITHIN[one.bound] for one in self.grants)


@dataclass
class World:
    """What a list of past operations led to."""

    tools: dict[str, Tool] = field(default_factory=dict)
    agents: dict[str, Agent] = field(default_factory=dict)
    grants: dict[str, Grant] = field(default_factory=dict)
    removed: set[tuple[str, str]] = field(default_factory=set)
    blocks: set[tuple[str, str, str]] = field(default_factory=set)
    off: set[tuple[str, str]] = field(default_factory=set)

    # ── what happened ────────────────────────────────────────────────────────────────────────────

    def do_register(self, name: str, **said: Any) -> None:
        """A tool came, at the end of the list."""
        self.tools[name] = Tool(name, **said)

    def do_replace(self, name: str, category: str, tag: str) -> None:
        """A tool was replaced; place, owner and flags stay."""
        self.tools[name].category, self.tools[name].tag = category, tag

    def do_unregister(self, name: str) -> None:
        """A tool went, and its grants with it."""
        del self.tools[name]
        if UNREGISTERING_ENABLES:
            self.off.discard(("tool", name))
        for one in self.grants.values():
            if one.tool == name:
                one.live = False

    def do_declare(self, name: str, lists: tuple[str, ...], categories: tuple[str, ...], auto: bool) -> None:
        """An agent was declared."""
        self.agents[name] = Agent(set(lists), frozenset(categories), auto, declared=True)

    def do_retire(self, name: str) -> None:
        """An agent was retired, and its grants with it."""
        self.agents[name] = Agent(declared=True, retired=True)
        for one in list(self.grants.values()):
            if one.agent == name:
                self.do_revoke(one.id)

    def do_list(self, agent: str, tool: str) -> None:
        """A tool was added to the agent's list."""
        self.agents.setdefault(agent, Agent()).lists.add(tool)

    def do_grant(self, *said: Any, made: int) -> None:
        """A grant was made."""
        grant = Grant(*said, made=made)
        self.grants[grant.id] = grant

    def do_narrow(self, old: str, new: str, terms: tuple[Any, ...]) -> None:
        """A grant was declared with less by its key: it is another one now, the youngest, with what is left."""
        one = self.grants[new] = self.grants.pop(old)
        spent = 0 if one.most is None or one.left is None else one.most - one.left
        one.id, (one.until, one.most, one.bound, one.delegable) = new, terms
        one.left = None if one.most is None else max(0, one.most - spent)
        for other in self.grants.values():
            if other.parent == old:
                other.parent = new

    def do_revoke(self, grant: str) -> None:
        """A grant ended, and what came from it."""
        self.grants[grant].live = False
        for one in self.grants.values():
            if one.parent == grant and one.live:
                self.do_revoke(one.id)

    def do_spend(self, *grants: str) -> None:
        """A call was admitted."""
        for one in grants:
            left = self.grants[one].left
            assert left is not None
            self.grants[one].left = left - 1

    def do_remove(self, tool: str, agent: str) -> None:
        """The operator took a tool from an agent."""
        self.removed.add((tool, agent))
        for one in list(self.grants.values()):
            if (one.tool, one.agent) == (tool, agent):
                self.do_revoke(one.id)

    def do_block(self, tool: str, agent: str, by: str) -> None:
        """Somebody blocked an agent from a tool."""
        self.blocks.add((tool, agent, by))

    def do_unblock(self, tool: str, agent: str, by: str) -> None:
        """The operator lifted all blocks, somebody else its own."""
        self.blocks = {one for one in self.blocks if one[:2] != (tool, agent) or by not in (OPERATOR, one[2])}

    def do_transfer(self, tool: str, to: str) -> None:
        """A tool has another owner."""
        self.tools[tool].owner = to

    def do_share(self, tool: str, shared: bool) -> None:
        """A tool was shared or is so no more."""
        self.tools[tool].shared = shared

    def do_switch(self, kind: str, name: str, off: bool) -> None:
        """Something was disabled or enabled."""
        (self.off.add if off else self.off.discard)((kind, name))

    # ── who may call what ────────────────────────────────────────────────────────────────────────

    def agent(self, name: str) -> Agent:
        """Return the agent, with the default profile where nobody declared it."""
        return self.agents.get(name) or Agent()

    def alive(self, grant: Grant, now: int) -> bool:
        """Tell whether a grant, and all that it came from, is a way."""
        above = self.grants[grant.parent] if grant.parent is not None else None
        mine = grant.live and grant.left != 0 and (grant.until is None or now < grant.until)
        return mine and (above is None or self.alive(above, now))

    def line(self, grant: Grant) -> tuple[Grant, ...]:
        """Return a grant and all that it came from."""
        return (grant, *(self.line(self.grants[grant.parent]) if grant.parent is not None else ()))

    def open_rule(self, name: str, tool: Tool) -> str | None:
        """Return which of the rules 4 to 7 gives the tool to the agent."""
        agent = self.agent(name)
        if (tool.name, name) in self.removed:
            return None
        if tool.owner == name and agent.auto:
            return "owner"
        if tool.private:
            return None
        if tool.name in agent.lists:
            return "listed"
        if tool.shared and agent.auto:
            return "shared"
        asked = tool.category in agent.categories
        return "category" if asked and (tool.category != "general" or tool.owner is None) else None

    def ways(self, name: str, tool: str, now: int) -> list[Way]:
        """Return the agent's own ways, in the order in which calls take them."""
        rule = self.open_rule(name, self.tools[tool])
        mine = [one for one in self.grants.values() if (one.tool, one.agent) == (tool, name)]
        granted = [Way("granted", self.line(one)) for one in mine if self.alive(one, now)]
        uncounted, counted = ([way for way in granted if way.counted is want] for want in (False, True))
        return [*([Way(rule)] if rule is not None else []), *uncounted, *counted]

    def taken(self, who: Who, tool: str, now: int, x: int) -> Way | None:
        """Return the way that a call takes: that of every side that has to allow it."""
        name, link = who
        own = next((way for way in self.ways(name, tool, now) if way.admits(x)), None)
        if link is None:
            return own
        mode, parent, only = link
        if only is not None and tool not in only:
            return None
        if mode == "own":
            return own
        above = self.taken(parent, tool, now, x)
        if mode == "inherit" or own is None or above is None:
            return above if mode == "inherit" else None
        known = {one.id for one in own.grants}
        return Way(own.rule, (*own.grants, *(one for one in above.grants if one.id not in known)))

    def refused(self, who: Who, tool: str) -> tuple[str, str] | None:
        """Return the refusal of rules 1 to 3."""
        if tool not in self.tools:
            return "unknown", "unknown"
        one = self.tools[tool]
        labels = {("tool", tool), ("category", one.category), ("tag", one.tag), ("namespace", one.namespace)}
        if labels & self.off:
            return "disabled", "disabled"
        member: Who | None = who
        while member is not None:
            if self.blocked(tool, member[0]):
                return "forbidden", "blocked"
            if self.agent(member[0]).retired:
                return "forbidden", "retired"
            member = member[1][1] if member[1] is not None else None
        return None

    def decide(self, who: Who, tool: str, now: int, x: int) -> tuple[str, str]:
        """Return outcome and rule of a call with *x*."""
        if (refusal := self.refused(who, tool)) is not None:
            return refusal
        if (way := self.taken(who, tool, now, x)) is not None:
            return "allowed", way.rule
        others = any(self.taken(who, tool, now, other) for other in XS)
        return "forbidden", "out-of-bounds" if others else "none"

    def may_list(self, who: Who, tool: str, now: int) -> bool:
        """Tell whether some call would be admitted."""
        return any(self.decide(who, tool, now, x)[0] == "allowed" for x in XS)

    def spends(self, who: Who, tool: str, now: int, x: int) -> list[str]:
        """Return the grants of which an admitted call takes one use."""
        way = self.taken(who, tool, now, x)
        return [one.id for one in way.grants if one.left is not None] if way is not None else []

    # ── who may change what ──────────────────────────────────────────────────────────────────────

    def blocked(self, tool: str, agent: str) -> bool:
        """Tell whether a block names the two."""
        return any(one[:2] == (tool, agent) for one in self.blocks)

    def owns(self, actor: str, tool: str) -> bool:
        """Tell whether *actor* has an owner's say over the tool: the operator has it over every one."""
        if actor == OPERATOR:
            return True
        return tool in self.tools and self.tools[tool].owner == actor and not self.agent(actor).retired

    def mentioned(self, name: str, now: int) -> bool:
        """Tell whether anything that counts now speaks of the agent."""
        granted = any(one.agent == name and self.alive(one, now) for one in self.grants.values())
        kept = any(name == agent for _, agent, *_ in (*self.removed, *self.blocks))
        return name in self.agents or granted or kept or any(one.owner == name for one in self.tools.values())

    def has_say(self, actor: str, grant: Grant) -> bool:
        """Tell whether *actor* may end a grant: the owner, or who holds one that it came from."""
        if self.agent(actor).retired:
            return False
        return self.owns(actor, grant.tool) or any(one.agent == actor for one in self.line(grant)[1:])

    def may_lend(self, actor: str, tool: str, to: str, now: int) -> bool:
        """Tell whether *actor* may lend the tool at all."""
        if actor == OPERATOR:
            return True
        if self.blocked(tool, actor) or self.blocked(tool, to) or self.agent(actor).retired:
            return False
        return self.lends_freely(actor, tool) or bool(self.lendable(actor, tool, now))

    def lends_freely(self, actor: str, tool: str) -> bool:
        """Tell whether *actor* needs no grant of its own to lend: the operator, the owner that has its tool."""
        return actor == OPERATOR or self.owns(actor, tool) and (tool, actor) not in self.removed

    def lendable(self, actor: str, tool: str, now: int) -> list[Grant]:
        """Return the delegable grants from which *actor* may lend."""
        mine = [one for one in self.grants.values() if (one.tool, one.agent) == (tool, actor)]
        return [one for one in mine if one.delegable and self.alive(one, now)]

    def fits(self, above: Grant, until: int | None, most: int | None, bound: str | None) -> bool:
        """Tell whether a request is narrower than the grant that it would come from."""
        if above.until is not None and until is not None and until > above.until:
            return False
        if above.left is not None and most is not None and most > above.left:
            return False
        every = [bound, *(one.bound for one in self.line(above))]
        return any(all(x in WITHIN[one] for one in every) for x in XS)


UNREGISTERING_ENABLES = False
"""Whether a tool that is switched off is on again when it goes and comes back."""


class Model:
    """The list of everything that was done."""

    def __init__(self) -> None:
        self.past: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def note(self, what: str, *said: Any, **more: Any) -> None:
        """Add an operation that took place."""
        self.past.append((what, said, more))

    def world(self) -> World:
        """Return what the whole list leads to, from nothing."""
        made = World()
        for what, said, more in self.past:
            getattr(made, f"do_{what}")(*said, **more)
        return made
