"""The whole of what a registry knows, immutable; `apply` makes the next one from an event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from praval_tools.access import events as facts
from praval_tools.access.records import AgentProfile
from praval_tools.access.rules import NO_ACCESS, Access, Disabled, GrantRecord, ToolRecord
from praval_tools.names import MOST_LETTERS, fold, keys_of, wire_name
from praval_tools.persistent_map import PersistentMap as Map
from praval_tools.tools.tool import Tool

_EMPTY: Final[Map[Any, Any]] = Map()
Configured = tuple[tuple[str, Any], ...]
"""Fields of a tool's metadata that the operator overrode, with their values."""


class Policy(msgspec.Struct, frozen=True):
    """A policy under the name in which it acts."""

    name: str
    check: Callable[..., Any]


class State(msgspec.Struct, frozen=True):
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
    settings: Map[str, Map[str, Configured]] = _EMPTY
    disabled: Mapping[tuple[str, str], Disabled] = msgspec.field(default_factory=dict)
    policies: tuple[Policy, ...] = ()
    kept: Map[str, Map[tuple[str, str, str], facts.ActKept]] = _EMPTY
    revision: int = 0
    seq: int = 0

    def own_name(self, name: str) -> str:
        """Return the name of the tool that *name* means: its own, or the one under which it travels to a provider."""
        if name in self.tools or len(name) > MOST_LETTERS:
            return name
        holder = self.folded.get(fold(name))
        return holder if holder is not None and wire_name(holder) == name else name

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

    def keeps_grant(self, grant_id: str) -> bool:
        """Tell whether the journal holds the act that lent a grant."""
        return any(kind == "grant" and key == grant_id for mine in self.kept.values() for kind, key, _ in mine)

    def waiting_grants(self, tool: str | None) -> Iterator[facts.ActKept]:
        """Yield the journal's acts that lent a grant which waits for its tool: *tool*, or any."""
        for mine in self.kept.values() if tool is None else (self.kept.get(tool) or _EMPTY,):
            ended = {one.key for one in mine.values() if one.kind == "ended" and one.act is not None}
            for one in mine.values():
                if one.kind == "grant" and one.act is not None and one.key not in self.grants and one.key not in ended:
                    yield one

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


def origin(tool: Tool[..., Any]) -> str:
    """Return what an act on *tool* is bound to: the distribution that ships it, else its module and name."""
    definition, source = tool.definition_, tool.metadata.source
    return source.distribution if source and source.distribution else f"{definition.place.home}:{definition.qualname}"


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
    fresh = [label for label in after if label not in before]
    return labels.update([(label, (labels.get(label) or _EMPTY).set(name, seq)) for label in fresh])


def _with_record(state: State, record: ToolRecord, old: ToolRecord | None) -> State:
    name = record.tool.name
    return replace(
        state,
        tools=state.tools.set(name, record),
        labels=_relabel(state, name, old.tool if old else None, record.tool, record.seq),
    )


def _with_access(state: State, agent: str, tool: str, access: Access) -> State:
    mine: Map[str, Access] = state.accesses.get(agent) or _EMPTY
    mine = mine.set(tool, access) if access != NO_ACCESS else mine.discard(tool)
    held: Map[str, int] = state.holders.get(tool) or _EMPTY
    held = held.set(agent, 0) if access != NO_ACCESS else held.discard(agent)
    return replace(
        state,
        accesses=state.accesses.set(agent, mine) if len(mine) else state.accesses.discard(agent),
        holders=state.holders.set(tool, held) if len(held) else state.holders.discard(tool),
    )


def _registered(state: State, event: facts.ToolRegistered) -> State:
    tool = event.tool
    old = state.tools.get(tool.name)
    if old is None:
        return _registered_first(state, event)
    was = old.tool.metadata
    kept = {"owned_by": was.owned_by, "shared": was.shared, "private": was.private, **dict(old.configured)}
    fresh, before = tool.with_metadata(**kept), old.tool.definition_
    replaced = None if before is tool.definition_ else before
    return _with_record(state, replace(old, tool=fresh, replaced=replaced, declared=tool.metadata), old)


