"""
Converts Python values to JSON for policies, bounds and approvers, without running code of the values' classes.

A class may write its values as it likes, so what it writes says nothing about what a tool gets. Here fields are read
where they are stored. A value that can only be read by its own code has no form here, and cannot be judged.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from datetime import datetime, time
from decimal import Decimal
from enum import Enum
from functools import partial
from types import GetSetDescriptorType, MemberDescriptorType, WrapperDescriptorType
from typing import Any, Final

from praval_tools.forks import first_use_property
from praval_tools.names import get_class_name, get_qualified_name
from praval_tools.schema.class_fields import (
    ClassField,
    get_all_fields,
    get_fields,
    has_class_fields,
    is_named_tuple,
    is_pydantic_model,
)
from praval_tools.schema.encode import Encoder
from praval_tools.schema.json_values import SCALAR_TYPES, shorten_value, sort_json_items, to_key_text, to_step
from praval_tools.schema.type_handler import EncodeHook, Unencodable, collect_items
from praval_tools.schema.type_hints import Hint, HintError
from praval_tools.schema.type_lookup import get_type_handler, has_only_builtin_types
from praval_tools.values.builtin_iteration import iterate_without_overrides

_TUPLE_FIELD: Final = type(vars(inspect.FullArgSpec)["args"])
_CONTAINERS: Final = (list, tuple, deque, set, frozenset)
_PAYLOAD_TYPES: Final = (str, bytes, int, float, list, deque, dict, set, frozenset)
_STORE_TYPES: Final = (GetSetDescriptorType, MemberDescriptorType, type(None))
_STORES: Final = ("__dict__", "__pydantic_extra__")
"""Where models hold what they have."""

_ADDRESS_NAMES: Final = {
    "ipaddress": ("Address", "Interface", "Network"),
    "pydantic.networks": ("Url", "Dsn", "NameEmail"),
    "pydantic_core._pydantic_core": ("Url",),
}
"""Modules that have classes of addresses → the ends of their names; what else they have may hold any object."""

_ZONE_MODULES: Final = frozenset({"datetime", "zoneinfo", "pydantic_core._pydantic_core"})
"""Modules of time zones that stay the same."""


class ObjectMembers(dict[str, object]):
    """
    The members of an object of a class, which are not taken for a plain dict.

    Args:
        members: All of them.
        extra_keys: Those that the class does not declare.
    """

    def __init__(self, members: dict[str, object], extra_keys: Set[str] = frozenset()) -> None:
        super().__init__(members)
        self.extra_keys = extra_keys


class SetItems(list[object]):
    """The items of a set, whose order says nothing."""


class ValueText(str):
    """The text of a value of another type than `str`, such as a time, which has several spellings."""

    __slots__ = ()


class NumberText(ValueText):
    """The text of a key that is a number."""

    __slots__ = ()


class ValueReader:
    """
    Reads values; one per tool, because it remembers the classes that it has seen.

    Args:
        keep_decimal: Leave `Decimal` as it is, for exact comparison.
        reads_made_fields: Fields that a constructor does not take are read as well, where they are set.
        needs_made_fields: Those have to be readable; else one that is not is left out as a whole, as nobody gave it.
        marks_types: Objects are read as `ObjectMembers`, sets as `SetItems`, and texts of other types as `ValueText`.
        is_inside_model: Instances of NamedTuples are read as arrays, which is how pydantic takes and describes them.
    """

    def __init__(
        self, *, keep_decimal: bool = True, reads_made_fields: bool = True, needs_made_fields: bool = False,
        marks_types: bool = False, is_inside_model: bool = False,
    ) -> None:  # fmt: skip
        self._keep_decimal, self._reads_made_fields = keep_decimal, reads_made_fields
        self._needs_made_fields, self._marks_types = needs_made_fields, marks_types
        self._is_inside_model = is_inside_model
        # one that contains itself ends at its outermost field
        self._made_field_reader = self if needs_made_fields else ValueReader(
            keep_decimal=keep_decimal, needs_made_fields=True, marks_types=marks_types, is_inside_model=is_inside_model
        )  # fmt: skip
        self._ignored_errors = (AttributeError,) if needs_made_fields else (AttributeError, Unencodable)
        self._readers: dict[type, EncodeHook] = {}

    @first_use_property
    def _member_reader(self) -> ValueReader:
        """What reads the members of pydantic models."""
        return self if self._is_inside_model else ValueReader(
            keep_decimal=self._keep_decimal, reads_made_fields=self._reads_made_fields,
            needs_made_fields=self._needs_made_fields, marks_types=self._marks_types, is_inside_model=True,
        )  # fmt: skip

    def read(self, value: object) -> object:
        """
        Return *value* as JSON.

        Raises:
            Unencodable: Something in it can only be read by its own code, or has no JSON form; naming its place.
        """
        try:
            return self._read(value)
        except Unencodable:
            raise
        except RecursionError:
            raise Unencodable("is nested too deeply, or inside itself") from None
        except Exception as error:  # the seam to whatever classes hold, such as an instance without its fields
            raise Unencodable(f"cannot be read: {get_class_name(type(error))}") from None

    def _read(self, value: object) -> object:
        kind = type(value)
        reader = self._readers.get(kind)
        if reader is None:
            reader = self._make_reader(kind)
            if self._marks_types and kind is not str:
                reader = partial(_mark_text, reader)
            self._readers[kind] = reader
        return reader(value)

    def _make_reader(self, kind: type) -> EncodeHook:
        if kind is dict:
            return self._read_mapping
        if kind in _CONTAINERS:
            return self._read_items
        if kind is Decimal and self._keep_decimal:
            return _keep_decimal
        if is_address_type(kind):
            return read_address
        if kind is re.Pattern:
            return _read_pattern
        if kind is datetime or kind is time:
            write = get_type_handler(kind).make_encode_hook(kind, Encoder())
            return partial(_read_time, write, may_lack_offset=self._is_inside_model)
        if has_only_builtin_types(kind) or issubclass(kind, Enum):
            return get_type_handler(kind).make_encode_hook(kind, Encoder())
        if problem := _find_class_problem(kind):
            raise Unencodable(problem)
        if self._is_inside_model and is_named_tuple(kind):
            return lambda value: self._read_items(iterate_without_overrides(value))
        return self._read_model if is_pydantic_model(kind) else self._make_class_reader(kind)

    def _read_items(self, value: Iterable[object]) -> list[object]:
        items = collect_items(map(self._read, value))
        if not isinstance(value, Set):
            return items
        return SetItems(sort_json_items(items)) if self._marks_types else sort_json_items(items)

    def _read_mapping(self, value: Mapping[object, object]) -> dict[str, object]:
        key: object = None
        read: dict[str, object] = {}
        try:
            for key, item in value.items():
                text = key if type(key) is str else self._read_key(key)
                if text in read:  # one of them would hide the other
                    raise Unencodable("is the text of two keys")
                read[text] = self._read(item)
        except Unencodable as error:
            raise error.prepend_step(to_step(key)) from None
        return read

    def _read_key(self, key: object) -> str:
        read = self._read(key)
        if not self._marks_types:
            return to_key_text(read)
        return (ValueText if isinstance(read, str) else NumberText)(to_key_text(read))

    def _make_class_reader(self, kind: type) -> EncodeHook:
        names = {item.key: item.attribute for item in get_fields(kind)}
        made_names = [
            item.attribute for item in (get_all_fields(kind) if self._reads_made_fields else ())
            if not item.is_argument and is_stored_field(kind, item)
        ]  # fmt: skip
        if covering := names.keys() & made_names:
            key = shorten_value(min(covering))
            raise Unencodable(f"{get_qualified_name(kind)} holds two values under the key {key}")

        def read_class(value: object) -> dict[str, object]:
            try:
                read = self._read_mapping({key: object.__getattribute__(value, name) for key, name in names.items()})
            except AttributeError as error:
                raise Unencodable(f"{get_qualified_name(kind)} cannot be read: {error}") from None
            for name in made_names:
                with suppress(*self._ignored_errors):
                    read[name] = self._made_field_reader.read(object.__getattribute__(value, name))
            return ObjectMembers(read) if self._marks_types else read

        return read_class

    def _read_model(self, value: object) -> object:
        kind, stored, extras = type(value), vars(value), get_extra_members(value)
        if type(stored) is not dict or type(extras) is not dict:
            raise Unencodable(_say_who_reads(kind))
        if (missing := _find_missing_field(kind, stored)) is not None:  # whoever reads it runs code of the class
            raise Unencodable(f"{get_qualified_name(kind)} does not hold its field {missing!r}")
        if getattr(kind, "__pydantic_root_model__", False):
            return self._member_reader.read(stored["root"])
        if covering := _list_field_names(kind) & extras.keys():
            covered = shorten_value(min(covering))
            raise Unencodable(f"{get_qualified_name(kind)} has a key with the name of a field: {covered}")
        if any(key in stored or _is_attribute(kind, key) for key in extras):
            raise Unencodable(f"{get_qualified_name(kind)} has an attribute with the name of a key")
        members: dict[object, object] = {}
        for key, member in iter_model_members(value):
            if key in members:  # one of them would hide the other
                raise Unencodable(f"{get_qualified_name(kind)} holds two values under the key {shorten_value(key)}")
            members[key] = member
        reader: ValueReader = self._member_reader
        read = reader._read_mapping(members)
        return ObjectMembers(read, extras.keys()) if self._marks_types else read


def _mark_text(read: EncodeHook, value: object) -> object:
    text = read(value)
    return ValueText(text) if type(text) is str else text


def is_address_type(kind: type) -> bool:
    """Tell whether *kind* is an address of `ipaddress` or pydantic, whose text is all that it is."""
    endings = _ADDRESS_NAMES.get(kind.__module__, ())
    return get_class_name(kind).endswith(endings) and _is_of_module(kind, _ADDRESS_NAMES)


def read_address(value: object) -> str:
    """
    Return the text of an address.

    Raises:
        Unencodable: It holds an object that somebody put in, whose code would write the text.
    """
    if not _holds_plain_values(value):
        raise Unencodable(_say_who_reads(type(value)))
    return str(value)


def _holds_plain_values(address: object) -> bool:
    state = object.__getstate__(address)
    stores = [store for store in (state if type(state) is tuple else (state,)) if store is not None]
    return all(type(store) is dict for store in stores) and all(
        type(item) in SCALAR_TYPES or (is_address_type(type(item)) and _holds_plain_values(item))
        for store in stores
        for name, item in store.items()
        if name != "hosts"  # a function that a network of one or two hosts has; no text is made of it
    )


def _read_pattern(value: re.Pattern[str]) -> str:
    """Return the text of a regular expression; one whose flags are not in it is refused, as bytes are."""
    if type(value.pattern) is not str or re.compile(value.pattern).flags != value.flags:
        raise Unencodable("is a regular expression that its text alone does not give")
    return value.pattern


def _is_of_module(kind: type, modules: Container[str]) -> bool:
    """Tell whether *kind* is what one of *modules* has under its name."""
    return kind.__module__ in modules and getattr(sys.modules[kind.__module__], get_class_name(kind), None) is kind


def _read_time(write: EncodeHook, value: datetime | time, *, may_lack_offset: bool) -> object:
    """Return a time as JSON; one of a time zone that only its own code can read is refused."""
    if value.tzinfo is not None and not _is_of_module(type(value.tzinfo), _ZONE_MODULES):
        zone = get_qualified_name(type(value.tzinfo))
        raise Unencodable(f"has a time zone of the class {zone}, which is read by its code")
    if value.tzinfo is None and may_lack_offset:  # as pydantic takes and writes it
        return value.isoformat()
    return write(value)


def _find_missing_field(kind: Hint, stored: Mapping[str, object]) -> str | None:
    """Return a field that an instance of a pydantic model does not hold, if there is one: its class left it out."""
    return next((name for name in kind.model_fields if name not in stored), None)


def _is_attribute(kind: type, name: str) -> bool:
    """Tell whether a class of models, or a base that is not pydantic's, has an attribute, which comes before a key."""
    return any(name in vars(base) for base in kind.__mro__ if not base.__module__.startswith("pydantic."))


