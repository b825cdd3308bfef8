"""The whole of what a registry knows, immutable; `apply` makes the next one from an event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from praval_tools.access import events as facts
from praval_tools.access.records import AgentProfile
from praval_tools.access.rules import NO_ACCESS, AccessRecord, DisabledRecord, GrantRecord, ToolRecord
from praval_tools.names import MAX_NAME_LENGTH, fold_name, get_collision_keys, to_wire_name
from praval_tools.persistent_map import PersistentMap as Map
from praval_tools.tools.tool import Tool

_EMPTY_MAP: Final[Map[Any, Any]] = Map()
MetadataOverrides = tuple[tuple[str, Any], ...]
"""Fields of a tool's metadata that the operator overrode, with their values."""


class RegisteredPolicy(msgspec.Struct, frozen=True):
    """A policy under the name in which it acts."""

    name: str
    check: Callable[..., Any]


class AccessState(msgspec.Struct, frozen=True):
    """Every record behind one pointer; only `apply` makes another."""

    tools: Map[str, ToolRecord] = _EMPTY_MAP
    names_by_wire_key: Map[str, str] = _EMPTY_MAP
    tools_by_label: Map[tuple[str, str | None], Map[str, int]] = _EMPTY_MAP
    profiles: Map[str, AgentProfile] = _EMPTY_MAP
    access_by_agent: Map[str, Map[str, AccessRecord]] = _EMPTY_MAP
    agents_by_tool: Map[str, Map[str, int]] = _EMPTY_MAP
    grants: Map[str, GrantRecord] = _EMPTY_MAP
    child_grant_ids: Map[str, tuple[str, ...]] = _EMPTY_MAP
    grant_ids_by_key: Map[str, str] = _EMPTY_MAP
    overrides_by_tool: Map[str, Map[str, MetadataOverrides]] = _EMPTY_MAP
    disabled: Mapping[tuple[str, str], DisabledRecord] = msgspec.field(default_factory=dict)
    policies: tuple[RegisteredPolicy, ...] = ()
    stored_changes: Map[str, Map[tuple[str, str, str], facts.ActKept]] = _EMPTY_MAP
    revision: int = 0
    next_seq: int = 0

    def resolve_tool_name(self, name: str) -> str:
        """Return the name of the tool that *name* means: its own, or the one under which it travels to a provider."""
        if name in self.tools or len(name) > MAX_NAME_LENGTH:
            return name
        holder = self.names_by_wire_key.get(fold_name(name))
        return holder if holder is not None and to_wire_name(holder) == name else name

    # ── what the rules read ──────────────────────────────────────────────────────────────────────

    def find_tool_record(self, tool: str) -> ToolRecord | None:
        """Return the tool's record."""
        return self.tools.get(tool)

    def get_profile(self, agent: str) -> AgentProfile:
        """Return the agent's profile, the default one where it is not declared."""
        return self.profiles.get(agent) or AgentProfile(name=agent)

    def get_access(self, agent: str, tool: str) -> AccessRecord:
        """Return what stands between the two."""
        mine = self.access_by_agent.get(agent)
        return NO_ACCESS if mine is None else mine.get(tool) or NO_ACCESS

    def find_disabling(self, tool: Tool[..., Any]) -> DisabledRecord | None:
        """Return what switches *tool* off."""
        if not self.disabled:
            return None
        for label in (("tool", tool.name), *_list_labels(tool)):
            if (off := self.disabled.get(label)) is not None:  # type: ignore[arg-type]
                return off
        return None

    def find_grant(self, grant_id: str) -> GrantRecord | None:
        """Return a grant."""
        return self.grants.get(grant_id)

    def has_stored_grant(self, grant_id: str) -> bool:
        """Tell whether the journal holds the act that lent a grant."""
        return any(
            kind == "grant" and key == grant_id for mine in self.stored_changes.values() for kind, key, _ in mine
        )

    def iter_pending_grants(self, tool: str | None) -> Iterator[facts.ActKept]:
        """Yield the journal's acts that lent a grant which waits for its tool: *tool*, or any."""
        for mine in self.stored_changes.values() if tool is None else (self.stored_changes.get(tool) or _EMPTY_MAP,):
            ended = {one.key for one in mine.values() if one.kind == "ended" and one.act is not None}
            for one in mine.values():
                if one.kind == "grant" and one.act is not None and one.key not in self.grants and one.key not in ended:
                    yield one

    def get_tools_by_label(self, kind: str, value: str | None) -> Mapping[str, int]:
        """Return the names of the tools that carry a label, with their places."""
        return self.tools_by_label.get((kind, value)) or _EMPTY_MAP

    def find_candidate_tools(self, agent: str) -> list[str]:
        """Return the tools that any rule could give *agent*, in registration order."""
        profile = self.get_profile(agent)
        names: set[str] = set(profile.tools)
        if profile.auto_discover_tools:
            names.update(self.get_tools_by_label("owner", agent), self.get_tools_by_label("shared", ""))
        for category in profile.tool_categories:
            names.update(self.get_tools_by_label("category", category))
        names.update(self.access_by_agent.get(agent) or ())
        return sort_by_registration(self, names)


