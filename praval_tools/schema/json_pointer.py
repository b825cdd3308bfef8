"""Follows JSON pointers: the one place that resolves a `$ref` inside its own JSON document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def resolve_pointer(root: object, pointer: object, default: object = None) -> Any:
    """
    Follow a pointer such as `#/$defs/Address` or `#/items/0`.

    Args:
        root: The document that the pointer starts from.
        pointer: The text of a `$ref`; anything else counts as unresolved.
        default: What to return for an unresolved pointer; pass a sentinel to tell it from null.

    Returns:
        The value at the pointer; *default* where there is none, or where the pointer leaves the document.
    """
    if not isinstance(pointer, str) or not pointer.startswith("#"):
        return default
    value: Any = root
    for escaped_step in pointer[1:].split("/")[1:]:
        step = escaped_step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return default
    return value
