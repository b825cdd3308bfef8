"""Acts as rows of the store, and rows as acts: what was done at run time, and holds at the next start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from praval_tools.access import events
from praval_tools.access.permissions import Grant
from praval_tools.access.restore import to_portable_overrides
from praval_tools.access.state import AccessState, find_pending_grants_ended_by, get_tool_origin
from praval_tools.journal.codec import from_json, to_json
from praval_tools.journal.storage.protocol import StateRow, StateView, Uses
from praval_tools.schema.json_values import to_compact_json

_SHARING_EVENTS: Final = (events.ToolShared, events.ToolUnshared)
_TOGGLE_EVENTS: Final = (events.ToolDisabled, events.ToolEnabled)
_ENDING_EVENTS: Final = (events.GrantRevoked, events.ToolUnassigned, events.ToolUnregistered, events.AgentRetired)

StateRows = list[StateRow]


def build_stored_rows(before: AccessState, after: AccessState, event: Any) -> tuple[StateRows, list[Uses]]:
    """Return what *event*, which led from one state to the other, changes of the acts that the store keeps."""
    if isinstance(event, events.ToolAssigned):
        return _build_assignment_rows(after, event)
    if isinstance(event, _ENDING_EVENTS):
        return _build_ending_rows(before, after, event)
    return list(_iter_other_rows(before, after, event)), []


def _get_tool_source(state: AccessState, tool: str) -> str:
    record = state.find_tool_record(tool)
    return "" if record is None else get_tool_origin(record.tool)


def _build_assignment_rows(after: AccessState, event: events.ToolAssigned) -> tuple[StateRows, list[Uses]]:
    grant = event.grant
    row = StateRow("grant", grant.id, _get_tool_source(after, grant.tool), to_json(event))
    return [row], [Uses(grant.id, grant.max_calls)] if grant.max_calls is not None else []


def _build_ending_rows(before: AccessState, after: AccessState, event: Any) -> tuple[StateRows, list[Uses]]:
    rows: StateRows = []
    uses = []
    for grant, source in _iter_ended_grants(before, after, event):
        act = events.GrantRevoked(
            grant=grant.id, by=event.by, reason=event.reason, id=event.id, time=event.time, process=event.process
        )
        rows.append(StateRow("ended", grant.id, source, to_json(act)))
        if grant.max_calls is not None:
            uses.append(Uses(grant.id, None))
    if isinstance(event, events.ToolUnassigned):
        rows.append(StateRow("removed", to_compact_json([event.agent, event.tool]), "", to_json(event)))
    if isinstance(event, events.AgentRetired):
        rows.append(StateRow("retired", event.agent, "", to_json(event)))
    if isinstance(event, events.ToolUnregistered):
        source = _get_tool_source(before, event.tool)
        rows += [StateRow(kind, event.tool, source, None) for kind in ("owner", "shared")]
    return rows, uses


def _iter_ended_grants(before: AccessState, after: AccessState, event: Any) -> Iterator[tuple[Grant, str]]:
    """Yield the stored grants that *event* ended, with those that came from them, and the sources of their tools."""
    waiting: list[str] = []
    held: list[Any] = find_pending_grants_ended_by(before, event)
    yield from ((one.change.grant, one.source) for one in held)
    if isinstance(event, events.GrantRevoked):
        waiting = [event.grant] if event.grant in before.grants else []
    elif isinstance(event, events.ToolUnassigned):
        waiting = list(before.get_access(event.agent, event.tool).grants)
    elif isinstance(event, events.ToolUnregistered):
        holders = sorted(before.agents_by_tool.get(event.tool) or ())
        waiting = [one for agent in holders for one in before.get_access(agent, event.tool).grants]
    else:
        waiting = [one for access in (before.access_by_agent.get(event.agent) or {}).values() for one in access.grants]
    seen: set[str] = set()
    while waiting:
        this = waiting.pop()
        if this in seen:
            continue
        seen.add(this)
        waiting += before.child_grant_ids.get(this) or ()
        if before.grants[this].stored and after.grants[this].end_reason and not before.grants[this].end_reason:
            grant = before.grants[this].grant
            yield grant, _get_tool_source(before, grant.tool)


def _iter_other_rows(before: AccessState, after: AccessState, event: Any) -> Iterator[StateRow]:
    if isinstance(event, events.ToolBlocked):
        block = event.block
        yield StateRow("block", to_compact_json([block.agent, block.tool, block.by]), "", to_json(event))
    elif isinstance(event, events.ToolUnblocked):
        for one in before.get_access(event.agent, event.tool).blocks:
            if event.setter in (None, one.by):
                yield StateRow("block", to_compact_json([one.agent, one.tool, one.by]), "", None)
    elif isinstance(event, events.OwnershipTransferred):
        yield StateRow("owner", event.tool, _get_tool_source(after, event.tool), to_json(event))
    elif isinstance(event, _SHARING_EVENTS):
        yield StateRow("shared", event.tool, _get_tool_source(after, event.tool), to_json(event))
    elif isinstance(event, _TOGGLE_EVENTS):
        body = to_json(event) if isinstance(event, events.ToolDisabled) else None
        yield StateRow("disabled", to_compact_json([event.kind, event.name]), "", body)
    elif isinstance(event, events.ToolConfigured):
        whole = msgspec.structs.replace(event, changes=to_portable_overrides(dict(after.tools[event.tool].overrides)))
        yield StateRow("configured", event.tool, _get_tool_source(after, event.tool), to_json(whole))


def read_stored_changes(state: AccessState, view: StateView, *, is_first_read: bool) -> Iterator[events.AnyStateEvent]:
    """
    Yield what the store says that *state* does not, in the order in which it was done.

    Args:
        state: What this process knows.
        view: What the store holds, or what changed there.
        first: The process looks for the first time: what it declared itself brings retired agents back.
    """
    left = {one.grant_id: one.left for one in view.uses}
    lent: dict[str, str] = {}
    for row in sorted(view.rows, key=lambda row: (row.revision, row.kind == "ended")):
        act: Any = None if row.body is None else from_json(row.body, event_id=row.key)
        if row.kind in _TOOL_ROW_KINDS:
            tool = lent.get(row.key) or _find_tool_name(state, row, act)
            if tool is not None:
                if row.kind == "grant":
                    lent[row.key] = tool
                count = left.pop(row.key, None)
                yield events.StoredChange(
                    tool=tool, source=row.source, kind=row.kind, key=row.key, change=act, left=count,
                    revision=row.revision,
                )  # fmt: skip
        elif not (is_first_read and row.kind == "retired" and state.get_profile(row.key).declared):
            yield from _iter_name_events(row, act)
    known = {grant: count for grant, count in left.items() if count is not None and grant in state.grants}
    if known:
        yield events.GrantsCounted(left=known)


_TOOL_ROW_KINDS: Final = ("grant", "ended", "owner", "shared", "configured")


def _find_tool_name(state: AccessState, row: StateRow, act: Any) -> str | None:
    if row.kind not in ("grant", "ended"):
        return row.key
    if row.kind == "grant" and act is not None:
        return str(act.grant.tool)
    known = state.grants.get(row.key)
    if known is not None:
        return known.grant.tool
    return next((tool for tool, acts in state.stored_changes.items() if ("grant", row.key, row.source) in acts), None)


def _iter_name_events(row: StateRow, act: Any) -> Iterator[Any]:
    """Yield what a row about names changes: it counts for whatever tool has the name."""
    if act is not None:
        yield msgspec.structs.replace(act, stored=True)
    elif row.kind == "block":
        agent, tool, by = msgspec.json.decode(row.key)
        yield events.ToolUnblocked(tool=tool, agent=agent, setter=by, stored=True)
    elif row.kind == "disabled":
        kind, name = msgspec.json.decode(row.key)
        yield events.ToolEnabled(kind=kind, name=name, stored=True)
