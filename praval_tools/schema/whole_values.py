"""
Tells whether a value that was read back from its JSON is the one that was written, in all that its classes hold.

A class may hold more than it writes: a field that is excluded, a private attribute, a field that the constructor does
not take. Read back, such a field has its default, or what the class computes.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from decimal import Decimal
from enum import Enum
from functools import cached_property, partial
from itertools import chain, repeat
from typing import Final, TypeAlias

import attrs

from praval_tools.schema.class_fields import (
    get_all_fields,
    get_class_origin,
    get_fields,
    has_class_fields,
    is_attrs_or_dataclass,
    is_named_tuple,
    is_pydantic_model,
    is_same_model,
)
from praval_tools.schema.encode import encode, to_json_bytes
from praval_tools.schema.hint_keys import make_hint_key
from praval_tools.schema.json_values import SCALAR_TYPES
from praval_tools.schema.type_handler import Unencodable
from praval_tools.schema.type_hints import NOTHING, Hint, get_origin, is_class, is_union
from praval_tools.schema.type_lookup import can_hold_any_object, find_type_handler, has_only_builtin_types
from praval_tools.values.builtin_iteration import iterate_without_overrides

_CONTAINERS: Final = frozenset({list, tuple, dict, set, frozenset})
_JSON_SCALARS: Final = frozenset({str, int, bool, type(None)})
_GENERATED_FILES: Final = ("<string>", "<attrs generated ")
"""How the names begin that dataclasses and attrs give to the files of their constructors."""
_INITIALIZERS: Final = ("__post_init__", "__attrs_pre_init__", "__attrs_post_init__")
_WRITERS: Final = ("model_dump", "__get_pydantic_core_schema__")
"""What a pydantic model has of its own where its code decides what it writes."""
_READERS: Final = ("__init__", "model_post_init", "__get_pydantic_core_schema__")
"""What it has of its own where its code decides what it holds."""


def make_whole_check(hint: Hint) -> Callable[[object], bool] | None:
    """
    Return what tells that a value of *hint* is surely written whole; None where every value is.

    It asks no more than the classes in the value: where it says no, the value has to be read back and compared.
    """
    models, may_hold_others = set(), False
    for part in _iter_hints(hint):
        if is_attrs_or_dataclass(part):
            if not _takes_all(part):
                return _refuse
            may_hold_others = may_hold_others or _may_hold_others(get_class_origin(part))
        if is_pydantic_model(part):
            if not _writes_all(part):
                return _refuse
            models.add(part)
    if any(kind is not other and issubclass(kind, other) for kind in models for other in models):
        return _refuse  # which of them was declared where it is, its class does not say
    return partial(_holds_only, models) if models or may_hold_others else None


def _iter_hints(hint: Hint) -> Iterator[Hint]:
    """Yield *hint* and the hints inside of it, each once; those of Python's own types are left out."""
    hints, seen = [hint], set()
    while hints:
        part = hints.pop()
        if has_only_builtin_types(part) or (key := make_hint_key(part)) in seen:
            continue
        seen.add(key)
        yield part
        if is_pydantic_model(part):
            hints.extend(item.annotation for item in part.model_fields.values())
        elif (handler := find_type_handler(part)) is not None:
            hints.extend(handler.get_inner_hints(part))


def _takes_all(hint: Hint) -> bool:
    """Tell whether the constructor of a class was made of its fields, takes them all, and nothing besides."""
    kind = get_class_origin(hint)
    code = getattr(kind.__init__, "__code__", None)
    is_generated = code is not None and (
        code.co_filename.startswith(_GENERATED_FILES) or kind.__init__.__module__.startswith("pydantic.")
    )
    takes_fields = all(item.init for item in _list_declared_fields(kind))
    return is_generated and takes_fields and all(item.readable for item in get_fields(hint))


def _may_hold_others(kind: Hint) -> bool:
    """Tell whether instances of an attrs class or a dataclass are likely to hold more than their fields."""
    takes_others = getattr(kind, "__pydantic_config__", {}).get("extra") == "allow"
    return takes_others or any(hasattr(kind, name) for name in _INITIALIZERS)


def may_change_objects(hint: Hint) -> bool:
    """Tell whether a pydantic model in *hint* may make other objects of the fields of those that are given."""
    return any(is_pydantic_model(part) and not _reads_all(part) for part in _iter_hints(hint))


def _reads_all(model: Hint) -> bool:
    """Tell whether a pydantic model has no code of its own that reads, and no field that is read as another value."""
    marks = model.__pydantic_decorators__
    own_names = {name for kind in model.__mro__ if not kind.__module__.startswith("pydantic.") for name in vars(kind)}
    has_own_code = any((
        marks.validators, marks.field_validators, marks.root_validators, marks.model_validators,
        not own_names.isdisjoint(_READERS),
    ))  # fmt: skip
    fields = model.model_fields.values()
    return not has_own_code and not any(map(_has_own_schema, fields)) and all(
        part is not bytes and _is_plain_hint(part)
        for item in fields
        for part in _iter_plain_parts(item.annotation)
    )


