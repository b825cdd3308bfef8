"""Acts that the journal kept, for the tools that they are about: they count from the moment that the tool is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import evolve
from msgspec.structs import replace

from praval_tools import facts
from praval_tools.errors import GrantError, ToolDefinitionError
from praval_tools.model.permissions import Grant
from praval_tools.model.sight import bounds_on
from praval_tools.model.tool import Tool
from praval_tools.state import State, apply, origin


def released(state: State, name: str) -> list[facts.Event]:
    """
    Return what the journal's acts on the tool *name*, which is registered, change about it now.

    Acts belong to the tool's source; of one from elsewhere they wait for the operator, save a required approval.
    """
    record, made = state.record(name), list[facts.Event]()
    if record is None:
        return made
    source = origin(record.tool)
    kept = (state.kept.get(name) or {}).values()
    for one in sorted(kept, key=lambda one: (one.revision, one.kind == "ended")):
        for event in _fitting(one, source) if one.act is not None else ():
            for more in _changing(state, one, event):
                made.append(more)
                state = apply(state, more)
    return made


def _fitting(one: facts.ActKept, source: str) -> Iterator[facts.Fact]:
    act: Any = one.act
    if one.source == source:
        yield act
    elif isinstance(act, facts.ToolConfigured) and act.changes.get("requires_approval") is True:
        yield replace(act, changes={"requires_approval": True})


def _changing(state: State, one: facts.ActKept, act: Any) -> Iterator[Any]:
    """Yield *act*, and what goes with it, where it changes something."""
    act = replace(act, stored=True)
    if isinstance(act, facts.ToolAssigned):
        if act.grant.id not in state.grants and (grant := bounded(act.grant, state.tools[one.tool].tool)) is not None:
            yield replace(act, grant=grant)
            if one.left is not None:
                yield facts.GrantsCounted(left={grant.id: one.left})
    elif isinstance(act, facts.GrantRevoked):
        known = state.grants.get(act.grant)
        if known is not None and not known.ended:
            yield act
    elif _is_news(state.tools[one.tool], act):
        yield act


def _is_news(record: Any, act: Any) -> bool:
    meta = record.tool.metadata
    if isinstance(act, facts.OwnershipTransferred):
        return bool(meta.owned_by != act.to)
    if isinstance(act, facts.ToolConfigured):
        return any(name not in dict(record.configured) or dict(record.configured)[name] != value
                   for name, value in act.changes.items())  # fmt: skip
    return bool(meta.shared != isinstance(act, facts.ToolShared))


def bounded(grant: Grant, tool: Tool[..., Any]) -> Grant | None:
    """Return *grant*, as the journal keeps it, with its bounds compiled for *tool*; None: they fit it no more."""
    if grant.where is None:
        return grant
    try:
        return evolve(grant, bounds=bounds_on(tool.definition_, grant.where, tool.name))
    except (GrantError, ToolDefinitionError):
        return None