def _registered_first(state: State, event: facts.ToolRegistered) -> State:
    """Take in a tool of a name that no other has; what `_registered_all` does, without lists of one."""
    tool, seq = event.tool, state.seq
    if configured := _outlasting(state, tool):
        tool = tool.with_metadata(**dict(configured))
    name, folded, labels = tool.name, state.folded, state.labels
    for key in keys_of(name):
        folded = folded.set(key, name)
    for label in _labels(tool):
        labels = labels.set(label, labels.get(label, _EMPTY).set(name, seq))
    record = ToolRecord(tool, seq, configured, declared=event.tool.metadata)
    return replace(state, tools=state.tools.set(name, record), folded=folded, labels=labels, seq=seq + 1)


def _registered_all(state: State, events: Iterable[facts.ToolRegistered]) -> State:
    """Take in tools of which none has the name of another; a whole catalogue as one."""
    seq = state.seq
    records: list[tuple[str, ToolRecord]] = []
    folded: list[tuple[str, str]] = []
    labels: dict[Any, list[tuple[str, int]]] = {}
    for event in events:
        tool = event.tool
        if configured := _outlasting(state, tool):
            tool = tool.with_metadata(**dict(configured))
        records.append((tool.name, ToolRecord(tool, seq, configured, declared=event.tool.metadata)))
        folded += [(key, tool.name) for key in keys_of(tool.name)]
        for label in _labels(tool):
            labels.setdefault(label, []).append((tool.name, seq))
        seq += 1
    known = state.labels
    return replace(
        state, tools=state.tools.update(records), folded=state.folded.update(folded), seq=seq,
        labels=known.update([(label, known.get(label, _EMPTY).update(new)) for label, new in labels.items()]),
    )


def _outlasting(state: State, tool: Tool[..., Any]) -> Configured:
    """Return what the operator set for an earlier tool of this name; of one from elsewhere an approval alone."""
    found = state.settings.get(tool.name)
    if found is None:
        return ()
    mine = dict(found.get(origin(tool)) or ())
    if any(("requires_approval", True) in one for one in found.values()):
        mine.setdefault("requires_approval", True)
    return tuple(mine.items())


def _unregistered(state: State, event: facts.ToolUnregistered) -> State:
    record = state.tools[event.tool]
    for agent in sorted(state.holders.get(event.tool) or ()):
        for grant_id in state.access(agent, event.tool).grants:
            state = _end(state, grant_id, "the tool was unregistered")
    here = origin(record.tool)
    for kind, key, source in state.kept.get(event.tool) or ():
        if source == here:
            state = _with_kept(state, event.tool, (kind, key, source), None)
    return replace(
        state,
        tools=state.tools.discard(event.tool),
        folded=reduce(Map.discard, keys_of(event.tool), state.folded),
        labels=_relabel(state, event.tool, record.tool, None, 0),
    )


def _end(state: State, grant_id: str, why: str, settled: bool = False) -> State:
    """End a grant and all that came from it, however long the line."""
    waiting = [(grant_id, why)]
    while waiting:
        this, why = waiting.pop()
        one = state.grants[this]
        if not one.ended:
            state = replace(state, grants=state.grants.set(this, replace(one, ended=why)))
            access = state.access(one.grant.agent, one.grant.tool)
            left = tuple(other for other in access.grants if other != this)
            lost = (*access.lost, this) if settled else access.lost
            access = replace(access, grants=left, lost=lost)
            state = _with_access(state, one.grant.agent, one.grant.tool, access)
        children = state.children.get(this) or ()
        waiting += [(child, "the grant that it came from ended") for child in reversed(children)]
    return state


def ended_by(state: State, event: facts.Event) -> list[facts.ActKept]:
    """Return the journal's acts that lent the grants which *event* ends while they wait for their tools."""
    if not isinstance(event, facts.GrantRevoked | facts.ToolUnassigned | facts.AgentRetired):
        return []
    if isinstance(event, facts.GrantRevoked) and event.grant in state.grants:
        return []
    lent: list[Any] = list(state.waiting_grants(event.tool if isinstance(event, facts.ToolUnassigned) else None))
    if isinstance(event, facts.GrantRevoked):
        found = [one for one in lent if one.key == event.grant]
    else:
        found = [one for one in lent if one.act.grant.agent == event.agent]
    for above in found:  # grows meanwhile: with those that were lent on
        found += [one for one in lent if one.act.grant.parent == above.key and one not in found]
    return found


