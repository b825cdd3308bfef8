"""
Iterates over built-in containers, and subclasses of them, without running the methods that a subclass overrides.

A subclass may write, count or iterate over itself as it likes; what it holds is read by the methods of the built-in
type.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar, cast

from praval_tools.names import get_plain_type

K = TypeVar("K")
V = TypeVar("V")

BUILTIN_COLLECTIONS: Final = (list, tuple, set, frozenset, deque)
_ITERATORS: Final[Mapping[type, Callable[..., Iterable[object]]]] = {
    kind: kind.__iter__ for kind in BUILTIN_COLLECTIONS
}

_PLAIN_KEYS: Final = frozenset((str, int, float, bool, type(None)))


def find_collection_base(kind: type) -> type | None:
    """Return which of `BUILTIN_COLLECTIONS` a class is or derives from; its metaclass is not asked."""
    for base in BUILTIN_COLLECTIONS:
        if issubclass(kind, base):
            return base
    return None


def is_read_as_builtin(kind: type, *methods: str) -> bool:
    """Tell whether a class is a built-in container, or derives from one and overrides none of these *methods* of it."""
    base = next((base for base in (OrderedDict, dict) if issubclass(kind, base)), None) or find_collection_base(kind)
    if base is None:
        return False
    return all(getattr(kind, name) is getattr(base, name) for name in methods if hasattr(base, name))


def iterate_without_overrides(value: Iterable[object]) -> Iterable[object]:
    """Return the items that *value* holds; one of another type iterates over itself."""
    base = find_collection_base(type(value))
    return value if base is None else _ITERATORS[base](value)


def iterate_items_without_overrides(value: Mapping[K, V]) -> Iterable[tuple[K, V]]:
    """Return the keys and members that *value* holds; one of another type lists them itself."""
    kind = type(value)
    if not issubclass(kind, dict):
        return value.items()
    stored = cast("dict[K, V]", value)
    # an OrderedDict hashes its keys as it is read, which runs no code of plain ones; its order may be another
    is_plain = issubclass(kind, OrderedDict) and _PLAIN_KEYS.issuperset(map(get_plain_type, dict.keys(stored)))
    return OrderedDict.items(cast("OrderedDict[K, V]", stored)) if is_plain else dict.items(stored)
