"""
Reads Python values in order to search for them elsewhere: each in every spelling in which Python writes it.

In contrast to `ValueReader`, which is for judges, this goes on past what only its own code could read.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from ipaddress import ip_interface
from pathlib import PurePosixPath, PureWindowsPath
from types import MappingProxyType
from typing import Final, cast
from uuid import UUID

from praval_tools.schema.class_fields import (
    get_all_fields,
    is_attrs_or_dataclass,
    is_named_tuple,
    is_pydantic_model,
    is_pydantic_secret,
)
from praval_tools.schema.decode_hooks import DecodeHooks
from praval_tools.schema.encode import Encoder
from praval_tools.schema.json_values import SCALAR_TYPES, to_key_text
from praval_tools.schema.marked_values import iter_marked_values
from praval_tools.schema.type_handler import DecodeHook, EncodeHook, Mismatch, Unencodable
from praval_tools.schema.type_hints import HintError
from praval_tools.schema.type_lookup import get_type_handler, has_only_builtin_types
from praval_tools.schema.value_reader import is_address_type, is_stored_field, iter_model_members, read_address

_READ_TYPES: Final = (datetime, date, time, timedelta, Decimal, PurePosixPath, PureWindowsPath)
_NUMBERS: Final = re.compile(r"\d+(?:, \d+)+")


def read_spellings(value: object, enclosing: tuple[int, ...] = ()) -> object:
    """
    Return *value* as JSON in which a value that JSON does not know, such as a time, is a list of its spellings.

    Fields are read where they are stored. What can only be read by code of its class is null, and so is what contains
    itself.

    Args:
        value: Anything.
        enclosing: The ids of what it is in.
    """
    if type(value) in SCALAR_TYPES:
        return value
    if id(value) in enclosing:
        return None
    try:
        return _read_value(value, (*enclosing, id(value)))
    except (Exception, SystemExit):  # the seam to whatever classes hold; what is beside it is read all the same
        return None


def read_marked_values(value: object) -> list[object]:
    """Return the values of fields in *value* that classes mark as secret, each as `read_spellings` does."""
    return list(map(read_spellings, iter_marked_values(value)))


def list_possible_spellings(text: str) -> list[object]:
    """Return other spellings of what *text* is if it is read as one of Python's own types, as JSON."""
    return [read_spellings(reading) for reading in _iter_readings(text.strip())]


def have_same_reading(first: str, second: str) -> bool:
    """Tell whether two texts stand for the same time, duration, UUID or address."""
    kinds = (datetime, date, time, timedelta)
    return any(
        left == right and type(left) is type(right)
        for read in (*map(_get_decode_hook, kinds), _read_local_time, _read_uuid, _read_interface)
        for left in _read_by(read, first)
        for right in _read_by(read, second)
    )


def _read_local_time(text: object, place: object) -> object:
    """Return a date-time without an offset."""
    return cast("datetime", _get_decode_hook(datetime)(f"{text}Z".upper(), place)).replace(tzinfo=None)


def _read_uuid(text: object, _: object) -> object:
    return UUID(cast("str", text))


def _read_interface(text: object, _: object) -> object:
    """Return an address or network, as what has both; one without its length is that of a single host."""
    return ip_interface(cast("str", text))


def _read_by(read: DecodeHook, text: str) -> list[object]:
    """Return what *text* is to *read*, if it is anything."""
    try:
        return [read(text, None)]
    except (Mismatch, ValueError):
        return []


def _iter_readings(text: str) -> Iterator[object]:
    """Yield the values of Python's own types that *text* may stand for."""
    yield from (text, text.lower(), text.upper())
    for kind in _READ_TYPES:
        with suppress(Mismatch):
            yield _get_decode_hook(kind)(text, None)
    with suppress(Mismatch):
        yield _read_local_time(text, None)
    with suppress(ValueError):
        yield UUID(text)  # in braces or without hyphens, too
    with suppress(ValueError, OverflowError):  # the latter of what is infinite
        yield from (float(text), int(float(text)))