def _end_waiting(state: State, event: Any) -> State:
    """End the grants that wait for their tools, and are over when these come."""
    for one in ended_by(state, event) if len(state.kept) and not event.stored else ():
        act = facts.GrantRevoked(
            grant=one.key, by=event.by, reason=event.reason, id=event.id, time=event.time, process=event.process
        )
        state = _kept(state, replace(one, kind="ended", act=act, left=None, revision=state.revision + 1))
    return state


def _declared(state: State, event: facts.AgentDeclared) -> State:
    return replace(state, agents=state.agents.set(event.profile.name, event.profile))


def _retired(state: State, event: facts.AgentRetired) -> State:
    for access in list((state.accesses.get(event.agent) or {}).values()):
        for grant_id in access.grants:
            state = _end(state, grant_id, "the agent was retired")
    gone = AgentProfile(name=event.agent, declared=True, retired=True, place=state.profile(event.agent).place)
    return _end_waiting(replace(state, agents=state.agents.set(event.agent, gone)), event)


def _listed(state: State, event: facts.ToolListed) -> State:
    profile = state.profile(event.agent)
    if event.tool in profile.tools:
        return state
    return replace(state, agents=state.agents.set(event.agent, replace(profile, tools=(*profile.tools, event.tool))))


def _assigned(state: State, event: facts.ToolAssigned) -> State:
    grant = event.grant
    state = replace(
        state,
        grants=state.grants.set(grant.id, GrantRecord(grant, state.seq, stored=bool(event.id))),
        keys=state.keys.set(grant.key, grant.id) if grant.key is not None else state.keys,
        seq=state.seq + 1,
    )
    if grant.parent is not None:
        offspring = (*(state.children.get(grant.parent) or ()), grant.id)
        state = replace(state, children=state.children.set(grant.parent, offspring))
    access = state.access(grant.agent, grant.tool)
    kept = tuple(one for one in access.grants if state.grants[one].left != 0)  # what is spent is no way any more
    return _with_access(state, grant.agent, grant.tool, replace(access, grants=(*kept, grant.id)))


def _revoked(state: State, event: facts.GrantRevoked) -> State:
    if event.grant in state.grants:
        return _end(state, event.grant, f"revoked by {event.by!r}", event.stored)
    return _end_waiting(state, event)


def _spent(state: State, event: facts.GrantSpent) -> State:
    grants = state.grants
    for grant_id in event.grants:
        one = grants[grant_id]
        grants = grants.set(grant_id, replace(one, spent=one.spent + 1))
    return replace(state, grants=grants)


def _counted(state: State, event: facts.GrantsCounted) -> State:
    grants = state.grants
    for grant_id, left in event.left.items():
        one = grants.get(grant_id)
        if one is not None and one.grant.max_calls is not None:
            grants = grants.set(grant_id, replace(one, spent=one.grant.max_calls - left))
    return replace(state, grants=grants)


def _with_kept(state: State, tool: str, place: tuple[str, str, str], act: facts.ActKept | None) -> State:
    mine: Map[tuple[str, str, str], facts.ActKept] = state.kept.get(tool) or _EMPTY
    mine = mine.discard(place) if act is None else mine.set(place, act)
    return replace(state, kept=state.kept.set(tool, mine) if len(mine) else state.kept.discard(tool))


def _kept(state: State, event: facts.ActKept) -> State:
    place = (event.kind, event.key, event.source)
    return _with_kept(state, event.tool, place, None if event.act is None else event)


def _with_own(state: State, event: Any, kind: str) -> State:
    """Let an act of this process, which a journal keeps, take the place of the older one that was kept."""
    if not event.id or event.stored:
        return state
    source = origin(state.tools[event.tool].tool)
    kept = facts.ActKept(
        tool=event.tool, source=source, kind=kind, key=event.tool, act=event, revision=state.revision + 1
    )
    return _kept(state, kept)


