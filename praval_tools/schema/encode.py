"""Converts Python values to JSON values: by the declared hint where there is one, else by the value's own type."""

from __future__ import annotations

import collections.abc as abc
from functools import cache
from typing import Any, Final

import msgspec

from praval_tools.forks import first_use_property
from praval_tools.names import get_qualified_name
from praval_tools.schema.hidden_values import prepend_written_step
from praval_tools.schema.hook_dispatch import HookDispatcher
from praval_tools.schema.json_values import sort_json_items, to_compact_json, to_key_text, to_step
from praval_tools.schema.scalars import SCALAR_ENCODE_HOOKS, make_iterator_error
from praval_tools.schema.tables import take_apart
from praval_tools.schema.type_handler import EncodeHook, Unencodable
from praval_tools.schema.type_hints import Hint
from praval_tools.schema.type_lookup import (
    can_hold_any_object,
    find_type_handler,
    get_type_handler,
    has_only_builtin_types,
)
from praval_tools.schema.union_members import remove_union_members
from praval_tools.values.builtin_iteration import iterate_items_without_overrides, iterate_without_overrides

_SCALAR_TYPES: Final = (str, int, float)
_SEQUENCE_TYPES: Final = (list, tuple, set, frozenset)


class Encoder:
    """
    Makes encode hooks; one per tool, because it remembers the classes that it has handled.

    Args:
        reads_models: Read the fields of pydantic models instead of having the models write themselves.
        marks_members: Write what is under a union as `WrittenByMember`.
        takes_subclasses: Write an object of a subclass of the declared class, too: with the fields of its own class.
        shared: It is shared by all tools, for hints of Python's own types.
    """

    def __init__(
        self, *, reads_models: bool = False, marks_members: bool = False, takes_subclasses: bool = False,
        shared: bool = False,
    ) -> None:  # fmt: skip
        self.reads_models, self.marks_members, self.takes_subclasses = reads_models, marks_members, takes_subclasses
        self._shared = shared

    @first_use_property
    def _dispatcher(self) -> HookDispatcher[EncodeHook]:
        return HookDispatcher("unstructure", lambda hint: get_type_handler(hint).make_encode_hook(hint, self))

    def get_hook(self, hint: Hint) -> EncodeHook:
        """Return the encode hook of *hint*."""
        may_share = not self._shared and not self.marks_members
        if may_share and has_only_builtin_types(hint) and not can_hold_any_object(hint):
            return _get_shared_encoder().get_hook(hint)
        return self._dispatcher.get_hook(hint)

    def encode_value(self, value: object) -> Any:
        """
        Encode *value* by its own type, and what is in it by theirs.

        Raises:
            Unencodable: Something in it has no JSON form; naming its type and place.
        """
        try:
            return self._encode_any(value)
        except RecursionError:
            raise Unencodable("is nested too deeply, or inside itself") from None

    def _encode_any(self, value: Any) -> Any:
        kind = type(value)
        if (encode := SCALAR_ENCODE_HOOKS.get(kind)) is not None:
            return encode(value)
        if kind is dict:
            return self._encode_mapping(value)
        if kind is list or kind is tuple or kind is set or kind is frozenset:
            return self._encode_items(value)
        if find_type_handler(kind) is not None:
            return self.get_hook(kind)(value)
        return self._encode_foreign(value)

    def _encode_mapping(self, value: abc.Mapping[object, object]) -> dict[str, Any]:
        encoded: dict[str, Any] = {}
        for key, item in iterate_items_without_overrides(value):
            try:
                name = SCALAR_ENCODE_HOOKS[str](key if type(key) is str else to_key_text(self._encode_any(key)))
                if name in encoded:
                    raise Unencodable("another key has the same text in JSON")
                encoded[name] = self._encode_any(item)
            except Unencodable as error:
                raise prepend_written_step(error, to_step(key)) from None
        return encoded

    def _encode_items(self, value: abc.Iterable[object]) -> list[Any]:
        encoded: list[Any] = []
        try:
            for item in iterate_without_overrides(value):  # faster than `collect_items` with a method written in Python
                encoded.append(self._encode_any(item))
        except Unencodable as error:
            raise error.prepend_step(len(encoded)) from None
        to_json = remove_union_members if self.marks_members else None
        return sort_json_items(encoded, to_json) if isinstance(value, abc.Set) else encoded

    def _encode_foreign(self, value: Any) -> Any:
        """Encode subclasses of supported types, and arrays, scalars and tables of other libraries."""
        for base in type(value).__mro__[1:-1]:
            if base in _SCALAR_TYPES:
                return SCALAR_ENCODE_HOOKS[base](value)
            if base in _SEQUENCE_TYPES:
                return self._encode_items(value)
            if base is dict:
                return self._encode_mapping(value)
            if find_type_handler(base) is not None:
                return self.get_hook(base)(value)
        if (parts := take_apart(value)) is not value:
            return self._encode_any(parts)
        if isinstance(value, abc.Mapping):
            return self._encode_mapping(value)
        if isinstance(value, abc.Iterator):
            raise make_iterator_error(value)
        if isinstance(value, abc.Iterable) and isinstance(value, abc.Sized):  # such as the values of a dict
            return self._encode_items(value)
        raise Unencodable(f"{get_qualified_name(type(value))} has no JSON form; return a dict, a list or a dataclass")


@cache
def _get_shared_encoder() -> Encoder:
    return Encoder(shared=True)


def to_json_bytes(value: object) -> bytes:
    """Return *value*, which is JSON already, as JSON text."""
    try:
        return msgspec.json.encode(value)
    except (OverflowError, ValueError):  # integers of more than 64 bits
        return to_compact_json(value).encode()


def encode(value: object, *, takes_subclasses: bool = False) -> Any:
    """
    Encode *value* by its own type, and what is in it by theirs.

    Args:
        value: Anything.
        takes_subclasses: Objects in it may be of subclasses of the declared classes, as in results.

    Raises:
        Unencodable: Something in it has no JSON form; naming its type and place.
    """
    encode_scalar = SCALAR_ENCODE_HOOKS.get(type(value))
    if encode_scalar is not None:
        return encode_scalar(value)
    return Encoder(takes_subclasses=takes_subclasses).encode_value(value)
