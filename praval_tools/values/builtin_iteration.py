"""
Iterates over built-in containers, and subclasses of them, without running the methods that a subclass overrides.

A subclass may write, count or iterate over itself as it likes; what it holds is read by the methods of the built-in
type.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar, cast

K = TypeVar("K")
V = TypeVar("V")

_ITERATORS: Final[Mapping[type, Callable[..., Iterable[object]]]] = {
    kind: kind.__iter__ for kind in (list, tuple, set, frozenset, deque)
}

_PLAIN_KEYS: Final = (str, int, float, bool, type(None))


def iterate_without_overrides(value: Iterable[object]) -> Iterable[object]:
    """Return the items that *value* holds; one of another type iterates over itself."""
    kind = next((kind for kind in type(value).__mro__ if kind in _ITERATORS), None)
    return value if kind is None else _ITERATORS[kind](value)


def iterate_items_without_overrides(value: Mapping[K, V]) -> Iterable[tuple[K, V]]:
    """Return the keys and members that *value* holds; one of another type lists them itself."""
    kind = type(value)
    if not issubclass(kind, dict):
        return value.items()
    stored = cast("dict[K, V]", value)
    # an OrderedDict hashes its keys as it is read, which runs no code of plain ones; its order may be another
    is_ordered = issubclass(kind, OrderedDict) and all(type(key) in _PLAIN_KEYS for key, _ in dict.items(stored))
    return OrderedDict.items(cast("OrderedDict[K, V]", stored)) if is_ordered else dict.items(stored)
