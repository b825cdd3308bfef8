"""Bounds for one tool: compiled for its schema, and refused where they could not see what they speak of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from praval_tools.access.bounds.bounds import Bounds
from praval_tools.access.bounds.write_only import find_write_only_fields
from praval_tools.errors import GrantError
from praval_tools.tools.implementation import ToolImplementation


def compile_tool_bounds(definition: ToolImplementation, where: Mapping[str, Any], tool: str) -> Bounds:
    """
    Return what *where* bounds for the tool of this name and definition.

    Raises:
        GrantError: With every reason why it cannot be enforced, or nothing could meet it.
        ToolDefinitionError: A hint of the tool leads nowhere.
    """
    bounds = Bounds.compile(where, definition.compiled.parameters_schema, tool)
    if unseen := list(_iter_unreadable_fields(definition, bounds)):
        raise GrantError(tool, unseen)
    return bounds


def _iter_unreadable_fields(definition: ToolImplementation, bounds: Bounds) -> Iterator[str]:
    """Yield what the bounds speak of and could not see: they are checked on what the tool gets, as JSON again."""
    for one in definition.signature.parameters if definition.supplied_schema is None else ():
        if bounds.arguments_schema is not None or one.name in bounds.parameter_schemas:
            for lost in find_write_only_fields(one.hint):
                yield f"where: {lost} cannot be read back from what the tool gets, so no bounds on {one.name!r} hold"
