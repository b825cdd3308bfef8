"""
What values of Python's own types hold, their subclasses included: read by the type that stores it.

A subclass may write, count or iterate over itself as it likes; none of its code is asked here.
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


def iterate_stored(value: Iterable[object]) -> Iterable[object]:
    """Return the items that *value* holds; an object of no type of Python's own iterates over itself."""
    kind = _find_own_type(value, _ITERATORS)
    return value if kind is None else _ITERATORS[kind](value)


def iterate_stored_items(value: Mapping[object, object]) -> Iterable[tuple[object, object]]:
    """Return the keys and members that *value* holds; a mapping of no type of Python's own lists them itself."""
    kind = _find_own_type(value, _ITEM_READERS)
    return value.items() if kind is None else _ITEM_READERS[kind](value)


def _find_own_type(value: object, kinds: Container[type]) -> type | None:
    return next((kind for kind in type(value).__mro__ if kind in kinds), None)


def check_hashes(values: Sequence[object]) -> None:
    """
    Accept *values* if a set or a dict of them is made in time in proportion to their number.

    Who sends numbers can choose their hashes, and Python compares each value with all others of its hash.

    Raises:
        Mismatch: Too many of them share one hash.
    """
    if len(values) > _MAX_EQUAL_HASHES and max(Counter(map(hash, values)).values()) > _MAX_EQUAL_HASHES:
        raise Mismatch(f"holds more than {_MAX_EQUAL_HASHES} values of one hash, so gathering them takes too long")
