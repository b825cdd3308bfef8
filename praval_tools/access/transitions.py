"""Applies events to an access state: one pure function per event, each of which returns the next state."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import dropwhile, filterfalse
from typing import Any, Final

from msgspec.structs import replace

from praval_tools.access import events, succession
from praval_tools.access.drift import take_snapshot
from praval_tools.access.permissions import Grant, get_terms_key, list_request_keys, takes_place_of
from praval_tools.access.records import (
    MIN_PRUNE_SIZE,
    AccessRecord,
    AgentProfile,
    DisabledRecord,
    GrantRecord,
    MetadataOverrides,
    Origin,
    ToolRecord,
)
from praval_tools.access.state import (
    EMPTY_MAP,
    AccessState,
    Label,
    RegisteredPolicy,
    StoredChangeKey,
    find_pending_grants_ended_by,
    get_block_key,
    get_disabling_key,
    get_tool_origin,
    list_changed_sources,
    list_same_key_grants,
    list_tool_labels,
    make_waiting_grant,
    set_or_discard,
    with_access,
    without_grant,
)
from praval_tools.names import FILE_LABEL_PREFIX, describe_author, get_collision_keys
from praval_tools.persistent_map import PersistentMap as Map
from praval_tools.tools.tool import AnyTool

# ── tools ────────────────────────────────────────────────────────────────────────────────────────


def _update_labels(
    state: AccessState, name: str, old: AnyTool | None, new: AnyTool | None, seq: int
) -> Map[Label, Map[str, int]]:
    labels = state.tools_by_label
    before, after = (list_tool_labels(old) if old else []), (list_tool_labels(new) if new else [])
    for label in before:
        if label not in after:
            remaining = labels[label].discard(name)
            labels = labels.set(label, remaining) if len(remaining) else labels.discard(label)
    for label in after:
        if label not in before:
            labels = labels.set(label, labels.get(label, EMPTY_MAP).set(name, seq))
    return labels


def _with_tool(state: AccessState, record: ToolRecord, tool: AnyTool) -> AccessState:
    """Let *tool* take the place of the one of its name; *record* says the rest of it."""
    labels = _update_labels(state, tool.name, state.tools[tool.name].tool, tool, record.seq)
    return replace(state, tools=state.tools.set(tool.name, replace(record, tool=tool)), tools_by_label=labels)


def _apply_tool_registered(state: AccessState, event: events.ToolRegistered) -> AccessState:
    tool = event.tool
    old = state.tools.get(tool.name)
    if old is None:
        return _add_tool(state, event)
    record = succession.make_successor(old, tool, redeclares=event.redeclares, is_other_version=event.is_other_version)
    if event.is_other_version:
        state = _with_waiting_grants(state, tool.name)
        record = replace(record, overrides=_find_overrides(state, tool))
    return _with_tool(state, record, record.tool.with_metadata(**dict(record.overrides)))


def _add_tool(state: AccessState, event: events.ToolRegistered) -> AccessState:
    """Add a tool whose name is new."""
    record, wire_keys = _make_record(state, event, state.next_seq), state.names_by_wire_key
    name = record.tool.name
    for key in get_collision_keys(name):
        wire_keys = wire_keys.set(key, name)
    return replace(
        state,
        tools=state.tools.set(name, record),
        names_by_wire_key=wire_keys,
        tools_by_label=_update_labels(state, name, None, record.tool, record.seq),
        next_seq=record.seq + 1,
    )


def _make_record(state: AccessState, event: events.ToolRegistered, seq: int) -> ToolRecord:
    record = succession.make_first_record(event.tool, seq, state.withdrawn.get(event.tool.name))
    if overrides := _find_overrides(state, event.tool):
        return replace(record, tool=record.tool.with_metadata(**dict(overrides)), overrides=overrides)
    return record


def _add_tools(state: AccessState, registrations: Iterable[events.ToolRegistered]) -> AccessState:
    """Add tools whose names are all new, a whole catalogue at once."""
    seq = state.next_seq
    records: list[tuple[str, ToolRecord]] = []
    wire_keys: list[tuple[str, str]] = []
    added: dict[Label, list[tuple[str, int]]] = {}
    for event in registrations:
        record = _make_record(state, event, seq)
        tool = record.tool
        records.append((tool.name, record))
        wire_keys += [(key, tool.name) for key in get_collision_keys(tool.name)]
        for label in list_tool_labels(tool):
            added.setdefault(label, []).append((tool.name, seq))
        seq += 1
    labels = state.tools_by_label
    return replace(
        state,
        tools=state.tools.update(records),
        names_by_wire_key=state.names_by_wire_key.update(wire_keys),
        next_seq=seq,
        tools_by_label=labels.update(
            [(label, labels.get(label, EMPTY_MAP).update(names)) for label, names in added.items()]
        ),
    )


def _find_overrides(state: AccessState, tool: AnyTool) -> MetadataOverrides:
    """Return what the operator set for an earlier tool of this name; of one from elsewhere a required approval."""
    by_origin = state.overrides_by_tool.get(tool.name)
    if by_origin is None:
        return ()
    overrides = dict(by_origin.get(get_tool_origin(tool)) or ())
    if any(("requires_approval", True) in others for others in by_origin.values()):
        overrides.setdefault("requires_approval", True)
    return tuple(overrides.items())


def _apply_tool_unregistered(state: AccessState, event: events.ToolUnregistered) -> AccessState:
    tool = state.tools[event.tool].tool
    accesses = [state.get_access(agent, event.tool) for agent in state.agents_by_tool.get(event.tool) or ()]
    state = _end_grants(state, [grant for access in accesses for grant in access.grants], "the tool was unregistered")
    origin = get_tool_origin(tool)
    state = _end_pending_grants(state, event)
    for key in state.stored_changes.get(event.tool) or ():
        is_grant_that_waited = key[0] in ("grant", "ended") and key[1] not in state.grants
        if key[2] == origin and not is_grant_that_waited:
            state = _with_stored_change(state, event.tool, key, None)
    return _without_tool(state, tool)


def _without_tool(state: AccessState, tool: AnyTool) -> AccessState:
    return replace(
        state,
        tools=state.tools.discard(tool.name),
        withdrawn=succession.without_own_record(state.withdrawn, tool),
        names_by_wire_key=reduce(Map.discard, get_collision_keys(tool.name), state.names_by_wire_key),
        tools_by_label=_update_labels(state, tool.name, tool, None, 0),
    )


def _apply_tool_withdrawn(state: AccessState, event: events.ToolWithdrawn) -> AccessState:
    record = state.tools[event.tool]
    is_kept = bool(record.changed_fields) and event.tool not in state.stored_changes  # a journal has it otherwise
    state = _without_tool(_with_waiting_grants(state, event.tool), record.tool)
    return replace(state, withdrawn=state.withdrawn.set(event.tool, record)) if is_kept else state


def _with_waiting_grants(state: AccessState, tool: str) -> AccessState:
    """Let the live grants of *tool*, which leaves or is replaced, wait in the journal; end those not in a journal."""
    agents = list(state.agents_by_tool.get(tool) or ())
    live = [grant_id for agent in agents for grant_id in state.get_access(agent, tool).grants]
    unstored = [grant_id for grant_id in live if not state.grants[grant_id].stored]
    state = _end_grants(state, unstored, "the tool was unregistered")
    line = {other: state.grants[other] for one in live for other in (one, *state.list_narrowed_grants(one))}
    waiting = sorted((held for held in line.values() if not held.end_reason), key=lambda held: held.seq)
    first = state.revision - len(waiting) + 1  # in the order in which they were made, and before what comes later
    for revision, held in enumerate(waiting, first):
        state = _apply_stored_change(without_grant(state, held.grant), make_waiting_grant(state, held, revision))
    for agent in agents:
        state = with_access(state, agent, tool, replace(state.get_access(agent, tool), grants=()))
    return state


def _apply_ownership_transferred(state: AccessState, event: events.OwnershipTransferred) -> AccessState:
    record = succession.with_change(state.tools[event.tool], "owned_by")
    tool = record.tool.with_metadata(owned_by=event.to)
    past_owners = (*record.past_owners, record.tool.metadata.owned_by)
    return _with_own_change(_with_tool(state, replace(record, past_owners=past_owners), tool), event, "owner")


def _apply_sharing(state: AccessState, event: events.ToolShared | events.ToolUnshared) -> AccessState:
    record = succession.with_change(state.tools[event.tool], "shared")
    tool = record.tool.with_metadata(shared=isinstance(event, events.ToolShared))
    return _with_own_change(_with_tool(state, record, tool), event, "shared")


def _apply_tool_configured(state: AccessState, event: events.ToolConfigured) -> AccessState:
    record = state.tools[event.tool]
    changes = {**dict(record.overrides), **event.changes}
    overrides = tuple(changes.items())
    by_origin = (state.overrides_by_tool.get(event.tool) or EMPTY_MAP).set(get_tool_origin(record.tool), overrides)
    state = replace(state, overrides_by_tool=state.overrides_by_tool.set(event.tool, by_origin))
    state = _with_tool(state, replace(record, overrides=overrides), record.tool.with_metadata(**event.changes))
    return _with_own_change(state, replace(event, changes=changes), "configured")


def _apply_tool_disabled(state: AccessState, event: events.ToolDisabled) -> AccessState:
    off, key = DisabledRecord(event.kind, event.name, event.by, event.reason, event.person), (event.kind, event.name)
    others = (other for other in state.disabled.get(key, ()) if other.by != event.by)
    state = replace(state, lifted=state.lifted.discard(get_disabling_key(*key, event.by)))
    return replace(state, disabled={**state.disabled, key: (*others, off)})


def _apply_tool_enabled(state: AccessState, event: events.ToolEnabled) -> AccessState:
    key, disabled = (event.kind, event.name), dict(state.disabled)
    records = disabled.pop(key, ())
    if event.setter is not None and (others := tuple(off for off in records if off.by != event.setter)):
        disabled[key] = others
    setters = [off.by for off in records] if event.setter is None else [event.setter]
    keys = [get_disabling_key(*key, by) for by in setters if by.startswith(FILE_LABEL_PREFIX)]
    return replace(_with_lifted(state, keys, event), disabled=disabled)


def _with_lifted(state: AccessState, keys: Iterable[tuple[str, ...]], event: events.StateEvent) -> AccessState:
    """Record that *event* lifted what files declare; where a file did, nobody else has any more."""
    for key in keys:
        is_of_file = event.by.startswith(FILE_LABEL_PREFIX)
        state = replace(state, lifted=state.lifted.discard(key) if is_of_file else state.lifted.set(key, None))
    return state


# ── agents, grants and blocks ────────────────────────────────────────────────────────────────────


def _end_grants(state: AccessState, grant_ids: Iterable[str], reason: str, origin: Origin = "here") -> AccessState:
    """End grants and all that came from them, however long the lines."""
    reasons = {other: reason for grant_id in grant_ids for other in (grant_id, *state.list_narrowed_grants(grant_id))}
    waiting, ended = list(reasons), dict[str, GrantRecord]()
    while waiting:
        current = waiting.pop()
        record = state.grants[current]
        if not record.end_reason and current not in ended:
            why = reasons.get(current, "the grant that it came from ended")
            ended[current] = replace(record, end_reason=why, end_origin=origin)
        waiting += state.child_grant_ids.get(current) or ()
    state = replace(state, grants=state.grants.update(list(ended.items())))
    for agent, tool in {(record.grant.agent, record.grant.tool): None for record in ended.values()}:
        access = state.get_access(agent, tool)
        live = tuple(grant_id for grant_id in access.grants if grant_id not in ended)
        state = with_access(state, agent, tool, replace(access, grants=live))
    return _with_ended_requests(state, ended.values()) if origin == "earlier" else state


def _with_ended_requests(state: AccessState, ended: Iterable[GrantRecord]) -> AccessState:
    """Record what was asked for with grants that ended before this process opened the journal."""
    for record in ended:
        agent, tool = record.grant.agent, record.grant.tool
        access = state.get_access(agent, tool)
        requests = access.ended_requests.update([(key, None) for key in list_request_keys(record.grant)])
        state = with_access(state, agent, tool, replace(access, ended_requests=requests))
    return state


def _with_grant(access: AccessRecord, grants: Map[str, GrantRecord], grant: Grant) -> AccessRecord:
    """
    Return *access* with *grant*, without grants that have ended.

    The oldest are looked at each time, and all of them once there are twice as many as were left the last time: so
    renewing a grant costs the same however often it was renewed.
    """
    ids, size = access.grants, access.prune_size
    counted_from = bisect_left(ids, True, key=lambda grant_id: grants[grant_id].grant.max_calls is not None)
    drop: Any = dropwhile if len(ids) < size else filterfalse
    uncounted, counted = (
        tuple(drop(lambda grant_id: grants[grant_id].has_ended(grant.made), part))
        for part in (ids[:counted_from], ids[counted_from:])
    )
    if len(ids) >= size:
        size = max(MIN_PRUNE_SIZE, 2 * (len(uncounted) + len(counted)))
    added = (*uncounted, grant.id, *counted) if grant.max_calls is None else (*uncounted, *counted, grant.id)
    return replace(access, grants=added, prune_size=size)


def _end_pending_grants(state: AccessState, event: events.StateEvent) -> AccessState:
    """Record that *event* ends grants that wait for their tools, so that they are over when these come."""
    for stored in find_pending_grants_ended_by(state, event) if len(state.stored_changes) and not event.stored else ():
        revoked = events.make_revocation(stored.key, event)
        state = _apply_stored_change(
            state, replace(stored, kind="ended", change=revoked, left=None, revision=state.revision + 1)
        )
    return state


def _apply_agent_declared(state: AccessState, event: events.AgentDeclared) -> AccessState:
    return replace(state, profiles=state.profiles.set(event.profile.name, event.profile))


def _apply_agent_retired(state: AccessState, event: events.AgentRetired) -> AccessState:
    accesses = (state.access_by_agent.get(event.agent) or EMPTY_MAP).values()
    state = _end_grants(state, [grant for access in accesses for grant in access.grants], "the agent was retired")
    place = state.get_profile(event.agent).place
    profile = AgentProfile(name=event.agent, declared=True, retired=True, place=place)
    return _end_pending_grants(replace(state, profiles=state.profiles.set(event.agent, profile)), event)


def _apply_tool_listed(state: AccessState, event: events.ToolListed) -> AccessState:
    profile = state.get_profile(event.agent)
    if event.tool in profile.tools:
        return state
    profile = replace(profile, tools=(*profile.tools, event.tool))
    return replace(state, profiles=state.profiles.set(event.agent, profile))


def _apply_tool_assigned(state: AccessState, event: events.ToolAssigned) -> AccessState:
    grant, by_key, children = event.grant, state.grant_ids_by_key, state.child_grant_ids
    terms = get_terms_key(grant)
    identical = [other for other in state.grant_ids_by_terms.get(terms) or () if not state.grants[other].end_reason]
    if grant.key is not None:
        by_key = by_key.set((grant.by, grant.key), grant.id)
    if grant.parent is not None:
        children = children.set(grant.parent, (*(children.get(grant.parent) or ()), grant.id))
    record = GrantRecord(grant, state.next_seq, stored=bool(event.id))
    access = state.get_access(grant.agent, grant.tool)
    parent = None if grant.parent is None else state.grants.get(grant.parent)
    grants, seq = state.grants, state.next_seq + 1
    if parent is not None and takes_place_of(grant, parent.grant):
        record = replace(record, spent_calls=parent.spent_calls)
        grants = grants.set(parent.grant.id, replace(parent, narrowed_by=grant.id))
        access = replace(access, grants=tuple(other for other in access.grants if other != grant.parent))
    grants = grants.set(grant.id, record)
    by_terms = state.grant_ids_by_terms.set(terms, (*identical, grant.id))
    state = replace(
        state, grants=grants, grant_ids_by_key=by_key, grant_ids_by_terms=by_terms, child_grant_ids=children,
        next_seq=seq,
    )  # fmt: skip
    return with_access(state, grant.agent, grant.tool, _with_grant(access, grants, grant))


def _apply_grant_redeclared(state: AccessState, event: events.GrantRedeclared) -> AccessState:
    keys, key = state.redeclared_keys, (event.by, event.key)
    return replace(state, redeclared_keys=keys.set(key, event) if event.declared else keys.discard(key))


def _apply_grant_revoked(state: AccessState, event: events.GrantRevoked) -> AccessState:
    state = _end_pending_grants(state, event)
    if event.grant not in state.grants:
        return state
    ended = [event.grant] if event.stored else list_same_key_grants(state, event.grant)  # each is stored by itself
    return _end_grants(state, ended, f"revoked by {describe_author(event.by, event.person)}", event.origin)


def _apply_grant_spent(state: AccessState, event: events.GrantSpent) -> AccessState:
    grants = state.grants
    for grant_id in event.grants:
        record = grants[grant_id]
        grants = grants.set(grant_id, replace(record, spent_calls=record.spent_calls + 1))
    return replace(state, grants=grants)


def _apply_grants_counted(state: AccessState, event: events.GrantsCounted) -> AccessState:
    grants = state.grants
    for grant_id, left in event.left.items():
        record = grants.get(grant_id)
        if record is not None and record.grant.max_calls is not None:
            grants = grants.set(grant_id, replace(record, spent_calls=record.grant.max_calls - left))
    return replace(state, grants=grants)


def _apply_tool_unassigned(state: AccessState, event: events.ToolUnassigned) -> AccessState:
    grant_ids = state.get_access(event.agent, event.tool).grants
    state = _end_grants(state, grant_ids, f"removed by {describe_author(event.by, event.person)}", event.origin)
    access = replace(state.get_access(event.agent, event.tool), removal=event.origin)
    return _end_pending_grants(with_access(state, event.agent, event.tool, access), event)


def _apply_tool_blocked(state: AccessState, event: events.ToolBlocked) -> AccessState:
    new = event.block
    access = state.get_access(new.agent, new.tool)
    others = (block for block in access.blocks if block.by != new.by)
    state = replace(state, lifted=state.lifted.discard(get_block_key(new.tool, new.agent, new.by)))
    return with_access(state, new.agent, new.tool, replace(access, blocks=(*others, new)))


def _apply_tool_unblocked(state: AccessState, event: events.ToolUnblocked) -> AccessState:
    access = state.get_access(event.agent, event.tool)
    others = tuple(block for block in access.blocks if event.setter is not None and block.by != event.setter)
    setters = [block.by for block in access.blocks] if event.setter is None else [event.setter]
    keys = [get_block_key(event.tool, event.agent, by) for by in setters if by.startswith(FILE_LABEL_PREFIX)]
    state = _with_lifted(state, keys, event)
    return with_access(state, event.agent, event.tool, replace(access, blocks=others))


# ── changes that the journal holds ───────────────────────────────────────────────────────────────


def _with_stored_change(
    state: AccessState, tool: str, key: StoredChangeKey, stored: events.StoredChange | None
) -> AccessState:
    changes: Map[StoredChangeKey, events.StoredChange] = state.stored_changes.get(tool) or EMPTY_MAP
    changes = changes.discard(key) if stored is None else changes.set(key, stored)
    return replace(state, stored_changes=set_or_discard(state.stored_changes, tool, changes))


def _apply_stored_change(state: AccessState, event: events.StoredChange) -> AccessState:
    key = (event.kind, event.key, event.source)
    if event.change is None:
        state = replace(state, tools=succession.without_ended_change(state.tools, event))
    return _with_stored_change(state, event.tool, key, None if event.change is None else event)


def _with_own_change(state: AccessState, event: events.ToolChange, kind: str) -> AccessState:
    """Let a change that this process stored take the place of the older one of its kind."""
    if not event.id or event.stored:
        return state
    tool, revision, record = event.tool, state.revision + 1, state.tools[event.tool]
    if isinstance(event, events.ToolShared):
        event = replace(event, snapshot=take_snapshot(record))
    for source in list_changed_sources(state, event):
        stored = events.StoredChange(tool=tool, source=source, kind=kind, key=tool, change=event, revision=revision)
        state = _apply_stored_change(state, stored)
    return state


# ── policies, and everything ─────────────────────────────────────────────────────────────────────


def _apply_policy_added(state: AccessState, event: events.PolicyAdded) -> AccessState:
    return replace(state, policies=(*state.policies, RegisteredPolicy(event.name, event.policy, event.takes_principal)))


def _apply_policy_removed(state: AccessState, event: events.PolicyRemoved) -> AccessState:
    return replace(state, policies=tuple(policy for policy in state.policies if policy.name != event.name))


def _apply_registry_frozen(state: AccessState, event: events.RegistryFrozen) -> AccessState:
    return replace(state, frozen=True)


def _apply_registry_cleared(state: AccessState, event: events.RegistryCleared) -> AccessState:
    return AccessState(next_seq=state.next_seq)


_HANDLERS: Final[Mapping[type, Callable[[AccessState, Any], AccessState]]] = {
    events.ToolRegistered: _apply_tool_registered,
    events.ToolUnregistered: _apply_tool_unregistered,
    events.ToolWithdrawn: _apply_tool_withdrawn,
    events.AgentDeclared: _apply_agent_declared,
    events.AgentRetired: _apply_agent_retired,
    events.ToolListed: _apply_tool_listed,
    events.ToolAssigned: _apply_tool_assigned,
    events.GrantRedeclared: _apply_grant_redeclared,
    events.GrantRevoked: _apply_grant_revoked,
    events.GrantSpent: _apply_grant_spent,
    events.ToolUnassigned: _apply_tool_unassigned,
    events.ToolBlocked: _apply_tool_blocked,
    events.ToolUnblocked: _apply_tool_unblocked,
    events.OwnershipTransferred: _apply_ownership_transferred,
    events.ToolShared: _apply_sharing,
    events.ToolUnshared: _apply_sharing,
    events.ToolDisabled: _apply_tool_disabled,
    events.ToolEnabled: _apply_tool_enabled,
    events.ToolConfigured: _apply_tool_configured,
    events.PolicyAdded: _apply_policy_added,
    events.PolicyRemoved: _apply_policy_removed,
    events.GrantsCounted: _apply_grants_counted,
    events.StoredChange: _apply_stored_change,
    events.RecordsAdded: lambda state, _: state,
    events.RegistryFrozen: _apply_registry_frozen,
    events.RegistryCleared: _apply_registry_cleared,
}


def apply_event(state: AccessState, event: events.AnyStateEvent) -> AccessState:
    """Return the state after *event*; pure."""
    return _HANDLERS[type(event)](state, event)


def apply_events(state: AccessState, changes: Sequence[events.AnyStateEvent]) -> AccessState:
    """Return the state after *changes*, in order; new tools that follow each other are added together."""
    if len(changes) == 1:
        return apply_event(state, changes[0])
    added: dict[str, events.ToolRegistered] = {}
    for event in changes:
        if type(event) is events.ToolRegistered and event.tool.name not in state.tools and event.tool.name not in added:
            added[event.tool.name] = event
            continue
        if added:
            state, added = _add_tools(state, added.values()), {}
        state = apply_event(state, event)
    return _add_tools(state, added.values()) if added else state


def rebuild_state(changes: Iterable[events.AnyStateEvent]) -> AccessState:
    """Return the state that *changes* lead to, from nothing."""
    return reduce(apply_event, changes, AccessState())