def get_tool_origin(tool: Tool[..., Any]) -> str:
    """Return what an act on *tool* is bound to: the distribution that ships it, else its module and name."""
    definition, source = tool.implementation, tool.metadata.source
    return (
        source.distribution
        if source and source.distribution
        else f"{definition.site.import_name}:{definition.qualname}"
    )


def sort_by_registration(state: AccessState, names: Iterable[str]) -> list[str]:
    """Return those of *names* that are registered, in registration order."""
    found = ((record.seq, name) for name in names if (record := state.tools.get(name)) is not None)
    return [name for _, name in sorted(found)]


def _list_labels(tool: Tool[..., Any]) -> list[tuple[str, str | None]]:
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


def _update_labels(
    state: AccessState, name: str, old: Tool[..., Any] | None, new: Tool[..., Any] | None, seq: int
) -> Any:
    labels = state.tools_by_label
    before, after = (_list_labels(old) if old else []), (_list_labels(new) if new else [])
    for label in before:
        if label not in after:
            kept = labels[label].discard(name)
            labels = labels.set(label, kept) if len(kept) else labels.discard(label)
    fresh = [label for label in after if label not in before]
    return labels.update([(label, (labels.get(label) or _EMPTY_MAP).set(name, seq)) for label in fresh])


def _with_record(state: AccessState, record: ToolRecord, old: ToolRecord | None) -> AccessState:
    name = record.tool.name
    return replace(
        state,
        tools=state.tools.set(name, record),
        tools_by_label=_update_labels(state, name, old.tool if old else None, record.tool, record.seq),
    )


def _with_access(state: AccessState, agent: str, tool: str, access: AccessRecord) -> AccessState:
    mine: Map[str, AccessRecord] = state.access_by_agent.get(agent) or _EMPTY_MAP
    mine = mine.set(tool, access) if access != NO_ACCESS else mine.discard(tool)
    held: Map[str, int] = state.agents_by_tool.get(tool) or _EMPTY_MAP
    held = held.set(agent, 0) if access != NO_ACCESS else held.discard(agent)
    return replace(
        state,
        access_by_agent=state.access_by_agent.set(agent, mine) if len(mine) else state.access_by_agent.discard(agent),
        agents_by_tool=state.agents_by_tool.set(tool, held) if len(held) else state.agents_by_tool.discard(tool),
    )


def _apply_tool_registered(state: AccessState, event: facts.ToolRegistered) -> AccessState:
    tool = event.tool
    old = state.tools.get(tool.name)
    if old is None:
        return _add_tool(state, event)
    was = old.tool.metadata
    kept = {"owned_by": was.owned_by, "shared": was.shared, "private": was.private, **dict(old.overrides)}
    fresh, before = tool.with_metadata(**kept), old.tool.implementation
    replaced = None if before is tool.implementation else before
    return _with_record(
        state, replace(old, tool=fresh, previous_implementation=replaced, declared_metadata=tool.metadata), old
    )


