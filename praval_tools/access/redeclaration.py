"""Decides what a grant becomes that is declared again: narrower terms apply, wider ones are reported."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from attrs import evolve

from praval_tools.access import events
from praval_tools.access.permissions import Grant
from praval_tools.access.records import ToolRecord
from praval_tools.access.rules import can_satisfy_all
from praval_tools.access.state import AccessState
from praval_tools.names import shorten_repr


class _Difference(NamedTuple):
    """A term that a grant was made with, and what it is declared as now."""

    name: str
    made: object
    declared: object
    is_narrower: bool


def plan_redeclaration(
    state: AccessState, record: ToolRecord, made: Grant, declared: Grant, actor: str
) -> tuple[list[events.AnyStateEvent], Grant, str]:
    """
    Plan a declaration whose key stands for a grant.

    What is narrower counts: a grant that comes from the one that was made takes its place. What is wider does not.

    Returns:
        The events, the grant that stands now, and a warning where something does not count.
    """
    differences = _list_differences(record, made, declared)
    if not differences:
        is_noted = (actor, str(made.key)) in state.redeclared_keys
        return [events.GrantRedeclared(key=str(made.key), by=actor)] if is_noted else [], made, ""
    narrower = {item.name for item in differences if item.is_narrower}
    noted = events.GrantRedeclared(
        key=str(made.key),
        made=", ".join(_render_term(item.name, item.made) for item in differences),
        declared=", ".join(_render_term(item.name, item.declared) for item in differences),
        counts=len(narrower) == len(differences),
        by=actor,
    )
    changes: list[events.AnyStateEvent] = [] if state.redeclared_keys.get((actor, noted.key)) == noted else [noted]
    warning = "" if noted.counts else describe_redeclaration(made, noted)
    if not narrower:
        return changes, made, warning
    terms = {name: getattr(declared, name) for name in narrower}
    if "where" in narrower:
        terms["bounds"] = declared.bounds
    grant = evolve(made, id=declared.id, parent=made.id, **terms)
    return [events.ToolAssigned(grant=grant, by=actor, reason=declared.reason), *changes], grant, warning


def describe_redeclaration(grant: Grant, noted: events.GrantRedeclared) -> str:
    """Return in one sentence how a grant was made and how it is declared now."""
    effect = "since that is narrower, it counts" if noted.counts else "only what is narrower counts"
    return (
        f"Key {noted.key!r} stands for the grant of {grant.tool!r} to {grant.agent!r} that was made with {noted.made}; "
        f"it is declared with {noted.declared} now: {effect}."
    )


def _list_differences(record: ToolRecord, made: Grant, declared: Grant) -> list[_Difference]:
    differences = [
        _Difference("max_calls", made.max_calls, declared.max_calls, _is_lower(declared.max_calls, made.max_calls)),
        _Difference("expires", made.expires, declared.expires, _is_lower(declared.expires, made.expires)),
        _Difference("where", made.where, declared.where, _is_bounded_further(record, made, declared)),
        _Difference("delegable", made.delegable, declared.delegable, made.delegable),
    ]
    differing = [item for item in differences if item.made != item.declared]
    return [item for item in differing if item.name != "where" or made.bounds != declared.bounds]


def _is_lower(declared: object, made: object) -> bool:
    """Tell whether a declared count or moment ends a grant earlier; None is never."""
    if isinstance(declared, int) and isinstance(made, int):
        return declared < made
    if isinstance(declared, datetime) and isinstance(made, datetime):
        return declared < made
    return declared is not None and made is None


def _is_bounded_further(record: ToolRecord, made: Grant, declared: Grant) -> bool:
    """Tell whether declared bounds narrow those that a grant was made with: both can hold at once."""
    if declared.bounds is None:
        return False
    bounds = (declared.bounds,) if made.bounds is None else (declared.bounds, made.bounds)
    return len(bounds) == 1 or can_satisfy_all(bounds, record.tool.implementation)


def _render_term(name: str, value: object) -> str:
    return f"{name}={value.isoformat() if isinstance(value, datetime) else shorten_repr(value)}"