def _list_field_names(kind: Hint) -> set[str]:
    """Return all names by which a pydantic model takes, holds or writes its fields."""
    names = {*kind.model_fields, *kind.model_computed_fields}
    for item in kind.model_fields.values():
        aliases = (item.validation_alias, item.serialization_alias, *getattr(item.validation_alias, "choices", ()))
        names.update(alias for alias in aliases if isinstance(alias, str))
    return names


def iter_model_members(model: Any) -> Iterator[tuple[object, object]]:
    """Yield what a model holds: its fields, by the names of its schema, and its extra keys."""
    stored, kind = dict(dict.items(vars(model))), type(model)  # its own code may say something else
    for name in kind.model_fields:
        if name in stored:
            yield get_field_key(kind, name), stored[name]
    yield from dict.items(get_extra_members(model))


def get_field_key(kind: Hint, name: str) -> str:
    """Return the name under which a pydantic model takes a field, and its schema has it."""
    by_alias = kind.model_config.get("validate_by_alias") is not False
    return (find_model_key(kind.model_fields[name], name) if by_alias else None) or name


def get_extra_members(model: object) -> dict[str, object]:
    """Return what a model holds besides its fields; it may be of a class that says something else than it holds."""
    extras: dict[str, object] | None = getattr(model, "__pydantic_extra__", None)
    return {} if extras is None else extras


