"""
Python values as JSON, and back as the same values.

JSON values stay as they are. What JSON does not have is an object with one key that names it, `{"praval:tuple": […]}`,
so that a journal reads back what was written, and NaN never reaches JSON.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final
from uuid import UUID

import msgspec

from praval_tools.names import shorten
from praval_tools.schema.encode import encode
from praval_tools.schema.json_values import INT_LIMIT, in_order
from praval_tools.schema.type_handler import Mismatch

TAG: Final = "praval:"
MOST_LEVELS: Final = 200
"""What is nested deeper is kept as its text: readers of JSON have a limit, and a list may contain itself."""

MOST_VALUES: Final = 2_000_000
"""A few lists that hold each other stand for more values than any memory has."""

_PLAIN: Final = frozenset({type(None), bool, str})


class Opaque(msgspec.Struct, frozen=True):
    """What stands for a value that has no JSON form: the text that `repr` gave, shortened."""

    text: str


def is_plain(value: Any) -> bool:
    """Tell whether *value* is made of JSON values only and may be written as it is."""
    kind = type(value)
    if kind is not dict and kind is not list:
        return _is_scalar(value, kind)
    stack, seen = [(value, 0)], 0
    while stack:
        here, level = stack.pop()
        seen += len(here)
        if level > MOST_LEVELS or seen > MOST_VALUES:
            return False
        if type(here) is dict:
            if not _has_plain_keys(here):
                return False
            here = here.values()
        for one in here:
            kind = type(one)
            if kind is float:
                if not math.isfinite(one):
                    return False
            elif kind is dict or kind is list:
                stack.append((one, level + 1))
            elif not (kind in _PLAIN or (kind is int and -INT_LIMIT < one < INT_LIMIT)):
                return False
    return True


def _is_scalar(value: Any, kind: type) -> bool:
    if kind is float:
        return math.isfinite(value)
    if kind is int:
        return bool(-INT_LIMIT < value < INT_LIMIT)
    return kind in _PLAIN


def _has_plain_keys(value: Mapping[Any, Any]) -> bool:
    for key in value:
        if type(key) is not str:
            return False
    return len(value) != 1 or not str(next(iter(value))).startswith(TAG)


def packed(value: Any) -> Any:
    """
    Return *value* as JSON; the value itself where it is JSON already.

    Never fails: what has no JSON form is its shortened `repr`.
    """
    return value if is_plain(value) else _Packer().pack(value, 0)


class _Packer:
    """Packs one value, and counts how much it is."""

    def __init__(self) -> None:
        self._seen = 0

    def pack(self, value: Any, level: int) -> Any:
        kind = type(value)
        self._seen += 1
        if level > MOST_LEVELS or self._seen > MOST_VALUES:
            return _tagged("opaque", f"<{kind.__name__} left out: too deep or too much>")  # its repr may have no end
        if kind is list:
            return self._all(value, level)
        if kind is dict:
            return self._dict(value, level)
        if kind in _PACKS:
            return _PACKS[kind](value)
        if kind is tuple:
            return _tagged("tuple", self._all(value, level))
        if kind is set or kind is frozenset:
            return _tagged(kind.__name__, in_order(self._all(value, level)))
        return self._foreign(value, level)

    def _all(self, values: Any, level: int) -> list[Any]:
        return [self.pack(one, level + 1) for one in values]

    def _dict(self, value: dict[Any, Any], level: int) -> Any:
        if not all(type(key) is str for key in value):
            pairs = [[self.pack(key, level + 1), self.pack(one, level + 1)] for key, one in value.items()]
            return _tagged("dict", pairs)
        made = {key: self.pack(one, level + 1) for key, one in value.items()}
        return _tagged("object", made) if len(made) == 1 and next(iter(made)).startswith(TAG) else made

    def _foreign(self, value: Any, level: int) -> Any:
        """Pack what is no value of Python's own: by the table of types, else as its text."""
        if isinstance(value, Mapping):
            return self._dict(dict(value), level)
        try:
            plain = encode(value)
        except Mismatch:
            return _tagged("opaque", _shown(value))
        return self.pack(plain, level + 1)


def known(value: Any) -> Any:
    """Return *value*, of a kind that JSON and this module do not know, as JSON or as `Opaque`."""
    return unpacked(_Packer().pack(value, 0))


def _shown(value: Any) -> str:
    return value.text if type(value) is Opaque else shorten(value, 400)


def _tagged(name: str, value: Any) -> dict[str, Any]:
    return {TAG + name: value}


def _number(value: float) -> Any:
    return value if math.isfinite(value) else _tagged("float", repr(value))


def _whole(value: int) -> Any:
    return value if -INT_LIMIT < value < INT_LIMIT else _tagged("int", hex(value))


def _as_is(value: Any) -> Any:
    return value


def _written(name: str, write: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: _tagged(name, write(value))


_PACKS: Final[dict[type, Callable[[Any], Any]]] = {
    type(None): _as_is,
    bool: _as_is,
    str: _as_is,
    int: _whole,
    float: _number,
    bytes: _written("bytes", lambda value: b64encode(value).decode()),
    datetime: _written("datetime", datetime.isoformat),
    date: _written("date", date.isoformat),
    time: _written("time", time.isoformat),
    timedelta: _written("timedelta", lambda value: [value.days, value.seconds, value.microseconds]),
    Decimal: _written("decimal", str),
    UUID: _written("uuid", str),
    Opaque: lambda value: _tagged("opaque", _shown(value)),
}

_UNPACKS: Final[dict[str, Callable[[Any], Any]]] = {
    "float": float,
    "int": partial(int, base=16),
    "bytes": partial(b64decode, validate=True),
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda parts: timedelta(*parts),
    "decimal": Decimal,
    "uuid": UUID,
    "tuple": lambda items: tuple(map(unpacked, items)),
    "set": lambda items: set(map(unpacked, items)),
    "frozenset": lambda items: frozenset(map(unpacked, items)),
    "dict": lambda pairs: {unpacked(key): unpacked(one) for key, one in pairs},
    "object": lambda value: {key: unpacked(one) for key, one in value.items()},
    "opaque": lambda text: Opaque(str(text)),
}


def unpacked(value: Any) -> Any:
    """
    Return the value that `packed` made *value* of.

    Raises:
        ValueError: It names a kind that does not exist, or holds what that kind cannot be.
    """
    kind = type(value)
    if kind is list:
        return [unpacked(one) for one in value]
    if kind is not dict:
        return value
    if len(value) == 1 and (key := next(iter(value))).startswith(TAG):
        return _unpacked_tag(key, value[key])
    return {key: unpacked(one) for key, one in value.items()}


def _unpacked_tag(key: str, value: Any) -> Any:
    unpack = _UNPACKS.get(key.removeprefix(TAG))
    if unpack is None:
        raise ValueError(f"{key!r} names no kind of value")
    try:
        return unpack(value)
    except (TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
        raise ValueError(f"{shorten(value)} is no {key}: {error}") from None
