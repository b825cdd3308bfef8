"""Makes plain what public methods are given: texts, numbers and containers whose classes may have code of their own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, MappingView
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar, cast

from praval_tools.names import enter_object_context, get_plain_type, to_plain_scalar
from praval_tools.values.builtin_iteration import (
    find_collection_base,
    iterate_items_without_overrides,
    iterate_without_overrides,
)
from praval_tools.values.plain_times import to_plain_time

T = TypeVar("T")

_MAX_DEPTH: Final = 4

_KEY_CONTAINERS: Final = (tuple, frozenset)
_IMMUTABLE_TYPE: Final = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE, which no class has that is written in Python
_ITERABLE_MODULES: Final = frozenset(("builtins", "collections", "_collections", "itertools"))
_get_type_flags: Final[Callable[[type], int]] = type.__dict__["__flags__"].__get__


_Seen: TypeAlias = dict[tuple[int, int], tuple[object, object]]
"""The id of a container and the depth → it, so that no other gets its id, and its plain form."""


def to_plain_argument(value: object) -> object:
    """
    Return a text, number, moment or time span, or a built-in container, as a plain one, down to `_MAX_DEPTH` levels.

    Those that are plain come back as they are. Of a plain dict, only the keys are made plain: its members may be
    values of the program. Of a dict of another class, such as an `OrderedDict`, the members are made plain, too. Items
    of a generator or built-in iterator are made plain as they are read, and a view of a dict becomes a list. All else
    stays as it is: records and members of an enumeration that have a name, and objects of other classes.

    A container that is in several places is read once.
    """
    return _to_plain(value, _MAX_DEPTH, {})


def _to_plain(value: object, depth: int, seen: _Seen) -> object:
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None or depth == 0 or _has_name(kind):
        return value
    base = dict if issubclass(kind, dict) else find_collection_base(kind)
    if base is not None:
        if (known := seen.get((id(value), depth))) is not None:
            return known[1]
        inner = depth - 1
        plain = _to_plain_dict(value, inner, seen) if base is dict else _to_plain_items(value, base, inner, seen)
        seen[id(value), depth] = value, plain
        return plain
    if _get_type_flags(kind) & _IMMUTABLE_TYPE and kind.__module__ in _ITERABLE_MODULES:
        return _to_plain_iterable(value, depth, seen)
    return to_plain_time(to_plain_scalar(value))


def _has_name(kind: type) -> bool:
    """Tell whether a class is of records or members of an enumeration that have a name, and are no texts."""
    if issubclass(kind, str | Enum):
        return not issubclass(kind, str)
    fields = getattr(kind, "_fields", None) if issubclass(kind, tuple) else None
    return type(fields) is tuple and any(type(field) is str and field == "name" for field in fields)


def _to_plain_items(value: object, base: type, depth: int, seen: _Seen) -> object:
    items = list(iterate_without_overrides(cast("list[object]", value)))
    plain = [_to_plain(item, depth, seen) for item in items]
    if type(value) is base and _are_same(plain, items):
        return value
    if base is deque:
        return _build_container(partial(deque, maxlen=deque.maxlen.__get__(value)), plain)
    return _build_container(base, plain)


def _to_plain_dict(value: object, depth: int, seen: _Seen) -> object:
    items = list(iterate_items_without_overrides(cast("dict[object, object]", value)))
    keys = [
        _to_plain(key, depth, seen) if get_plain_type(key) in _KEY_CONTAINERS else to_plain_scalar(key)
        for key, _ in items
    ]
    is_plain_dict = type(value) is dict
    if is_plain_dict and _are_same(keys, (key for key, _ in items)):
        return value
    members = [item if is_plain_dict else _to_plain(item, depth, seen) for _, item in items]
    return _build_container(dict, zip(keys, members, strict=True))


def _to_plain_iterable(value: object, depth: int, seen: _Seen) -> object:
    """Return an object of another built-in type so that it gives plain items, if it gives any."""
    if type(value) is MappingProxyType:
        return _to_plain(_build_container(dict, value), depth, seen)
    if issubclass(type(value), MappingView):
        return _to_plain(_build_container(list, cast("Iterable[object]", value)), depth, seen)
    if issubclass(type(value), Iterator):
        return map(partial(_to_plain_item, depth=depth - 1), cast("Iterator[object]", value))
    return value


def _to_plain_item(item: object, depth: int) -> object:
    """Read an item of an iterator, whatever was read before: a generator may change one list and yield it again."""
    return _to_plain(item, depth, {})


def _build_container(kind: Callable[..., T], items: object) -> T:
    """Return a container of *items*, which may be hashed, compared and read by code of their own: without rights."""
    with enter_object_context():
        return kind(items)


def _are_same(new: Iterable[object], old: Iterable[object]) -> bool:
    return all(item is given for item, given in zip(new, old, strict=True))
