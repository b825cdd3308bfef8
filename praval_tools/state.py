"""The whole of what a registry knows, immutable; `apply` makes the next one from an event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from attrs import evolve, field, frozen

from praval_tools import facts
from praval_tools.access import NO_ACCESS, Access, Disabled, GrantRecord, ToolRecord
from praval_tools.model.permissions import AgentProfile
from praval_tools.model.tool import Tool
from praval_tools.naming import fold
from praval_tools.persistent import PersistentMap as Map

_EMPTY: Final[Map[Any, Any]] = Map()


@frozen(eq=False)
class Policy:
    """A policy under the name in which it acts."""

    name: str
    check: Callable[..., Any]


@frozen
class State:
    """Every record behind one pointer; only `apply` makes another."""

    tools: Map[str, ToolRecord] = _EMPTY
    folded: Map[str, str] = _EMPTY
    labels: Map[tuple[str, str | None], Map[str, int]] = _EMPTY
    agents: Map[str, AgentProfile] = _EMPTY
    accesses: Map[str, Map[str, Access]] = _EMPTY
    holders: Map[str, Map[str, int]] = _EMPTY
    grants: Map[str, GrantRecord] = _EMPTY
    children: Map[str, tuple[str, ...]] = _EMPTY
    keys: Map[str, str] = _EMPTY
    disabled: Mapping[tuple[str, str], Disabled] = field(factory=dict)
    policies: tuple[Policy, ...] = field(default=(), eq=lambda all_: tuple((one.name, one.check) for one in all_))
    seq: int = 0

    # ── what the rules read ──────────────────────────────────────────────────────────────────────

    def record(self, tool: str) -> ToolRecord | None:
        """Return the tool's record."""
        return self.tools.get(tool)

    def profile(self, agent: str) -> AgentProfile:
        """Return the agent's profile, the default one where it is not declared."""
        return self.agents.get(agent) or AgentProfile(name=agent)

    def access(self, agent: str, tool: str) -> Access:
        """Return what stands between the two."""
        mine = self.accesses.get(agent)
        return NO_ACCESS if mine is None else mine.get(tool) or NO_ACCESS

    def disabling(self, tool: Tool[..., Any]) -> Disabled | None:
        """Return what switches *tool* off."""
        if not self.disabled:
            return None
        for label in (("tool", tool.name), *_labels(tool)):
            if (off := self.disabled.get(label)) is not None:  # type: ignore[arg-type]
                return off
        return None

    def grant(self, grant_id: str) -> GrantRecord | None:
        """Return a grant."""
        return self.grants.get(grant_id)

    def labelled(self, kind: str, value: str | None) -> Mapping[str, int]:
        """Return the names of the tools that carry a label, with their places."""
        return self.labels.get((kind, value)) or _EMPTY

    def candidates(self, agent: str) -> list[str]:
        """Return the tools that any rule could give *agent*, in registration order."""
        profile = self.profile(agent)
        names: set[str] = set(profile.tools)
        if profile.auto_discover_tools:
            names.update(self.labelled("owner", agent), self.labelled("shared", ""))
        for category in profile.tool_categories:
            names.update(self.labelled("category", category))
        names.update(self.accesses.get(agent) or ())
        return in_order(self, names)


def in_order(state: State, names: Iterable[str]) -> list[str]:
    """Return those of *names* that are registered, in registration order."""
    found = ((record.seq, name) for name in names if (record := state.tools.get(name)) is not None)
    return [name for _, name in sorted(found)]


def _labels(tool: Tool[..., Any]) -> list[tuple[str, str | None]]:
    meta = tool.metadata
    found: list[tuple[str, str | None]] = [("category", meta.category)]
    if meta.owned_by is not None:
        found.append(("owner", meta.owned_by))
    if meta.tags:
        found.extend(("tag", tag) for tag in dict.fromkeys(meta.tags))
    if tool.namespace:
        found.append(("namespace", tool.namespace))
    if meta.shared:
        found.append(("shared", ""))
    return found


def _relabel(state: State, name: str, old: Tool[..., Any] | None, new: Tool[..., Any] | None, seq: int) -> Any:
    labels = state.labels
    before, after = (_labels(old) if old else []), (_labels(new) if new else [])
    for label in before:
        if label not in after:
            kept = labels[label].discard(name)
            labels = labels.set(label, kept) if len(kept) else labels.discard(label)
    for label in after:
        if label not in before:
            labels = labels.set(label, (labels.get(label) or _EMPTY).set(name, seq))
    return labels


