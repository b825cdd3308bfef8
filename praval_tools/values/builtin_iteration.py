"""
Iterates over built-in containers, and subclasses of them, without running the methods that a subclass overrides.

A subclass may write, count or iterate over itself as it likes; what it holds is read by the methods of the built-in
type.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Final, TypeVar, cast

K = TypeVar("K")
V = TypeVar("V")

_ITERATORS: Final[Mapping[type, Callable[..., Iterable[object]]]] = {
    kind: kind.__iter__ for kind in (list, tuple, set, frozenset, deque)
}
_ITEM_READERS: Final[Mapping[type, Callable[..., Iterable[tuple[object, object]]]]] = {
    OrderedDict: OrderedDict.items,
    dict: dict.items,
}


def iterate_without_overrides(value: Iterable[object]) -> Iterable[object]:
    """Return the items that *value* holds; one of another type iterates over itself."""
    kind = _find_builtin_type(value, _ITERATORS)
    return value if kind is None else _ITERATORS[kind](value)


def iterate_items_without_overrides(value: Mapping[K, V]) -> Iterable[tuple[K, V]]:
    """Return the keys and members that *value* holds; one of another type lists them itself."""
    kind = _find_builtin_type(value, _ITEM_READERS)
    return value.items() if kind is None else cast("Iterable[tuple[K, V]]", _ITEM_READERS[kind](value))


def _find_builtin_type(value: object, kinds: Container[type]) -> type | None:
    return next((kind for kind in type(value).__mro__ if kind in kinds), None)
