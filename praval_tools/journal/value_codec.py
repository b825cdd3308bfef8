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

from praval_tools.names import shorten_repr
from praval_tools.schema.encode import encode
from praval_tools.schema.json_values import INT_LIMIT, sort_json_items
from praval_tools.schema.type_handler import Mismatch

TAG_PREFIX: Final = "praval:"
MAX_DEPTH: Final = 200
"""What is nested deeper is kept as its text: readers of JSON have a limit, and a list may contain itself."""

MAX_VALUES: Final = 2_000_000
"""A few lists that hold each other stand for more values than any memory has."""

_PLAIN_TYPES: Final = frozenset({type(None), bool, str})


class OpaqueValue(msgspec.Struct, frozen=True):
    """What stands for a value that has no JSON form: the text that `repr` gave, shortened."""

    text: str


def is_plain_json(value: Any) -> bool:
    """Tell whether *value* is made of JSON values only and may be written as it is."""
    kind = type(value)
    if kind is not dict and kind is not list:
        return _is_plain_scalar(value, kind)
    stack, seen = [(value, 0)], 0
    while stack:
        here, level = stack.pop()
        seen += len(here)
        if level > MAX_DEPTH or seen > MAX_VALUES:
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
            elif not (kind in _PLAIN_TYPES or (kind is int and -INT_LIMIT < one < INT_LIMIT)):
                return False
    return True


def _is_plain_scalar(value: Any, kind: type) -> bool:
    if kind is float:
        return math.isfinite(value)
    if kind is int:
        return bool(-INT_LIMIT < value < INT_LIMIT)
    return kind in _PLAIN_TYPES


def _has_plain_keys(value: Mapping[Any, Any]) -> bool:
    for key in value:
        if type(key) is not str:
            return False
    return len(value) != 1 or not str(next(iter(value))).startswith(TAG_PREFIX)


def pack_value(value: Any) -> Any:
    """
    Return *value* as JSON; the value itself where it is JSON already.

    Never fails: what has no JSON form is its shortened `repr`.
    """
    return value if is_plain_json(value) else _Packer().pack(value, 0)


class _Packer:
    """Packs one value, and counts how much it is."""

    def __init__(self) -> None:
        self._value_count = 0

    def pack(self, value: Any, level: int) -> Any:
        kind = type(value)
        self._value_count += 1
        if level > MAX_DEPTH or self._value_count > MAX_VALUES:
            return _tag_value("opaque", f"<{kind.__name__} left out: too deep or too much>")  # its repr may have no end
        if kind is list:
            return self._pack_items(value, level)
        if kind is dict:
            return self._pack_dict(value, level)
        if kind in _PACKERS:
            return _PACKERS[kind](value)
        if kind is tuple:
            return _tag_value("tuple", self._pack_items(value, level))
        if kind is set or kind is frozenset:
            return _tag_value(kind.__name__, sort_json_items(self._pack_items(value, level)))
        return self._pack_foreign(value, level)

    def _pack_items(self, values: Any, level: int) -> list[Any]:
        return [self.pack(one, level + 1) for one in values]

    def _pack_dict(self, value: dict[Any, Any], level: int) -> Any:
        if not all(type(key) is str for key in value):
            pairs = [[self.pack(key, level + 1), self.pack(one, level + 1)] for key, one in value.items()]
            return _tag_value("dict", pairs)
        made = {key: self.pack(one, level + 1) for key, one in value.items()}
        return _tag_value("object", made) if len(made) == 1 and next(iter(made)).startswith(TAG_PREFIX) else made

    def _pack_foreign(self, value: Any, level: int) -> Any:
        """Pack what is no value of Python's own: by the table of types, else as its text."""
        if isinstance(value, Mapping):
            return self._pack_dict(dict(value), level)
        try:
            plain = encode(value)
        except Mismatch:
            return _tag_value("opaque", _format_opaque(value))
        return self.pack(plain, level + 1)


def normalize_value(value: Any) -> Any:
    """Return *value*, of a kind that JSON and this module do not know, as JSON or as `Opaque`."""
    return unpack_value(_Packer().pack(value, 0))


def _format_opaque(value: Any) -> str:
    return value.text if type(value) is OpaqueValue else shorten_repr(value, 400)


def _tag_value(name: str, value: Any) -> dict[str, Any]:
    return {TAG_PREFIX + name: value}


def _pack_float(value: float) -> Any:
    return value if math.isfinite(value) else _tag_value("float", repr(value))


def _pack_int(value: int) -> Any:
    return value if -INT_LIMIT < value < INT_LIMIT else _tag_value("int", hex(value))


def _pass_through(value: Any) -> Any:
    return value


def _make_packer(name: str, write: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: _tag_value(name, write(value))


_PACKERS: Final[dict[type, Callable[[Any], Any]]] = {
    type(None): _pass_through,
    bool: _pass_through,
    str: _pass_through,
    int: _pack_int,
    float: _pack_float,
    bytes: _make_packer("bytes", lambda value: b64encode(value).decode()),
    datetime: _make_packer("datetime", datetime.isoformat),
    date: _make_packer("date", date.isoformat),
    time: _make_packer("time", time.isoformat),
    timedelta: _make_packer("timedelta", lambda value: [value.days, value.seconds, value.microseconds]),
    Decimal: _make_packer("decimal", str),
    UUID: _make_packer("uuid", str),
    OpaqueValue: lambda value: _tag_value("opaque", _format_opaque(value)),
}

_UNPACKERS: Final[dict[str, Callable[[Any], Any]]] = {
    "float": float,
    "int": partial(int, base=16),
    "bytes": partial(b64decode, validate=True),
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda parts: timedelta(*parts),
    "decimal": Decimal,
    "uuid": UUID,
    "tuple": lambda items: tuple(map(unpack_value, items)),
    "set": lambda items: set(map(unpack_value, items)),
    "frozenset": lambda items: frozenset(map(unpack_value, items)),
    "dict": lambda pairs: {unpack_value(key): unpack_value(one) for key, one in pairs},
    "object": lambda value: {key: unpack_value(one) for key, one in value.items()},
    "opaque": lambda text: OpaqueValue(str(text)),
}


def unpack_value(value: Any) -> Any:
    """
    Return the value that `packed` made *value* of.

    Raises:
        ValueError: It names a kind that does not exist, or holds what that kind cannot be.
    """
    kind = type(value)
    if kind is list:
        return [unpack_value(one) for one in value]
    if kind is not dict:
        return value
    if len(value) == 1 and (key := next(iter(value))).startswith(TAG_PREFIX):
        return _unpack_tagged(key, value[key])
    return {key: unpack_value(one) for key, one in value.items()}


def _unpack_tagged(key: str, value: Any) -> Any:
    unpack = _UNPACKERS.get(key.removeprefix(TAG_PREFIX))
    if unpack is None:
        raise ValueError(f"{key!r} names no kind of value")
    try:
        return unpack(value)
    except (TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
        raise ValueError(f"{shorten_repr(value)} is no {key}: {error}") from None