def _with_record(state: State, record: ToolRecord, old: ToolRecord | None) -> State:
    name = record.tool.name
    return evolve(
        state,
        tools=state.tools.set(name, record),
        labels=_relabel(state, name, old.tool if old else None, record.tool, record.seq),
    )


def _with_access(state: State, agent: str, tool: str, access: Access) -> State:
    mine: Map[str, Access] = state.accesses.get(agent) or _EMPTY
    mine = mine.set(tool, access) if access != NO_ACCESS else mine.discard(tool)
    held: Map[str, int] = state.holders.get(tool) or _EMPTY
    held = held.set(agent, 0) if access != NO_ACCESS else held.discard(agent)
    return evolve(
        state,
        accesses=state.accesses.set(agent, mine) if len(mine) else state.accesses.discard(agent),
        holders=state.holders.set(tool, held) if len(held) else state.holders.discard(tool),
    )


def _registered(state: State, event: facts.ToolRegistered) -> State:
    tool, seq = event.tool, state.seq
    old = state.tools.get(tool.name)
    if old is None:
        name = tool.name
        return evolve(
            state,
            tools=state.tools.set(name, ToolRecord(tool, seq)),
            folded=state.folded.set(fold(name), name),
            labels=_relabel(state, name, None, tool, seq),
            seq=seq + 1,
        )
    kept = {"owned_by": old.tool.metadata.owned_by, "shared": old.tool.metadata.shared, **dict(old.configured)}
    fresh = tool.with_metadata(**kept)
    return _with_record(state, evolve(old, tool=fresh, breaking=_breaking(old.tool, tool)), old)


def _breaking(old: Tool[..., Any], new: Tool[..., Any]) -> str:
    if old.definition_ is new.definition_:
        return ""
    mine, theirs = old.metadata.parameters, new.metadata.parameters
    gone = [name for name in mine if name not in theirs]
    added = [name for name, one in theirs.items() if one.get("required") and name not in mine]
    changed = [name for name in mine if name in theirs and mine[name].get("type") != theirs[name].get("type")]
    said = (("without", gone), ("now requires", added), ("other type for", changed))
    return "; ".join(f"{what} {', '.join(names)}" for what, names in said if names)


def _unregistered(state: State, event: facts.ToolUnregistered) -> State:
    record = state.tools[event.tool]
    for agent in sorted(state.holders.get(event.tool) or ()):
        for grant_id in state.access(agent, event.tool).grants:
            state = _end(state, grant_id, "the tool was unregistered")
    return evolve(
        state,
        tools=state.tools.discard(event.tool),
        folded=state.folded.discard(fold(event.tool)),
        labels=_relabel(state, event.tool, record.tool, None, 0),
        disabled={key: one for key, one in state.disabled.items() if key != ("tool", event.tool)},
    )


def _end(state: State, grant_id: str, why: str) -> State:
    """End a grant and all that came from it."""
    one = state.grants[grant_id]
    if not one.ended:
        state = evolve(state, grants=state.grants.set(grant_id, evolve(one, ended=why)))
        access = state.access(one.grant.agent, one.grant.tool)
        left = tuple(other for other in access.grants if other != grant_id)
        state = _with_access(state, one.grant.agent, one.grant.tool, evolve(access, grants=left))
    for child in state.children.get(grant_id) or ():
        state = _end(state, child, "the grant that it came from ended")
    return state


def _declared(state: State, event: facts.AgentDeclared) -> State:
    return evolve(state, agents=state.agents.set(event.profile.name, event.profile))


def _retired(state: State, event: facts.AgentRetired) -> State:
    for access in list((state.accesses.get(event.agent) or {}).values()):
        for grant_id in access.grants:
            state = _end(state, grant_id, "the agent was retired")
    gone = AgentProfile(name=event.agent, declared=True, retired=True, place=state.profile(event.agent).place)
    return evolve(state, agents=state.agents.set(event.agent, gone))


def _listed(state: State, event: facts.ToolListed) -> State:
    profile = state.profile(event.agent)
    if event.tool in profile.tools:
        return state
    return evolve(state, agents=state.agents.set(event.agent, evolve(profile, tools=(*profile.tools, event.tool))))


def _assigned(state: State, event: facts.ToolAssigned) -> State:
    grant = event.grant
    state = evolve(
        state,
        grants=state.grants.set(grant.id, GrantRecord(grant, state.seq)),
        keys=state.keys.set(grant.key, grant.id) if grant.key is not None else state.keys,
        seq=state.seq + 1,
    )
    if grant.parent is not None:
        offspring = (*(state.children.get(grant.parent) or ()), grant.id)
        state = evolve(state, children=state.children.set(grant.parent, offspring))
    access = state.access(grant.agent, grant.tool)
    return _with_access(state, grant.agent, grant.tool, evolve(access, grants=(*access.grants, grant.id)))


