"""
What values of Python's own types hold, their subclasses included: read by the type that stores it.

A subclass may write, count or iterate over itself as it likes; none of its code is asked here.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from praval_tools.schema.type_handler import Mismatch

_MAX_EQUAL_HASHES: Final = 100
"""How many values of one hash a set or a dict may hold: each is compared with all the others."""

_ITERATORS: Final[Mapping[type, Callable[[Any], Iterable[Any]]]] = {
    kind: kind.__iter__ for kind in (list, tuple, set, frozenset, deque)
}
_ITEM_READERS: Final[Mapping[type, Callable[[Any], Iterable[tuple[Any, Any]]]]] = {
    OrderedDict: OrderedDict.items,
    dict: dict.items,
}
_SCALAR_READERS: Final[Mapping[type, Callable[[Any], Any]]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
}


def iterate_stored(value: Any) -> Iterable[Any]:
    """Return the items that *value* holds; an object of no type of Python's own iterates over itself."""
    items: Iterable[Any] = _find_reader(_ITERATORS, value, iter)(value)
    return items


def iterate_stored_items(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the keys and members that the mapping *value* holds; one of no type of Python's own lists them itself."""
    items: Iterable[tuple[Any, Any]] = _find_reader(_ITEM_READERS, value, lambda mapping: mapping.items())(value)
    return items


def read_stored_scalar(value: Any) -> Any:
    """Return the text, bytes or number that *value* is, without its subclass; anything else as it is."""
    return _find_reader(_SCALAR_READERS, value, lambda other: other)(value)


def _find_reader(readers: Mapping[type, Callable[[Any], Any]], value: Any, default: Callable[[Any], Any]) -> Any:
    return next((readers[kind] for kind in type(value).__mro__ if kind in readers), default)


def check_hashes(values: list[Any]) -> None:
    """
    Accept *values* if a set or a dict of them is made in time in proportion to their number.

    Who sends numbers can choose their hashes, and Python compares each value with all others of its hash.

    Raises:
        Mismatch: Too many of them share one hash.
    """
    if len(values) > _MAX_EQUAL_HASHES and max(Counter(map(hash, values)).values()) > _MAX_EQUAL_HASHES:
        raise Mismatch(f"holds more than {_MAX_EQUAL_HASHES} values of one hash, so gathering them takes too long")