def _read_value(value: object, enclosing: tuple[int, ...]) -> object:
    kind = type(value)
    if issubclass(kind, Enum):
        return read_spellings(object.__getattribute__(value, "_value_"), enclosing)
    if issubclass(kind, str):
        return str.__str__(cast("str", value))
    if getattr(kind, "__pydantic_root_model__", False):
        return read_spellings(dict.__getitem__(vars(value), "root"), enclosing)
    if is_attrs_or_dataclass(kind) or is_named_tuple(kind) or is_pydantic_model(kind):
        return _read_members(_iter_stored_members(value), enclosing)
    if issubclass(kind, dict):
        return _read_members(dict.items(cast("dict[object, object]", value)), enclosing)
    for container in (list, tuple, set, frozenset, deque):
        if issubclass(kind, container):
            return [read_spellings(item, enclosing) for item in vars(container)["__iter__"](value)]
    if issubclass(kind, MappingProxyType):
        return _read_members(cast("Mapping[object, object]", value).items(), enclosing)
    if is_pydantic_secret(kind):
        return read_spellings(object.__getattribute__(value, "_secret_value"), enclosing)
    if is_address_type(kind):
        return read_address(value)
    if has_only_builtin_types(kind):
        return list(_iter_leaf_spellings(value))
    return _read_members(object.__getattribute__(value, "__dict__").items(), enclosing)


def _read_members(members: Iterable[tuple[object, object]], enclosing: tuple[int, ...]) -> dict[str, object]:
    read: dict[str, object] = {}
    for key, member in members:
        spellings, item = read_spellings(key), read_spellings(member, enclosing)
        for spelling in spellings if isinstance(spellings, list) else [spellings]:
            with suppress(Unencodable):  # a tuple as a key has no JSON form
                text = to_key_text(spelling)
                read[text] = [read[text], item] if text in read else item
    return read


def _iter_stored_members(value: object) -> Iterator[tuple[object, object]]:
    """Yield what an instance of a class with fields stores, as far as it stores them all."""
    kind = type(value)
    if is_pydantic_model(kind):
        yield from iter_model_members(value)
        return
    with suppress(HintError):  # no tool can take it either
        for item in get_all_fields(kind):
            if is_stored_field(kind, item):
                with suppress(AttributeError):  # it was deleted
                    yield item.key, object.__getattribute__(value, item.attribute)


def _iter_leaf_spellings(value: object) -> Iterator[object]:
    """Yield how JSON and Python write a value of one of Python's own types; of zero nothing."""
    kind = type(value)
    if not value:
        return
    with suppress(Exception):  # it may have no JSON form, as a time without an offset
        yield _get_encode_hook(cast("Hashable", kind))(value)
    if kind is bytes:
        return
    with suppress(Exception):  # the seam to parts of it that are not Python's own, such as a time zone
        yield str(value)
        if isinstance(value, UUID):
            yield value.hex
        if isinstance(value, timedelta) and (days := abs(value).days) >= 365:  # pydantic counts the years
            text, (years, rest) = str(_get_encode_hook(timedelta)(value)), divmod(days, 365)
            yield text.replace(f"P{days}D", f"P{years}Y{rest}D" if rest else f"P{years}Y", 1)
        if isinstance(value, date | time):  # with `+00:00` where JSON has `Z`; and the numbers of its `repr`
            yield from (value.isoformat(), _NUMBERS.findall(repr(value))[0])


@cache
def _get_decode_hook(kind: type) -> DecodeHook:
    """Return what reads one of Python's own types from JSON."""
    return get_type_handler(kind).make_decode_hook(kind, DecodeHooks())


@cache
def _get_encode_hook(kind: type) -> EncodeHook:
    """Return what writes one of Python's own types as JSON."""
    return get_type_handler(kind).make_encode_hook(kind, Encoder())