def _revoked(state: State, event: facts.GrantRevoked) -> State:
    return _end(state, event.grant, f"revoked by {event.by!r}")


def _spent(state: State, event: facts.GrantSpent) -> State:
    grants = state.grants
    for grant_id in event.grants:
        one = grants[grant_id]
        grants = grants.set(grant_id, evolve(one, spent=one.spent + 1))
    return evolve(state, grants=grants)


def _unassigned(state: State, event: facts.ToolUnassigned) -> State:
    for grant_id in state.access(event.agent, event.tool).grants:
        state = _end(state, grant_id, f"removed by {event.by!r}")
    access = state.access(event.agent, event.tool)
    return _with_access(state, event.agent, event.tool, evolve(access, removed=True))


def _blocked(state: State, event: facts.ToolBlocked) -> State:
    block = event.block
    access = state.access(block.agent, block.tool)
    others = tuple(one for one in access.blocks if one.by != block.by)
    return _with_access(state, block.agent, block.tool, evolve(access, blocks=(*others, block)))


def _unblocked(state: State, event: facts.ToolUnblocked) -> State:
    access = state.access(event.agent, event.tool)
    kept = tuple(one for one in access.blocks if event.setter is not None and one.by != event.setter)
    return _with_access(state, event.agent, event.tool, evolve(access, blocks=kept))


def _changed(state: State, name: str, **changes: Any) -> State:
    record = state.tools[name]
    return _with_record(state, evolve(record, tool=record.tool.with_metadata(**changes)), record)


def _transferred(state: State, event: facts.OwnershipTransferred) -> State:
    record = state.tools[event.tool]
    past = (*record.past_owners, record.tool.metadata.owned_by)
    moved = evolve(record, tool=record.tool.with_metadata(owned_by=event.to), past_owners=past)
    return _with_record(state, moved, record)


def _shared(state: State, event: facts.ToolShared) -> State:
    return _changed(state, event.tool, shared=True)


def _unshared(state: State, event: facts.ToolUnshared) -> State:
    return _changed(state, event.tool, shared=False)


def _disabled(state: State, event: facts.ToolDisabled) -> State:
    off = Disabled(event.kind, event.name, event.by, event.reason)
    return evolve(state, disabled={**state.disabled, (event.kind, event.name): off})


def _enabled(state: State, event: facts.ToolEnabled) -> State:
    key = (event.kind, event.name)
    return evolve(state, disabled={other: off for other, off in state.disabled.items() if other != key})


def _configured(state: State, event: facts.ToolConfigured) -> State:
    record = state.tools[event.tool]
    configured = tuple({**dict(record.configured), **event.changes}.items())
    changed = evolve(record, tool=record.tool.with_metadata(**event.changes), configured=configured)
    return _with_record(state, changed, record)


def _policy_added(state: State, event: facts.PolicyAdded) -> State:
    return evolve(state, policies=(*state.policies, Policy(event.name, event.policy)))


def _policy_removed(state: State, event: facts.PolicyRemoved) -> State:
    return evolve(state, policies=tuple(one for one in state.policies if one.name != event.name))


def _cleared(state: State, event: facts.RegistryCleared) -> State:
    return State(seq=state.seq)


_APPLY: Final[Mapping[type, Callable[[State, Any], State]]] = {
    facts.ToolRegistered: _registered,
    facts.ToolUnregistered: _unregistered,
    facts.AgentDeclared: _declared,
    facts.AgentRetired: _retired,
    facts.ToolListed: _listed,
    facts.ToolAssigned: _assigned,
    facts.GrantRevoked: _revoked,
    facts.GrantSpent: _spent,
    facts.ToolUnassigned: _unassigned,
    facts.ToolBlocked: _blocked,
    facts.ToolUnblocked: _unblocked,
    facts.OwnershipTransferred: _transferred,
    facts.ToolShared: _shared,
    facts.ToolUnshared: _unshared,
    facts.ToolDisabled: _disabled,
    facts.ToolEnabled: _enabled,
    facts.ToolConfigured: _configured,
    facts.PolicyAdded: _policy_added,
    facts.PolicyRemoved: _policy_removed,
    facts.RegistryCleared: _cleared,
}


def apply(state: State, event: facts.Event) -> State:
    """Return the state after *event*; pure."""
    return _APPLY[type(event)](state, event)


def replay(events: Iterable[facts.Event]) -> State:
    """Return the state that *events* lead to, from nothing."""
    state = State()
    for event in events:
        state = apply(state, event)
    return state
