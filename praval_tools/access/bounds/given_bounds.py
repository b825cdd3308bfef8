"""Reads the bounds that somebody gives, without rights."""

from __future__ import annotations

from collections.abc import Mapping

from praval_tools.names import has_type, to_plain_scalar
from praval_tools.schema.json_input import MalformedArgumentsError, copy_json, normalize_json
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.values.builtin_iteration import iterate_items_without_overrides


def read_bounds(where: Mapping[str, object]) -> JsonSchema:
    """
    Return a copy of bounds, of dicts and lists; a mapping of another kind has no rights as it is read.

    Raises:
        MalformedArgumentsError: They are not JSON.
    """
    with activate_tool_frame("(where)"):
        items = {to_plain_scalar(key): value for key, value in iterate_items_without_overrides(where)}
        bounds: JsonSchema = copy_json(normalize_json(items))
    return bounds


def to_plain_bounds(where: Mapping[str, object] | None) -> Mapping[str, object] | None:
    """Return a copy of bounds, of dicts and lists; what is not JSON, or no mapping, stays as it is."""
    if not has_type(where, Mapping):
        return where
    try:
        return read_bounds(where)
    except MalformedArgumentsError:
        return where
