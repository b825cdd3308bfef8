"""
Encodes Python values as JSON for the journal and for other processes, and decodes them: arguments and results of calls.

JSON values stay as they are. Other values become an object with one key that names their kind, `{"praval:tuple": […]}`,
so that what is read back is what was written, and NaN never reaches JSON.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from math import isfinite
from typing import Any, Final, TypeAlias
from uuid import UUID

import msgspec

from praval_tools.names import get_class_name, get_plain_type, get_qualified_name
from praval_tools.schema.encode import encode
from praval_tools.schema.json_values import INT_LIMIT, LOWER_INT_LIMIT, sort_json_items, to_canonical_json
from praval_tools.schema.marked_members import MAX_FREE_DEPTH, may_make_parts
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.values.builtin_iteration import is_read_as_builtin, iterate_items_without_overrides

TAG_PREFIX: Final = "praval:"
MAX_DEPTH: Final = 200
"""What is nested deeper is left out: readers of JSON have a limit, and a list may contain itself."""

MAX_VALUES: Final = 2_000_000
"""A few lists that hold each other amount to more values than any memory has."""

PythonValue: TypeAlias = Any
"""A value of any type, which is handled by its exact type at run time."""

_PLAIN_TYPES: Final = frozenset({type(None), bool, str})
_KEY_TYPES: Final = frozenset({str})


class OpaqueValue(msgspec.Struct, frozen=True):
    """
    A value that has no form here: its type, or the `repr` that an earlier release kept.

    Where its form cannot stand, since a dict or a set needs what can be hashed, it is the JSON text of that.
    """

    text: str


def is_plain_json(value: PythonValue) -> bool:
    """Tell whether *value* is made of JSON values only and may be written as it is."""
    kind = type(value)
    if kind is not dict and kind is not list:
        return _is_plain_scalar(value, kind)
    stack, count = [(value, 0)], 0
    while stack:
        container, level = stack.pop()
        count += len(container)
        if level > MAX_DEPTH or count > MAX_VALUES:
            return False
        if type(container) is dict:
            if not _has_plain_keys(container):
                return False
            container = container.values()
        for member in container:
            kind = type(member)
            if kind is dict or kind is list:
                stack.append((member, level + 1))
            elif kind is float:  # here, since a call for each number costs more than all the rest
                if not isfinite(member):
                    return False
            elif (type(kind) is not type or kind not in _PLAIN_TYPES) and not _is_plain_scalar(member, kind):
                return False
    return True


def _is_plain_scalar(value: PythonValue, kind: type) -> bool:
    if kind is float:
        return isfinite(value)
    if kind is int:
        return bool(LOWER_INT_LIMIT < value < INT_LIMIT)
    return type(kind) is type and kind in _PLAIN_TYPES  # a metaclass may hash and compare its classes


def _has_plain_keys(value: dict[PythonValue, PythonValue]) -> bool:
    if not _KEY_TYPES.issuperset(map(get_plain_type, value)):
        return False
    return len(value) != 1 or not str(next(iter(value))).startswith(TAG_PREFIX)


def pack_value(value: PythonValue) -> PythonValue:
    """
    Return *value* as JSON; the value itself where it is JSON already.

    Never fails: of a value that has no JSON form its type is kept.
    """
    return value if is_plain_json(value) else _Packer().pack(value, 0)


def _leave_out(kind: type) -> PythonValue:
    return _tag_value("opaque", f"<{get_class_name(kind)} left out: too deep or too much>")  # its repr may have no end


class _Packer:
    """
    Packs one value, and counts the values in it.

    Args:
        encodes_objects: Of objects of other classes the JSON form is kept; False: nothing but the class.
    """

    def __init__(self, *, encodes_objects: bool = True) -> None:
        self._encodes_objects, self._value_count = encodes_objects, 0
        self._made_depth = self._made_count = 0

    def pack(self, value: PythonValue, level: int) -> PythonValue:
        kind = type(value)
        known_type = kind if kind is OpaqueValue else get_plain_type(value)
        self._value_count += 1
        if (level > MAX_DEPTH or self._value_count > MAX_VALUES) and kind is not OpaqueValue:
            return _leave_out(kind)
        if kind is list:
            return self._pack_items(value, level)
        if kind is dict:
            return self._pack_dict(value, level)
        if known_type in _PACKERS and getattr(value, "tzinfo", None) is None:
            return _PACKERS[known_type](value)
        if kind is tuple:
            return _tag_value("tuple", self._pack_items(value, level))
        if kind is set or kind is frozenset:
            return _tag_value(kind.__name__, sort_json_items([self._pack_key(item, level + 1) for item in value]))
        if not self._encodes_objects and known_type not in _PACKERS:
            return _tag_value("opaque", f"<{get_qualified_name(kind)}>")
        with activate_tool_frame("(value)"):  # what a tool returned, or is called with, may run code of its own
            try:
                if known_type in _PACKERS:
                    return _PACKERS[known_type](value)
                if isinstance(value, Mapping):
                    return self._pack_mapping(value, level)
                encoded = encode(value)
            except Exception:  # it has no JSON form, or its own code raises anything
                return _tag_value("opaque", f"<{get_qualified_name(kind)}>")  # its repr may hold what is secret
            return self.pack(encoded, level + 1)

    def _pack_mapping(self, value: Mapping[PythonValue, PythonValue], level: int) -> PythonValue:
        """Pack a mapping of another class, which may make its members anew each time, without end."""
        kind = type(value)
        if issubclass(kind, dict) and is_read_as_builtin(kind, "__iter__"):
            return self._pack_dict(dict(iterate_items_without_overrides(value)), level)
        if not may_make_parts(self._made_depth, self._made_count):
            return _leave_out(kind)
        self._made_count += self._made_depth >= MAX_FREE_DEPTH
        self._made_depth += 1
        try:
            return self._pack_dict(dict(value), level)
        finally:
            self._made_depth -= 1

    def _pack_items(self, items: Iterable[PythonValue], level: int) -> list[PythonValue]:
        return [self.pack(item, level + 1) for item in items]

    def _pack_dict(self, value: dict[PythonValue, PythonValue], level: int) -> PythonValue:
        if not all(type(key) is str for key in value):
            pairs = [[self._pack_key(key, level + 1), self.pack(member, level + 1)] for key, member in value.items()]
            return _tag_value("dict", pairs)
        members = {key: self.pack(member, level + 1) for key, member in value.items()}
        return members if _has_plain_keys(members) else _tag_value("object", members)

    def _pack_key(self, value: PythonValue, level: int) -> PythonValue:
        """Return a key of a dict, or an item of a set: its JSON text where what is read back could not be one."""
        packed = self.pack(value, level)
        try:
            hash(unpack_value(packed))
        except TypeError:
            return _tag_value("opaque", to_canonical_json(packed))
        return packed


def normalize_value(value: PythonValue, *, encodes_objects: bool = True, level: int = 0) -> PythonValue:
    """
    Return *value* with what JSON and this module do not know as JSON or as `OpaqueValue`.

    Args:
        value: Anything.
        encodes_objects: False: objects of other classes are `OpaqueValue`, also those that have a JSON form.
        level: How many lists and objects are around it where it is written.
    """
    return unpack_value(_Packer(encodes_objects=encodes_objects).pack(value, level))


def _tag_value(name: str, value: PythonValue) -> dict[str, PythonValue]:
    return {TAG_PREFIX + name: value}


def _pass_through(value: PythonValue) -> PythonValue:
    return value


def _make_packer(name: str, write: Callable[[PythonValue], PythonValue]) -> Callable[[PythonValue], PythonValue]:
    return lambda value: _tag_value(name, write(value))


_PACKERS: Final[dict[type, Callable[[PythonValue], PythonValue]]] = {
    type(None): _pass_through,
    bool: _pass_through,
    str: _pass_through,
    int: lambda value: value if LOWER_INT_LIMIT < value < INT_LIMIT else _tag_value("int", hex(value)),
    float: lambda value: value if isfinite(value) else _tag_value("float", repr(value)),
    bytes: _make_packer("bytes", lambda value: b64encode(value).decode()),
    datetime: _make_packer("datetime", datetime.isoformat),
    date: _make_packer("date", date.isoformat),
    time: _make_packer("time", time.isoformat),
    timedelta: _make_packer("timedelta", lambda value: [value.days, value.seconds, value.microseconds]),
    Decimal: _make_packer("decimal", str),
    UUID: _make_packer("uuid", str),
    OpaqueValue: _make_packer("opaque", lambda value: value.text),
}

_UNPACKERS: Final[dict[str, Callable[[PythonValue], PythonValue]]] = {
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
    "dict": lambda pairs: {unpack_value(key): unpack_value(member) for key, member in pairs},
    "object": lambda value: {key: unpack_value(member) for key, member in value.items()},
    "opaque": lambda text: OpaqueValue(str(text)),
}


def unpack_value(value: PythonValue) -> PythonValue:
    """
    Return the value of which `pack_value` made *value*.

    Raises:
        ValueError: It names a kind that does not exist, or holds what a value of that kind cannot hold.
    """
    kind = type(value)
    if kind is list:
        return [unpack_value(item) for item in value]
    if kind is not dict:
        return value
    if len(value) == 1 and (key := next(iter(value))).startswith(TAG_PREFIX):
        return _unpack_tagged(key, value[key])
    return {key: unpack_value(member) for key, member in value.items()}


def _unpack_tagged(key: str, value: PythonValue) -> PythonValue:
    unpack = _UNPACKERS.get(key.removeprefix(TAG_PREFIX))
    if unpack is None:
        raise ValueError(f"{key!r} is not the name of a kind of value")
    try:
        return unpack(value)
    except (TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a valid {key}: {error}") from None  # the value may hold what is secret