def _keep_decimal(value: object) -> object:
    get_type_handler(Decimal).make_encode_hook(Decimal, Encoder())(value)  # refuses what has no JSON form
    return value


def _find_class_problem(kind: type) -> str:
    """Return why values of *kind* cannot be read without code of their own; empty where they can."""
    if has_class_fields(kind):
        try:
            hidden = next((item.key for item in get_fields(kind) if not is_stored_field(kind, item)), None)
        except HintError as error:
            return f"{get_qualified_name(kind)} has an unresolved type hint: {error}"
        if hidden is not None:
            return _say_not_stored(kind, hidden)
    elif is_pydantic_model(kind):
        if any(type(inspect.getattr_static(kind, name)) not in _STORE_TYPES for name in _STORES):
            return _say_who_reads(kind)
        if covered := find_covered_field(kind):
            return _say_not_stored(kind, covered)
    else:
        return _say_who_reads(kind)
    if issubclass(kind, _PAYLOAD_TYPES) or type(kind.__getattribute__) is not WrapperDescriptorType:
        return _say_who_reads(kind)
    return ""


def _say_who_reads(kind: type) -> str:
    return f"{get_qualified_name(kind)} is read by its own code, so what the tool gets cannot be judged"


def _say_not_stored(kind: type, name: str) -> str:
    return f"{get_qualified_name(kind)}.{name} is not stored, so it cannot be read back from what the tool gets"


