"""Bounds for one tool: compiled for its schema, and refused where they could not see what they speak of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from praval_tools.errors import GrantError
from praval_tools.model.bounds import Bounds
from praval_tools.model.definition import Definition
from praval_tools.model.oneway import one_way


def bounds_on(definition: Definition, where: Mapping[str, Any], tool: str) -> Bounds:
    """Do what `Definition.bounds_on` says."""
    bounds = Bounds.compile(where, definition.compiled.parameters_schema, tool)
    if unseen := list(_unseen(definition, bounds)):
        raise GrantError(tool, unseen)
    return bounds


def _unseen(definition: Definition, bounds: Bounds) -> Iterator[str]:
    """Yield what the bounds speak of and could not see: they are checked on what the tool gets, as JSON again."""
    for one in definition.signature.parameters if definition.given is None else ():
        if bounds.whole is not None or one.name in bounds.schemas:
            for lost in one_way(one.hint):
                yield f"where: {lost} cannot be read back from what the tool gets, so no bounds on {one.name!r} hold"
