"""What is declared of a bounded value in Python: the types it may have, and in which spelling each is compared."""

from __future__ import annotations

import collections.abc as abc
import json
import types
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import Enum
from itertools import chain
from typing import Annotated, Final, get_args

from attrs import evolve, frozen

from praval_tools.forks import first_use_property
from praval_tools.schema.class_fields import (
    get_all_fields,
    get_fields,
    has_class_fields,
    is_named_tuple,
    is_pydantic_model,
)
from praval_tools.schema.containers import LIST_TYPES
from praval_tools.schema.decode_hooks import DecodeHooks
from praval_tools.schema.dict_keys import get_key_handler
from praval_tools.schema.json_values import to_key_text
from praval_tools.schema.scalars import is_choice, list_choices
from praval_tools.schema.type_handler import Unencodable
from praval_tools.schema.type_hints import Hint, get_origin, is_union, unwrap_hint
from praval_tools.schema.type_lookup import can_hold_any_object
from praval_tools.schema.value_reader import ValueReader, get_field_key
from praval_tools.tools.frames import activate_tool_frame

_OTHER_TYPES: Final = (None, type(None), bool, int, float)
"""What is never written as text."""
_MAX_DIGITS: Final = 300
"""Of a whole number that a message shows."""


@frozen(slots=False)
class BoundedValue:
    """
    What is declared of a value.

    Args:
        hint: Its type.
        model: The pydantic model that it is in: pydantic reads it, with what the model configures.
    """

    hint: Hint
    model: Hint = None

    @first_use_property
    def branches(self) -> list[BoundedValue]:
        """The types that it may have: the members of unions, what is in a root model instead of the model."""
        hint = unwrap_hint(self.hint)
        if is_union(hint):
            return [branch for part in hint.__args__ for branch in evolve(self, hint=part).branches]
        if is_pydantic_model(hint) and getattr(hint, "__pydantic_root_model__", False):
            return BoundedValue(_get_field_hint(hint, "root"), hint).branches
        return [self]

    @property
    def bare_hint(self) -> Hint:
        """Its type without what `Annotated` says of it."""
        return unwrap_hint(self.hint)

    @first_use_property
    def _text_branches(self) -> list[BoundedValue]:
        """Those of the branches whose values may be text in JSON."""
        return [branch for branch in self.branches if _may_be_text(branch)]

    @property
    def is_never_text(self) -> bool:
        """Whether it is a number, a truth value, null, an array or an object, whatever text is given for it."""
        return not self._text_branches

    @property
    def may_change_texts(self) -> bool:
        """Whether a text may be compared as another one than was given."""
        hints = [branch.bare_hint for branch in self._text_branches]
        is_in_model = any(branch.model is not None for branch in self._text_branches)
        return not any(map(_is_anything, hints)) and (is_in_model or any(hint is not str for hint in hints))

    @property
    def refuses_other_texts(self) -> bool:
        """Whether a text that cannot be read is surely never a value."""
        return all(branch.bare_hint is not str for branch in self._text_branches)

    @property
    def is_decimal_of_model(self) -> bool:
        """Whether pydantic makes a `Decimal` of each text."""
        texts = self._text_branches
        return bool(texts) and all(item.model is not None and item.bare_hint is Decimal for item in texts)

    @property
    def is_text_of_bytes(self) -> bool:
        """Whether pydantic makes bytes of each text, which bounds see as base64."""
        texts = self._text_branches
        return bool(texts) and all(
            item.model is not None and item.bare_hint is bytes and self.write("text") != "text" for item in texts
        )

    def write(self, value: object) -> object:
        """
        Return *value*, JSON, as bounds see it; None where nobody can tell.

        Raises:
            ValueError: Nothing of this type has it.
        """
        try:
            return self._convert(lambda: self._make_reader(self.hint), value)
        except ValueError:  # such as a date that was in the future once
            return self._convert(lambda: self._make_reader(self.bare_hint), value)

    def write_key(self, name: str) -> str:
        """
        Return the key *name* as bounds see it.

        Raises:
            ValueError: No key of this type has it.
        """
        return to_key_text(self._convert(self._make_key_reader, name))

    def _make_key_reader(self) -> Callable[[object], Hint]:
        if self.model is None:
            decode = get_key_handler(self.hint).make_decode_hook(self.hint, DecodeHooks())
            return lambda key: decode(key, None)
        read = self._make_reader(types.GenericAlias(dict, (self.hint, None)))
        return lambda key: next(iter(read({key: None})))

    def _make_reader(self, hint: Hint) -> Callable[[object], Hint]:
        if self.model is None:
            decode = DecodeHooks().get_hook(hint)
            return lambda value: decode(value, None)
        from pydantic import PydanticUserError, TypeAdapter

        try:
            adapter = TypeAdapter(hint, config=self.model.model_config)
        except PydanticUserError:  # it is of a class that has a configuration of its own
            adapter = TypeAdapter(hint)
        return lambda value: adapter.validate_json(json.dumps(value), strict=True)

    def _convert(self, make_reader: Callable[[], Callable[[object], Hint]], value: object) -> Hint:
        """Return what bounds see of what is read of *value*; code of classes has no rights, also as they are read."""
        with activate_tool_frame("(where)"):
            try:
                made = make_reader()(value)
            except Exception as error:  # the seam to validators
                raise ValueError(str(error)) from None
            try:
                return ValueReader(is_inside_model=self.model is not None).read(made)
            except Unencodable:
                return None

    def find_set_order(self, items: list[object]) -> object:
        """Return the items of a set in the order in which they are compared, if that is another; else None."""
        arrays = [branch.bare_hint for branch in self.branches if _get_item_hints(branch) is not None]
        if not any(issubclass(get_origin(hint) or hint, abc.Set) for hint in arrays):
            return None
        try:
            written = self.write(items)
        except ValueError:
            return None
        order = [_to_number(item) for item in written] if isinstance(written, list) else items
        return order if order != items else None

    def list_lacking_fields(self, members: dict[str, object]) -> list[str]:
        """Return the fields that an object lacks though it always has them where it is compared, by their defaults."""
        names = list(chain.from_iterable(_list_field_names(branch.bare_hint) for branch in self.branches))
        if not names:
            return []
        try:
            written = self.write(members)
        except ValueError:
            return []
        lacking = [name for name in dict.fromkeys(names) if name not in members]
        return [name for name in lacking if isinstance(written, dict) and name in written]

    def get_items(self, index: int | None = None) -> list[BoundedValue]:
        """Return what is declared of the item at *index* of an array, or of every item."""
        found = list[BoundedValue]()
        for branch in self.branches:
            hints = _get_item_hints(branch) or ()
            if hints[:1] == (...,):
                hints = hints[1:]
            elif index is not None:
                hints = hints[index : index + 1]
            found += [evolve(branch, hint=hint) for hint in hints]
        return found

    def get_members(self, name: str) -> list[BoundedValue]:
        """Return what is declared of a member of an object."""
        return [member for branch in self.branches for member in _iter_members(branch, name)]

    def get_other_members(self) -> list[BoundedValue]:
        """Return what is declared of the members of a dict."""
        entries = [(branch, _get_entry_hints(branch)) for branch in self.branches]
        return [evolve(branch, hint=entry[1]) for branch, entry in entries if entry is not None]

    def get_keys(self) -> list[BoundedValue]:
        """Return what is declared of the keys of a dict; nothing where a key may be any text."""
        objects = [branch for branch in self.branches if _is_object(branch) or _is_anything(branch.bare_hint)]
        entries = [(branch, _get_entry_hints(branch)) for branch in objects]
        keys = [evolve(branch, hint=entry[0]) for branch, entry in entries if entry is not None]
        is_free = len(keys) < len(objects) or any(_is_anything(key.bare_hint) for key in keys)
        return [] if is_free or all(key.bare_hint is str and key.model is None for key in keys) else keys