def is_stored_field(kind: Hint, item: ClassField) -> bool:
    """Tell whether instances of *kind* hold the value of a field, so that it is read without code of the class."""
    return item.readable and not _is_computed(kind, item.attribute)


def find_covered_field(model: Hint) -> str:
    """
    Return a field of a pydantic model that code of its class or a base reads, such as a property; empty: none.

    What a model stores comes before methods of that name. pydantic's own descriptor, of a deprecated field, reads that.
    """
    name: str
    for name in model.model_fields:
        descriptor = inspect.getattr_static(model, name, None)
        if inspect.isdatadescriptor(descriptor) and not type(descriptor).__module__.startswith("pydantic."):
            return name
    return ""


def _is_computed(kind: Hint, attribute: str) -> bool:
    """Tell whether an attribute of the instances of *kind* is read by code."""
    descriptor = inspect.getattr_static(kind, attribute, None)
    is_member = isinstance(descriptor, MemberDescriptorType | _TUPLE_FIELD)
    return not is_member and any(hasattr(type(descriptor), name) for name in ("__get__", "__set__"))


def find_model_key(item: Any, name: str) -> str | None:
    """Return the name under which a model's schema has a field; None where its aliases are all paths into others."""
    alias = item.validation_alias
    if alias is None or isinstance(alias, str):
        return alias or name
    paths = [getattr(choice, "path", [choice]) for choice in getattr(alias, "choices", [alias])]
    return next((path[0] for path in paths if len(path) == 1 and isinstance(path[0], str)), None)
