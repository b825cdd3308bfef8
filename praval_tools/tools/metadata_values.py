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
    with activate_tool_frame("(metadata)"):  # what is copied, and hashed, may have code of its own
        return _freeze(value)


def _freeze(value: object) -> object:
    if has_type(value, Mapping):
        return MappingProxyType({key: _freeze(item) for key, item in _list_items(value)})
    if has_type(value, (list, tuple)):
        return tuple(map(_freeze, value))
    if has_type(value, (set, frozenset)):
        return frozenset(map(_freeze, value))
    return copy.deepcopy(to_plain_scalar(value))


def _list_items(value: Mapping[object, object]) -> list[tuple[object, object]]:
    """Return the items of a mapping with plain keys; one of another class lists them itself."""
    return [(to_plain_scalar(key), item) for key, item in iterate_items_without_overrides(value)]


def to_plain_copy(value: object) -> object:
    """Return a copy of what `to_frozen_copy` gave that may be changed: dicts and lists."""
    with activate_tool_frame("(metadata)"):
        return _thaw(value)


def _thaw(value: object) -> object:
    if isinstance(value, MappingProxyType):
        return {key: _thaw(item) for key, item in value.items()}
    if type(value) is tuple:
        return list(map(_thaw, value))
    return copy.deepcopy(value)


def copy_mapping(value: object) -> Any:
    """Return a copy of *value*, with plain mappings, lists, texts and numbers in it."""
    if value is None:  # as nearly always; asked at every declaration
        return None
    with activate_tool_frame("(metadata)"):
        return _copy(value)


def _copy(value: object) -> object:
    if has_type(value, Mapping):
        return {key: _copy(item) for key, item in _list_items(value)}
    if has_type(value, (list, tuple)):
        return list(map(_copy, value))
    return copy.deepcopy(to_plain_scalar(value))


def show_extra(value: object) -> str:
    """Return the text of *value*, whose classes may have code of their own."""
    if type(value) in SCALAR_TYPES:
        return repr(value)
    with activate_tool_frame("(metadata)"):
        return repr(value)
