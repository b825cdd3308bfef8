"""Decides which stored access changes still count for the tool that is registered now, and says why others wait."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

from attrs import evolve
from msgspec.structs import replace

from praval_tools.access import events
from praval_tools.access.drift import describe_drift, take_snapshot
from praval_tools.access.permissions import Grant, compile_bounds, takes_place_of
from praval_tools.access.records import ToolRecord
from praval_tools.access.state import AccessState, get_tool_origin, is_declared_origin, list_changes_without_declared
from praval_tools.access.transitions import apply_event
from praval_tools.errors import GrantError, ToolDefinitionError
from praval_tools.tools.tool import AnyTool


def restore_changes(state: AccessState, name: str) -> list[events.AnyStateEvent]:
    """
    Return what the journal's changes of the tool *name*, which is registered, change about it now.

    Changes belong to the tool's source; those of a tool from elsewhere wait for the operator, save a required approval
    and the end of sharing. Grants and sharing also wait where the tool is not any more what it was; what the operator
    configured comes first, since that counts there.
    """
    restored = list[events.AnyStateEvent]()
    if name not in state.tools:
        return restored
    stored_changes = sorted(list_changes_without_declared(state, name), key=_get_restoration_order)
    ended_grants = {stored.key for stored in stored_changes if stored.kind == "ended" and stored.change is not None}
    for stored in stored_changes:
        is_over = stored.kind in ("grant", "ended") and stored.key in ended_grants  # whatever the tool is now
        change = stored.change if is_over else _select_applicable_part(stored, state.tools[name])
        for event in _iter_effective_events(state, stored, replace(change, stored=True)) if change is not None else ():
            restored.append(event)
            state = apply_event(state, event)
    return restored


def is_other_version(record: ToolRecord, tool: AnyTool) -> bool:
    """Tell whether what was given of a registered tool would, after a start with *tool* in its place, wait."""
    drift = describe_drift(take_snapshot(record), replace(record, tool=tool, declared_metadata=tool.metadata))
    return bool(drift) or get_tool_origin(tool) != get_tool_origin(record.tool)


def _get_restoration_order(stored: events.StoredChange) -> tuple[bool, int, bool]:
    return stored.kind != "configured", stored.revision, stored.kind == "ended"


def explain_pending(state: AccessState, stored: events.StoredChange) -> str:
    """Return why a change that holds does not count; an empty text where it counts, or is over."""
    record, change = state.find_tool_record(stored.tool), stored.change
    if change is None or any(
        other.kind == "ended" and other.key == stored.key and other.change is not None
        for other in state.list_stored_changes(stored.tool)
    ):
        return ""
    if record is None:
        return f"no tool {stored.tool!r} is registered"
    source = get_tool_origin(record.tool)
    if stored.source != source and (not isinstance(change, events.ToolUnshared) or is_declared_origin(stored.source)):
        return f"it was done to the tool from {stored.source!r}, and this one comes from {source!r}"
    if _is_pending(state, change) and (drift := _describe_change_drift(change, record)):
        return f"since it was done the tool has changed: {drift}"
    if not isinstance(change, events.ToolAssigned) or change.grant.id in state.grants:
        return ""
    if with_compiled_bounds(change.grant, record.tool) is None:
        return "its bounds do not fit the tool any more"
    return "" if change.grant.parent is None else "the grant that it was lent from does not count"


def _is_pending(state: AccessState, change: events.StateEvent) -> bool:
    """Tell whether access that *change* gave is not there."""
    if isinstance(change, events.ToolAssigned):
        return change.grant.id not in state.grants
    return isinstance(change, events.ToolShared) and not state.tools[change.tool].tool.metadata.shared


def _describe_change_drift(change: events.StateEvent | None, record: ToolRecord) -> str:
    """Return how a tool differs from what it was when *change* gave access to it; empty where that is not known."""
    snapshot = change.snapshot if isinstance(change, events.ToolAssigned | events.ToolShared) else None
    return "" if snapshot is None else describe_drift(snapshot, record)


def _select_applicable_part(stored: events.StoredChange, record: ToolRecord) -> events.StateEvent | None:
    """Return what of a stored change counts for the tool that is registered now."""
    change = stored.change
    if isinstance(change, events.ToolUnshared):
        return change
    if stored.source == get_tool_origin(record.tool):
        return None if _describe_change_drift(change, record) else change
    if isinstance(change, events.ToolConfigured):
        return events.extract_narrowing_part(change)
    return None


def _iter_effective_events(
    state: AccessState, stored: events.StoredChange, change: events.StateEvent
) -> Iterator[events.AnyStateEvent]:
    """Yield *change*, and what goes with it, where it changes something."""
    record = state.tools[stored.tool]
    if isinstance(change, events.ToolAssigned):
        grant = with_compiled_bounds(change.grant, record.tool) if change.grant.id not in state.grants else None
        if grant is None and (wider := _find_unnarrowed_grant(state, change.grant)) is not None:
            reason = "the narrower bounds that took its place do not fit the tool any more"
            yield events.GrantRevoked(grant=wider.id, by=change.by, reason=reason, stored=True)
        if grant is not None:
            yield replace(change, grant=grant)
            if stored.left is not None:
                yield events.GrantsCounted(left={grant.id: stored.left})
    elif isinstance(change, events.GrantRevoked):
        known = state.grants.get(change.grant)
        if known is not None and not known.end_reason:
            yield change
    else:
        if isinstance(change, events.ToolConfigured):
            change = replace(change, changes=_select_usable_overrides(record.tool, change.changes))
        if isinstance(change, events.ToolChange) and _has_effect(record, change):
            yield change


def _find_unnarrowed_grant(state: AccessState, grant: Grant) -> Grant | None:
    """Return the live grant whose place *grant*, which is not there, took by its key."""
    parent = state.grants.get(grant.parent) if grant.parent is not None and grant.id not in state.grants else None
    if parent is None or parent.end_reason or not takes_place_of(grant, parent.grant):
        return None
    return parent.grant


def _has_effect(record: ToolRecord, change: events.ToolChange) -> bool:
    meta = record.tool.metadata
    if isinstance(change, events.OwnershipTransferred):
        return meta.owned_by != change.to
    if isinstance(change, events.ToolConfigured):
        overrides = dict(record.overrides)
        return any(name not in overrides or overrides[name] != value for name, value in change.changes.items())
    return meta.shared != isinstance(change, events.ToolShared)


def _select_usable_overrides(tool: AnyTool, changes: Mapping[str, object]) -> dict[str, object]:
    """Return of *changes*, as they are stored, what *tool* can take now; an old change never stops a start."""
    usable = dict(changes)
    if isinstance(names := usable.get("retry_on"), tuple | list):
        usable["retry_on"] = tuple(filter(None, map(_find_loaded_class, names)))
    return {name: value for name, value in usable.items() if _accepts_override(tool, name, value)}


def _accepts_override(tool: AnyTool, name: str, value: object) -> bool:
    try:
        tool.metadata.replace(**{name: value})
    except (ToolDefinitionError, TypeError):
        return False
    return True


def _find_loaded_class(name: object) -> object:
    """Return the class of that name, if its module is imported by now; nothing is imported for it."""
    if isinstance(name, type):
        return name
    module, _, path = str(name).partition(":")
    value: object = sys.modules.get(module)
    for part in path.split("."):
        value = getattr(value, part, None)
    return value


def with_compiled_bounds(grant: Grant, tool: AnyTool) -> Grant | None:
    """Return *grant*, as the journal holds it, with its bounds compiled for *tool*; None where they do not fit it."""
    if grant.where is None:
        return grant
    try:
        return evolve(grant, bounds=compile_bounds(tool.implementation, grant.where, tool.name))
    except (GrantError, ToolDefinitionError):
        return None
