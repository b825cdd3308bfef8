"""Reads the bounds that somebody gives, without rights."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy

from praval_tools.names import to_plain_scalar
from praval_tools.schema.json_input import normalize_json
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
        return deepcopy(normalize_json(items))
