"""
Iterates over built-in containers, and subclasses of them, without running the methods that a subclass overrides.

A subclass may write, count or iterate over itself as it likes; what it holds is read by the methods of the built-in
type. Also refuses values with too many equal hashes, which would make sets and dicts slow.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Final

from praval_tools.schema.type_handler import Mismatch

_MAX_EQUAL_HASHES: Final = 100
"""How many values of one hash a set or a dict may hold: each is compared with all the others."""

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


def iterate_items_without_overrides(value: Mapping[object, object]) -> Iterable[tuple[object, object]]:
    """Return the keys and members that *value* holds; one of another type lists them itself."""
    kind = _find_builtin_type(value, _ITEM_READERS)
    return value.items() if kind is None else _ITEM_READERS[kind](value)


def _find_builtin_type(value: object, kinds: Container[type]) -> type | None:
    return next((kind for kind in type(value).__mro__ if kind in kinds), None)


def check_hash_collisions(values: Sequence[object]) -> None:
    """
    Accept *values* if a set or a dict of them is made in time in proportion to their number.

    Who sends numbers can choose their hashes, and Python compares each value with all others of its hash.

    Raises:
        Mismatch: Too many of them share one hash.
    """
    if len(values) > _MAX_EQUAL_HASHES and max(Counter(map(hash, values)).values()) > _MAX_EQUAL_HASHES:
        raise Mismatch(f"holds more than {_MAX_EQUAL_HASHES} values of one hash, so gathering them takes too long")