def _add_tool(state: AccessState, event: facts.ToolRegistered) -> AccessState:
    """Take in a tool of a name that no other has; what `_registered_all` does, without lists of one."""
    tool, seq = event.tool, state.next_seq
    if configured := _find_overrides(state, tool):
        tool = tool.with_metadata(**dict(configured))
    name, folded, labels = tool.name, state.names_by_wire_key, state.tools_by_label
    for key in get_collision_keys(name):
        folded = folded.set(key, name)
    for label in _list_labels(tool):
        labels = labels.set(label, labels.get(label, _EMPTY_MAP).set(name, seq))
    record = ToolRecord(tool, seq, configured, declared_metadata=event.tool.metadata)
    return replace(
        state, tools=state.tools.set(name, record), names_by_wire_key=folded, tools_by_label=labels, next_seq=seq + 1
    )


def _add_tools(state: AccessState, events: Iterable[facts.ToolRegistered]) -> AccessState:
    """Take in tools of which none has the name of another; a whole catalogue as one."""
    seq = state.next_seq
    records: list[tuple[str, ToolRecord]] = []
    folded: list[tuple[str, str]] = []
    labels: dict[Any, list[tuple[str, int]]] = {}
    for event in events:
        tool = event.tool
        if configured := _find_overrides(state, tool):
            tool = tool.with_metadata(**dict(configured))
        records.append((tool.name, ToolRecord(tool, seq, configured, declared_metadata=event.tool.metadata)))
        folded += [(key, tool.name) for key in get_collision_keys(tool.name)]
        for label in _list_labels(tool):
            labels.setdefault(label, []).append((tool.name, seq))
        seq += 1
    known = state.tools_by_label
    return replace(
        state,
        tools=state.tools.update(records),
        names_by_wire_key=state.names_by_wire_key.update(folded),
        next_seq=seq,
        tools_by_label=known.update(
            [(label, known.get(label, _EMPTY_MAP).update(new)) for label, new in labels.items()]
        ),
    )


def _find_overrides(state: AccessState, tool: Tool[..., Any]) -> MetadataOverrides:
    """Return what the operator set for an earlier tool of this name; of one from elsewhere an approval alone."""
    found = state.overrides_by_tool.get(tool.name)
    if found is None:
        return ()
    mine = dict(found.get(get_tool_origin(tool)) or ())
    if any(("requires_approval", True) in one for one in found.values()):
        mine.setdefault("requires_approval", True)
    return tuple(mine.items())


def _apply_tool_unregistered(state: AccessState, event: facts.ToolUnregistered) -> AccessState:
    record = state.tools[event.tool]
    for agent in sorted(state.agents_by_tool.get(event.tool) or ()):
        for grant_id in state.get_access(agent, event.tool).grants:
            state = _end_grant(state, grant_id, "the tool was unregistered")
    here = get_tool_origin(record.tool)
    for kind, key, source in state.stored_changes.get(event.tool) or ():
        if source == here:
            state = _with_stored_change(state, event.tool, (kind, key, source), None)
    return replace(
        state,
        tools=state.tools.discard(event.tool),
        names_by_wire_key=reduce(Map.discard, get_collision_keys(event.tool), state.names_by_wire_key),
        tools_by_label=_update_labels(state, event.tool, record.tool, None, 0),
    )


def _end_grant(state: AccessState, grant_id: str, why: str, by_stored_event: bool = False) -> AccessState:
    """End a grant and all that came from it, however long the line."""
    waiting = [(grant_id, why)]
    while waiting:
        this, why = waiting.pop()
        one = state.grants[this]
        if not one.end_reason:
            state = replace(state, grants=state.grants.set(this, replace(one, end_reason=why)))
            access = state.get_access(one.grant.agent, one.grant.tool)
            left = tuple(other for other in access.grants if other != this)
            lost = (*access.stored_ended_grants, this) if by_stored_event else access.stored_ended_grants
            access = replace(access, grants=left, stored_ended_grants=lost)
            state = _with_access(state, one.grant.agent, one.grant.tool, access)
        children = state.child_grant_ids.get(this) or ()
        waiting += [(child, "the grant that it came from ended") for child in reversed(children)]
    return state


