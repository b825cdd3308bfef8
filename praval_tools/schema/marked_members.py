"""Tells what stands in the value of a field beside the instances that say themselves what is secret in them."""

from __future__ import annotations

from collections import OrderedDict, UserString, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import suppress
from enum import Enum
from typing import Final

from praval_tools.names import has_type
from praval_tools.schema.class_fields import has_class_fields, is_pydantic_model, is_pydantic_secret
from praval_tools.schema.json_values import MAX_DEPTH, SCALAR_TYPES
from praval_tools.schema.tables import may_be_table, take_apart
from praval_tools.values.builtin_iteration import is_read_as_builtin

_TEXTS: Final = (str, bytes, bytearray, UserString)
_CONTAINERS: Final = frozenset((dict, list, tuple, set, frozenset, deque, defaultdict, OrderedDict))

MAX_FREE_DEPTH: Final = 3
"""Inside of so many values that were made by reading, one in another, all is read."""
_MAX_MADE_PARTS: Final = 10_000
"""How many are made below that: what reading makes may make other parts at each reading, without end."""


def makes_parts(kind: type) -> bool:
    """
    Tell whether instances may make their parts anew at each reading.

    Python's own containers do not, nor do classes that derive from these and are read as they are.
    """
    if kind in _CONTAINERS:
        return False
    is_read_otherwise = issubclass(kind, Enum) or may_be_table(kind)
    return is_read_otherwise or not is_read_as_builtin(kind, "__iter__", "values")


def may_make_parts(depth: int, count: int) -> bool:
    """Tell whether more may be made inside of so many made values, where so many were made already."""
    return depth < MAX_FREE_DEPTH or (depth < MAX_DEPTH and count < _MAX_MADE_PARTS)


def has_plain_parts(value: object) -> bool:
    """
    Tell whether anything in *value* but None stands there by itself, and not in an instance that has fields.

    It counts as if it did where the parts of parts may be made anew without end.
    """
    seen, stack = dict[int, object](), [(value, 0)]
    while stack:
        part, depth = stack.pop()
        if part is None or id(part) in seen or is_pydantic_secret(type(part)):
            continue
        seen[id(part)] = part
        if type(part) in SCALAR_TYPES or has_type(part, _TEXTS) or depth > MAX_FREE_DEPTH:
            return True
        if not (has_class_fields(type(part)) or is_pydantic_model(type(part))):
            parts = list(iter_parts(part))
            if not parts and not (has_type(part, Iterable) and has_type(part, Sized)):
                return True
            stack += [(inner, depth + makes_parts(type(part))) for inner in parts]
    return False


def iter_parts(value: object) -> Iterator[object]:
    """Yield what JSON is written of in *value*, an instance without fields: its items, members, or other form."""
    if has_type(value, _TEXTS):
        return
    if has_type(value, Enum):
        yield value.value
        return
    with suppress(Exception, SystemExit):  # the seam to code of other classes; what raises has no JSON form either
        if _holds_numbers(value):
            return
        if (parts := take_apart(value)) is not value:
            yield parts
        elif has_type(value, Mapping):
            yield from (key for key in value if type(key) not in SCALAR_TYPES)
            # those of a dict by its class: an instance may hold something else under that name
            yield from type(value).values(value) if has_type(value, dict) else value.values()
        elif has_type(value, Sized) and has_type(value, Iterable):
            yield from value


def iter_keys(value: object) -> Iterator[object]:
    """Yield the keys of *value*, if it is a dict or the like."""
    with suppress(Exception, SystemExit):  # the seam to code of other classes; what raises has no JSON form either
        if has_type(value, Mapping):
            yield from value


def _holds_numbers(value: object) -> bool:
    """Tell whether an array has numbers alone: these are many, and mark nothing."""
    kind = getattr(value, "dtype", None)
    return kind is not None and getattr(kind, "hasobject", None) is False
