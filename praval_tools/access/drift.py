"""Takes snapshots of tools when access to them is given, and describes drift: changes of parameters or safety since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from praval_tools.access.records import ToolRecord
from praval_tools.names import shorten_repr
from praval_tools.schema.type_hints import NOTHING, format_hint
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.tools.implementation import ToolImplementation
from praval_tools.tools.metadata import SAFETY_FIELDS, RiskLevel, Safety, ToolMetadata


class ToolSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a tool's code said of it when access to it was given; what the operator configured is not in it.

    Args:
        parameters: Each as `name: type`.
        required: The parameters that a call cannot leave out.
        requires_approval: Every call waits for a person.
        risk_level: How bad a wrong call is.
        safety: Where it runs.
        read_only: Changes nothing (None: unknown).
        destructive: May destroy something (None: unknown).
        open_world: Reaches things outside (None: unknown).
    """

    parameters: tuple[str, ...]
    required: tuple[str, ...] = ()
    requires_approval: bool = False
    risk_level: RiskLevel = "low"
    safety: Safety = "native"
    read_only: bool | None = None
    destructive: bool | None = None
    open_world: bool | None = None


_SAFETY_FIELDS: Final = ("requires_approval", *SAFETY_FIELDS)


def take_snapshot(record: ToolRecord) -> ToolSnapshot:
    """Return what the tool's code says of it now."""
    meta, types = _get_declared_metadata(record), _describe_parameters(record.tool.implementation)
    return ToolSnapshot(
        parameters=tuple(f"{name}: {kind}" for name, (kind, _) in types.items()),
        required=tuple(name for name, (_, is_required) in types.items() if is_required),
        **{name: getattr(meta, name) for name in _SAFETY_FIELDS},
    )


def describe_drift(before: ToolSnapshot, record: ToolRecord) -> str:
    """
    Return how the tool differs from *before*; an empty text where whoever gave access would find it as it was.

    What it says of its safety must be the same, save that it may begin to require approvals and that what the operator
    configured counts. It must take every call that it took: a new parameter that may be left out is not drift, nor are
    other texts and defaults.
    """
    meta, overrides = _get_declared_metadata(record), dict(record.overrides)
    changes = [
        f"{name} was {shorten_repr(old)}, and is {shorten_repr(new)}"
        for name in _SAFETY_FIELDS
        if name not in overrides
        and (old := getattr(before, name)) != (new := getattr(meta, name))
        and not (name == "requires_approval" and new)
    ]
    types = _describe_parameters(record.tool.implementation)
    for parameter in before.parameters:
        name, _, kind = parameter.partition(": ")
        if name not in types:
            changes.append(f"the parameter {name!r} is gone")
        elif types[name][0] != kind:
            changes.append(f"the parameter {name!r} was {kind}, and is {types[name][0]}")
    changes += [
        f"the parameter {name!r} is required"
        for name, (_, is_required) in types.items()
        if is_required and name not in before.required
    ]
    return "; ".join(changes)


def _get_declared_metadata(record: ToolRecord) -> ToolMetadata:
    return record.declared_metadata or record.tool.metadata


def _describe_parameters(implementation: ToolImplementation) -> dict[str, tuple[str, bool]]:
    """Return the type of each parameter as text, and whether it is required; nothing is compiled, no default read."""
    schema = implementation.supplied_schema
    if schema is None:
        with activate_tool_frame(implementation.name):  # classes in its hints may have code of their own
            parameters = implementation.signature.parameters
            return {
                parameter.name: (format_hint(parameter.hint), parameter.default is NOTHING)
                for parameter in parameters
                if parameter.kind == "normal"
            }
    required = schema.get("required", ())
    return {
        name: (str(part.get("type", "")) if isinstance(part, Mapping) else "", name in required)
        for name, part in schema.get("properties", {}).items()
    }