def find_pending_grants_ended_by(state: AccessState, event: facts.AnyStateEvent) -> list[facts.ActKept]:
    """Return the journal's acts that lent the grants which *event* ends while they wait for their tools."""
    if not isinstance(event, facts.GrantRevoked | facts.ToolUnassigned | facts.AgentRetired):
        return []
    if isinstance(event, facts.GrantRevoked) and event.grant in state.grants:
        return []
    lent: list[Any] = list(state.iter_pending_grants(event.tool if isinstance(event, facts.ToolUnassigned) else None))
    if isinstance(event, facts.GrantRevoked):
        found = [one for one in lent if one.key == event.grant]
    else:
        found = [one for one in lent if one.act.grant.agent == event.agent]
    for above in found:  # grows meanwhile: with those that were lent on
        found += [one for one in lent if one.act.grant.parent == above.key and one not in found]
    return found


def _end_pending_grants(state: AccessState, event: Any) -> AccessState:
    """End the grants that wait for their tools, and are over when these come."""
    for one in find_pending_grants_ended_by(state, event) if len(state.stored_changes) and not event.stored else ():
        act = facts.GrantRevoked(
            grant=one.key, by=event.by, reason=event.reason, id=event.id, time=event.time, process=event.process
        )
        state = _apply_stored_change(state, replace(one, kind="ended", act=act, left=None, revision=state.revision + 1))
    return state


def _apply_agent_declared(state: AccessState, event: facts.AgentDeclared) -> AccessState:
    return replace(state, profiles=state.profiles.set(event.profile.name, event.profile))


def _apply_agent_retired(state: AccessState, event: facts.AgentRetired) -> AccessState:
    for access in list((state.access_by_agent.get(event.agent) or {}).values()):
        for grant_id in access.grants:
            state = _end_grant(state, grant_id, "the agent was retired")
    gone = AgentProfile(name=event.agent, declared=True, retired=True, place=state.get_profile(event.agent).place)
    return _end_pending_grants(replace(state, profiles=state.profiles.set(event.agent, gone)), event)


def _apply_tool_listed(state: AccessState, event: facts.ToolListed) -> AccessState:
    profile = state.get_profile(event.agent)
    if event.tool in profile.tools:
        return state
    return replace(
        state, profiles=state.profiles.set(event.agent, replace(profile, tools=(*profile.tools, event.tool)))
    )


def _apply_tool_assigned(state: AccessState, event: facts.ToolAssigned) -> AccessState:
    grant = event.grant
    state = replace(
        state,
        grants=state.grants.set(grant.id, GrantRecord(grant, state.next_seq, stored=bool(event.id))),
        grant_ids_by_key=state.grant_ids_by_key.set(grant.key, grant.id)
        if grant.key is not None
        else state.grant_ids_by_key,
        next_seq=state.next_seq + 1,
    )
    if grant.parent is not None:
        offspring = (*(state.child_grant_ids.get(grant.parent) or ()), grant.id)
        state = replace(state, child_grant_ids=state.child_grant_ids.set(grant.parent, offspring))
    access = state.get_access(grant.agent, grant.tool)
    kept = tuple(one for one in access.grants if state.grants[one].calls_left != 0)  # what is spent is no way any more
    return _with_access(state, grant.agent, grant.tool, replace(access, grants=(*kept, grant.id)))


def _apply_grant_revoked(state: AccessState, event: facts.GrantRevoked) -> AccessState:
    if event.grant in state.grants:
        return _end_grant(state, event.grant, f"revoked by {event.by!r}", event.stored)
    return _end_pending_grants(state, event)


