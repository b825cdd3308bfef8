"""Acts that the journal kept, for the tools that they are about: they count from the moment that the tool is there."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve
from msgspec.structs import replace

from praval_tools.access import events
from praval_tools.access.records import Grant
from praval_tools.access.state import AccessState, apply_event, get_tool_origin
from praval_tools.errors import GrantError, ToolDefinitionError
from praval_tools.lazy_import import load
from praval_tools.tools.tool import Tool


def restore_changes(state: AccessState, name: str) -> list[events.AnyStateEvent]:
    """
    Return what the journal's acts on the tool *name*, which is registered, change about it now.

    Acts belong to the tool's source; of one from elsewhere they wait for the operator, save a required approval
    and the end of sharing.
    """
    record, made = state.find_tool_record(name), list[events.AnyStateEvent]()
    if record is None:
        return made
    source = get_tool_origin(record.tool)
    kept = (state.stored_changes.get(name) or {}).values()
    for one in sorted(kept, key=lambda one: (one.revision, one.kind == "ended")):
        for event in _iter_applicable_changes(one, source) if one.act is not None else ():
            for more in _iter_effective_events(state, one, event):
                made.append(more)
                state = apply_event(state, more)
    return made


def explain_pending(state: AccessState, one: events.ActKept) -> str:
    """Return why an act that holds does not count; empty where it counts, or is over."""
    record, act = state.find_tool_record(one.tool), one.act
    if act is None or any(other.kind == "ended" and other.key == one.key and other.act is not None
                          for other in (state.stored_changes.get(one.tool) or {}).values()):  # fmt: skip
        return ""
    if record is None:
        return f"no tool {one.tool!r} is registered"
    if one.source != (source := get_tool_origin(record.tool)) and not isinstance(act, events.ToolUnshared):
        return f"it was done to the tool from {one.source!r}, and this one comes from {source!r}"
    if isinstance(act, events.ToolAssigned) and act.grant.id not in state.grants:
        return "its bounds fit the tool no more"
    return ""


def _iter_applicable_changes(one: events.ActKept, source: str) -> Iterator[events.StateEvent]:
    act: Any = one.act
    if one.source == source or isinstance(act, events.ToolUnshared):
        yield act
    elif isinstance(act, events.ToolConfigured) and act.changes.get("requires_approval") is True:
        yield replace(act, changes={"requires_approval": True})


def _iter_effective_events(state: AccessState, one: events.ActKept, act: Any) -> Iterator[Any]:
    """Yield *act*, and what goes with it, where it changes something."""
    act = replace(act, stored=True)
    if isinstance(act, events.ToolAssigned):
        if (
            act.grant.id not in state.grants
            and (grant := with_compiled_bounds(act.grant, state.tools[one.tool].tool)) is not None
        ):
            yield replace(act, grant=grant)
            if one.left is not None:
                yield events.GrantsCounted(left={grant.id: one.left})
    elif isinstance(act, events.GrantRevoked):
        known = state.grants.get(act.grant)
        if known is not None and not known.end_reason:
            yield act
    else:
        record = state.tools[one.tool]
        if isinstance(act, events.ToolConfigured):
            act = replace(act, changes=_select_usable_overrides(record.tool, act.changes))
        if _has_effect(record, act):
            yield act


def _has_effect(record: Any, act: Any) -> bool:
    meta = record.tool.metadata
    if isinstance(act, events.OwnershipTransferred):
        return bool(meta.owned_by != act.to)
    if isinstance(act, events.ToolConfigured):
        return any(name not in dict(record.configured) or dict(record.configured)[name] != value
                   for name, value in act.changes.items())  # fmt: skip
    return bool(meta.shared != isinstance(act, events.ToolShared))


def to_portable_overrides(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return *changes* of a tool's metadata as they can be kept: classes by their names."""
    kinds = changes.get("retry_on")
    named = {} if kinds is None else {"retry_on": tuple(f"{one.__module__}:{one.__qualname__}" for one in kinds)}
    return {**changes, **named}


def _select_usable_overrides(tool: Tool[..., Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return of *changes*, as they are kept, what *tool* can take now; an old act never stops a start."""
    found = dict(changes)
    if "retry_on" in found:
        found["retry_on"] = tuple(filter(None, map(_find_loaded_class, found["retry_on"])))
    return {name: value for name, value in found.items() if _accepts_override(tool, name, value)}


def _accepts_override(tool: Tool[..., Any], name: str, value: Any) -> bool:
    try:
        tool.metadata.replace(**{name: value})
    except (ToolDefinitionError, TypeError):
        return False
    return True


def _find_loaded_class(name: Any) -> Any:
    """Return the class of that name, if its module is imported by now; nothing is imported for it."""
    if isinstance(name, type):
        return name
    module, _, path = str(name).partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def with_compiled_bounds(grant: Grant, tool: Tool[..., Any]) -> Grant | None:
    """Return *grant*, as the journal keeps it, with its bounds compiled for *tool*; None: they fit it no more."""
    if grant.where is None:
        return grant
    try:
        tool_bounds: Any = load("praval_tools.access.bounds.tool_bounds")  # needed by grants with bounds
        return evolve(grant, bounds=tool_bounds.compile_tool_bounds(tool.implementation, grant.where, tool.name))
    except (GrantError, ToolDefinitionError):
        return None