def _to_number(item: object) -> object:
    """Return a `Decimal` as the number with which a bound names it, where there is one."""
    if not isinstance(item, Decimal) or not item.is_finite():
        return item
    if item.adjusted() < _MAX_DIGITS and item == item.to_integral_value():
        return int(item)
    return float(item) if Decimal(repr(float(item))) == item else item


def _may_be_text(place: BoundedValue) -> bool:
    if is_choice(place.bare_hint):
        with activate_tool_frame("(where)"):  # the class may have code of its own
            return any(isinstance(plain, str) for plain, _ in list_choices(place.bare_hint))
    return place.bare_hint not in _OTHER_TYPES and not _is_object(place) and _get_item_hints(place) is None


def _is_anything(hint: Hint) -> bool:
    return hint is object or (get_origin(hint) is None and can_hold_any_object(hint))


def _is_object(place: BoundedValue) -> bool:
    hint = place.bare_hint
    is_array = place.model is not None and is_named_tuple(hint)
    is_class = is_pydantic_model(hint) or (has_class_fields(hint) and not is_array)
    return is_class or _get_entry_hints(place) is not None


def _get_entry_hints(place: BoundedValue) -> tuple[Hint, Hint] | None:
    """Return the types of the keys and values of a dict; None for other types."""
    hint = place.bare_hint
    kind, args = get_origin(hint) or hint, get_args(hint)
    if not isinstance(kind, type) or not issubclass(kind, abc.Mapping) or has_class_fields(hint):
        return None
    return (args[0], args[1]) if len(args) == 2 else (args[0] if args else object, object)


def _get_item_hints(place: BoundedValue) -> tuple[Hint, ...] | None:
    """Return the types of the items of an array, one after an ellipsis for all of them; None for other types."""
    hint = place.bare_hint
    kind, args = get_origin(hint) or hint, get_args(hint)
    if place.model is not None and is_named_tuple(hint):
        return tuple(item.hint for item in get_all_fields(hint))
    if not isinstance(kind, type) or has_class_fields(hint) or _get_entry_hints(place) is not None:
        return None
    if kind is tuple:
        return (..., args[0]) if args[1:] == (...,) else args or (..., object)
    is_array = kind in LIST_TYPES or issubclass(kind, abc.Collection)
    if not is_array or issubclass(kind, str | bytes | Enum):
        return None
    return (..., args[0] if args else object)


def _iter_members(place: BoundedValue, name: str) -> Iterator[BoundedValue]:
    hint = place.bare_hint
    if (entry := _get_entry_hints(place)) is not None:
        yield evolve(place, hint=entry[1])
    elif is_pydantic_model(hint):
        fields = [field for field in hint.model_fields if get_field_key(hint, field) == name]
        yield from (BoundedValue(_get_field_hint(hint, field), hint) for field in fields)
    elif has_class_fields(hint):
        yield from (evolve(place, hint=item.hint) for item in get_all_fields(hint) if item.key == name)


def _list_field_names(hint: Hint) -> list[str]:
    """Return the keys of the fields that the constructor of a class takes; none for other types."""
    if is_pydantic_model(hint):
        return [get_field_key(hint, name) for name in hint.model_fields]
    return [item.key for item in get_fields(hint)] if has_class_fields(hint) else []


def _get_field_hint(model: Hint, name: str) -> Hint:
    field = model.model_fields[name]
    return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