def _apply_grant_spent(state: AccessState, event: facts.GrantSpent) -> AccessState:
    grants = state.grants
    for grant_id in event.grants:
        one = grants[grant_id]
        grants = grants.set(grant_id, replace(one, spent_calls=one.spent_calls + 1))
    return replace(state, grants=grants)


def _apply_grants_counted(state: AccessState, event: facts.GrantsCounted) -> AccessState:
    grants = state.grants
    for grant_id, left in event.left.items():
        one = grants.get(grant_id)
        if one is not None and one.grant.max_calls is not None:
            grants = grants.set(grant_id, replace(one, spent_calls=one.grant.max_calls - left))
    return replace(state, grants=grants)


def _with_stored_change(
    state: AccessState, tool: str, place: tuple[str, str, str], act: facts.ActKept | None
) -> AccessState:
    mine: Map[tuple[str, str, str], facts.ActKept] = state.stored_changes.get(tool) or _EMPTY_MAP
    mine = mine.discard(place) if act is None else mine.set(place, act)
    return replace(
        state, stored_changes=state.stored_changes.set(tool, mine) if len(mine) else state.stored_changes.discard(tool)
    )


def _apply_stored_change(state: AccessState, event: facts.ActKept) -> AccessState:
    place = (event.kind, event.key, event.source)
    return _with_stored_change(state, event.tool, place, None if event.act is None else event)


def _with_own_stored_change(state: AccessState, event: Any, kind: str) -> AccessState:
    """Let an act of this process, which a journal keeps, take the place of the older one that was kept."""
    if not event.id or event.stored:
        return state
    source = get_tool_origin(state.tools[event.tool].tool)
    kept = facts.ActKept(
        tool=event.tool, source=source, kind=kind, key=event.tool, act=event, revision=state.revision + 1
    )
    return _apply_stored_change(state, kept)


def _apply_tool_unassigned(state: AccessState, event: facts.ToolUnassigned) -> AccessState:
    for grant_id in state.get_access(event.agent, event.tool).grants:
        state = _end_grant(state, grant_id, f"removed by {event.by!r}", event.stored)
    access = state.get_access(event.agent, event.tool)
    state = _with_access(state, event.agent, event.tool, replace(access, removed=True, removal_stored=event.stored))
    return _end_pending_grants(state, event)


def _apply_tool_blocked(state: AccessState, event: facts.ToolBlocked) -> AccessState:
    block = event.block
    access = state.get_access(block.agent, block.tool)
    others = tuple(one for one in access.blocks if one.by != block.by)
    return _with_access(state, block.agent, block.tool, replace(access, blocks=(*others, block)))


def _apply_tool_unblocked(state: AccessState, event: facts.ToolUnblocked) -> AccessState:
    access = state.get_access(event.agent, event.tool)
    kept = tuple(one for one in access.blocks if event.setter is not None and one.by != event.setter)
    return _with_access(state, event.agent, event.tool, replace(access, blocks=kept))


def _with_metadata(state: AccessState, name: str, **changes: Any) -> AccessState:
    record = state.tools[name]
    return _with_record(state, replace(record, tool=record.tool.with_metadata(**changes)), record)


def _apply_ownership_transferred(state: AccessState, event: facts.OwnershipTransferred) -> AccessState:
    record = state.tools[event.tool]
    past = (*record.past_owners, record.tool.metadata.owned_by)
    moved = replace(record, tool=record.tool.with_metadata(owned_by=event.to), past_owners=past)
    return _with_own_stored_change(_with_record(state, moved, record), event, "owner")


def _apply_tool_shared(state: AccessState, event: facts.ToolShared) -> AccessState:
    return _with_own_stored_change(_with_metadata(state, event.tool, shared=True), event, "shared")


def _apply_tool_unshared(state: AccessState, event: facts.ToolUnshared) -> AccessState:
    return _with_own_stored_change(_with_metadata(state, event.tool, shared=False), event, "shared")


def _apply_tool_disabled(state: AccessState, event: facts.ToolDisabled) -> AccessState:
    off = DisabledRecord(event.kind, event.name, event.by, event.reason)
    return replace(state, disabled={**state.disabled, (event.kind, event.name): off})


