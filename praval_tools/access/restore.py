"""Restore changes that the journal holds: they count from the moment that their tool is registered."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

from attrs import evolve
from msgspec.structs import replace

from praval_tools.access import events
from praval_tools.access.permissions import Grant, compile_bounds
from praval_tools.access.records import ToolRecord
from praval_tools.access.state import AccessState, get_tool_origin
from praval_tools.access.transitions import apply_event
from praval_tools.errors import GrantError, ToolDefinitionError
from praval_tools.tools.tool import AnyTool


def restore_changes(state: AccessState, name: str) -> list[events.AnyStateEvent]:
    """
    Return what the journal's changes of the tool *name*, which is registered, change about it now.

    Changes belong to the tool's source; those of a tool from elsewhere wait for the operator, save a required approval
    and the end of sharing.
    """
    record, restored = state.find_tool_record(name), list[events.AnyStateEvent]()
    if record is None:
        return restored
    source = get_tool_origin(record.tool)
    for stored in sorted(state.list_stored_changes(name), key=lambda stored: (stored.revision, stored.kind == "ended")):
        change = _select_applicable_part(stored, source)
        for event in _iter_effective_events(state, stored, replace(change, stored=True)) if change is not None else ():
            restored.append(event)
            state = apply_event(state, event)
    return restored


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
    if stored.source != source and not isinstance(change, events.ToolUnshared):
        return f"it was done to the tool from {stored.source!r}, and this one comes from {source!r}"
    if isinstance(change, events.ToolAssigned) and change.grant.id not in state.grants:
        return "its bounds do not fit the tool any more"
    return ""


def _select_applicable_part(stored: events.StoredChange, source: str) -> events.StateEvent | None:
    """Return what of a stored change counts for a tool from *source*."""
    change = stored.change
    if stored.source == source or isinstance(change, events.ToolUnshared):
        return change
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


def _has_effect(record: ToolRecord, change: events.ToolChange) -> bool:
    meta = record.tool.metadata
    if isinstance(change, events.OwnershipTransferred):
        return meta.owned_by != change.to
    if isinstance(change, events.ToolConfigured):
        overrides = dict(record.overrides)
        return any(name not in overrides or overrides[name] != value for name, value in change.changes.items())
    return meta.shared != isinstance(change, events.ToolShared)


def to_portable_overrides(changes: Mapping[str, object]) -> dict[str, object]:
    """Return *changes* of a tool's metadata as they can be stored: classes by their names."""
    kinds = changes.get("retry_on")
    if not isinstance(kinds, tuple):
        return dict(changes)
    return {**changes, "retry_on": tuple(f"{kind.__module__}:{kind.__qualname__}" for kind in kinds)}


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
