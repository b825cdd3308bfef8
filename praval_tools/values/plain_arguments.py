"""Makes plain what public methods are given: texts, numbers and containers whose classes may have code of their own."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import partial
from types import GeneratorType
from typing import Final, cast

from praval_tools.names import to_plain_scalar
from praval_tools.values.builtin_iteration import iterate_items_without_overrides, iterate_without_overrides

_MAX_DEPTH: Final = 4
_COLLECTIONS: Final = (list, tuple, set, frozenset)


def to_plain_argument(value: object, depth: int = _MAX_DEPTH) -> object:
    """
    Return a text or number, or a list, tuple, set or subclass of dict, as a plain one, down to *depth* levels.

    All else stays as it is: plain dicts, records and members of an enumeration that have a name, and other objects.
    Items of a generator are made plain as they are read.
    """
    kind = type(value)
    if kind is str or value is None or depth == 0 or _has_name(kind):
        return value
    if kind is GeneratorType:
        return map(partial(to_plain_argument, depth=depth - 1), cast("Iterator[object]", value))
    if issubclass(kind, dict):
        return value if kind is dict else _to_plain_dict(cast("dict[object, object]", value), depth - 1)
    base = next((base for base in _COLLECTIONS if issubclass(kind, base)), None)
    if base is None:
        return to_plain_scalar(value)
    items = list(iterate_without_overrides(cast("list[object]", value)))
    plain = [to_plain_argument(item, depth - 1) for item in items]
    is_plain = kind is base and all(new is old for new, old in zip(plain, items, strict=True))
    return value if is_plain else base(plain)


def _has_name(kind: type) -> bool:
    """Tell whether a class is of records or members of an enumeration that have a name, and are no texts."""
    if issubclass(kind, str | Enum):
        return not issubclass(kind, str)
    fields = getattr(kind, "_fields", None) if issubclass(kind, tuple) else None
    return type(fields) is tuple and any(type(field) is str and field == "name" for field in fields)


def _to_plain_dict(value: dict[object, object], depth: int) -> dict[object, object]:
    items = iterate_items_without_overrides(value)
    return {to_plain_scalar(key): to_plain_argument(item, depth) for key, item in items}