def _has_own_schema(field: Hint) -> bool:
    return any(hasattr(type(item), "__get_pydantic_core_schema__") for item in field.metadata)


def _refuse(_: object) -> bool:
    return False


def _writes_all(model: Hint) -> bool:
    """Tell whether a pydantic model has no way to hold what it does not write, and no code of its own that writes."""
    config, marks = model.model_config, model.__pydantic_decorators__
    has_own_code = any((
        model.__private_attributes__, marks.field_serializers, marks.model_serializers, config.get("json_encoders"),
        config.get("extra") == "allow", config.get("use_enum_values"),
        *(config.get(name, "iso8601") != "iso8601" for name in ("ser_json_temporal", "ser_json_timedelta")),
        *(name in vars(kind) for kind in model.__mro__ for name in _WRITERS
        if not kind.__module__.startswith("pydantic.")),
    ))  # fmt: skip
    return not has_own_code and all(_is_written(model, name) for name in model.model_fields)


def _is_written(model: Hint, name: str) -> bool:
    field = model.model_fields[name]
    is_excluded = field.exclude or getattr(field, "exclude_if", None) is not None
    has_own_code = _has_own_schema(field)
    return not is_excluded and not has_own_code and all(map(_is_plain_hint, _iter_plain_parts(field.annotation)))


def _iter_plain_parts(hint: Hint) -> Iterator[Hint]:
    """Yield what containers in *hint* are made of, and the members of unions that the JSON tells apart."""
    if get_origin(hint) in _CONTAINERS or (is_union(hint) and _is_distinct_in_json(hint.__args__)):
        for part in hint.__args__:
            yield from _iter_plain_parts(part)
    else:
        yield hint


def _is_distinct_in_json(members: Collection[Hint]) -> bool:
    return len({*members} - {type(None)}) < 2 or {*members} <= _JSON_SCALARS


def _is_plain_hint(hint: Hint) -> bool:
    if is_union(hint):  # pydantic reads the first member that fits
        return False
    if has_only_builtin_types(hint):
        return not can_hold_any_object(hint)
    return is_pydantic_model(hint) or (is_class(hint) and issubclass(hint, Enum))


def _holds_only(models: Set[type], value: object) -> bool:
    """
    Tell whether *value* is surely made of nothing that could hold more than it writes.

    That is of plain values, of models of these very classes, and of objects of other classes that hold their fields
    alone.
    """
    values: list[Hint] = [value]
    while values:
        item = values.pop()
        kind = type(item)
        if kind in models:
            values.extend(vars(item)[name] for name in kind.model_fields)
        elif kind is dict:
            values.extend(item.values())
        elif kind in _CONTAINERS or kind is deque:
            values.extend(item)
        elif kind in SCALAR_TYPES:
            continue
        elif has_class_fields(kind):
            if _find_other_state(item):
                return False
            values.extend(_list_state(item))
        elif not has_only_builtin_types(kind) and not issubclass(kind, Enum):
            return False
    return True


def _list_declared_fields(kind: Hint) -> Iterable[Hint]:
    if attrs.has(kind):
        fields: Iterable[Hint] = attrs.fields(kind)
        return fields
    import dataclasses  # loaded by who has dataclasses

    return dataclasses.fields(kind)


def is_read_back_whole(value: object, read: object) -> bool:
    """
    Tell whether *read*, which JSON was read back as, is *value*, from which it was written.

    Objects of classes with fields are compared by all of these, other values by `==`; what is JSON in *read*, where
    any type is declared, by the JSON of *value*.
    """
    return _is_same(value, read, None, compares_all=True)


def is_handed_on_whole(value: object, read: object) -> bool:
    """Tell whether *read*, what a tool gets for *value*, is the same in all that the constructors of classes take."""
    return _is_same(value, read, None, compares_all=False)


_Place: TypeAlias = tuple[Hint, str] | None
"""The class and the name of the field in which a value stands; None where it stands in no declared field."""


