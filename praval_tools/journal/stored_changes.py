"""Converts changes of access to rows of the store that hold at the next start, and rows to changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from praval_tools.access import events
from praval_tools.access.drift import take_snapshot
from praval_tools.access.permissions import Grant
from praval_tools.access.state import (
    AccessState,
    find_pending_grants_ended_by,
    find_tool_origin,
    get_block_key,
    get_disabling_key,
    is_declared_origin,
    list_changed_sources,
    list_same_key_grants,
)
from praval_tools.journal.codec import from_json, to_json
from praval_tools.journal.events import StoredAccessEvent
from praval_tools.journal.storage.protocol import StateRow, StateView, Uses
from praval_tools.names import OPERATOR, get_qualified_name, to_plain_text
from praval_tools.schema.json_values import to_compact_json

_GrantEndingEvent = events.GrantRevoked | events.ToolUnassigned | events.ToolUnregistered | events.AgentRetired


def build_stored_rows(
    before: AccessState, after: AccessState, event: StoredAccessEvent
) -> tuple[list[StateRow], list[Uses]]:
    """Return how *event*, which led from one state to the other, changes the rows and counts of the store."""
    if isinstance(event, events.ToolAssigned):
        grant = event.grant
        row = StateRow("grant", grant.id, find_tool_origin(after, grant.tool), _to_json_with_snapshot(after, event))
        return [row], [Uses(grant.id, after.grants[grant.id].calls_left)] if grant.max_calls is not None else []
    if isinstance(event, _GrantEndingEvent):
        return _build_ending_rows(before, after, event)
    return list(_iter_other_rows(before, after, event)), []


def _to_json_with_snapshot(state: AccessState, event: events.ToolAssigned | events.ToolShared) -> bytes:
    """Return *event* as JSON, with what its tool is now: a later start compares."""
    record = state.find_tool_record(event.grant.tool if isinstance(event, events.ToolAssigned) else event.tool)
    return to_json(event if record is None else replace(event, snapshot=take_snapshot(record)))


def _build_ending_rows(
    before: AccessState, after: AccessState, event: _GrantEndingEvent
) -> tuple[list[StateRow], list[Uses]]:
    rows, uses = list[StateRow](), list[Uses]()
    for grant, source in _iter_ended_grants(before, after, event):
        rows.append(StateRow("ended", grant.id, source, to_json(events.make_revocation(grant.id, event))))
        if grant.max_calls is not None:
            uses.append(Uses(grant.id, None))
    if isinstance(event, events.ToolUnassigned):
        if event.by != OPERATOR and is_declared_origin(find_tool_origin(before, event.tool)):
            return rows, uses  # it counts for each tool of the name, and this one is not the operator's
        rows.append(StateRow("removed", to_compact_json([event.agent, event.tool]), "", to_json(event)))
    elif isinstance(event, events.AgentRetired):
        rows.append(StateRow("retired", event.agent, "", to_json(event)))
    elif isinstance(event, events.ToolUnregistered):
        source = find_tool_origin(before, event.tool)
        rows += [StateRow(kind, event.tool, source, None) for kind in ("owner", "shared")]
    return rows, uses


def _iter_ended_grants(
    before: AccessState, after: AccessState, event: _GrantEndingEvent
) -> Iterator[tuple[Grant, str]]:
    """Yield the stored grants that *event* ended, with those derived from them, and the sources of their tools."""
    for pending in find_pending_grants_ended_by(before, event):
        if isinstance(pending.change, events.ToolAssigned):
            yield pending.change.grant, pending.source
    if isinstance(event, events.GrantRevoked):
        waiting = list_same_key_grants(before, event.grant) if event.grant in before.grants else []
    elif isinstance(event, events.ToolUnassigned):
        waiting = list(before.get_access(event.agent, event.tool).grants)
    elif isinstance(event, events.ToolUnregistered):
        agents = sorted(before.agents_by_tool.get(event.tool) or ())
        waiting = [grant_id for agent in agents for grant_id in before.get_access(agent, event.tool).grants]
    else:
        accesses = (before.access_by_agent.get(event.agent) or {}).values()
        waiting = [grant_id for access in accesses for grant_id in access.grants]
    seen: set[str] = set()
    while waiting:
        grant_id = waiting.pop()
        if grant_id in seen:
            continue
        seen.add(grant_id)
        waiting += (*(before.child_grant_ids.get(grant_id) or ()), *before.list_narrowed_grants(grant_id))
        record = before.grants[grant_id]
        if record.stored and after.grants[grant_id].end_reason and not record.end_reason:
            yield record.grant, find_tool_origin(before, record.grant.tool)


def _iter_other_rows(before: AccessState, after: AccessState, event: StoredAccessEvent) -> Iterator[StateRow]:
    if isinstance(event, events.ToolBlocked):
        block = event.block
        yield StateRow("block", to_compact_json([block.agent, block.tool, block.by]), "", to_json(event))
    elif isinstance(event, events.ToolUnblocked):
        setters = [block.by for block in before.get_access(event.agent, event.tool).blocks]
        for setter in setters if event.setter is None else [event.setter]:
            is_lifted = get_block_key(event.tool, event.agent, setter) in after.lifted
            body = to_json(replace(event, setter=setter)) if is_lifted else None  # who lifted it counts for its file
            yield StateRow("block", to_compact_json([event.agent, event.tool, setter]), "", body)
    elif isinstance(event, events.OwnershipTransferred):
        yield StateRow("owner", event.tool, find_tool_origin(after, event.tool), to_json(event))
    elif isinstance(event, events.ToolShared):
        yield StateRow("shared", event.tool, find_tool_origin(after, event.tool), _to_json_with_snapshot(after, event))
    elif isinstance(event, events.ToolUnshared):
        for source in list_changed_sources(before, event):
            yield StateRow("shared", event.tool, source, to_json(event))
    elif isinstance(event, events.ToolDisabled | events.ToolEnabled):
        yield from _iter_disabling_rows(before, after, event)
    elif isinstance(event, events.ToolConfigured):
        changes = _to_portable_overrides(dict(after.tools[event.tool].overrides))
        body = to_json(replace(event, changes=changes))
        yield StateRow("configured", event.tool, find_tool_origin(after, event.tool), body)


def _iter_disabling_rows(
    before: AccessState, after: AccessState, event: events.ToolDisabled | events.ToolEnabled
) -> Iterator[StateRow]:
    label = event.kind, event.name
    present = {off.by for off in before.disabled.get(label, ())}
    if isinstance(event, events.ToolDisabled):
        setters = {event.by}
    else:
        setters = present if event.setter is None else {event.setter}
    for setter in sorted(setters):
        is_kept = isinstance(event, events.ToolDisabled) or get_disabling_key(*label, setter) in after.lifted
        own = replace(event, setter=setter) if isinstance(event, events.ToolEnabled) else event
        yield StateRow("disabled", to_compact_json([*label, setter]), "", to_json(own) if is_kept else None)
    if present and present <= setters:  # the row of older releases, which had one for all who disabled it
        yield StateRow("disabled", to_compact_json(label), "", None)


def read_stored_changes(state: AccessState, view: StateView, *, is_first_read: bool) -> Iterator[events.AnyStateEvent]:
    """
    Yield what the store has and *state* has not, in the order in which it was done.

    Args:
        state: What this process knows.
        view: What the store holds, or what changed there.
        is_first_read: The process reads for the first time: agents that it declares itself are not retired.
    """
    left = {use.grant_id: use.left for use in view.uses}
    tools_by_grant: dict[str, str] = {}
    for row in sorted(view.rows, key=lambda row: (row.revision, row.kind == "ended")):
        stored_event = None if row.body is None else from_json(row.body, event_id=row.key)
        event: events.StateEvent | None = None
        if isinstance(stored_event, events.StateEvent):
            event = replace(stored_event, before_start=is_first_read)
        if row.kind in _TOOL_ROW_KINDS:
            tool = tools_by_grant.get(row.key) or _find_tool_name(state, row, event)
            if tool is not None:
                if row.kind == "grant":
                    tools_by_grant[row.key] = tool
                yield events.StoredChange(
                    tool=tool,
                    source=row.source,
                    kind=row.kind,
                    key=row.key,
                    change=event,
                    left=left.pop(row.key, None),
                    revision=row.revision,
                )
        elif not (is_first_read and row.kind == "retired" and state.get_profile(row.key).declared):
            yield from _iter_name_events(row, event)
    known = {grant: count for grant, count in left.items() if count is not None and grant in state.grants}
    if known:
        yield events.GrantsCounted(left=known)


_TOOL_ROW_KINDS: Final = ("grant", "ended", "owner", "shared", "configured")


def _find_tool_name(state: AccessState, row: StateRow, event: events.StateEvent | None) -> str | None:
    if row.kind not in ("grant", "ended"):
        return row.key
    if isinstance(event, events.ToolAssigned):
        return event.grant.tool
    record = state.grants.get(row.key)
    if record is not None:
        return record.grant.tool
    key = ("grant", row.key, row.source)
    return next((tool for tool, changes in state.stored_changes.items() if key in changes), None)


def _iter_name_events(row: StateRow, event: events.StateEvent | None) -> Iterator[events.AnyStateEvent]:
    """Yield what a row about names changes: it counts for whatever tool has the name."""
    if isinstance(event, events.STORED_EVENTS):
        yield replace(event, stored=True)
    elif row.kind == "block":
        agent, tool, by = msgspec.json.decode(row.key)
        yield events.ToolUnblocked(tool=tool, agent=agent, setter=by, by=by, stored=True)
    elif row.kind == "disabled":
        kind, name, *setters = msgspec.json.decode(row.key)
        for by in setters:  # the end of a row of older releases, which has none, ends nothing
            yield events.ToolEnabled(kind=kind, name=name, setter=by, by=by, stored=True)


def _to_portable_overrides(changes: Mapping[str, object]) -> dict[str, object]:
    """Return *changes* of a tool's metadata as they can be stored: classes by their names."""
    kinds = changes.get("retry_on")
    if not isinstance(kinds, tuple):
        return dict(changes)
    names = tuple(f"{to_plain_text(kind.__module__)}:{get_qualified_name(kind)}" for kind in kinds)
    return {**changes, "retry_on": names}
