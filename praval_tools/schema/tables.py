"""Takes apart the tables and arrays of other libraries: once, however often a result is read to be recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from operator import methodcaller
from typing import Final

_ROW_METHODS: Final = ("to_dicts", "tolist")
_known_parts: Final[ContextVar[dict[int, tuple[object, object]] | None]] = ContextVar("known_parts", default=None)


@contextmanager
def take_apart_once() -> Iterator[None]:
    """Let `take_apart` run the code of each value once in this block, however often it is called."""
    token = _known_parts.set({})
    try:
        yield
    finally:
        _known_parts.reset(token)


def take_apart(value: object) -> object:
    """Return the rows of a table, or the items of an array, as plain values; *value* itself where it is neither."""
    known = _known_parts.get()
    if known is not None and id(value) in known:
        return known[id(value)][1]
    parts = _take_apart(value)
    if known is not None and parts is not value:
        known[id(value)] = value, parts  # with the value, so that its id stays its own
    return parts


def may_be_table(kind: type) -> bool:
    """Tell whether `take_apart` may run methods of a class to read its instances."""
    return any(hasattr(kind, name) for name in (*_ROW_METHODS, "to_dict"))


def _take_apart(value: object) -> object:
    kind = type(value)  # an instance may have every attribute that it is asked for, such as a proxy
    for name in _ROW_METHODS:
        if callable(getattr(kind, name, None)):
            return getattr(value, name)()
    if callable(getattr(kind, "to_dict", None)) and hasattr(value, "columns"):
        return methodcaller("to_dict", orient="records")(value)
    return value