def _unassigned(state: State, event: facts.ToolUnassigned) -> State:
    for grant_id in state.access(event.agent, event.tool).grants:
        state = _end(state, grant_id, f"removed by {event.by!r}", event.stored)
    access = state.access(event.agent, event.tool)
    state = _with_access(state, event.agent, event.tool, replace(access, removed=True, settled=event.stored))
    return _end_waiting(state, event)


def _blocked(state: State, event: facts.ToolBlocked) -> State:
    block = event.block
    access = state.access(block.agent, block.tool)
    others = tuple(one for one in access.blocks if one.by != block.by)
    return _with_access(state, block.agent, block.tool, replace(access, blocks=(*others, block)))


def _unblocked(state: State, event: facts.ToolUnblocked) -> State:
    access = state.access(event.agent, event.tool)
    kept = tuple(one for one in access.blocks if event.setter is not None and one.by != event.setter)
    return _with_access(state, event.agent, event.tool, replace(access, blocks=kept))


def _changed(state: State, name: str, **changes: Any) -> State:
    record = state.tools[name]
    return _with_record(state, replace(record, tool=record.tool.with_metadata(**changes)), record)


def _transferred(state: State, event: facts.OwnershipTransferred) -> State:
    record = state.tools[event.tool]
    past = (*record.past_owners, record.tool.metadata.owned_by)
    moved = replace(record, tool=record.tool.with_metadata(owned_by=event.to), past_owners=past)
    return _with_own(_with_record(state, moved, record), event, "owner")


def _shared(state: State, event: facts.ToolShared) -> State:
    return _with_own(_changed(state, event.tool, shared=True), event, "shared")


def _unshared(state: State, event: facts.ToolUnshared) -> State:
    return _with_own(_changed(state, event.tool, shared=False), event, "shared")


def _disabled(state: State, event: facts.ToolDisabled) -> State:
    off = Disabled(event.kind, event.name, event.by, event.reason)
    return replace(state, disabled={**state.disabled, (event.kind, event.name): off})


def _enabled(state: State, event: facts.ToolEnabled) -> State:
    key = (event.kind, event.name)
    return replace(state, disabled={other: off for other, off in state.disabled.items() if other != key})


def _configured(state: State, event: facts.ToolConfigured) -> State:
    record = state.tools[event.tool]
    configured = tuple({**dict(record.configured), **event.changes}.items())
    changed = replace(record, tool=record.tool.with_metadata(**event.changes), configured=configured)
    mine = (state.settings.get(event.tool) or _EMPTY).set(origin(record.tool), configured)
    state = replace(state, settings=state.settings.set(event.tool, mine))
    return _with_own(_with_record(state, changed, record), replace(event, changes=dict(configured)), "configured")


def _policy_added(state: State, event: facts.PolicyAdded) -> State:
    return replace(state, policies=(*state.policies, Policy(event.name, event.policy)))


def _policy_removed(state: State, event: facts.PolicyRemoved) -> State:
    return replace(state, policies=tuple(one for one in state.policies if one.name != event.name))


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
    facts.GrantsCounted: _counted,
    facts.ActKept: _kept,
    facts.RegistryCleared: _cleared,
}


def apply(state: State, event: facts.Event) -> State:
    """Return the state after *event*; pure."""
    return _APPLY[type(event)](state, event)


def apply_all(state: State, events: Sequence[facts.Event]) -> State:
    """Return the state after *events*, in order; new tools that follow each other are taken in together."""
    if len(events) == 1:
        return apply(state, events[0])
    fresh: dict[str, facts.ToolRegistered] = {}
    for event in events:
        if type(event) is facts.ToolRegistered and event.tool.name not in state.tools and event.tool.name not in fresh:
            fresh[event.tool.name] = event
            continue
        if fresh:
            state, fresh = _registered_all(state, fresh.values()), {}
        state = apply(state, event)
    return _registered_all(state, fresh.values()) if fresh else state


def replay(events: Iterable[facts.Event]) -> State:
    """Return the state that *events* lead to, from nothing."""
    state = State()
    for event in events:
        state = apply(state, event)
    return state