def _is_same(value: object, read: object, place: _Place, *, compares_all: bool) -> bool:
    """Tell whether *read* is *value*, which stands in *place*; in all that it holds, or in what constructors take."""
    kind, is_same = type(value), partial(_is_same, compares_all=compares_all)
    if _has_state(type(read)):
        if not is_same_model(kind, type(read)) or (compares_all and _holds_unread_members(value)):
            return False
        values, others = (_list_state(item, lists_all=compares_all) for item in (value, read))
        places: list[_Place] = [(kind, name) for name in _list_field_names(kind, lists_all=compares_all)]
        return all(map(is_same, values, others, chain(places, repeat(None))))
    if isinstance(read, list) and isinstance(value, Set):  # which has no order
        return _may_be_json(place) and _has_same_json(value, read)
    if isinstance(read, list | tuple | deque) and isinstance(value, Collection) and not isinstance(value, str | bytes):
        return len(value) == len(read) and all(map(is_same, value, read, repeat(place)))
    if isinstance(read, Set) and isinstance(value, Set):
        found = {item: item for item in read}  # equal members may hold other things besides what they are compared by
        return len(value) == len(read) and all(
            item in found and is_same(item, found[item], place) for item in iterate_without_overrides(value)
        )
    if isinstance(read, dict) and isinstance(value, Mapping):
        return value.keys() == read.keys() and all(is_same(value[key], item, place) for key, item in read.items())
    if kind is not type(read):
        return _is_same_of_other_type(value, read, place)
    if kind.__eq__ is object.__eq__:  # compared by identity
        return value is read or is_same(object.__getstate__(value), object.__getstate__(read), None)
    return bool(value == read) or bool(value != value and read != read)  # both are no number


def _is_same_of_other_type(value: object, read: object, place: _Place) -> bool:
    if isinstance(value, Enum | Decimal) or isinstance(read, Enum):  # equal to a plain value, which is another one
        return _may_be_json(place) and (bool(value == read) or _has_same_json(value, read))
    return bool(value == read) or (_may_be_json(place) and _has_same_json(value, read))


def _may_be_json(place: _Place) -> bool:
    """Tell whether what stands there is read back as JSON, as no type is declared for it."""
    if place is None:
        return True
    kind, name = place
    if is_pydantic_model(kind):
        return can_hold_any_object(kind.model_fields[name].annotation)
    hints = (item.hint for item in get_all_fields(kind, keeps_unresolved=True) if item.attribute == name)
    return any(map(can_hold_any_object, hints))


def _holds_unread_members(value: object) -> bool:
    """Tell whether a model that reads members of enums as their values holds such members, as its defaults may be."""
    kind: Hint = type(value)
    if not is_pydantic_model(kind) or not kind.model_config.get("use_enum_values"):
        return False
    return _has_member(vars(value).get(name) for name in kind.model_fields)


def _has_member(values: Iterable[object]) -> bool:
    """Tell whether a member of an enum is among *values*, or in a container among them."""
    for item in values:
        if isinstance(item, Enum):
            return True
        if isinstance(item, list | tuple | set | frozenset | deque) and _has_member(item):
            return True
        if isinstance(item, dict) and (_has_member(item) or _has_member(item.values())):
            return True
    return False


def _has_state(kind: type) -> bool:
    return is_pydantic_model(kind) or has_class_fields(kind)


def _list_state(value: object, *, lists_all: bool = True) -> list[object]:
    """Return what an object of a class with fields holds, written or not, or only what its constructor takes."""
    kind: Hint = type(value)
    names = _list_field_names(kind, lists_all=lists_all)
    if is_pydantic_model(kind):
        state = [vars(value).get(name, NOTHING) for name in names]
        others = ("__pydantic_private__", "__pydantic_extra__") if lists_all else ("__pydantic_extra__",)
        return [*state, *(getattr(value, name, None) or {} for name in others)]
    state = [getattr(value, name, NOTHING) for name in names]
    return [*state, _find_other_state(value)] if lists_all else state


def _list_field_names(kind: Hint, *, lists_all: bool) -> list[str]:
    """Return the attributes of the fields of a class, those that its constructor does not take too, if asked for."""
    if is_pydantic_model(kind):
        return [*kind.model_fields]
    if is_named_tuple(kind):
        return [*kind._fields]
    return [item.name for item in _list_declared_fields(kind) if lists_all or item.init]


def _find_other_state(value: object) -> dict[str, object]:
    """Return what an object of a class with fields holds besides them, cached properties left out."""
    kind: Hint = type(value)
    stored: dict[str, object] = getattr(value, "__dict__", {})
    if not stored or not is_attrs_or_dataclass(kind):
        return {}
    names = {item.name for item in _list_declared_fields(kind)}
    return {
        name: item for name, item in stored.items()
        if name not in names and not isinstance(inspect.getattr_static(kind, name, None), cached_property)
    }  # fmt: skip


def _has_same_json(value: object, read: object) -> bool:
    if type(read) not in SCALAR_TYPES and not isinstance(read, dict | list):
        return False
    try:
        return to_json_bytes(encode(value)) == to_json_bytes(encode(read))
    except Unencodable:
        return False
