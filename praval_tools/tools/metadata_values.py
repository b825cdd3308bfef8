"""Copies and shows values of a tool's metadata, whose classes may have code of their own."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from praval_tools.names import has_type, to_plain_scalar
from praval_tools.schema.json_values import SCALAR_TYPES
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.values.builtin_iteration import iterate_items_without_overrides

NO_EXTRA: Final[Mapping[str, object]] = MappingProxyType({})


def to_frozen_copy(value: object) -> Any:
    """Return a copy that nobody else holds and nobody changes: its mappings are read-only, its lists are tuples."""
    if value is NO_EXTRA:
        return value
    if has_type(value, Mapping):
        return MappingProxyType({key: to_frozen_copy(item) for key, item in _list_items(value)})
    if has_type(value, (list, tuple)):
        return tuple(map(to_frozen_copy, value))
    if has_type(value, (set, frozenset)):
        return frozenset(map(to_frozen_copy, value))
    return copy.deepcopy(to_plain_scalar(value))


def _list_items(value: Mapping[object, object]) -> list[tuple[object, object]]:
    """Return the items of a mapping with plain keys; one of another class lists them itself, without rights."""
    with activate_tool_frame("(metadata)"):
        return [(to_plain_scalar(key), item) for key, item in iterate_items_without_overrides(value)]


def to_plain_copy(value: object) -> object:
    """Return a copy of what `to_frozen_copy` gave that may be changed: dicts and lists."""
    if isinstance(value, MappingProxyType):
        return {key: to_plain_copy(item) for key, item in value.items()}
    if isinstance(value, tuple) and type(value) is tuple:
        return list(map(to_plain_copy, value))
    if type(value) in SCALAR_TYPES:
        return value
    with activate_tool_frame("(metadata)"):  # its class may have code of its own
        return copy.deepcopy(value)


def copy_mapping(value: object) -> Any:
    """Return a copy of *value*, with plain mappings, lists, texts and numbers in it."""
    if has_type(value, Mapping):
        return {key: copy_mapping(item) for key, item in _list_items(value)}
    if has_type(value, (list, tuple)):
        return list(map(copy_mapping, value))
    if type(plain := to_plain_scalar(value)) in SCALAR_TYPES:
        return plain
    with activate_tool_frame("(metadata)"):
        return copy.deepcopy(plain)


def show_extra(value: object) -> str:
    """Return the text of *value*, whose classes may have code of their own."""
    if type(value) in SCALAR_TYPES:
        return repr(value)
    with activate_tool_frame("(metadata)"):
        return repr(value)