def _apply_tool_enabled(state: AccessState, event: facts.ToolEnabled) -> AccessState:
    key = (event.kind, event.name)
    return replace(state, disabled={other: off for other, off in state.disabled.items() if other != key})


def _apply_tool_configured(state: AccessState, event: facts.ToolConfigured) -> AccessState:
    record = state.tools[event.tool]
    configured = tuple({**dict(record.overrides), **event.changes}.items())
    changed = replace(record, tool=record.tool.with_metadata(**event.changes), overrides=configured)
    mine = (state.overrides_by_tool.get(event.tool) or _EMPTY_MAP).set(get_tool_origin(record.tool), configured)
    state = replace(state, overrides_by_tool=state.overrides_by_tool.set(event.tool, mine))
    return _with_own_stored_change(
        _with_record(state, changed, record), replace(event, changes=dict(configured)), "configured"
    )


def _apply_policy_added(state: AccessState, event: facts.PolicyAdded) -> AccessState:
    return replace(state, policies=(*state.policies, RegisteredPolicy(event.name, event.policy)))


def _apply_policy_removed(state: AccessState, event: facts.PolicyRemoved) -> AccessState:
    return replace(state, policies=tuple(one for one in state.policies if one.name != event.name))


def _apply_registry_cleared(state: AccessState, event: facts.RegistryCleared) -> AccessState:
    return AccessState(next_seq=state.next_seq)


_HANDLERS: Final[Mapping[type, Callable[[AccessState, Any], AccessState]]] = {
    facts.ToolRegistered: _apply_tool_registered,
    facts.ToolUnregistered: _apply_tool_unregistered,
    facts.AgentDeclared: _apply_agent_declared,
    facts.AgentRetired: _apply_agent_retired,
    facts.ToolListed: _apply_tool_listed,
    facts.ToolAssigned: _apply_tool_assigned,
    facts.GrantRevoked: _apply_grant_revoked,
    facts.GrantSpent: _apply_grant_spent,
    facts.ToolUnassigned: _apply_tool_unassigned,
    facts.ToolBlocked: _apply_tool_blocked,
    facts.ToolUnblocked: _apply_tool_unblocked,
    facts.OwnershipTransferred: _apply_ownership_transferred,
    facts.ToolShared: _apply_tool_shared,
    facts.ToolUnshared: _apply_tool_unshared,
    facts.ToolDisabled: _apply_tool_disabled,
    facts.ToolEnabled: _apply_tool_enabled,
    facts.ToolConfigured: _apply_tool_configured,
    facts.PolicyAdded: _apply_policy_added,
    facts.PolicyRemoved: _apply_policy_removed,
    facts.GrantsCounted: _apply_grants_counted,
    facts.ActKept: _apply_stored_change,
    facts.RegistryCleared: _apply_registry_cleared,
}


def apply_event(state: AccessState, event: facts.AnyStateEvent) -> AccessState:
    """Return the state after *event*; pure."""
    return _HANDLERS[type(event)](state, event)


def apply_events(state: AccessState, events: Sequence[facts.AnyStateEvent]) -> AccessState:
    """Return the state after *events*, in order; new tools that follow each other are taken in together."""
    if len(events) == 1:
        return apply_event(state, events[0])
    fresh: dict[str, facts.ToolRegistered] = {}
    for event in events:
        if type(event) is facts.ToolRegistered and event.tool.name not in state.tools and event.tool.name not in fresh:
            fresh[event.tool.name] = event
            continue
        if fresh:
            state, fresh = _add_tools(state, fresh.values()), {}
        state = apply_event(state, event)
    return _add_tools(state, fresh.values()) if fresh else state


def rebuild_state(events: Iterable[facts.AnyStateEvent]) -> AccessState:
    """Return the state that *events* lead to, from nothing."""
    state = AccessState()
    for event in events:
        state = apply_event(state, event)
    return state
