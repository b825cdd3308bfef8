"""Tells which members of pydantic models are marked as secret, in their hints or in the schemas of their classes."""

from __future__ import annotations

from collections.abc import Iterator, Set
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import chain, repeat
from typing import Annotated, Final, Literal, NamedTuple, get_args, get_type_hints
from uuid import UUID

from praval_tools.names import get_class_name
from praval_tools.schema.json_pointer import resolve_pointer
from praval_tools.schema.json_values import SCALAR_TYPES
from praval_tools.schema.marked_members import has_plain_parts
from praval_tools.schema.schema_tree import JsonSchema, iter_schemas
from praval_tools.schema.secret_marks import (
    has_secret_schema,
    marks_secret,
    read_marked_names,
    read_model_hints,
    read_private_hints,
)
from praval_tools.schema.type_hints import Hint, Secret, get_origin, is_union
from praval_tools.schema.value_reader import find_model_key, get_extra_members

_MODES: Final = ("validation", "serialization")
_OTHER_KEYS: Final = ("additionalProperties", "patternProperties")
_CONTAINERS: Final = (list, tuple, set, frozenset, dict)
_PLAIN_TYPES: Final = (*SCALAR_TYPES, bytes, datetime, date, time, timedelta, Decimal, UUID)
_MEMBER_KEYWORDS: Final = frozenset({"properties", *_OTHER_KEYS, "$defs", "definitions", "$ref", "allOf"})
"""Keywords that say something of single members, or lead to what does."""


class MarkedMembers(NamedTuple):
    """
    What a pydantic model marks as secret.

    Args:
        names: Fields, computed ones too, private attributes, and extra keys.
        outer_names: Those of *names* that are marked where they are, not only inside the classes of their values.
        has_marked_extras: All extra keys are marked.
        is_whole: The model is marked as a whole, or may be, as nobody can say.
    """

    names: Set[str] = frozenset()
    outer_names: Set[str] = frozenset()
    has_marked_extras: bool = False
    is_whole: bool = False


class Member(NamedTuple):
    """A value that an instance holds or computes, its name there (empty: all of it), and whether that is a secret."""

    name: str
    value: object
    is_marked: bool
    is_computed: bool


def iter_members(model: Hint, *, with_computed: bool) -> Iterator[Member]:
    """
    Yield what a model holds and, if asked for, computes.

    What the classes of members mark inside of them is left to who looks into these.
    """
    kind: Hint = type(model)
    marks = read_model_marks(kind)
    if marks.is_whole:
        yield Member("", model, is_marked=True, is_computed=False)
    fields: dict[str, object] = model.__dict__
    extras = get_extra_members(model)
    held = chain(dict.items(fields), dict.items(extras), dict.items(get_private_members(model)))
    computed = _iter_computed_members(model) if with_computed else ()
    for (name, value), is_computed in chain(zip(held, repeat(False)), zip(computed, repeat(True))):
        is_marked = name in marks.names or (marks.has_marked_extras and name in extras and name not in fields)
        is_marked = name in marks.outer_names or (is_marked and has_plain_parts(value))
        yield Member(name, value, is_marked, is_computed)


def _iter_computed_members(model: Hint) -> Iterator[tuple[str, object]]:
    """Yield the computed fields of *model* that are marked, or may hold what is, with their names."""
    kind: Hint = type(model)
    for name in _list_computed_names(kind):
        value: object = None
        with suppress(Exception, SystemExit):  # the seam to code of the class; what raises has no JSON form either
            value = getattr(model, name)
        yield name, value


@lru_cache(maxsize=1024)
def _list_computed_names(kind: Hint) -> tuple[str, ...]:
    names, fields = read_model_marks(kind).names, kind.model_computed_fields
    return tuple(name for name, item in fields.items() if name in names or may_hold_instances(item.return_type))


def may_hold_instances(hint: Hint) -> bool:
    """Tell whether a value of *hint* may be or hold an instance of a class that marks something."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return may_hold_instances(parts[0])
    if parts and (is_union(hint) or any(origin is kind for kind in _CONTAINERS)):
        return any(map(may_hold_instances, parts))
    if hint is None or hint is Ellipsis or origin is Literal:
        return False
    return not any(hint is kind for kind in _PLAIN_TYPES)  # not looked up: a hint may have no hash


def read_computed_hints(kind: Hint) -> dict[str, Hint]:
    """Return the fields of a dataclass that pydantic computes, with the hints of their values."""
    return {name: _get_return_hint(info) for name, info in read_computed_fields(kind).items()}


def read_computed_fields(kind: Hint) -> dict[str, Hint]:
    """Return what pydantic knows of the fields of a dataclass that it computes, by their names."""
    decorators = getattr(kind, "__pydantic_decorators__", None)  # of a dataclass of pydantic's; else members have them
    found = {} if decorators is None else {name: item.info for name, item in decorators.computed_fields.items()}
    for base in reversed(kind.__mro__):
        found |= {
            name: member.decorator_info
            for name, member in vars(base).items()
            if get_class_name(type(member)) == "PydanticDescriptorProxy"
            and get_class_name(type(member.decorator_info)) == "ComputedFieldInfo"
        }
    return found


def _get_return_hint(info: Hint) -> Hint:
    try:
        hint = _read_return_hint(info)
    except Exception:  # the seam to code of the class: nobody can say what it holds
        return object
    return Annotated[hint, Secret] if has_secret_schema(info.json_schema_extra) else hint


def _read_return_hint(info: Hint) -> Hint:
    if get_class_name(type(info.return_type)) not in ("PydanticUndefinedType", "str"):
        return info.return_type  # before that of the function, as in pydantic
    member = info.wrapped_property
    function = member.fget if hasattr(member, "fget") else member.func  # the latter of a cached property
    return get_type_hints(function, include_extras=True)["return"]


def get_private_members(model: Hint) -> dict[str, object]:
    """Return the private attributes that a pydantic model holds."""
    members: dict[str, object] | None = getattr(model, "__pydantic_private__", None)
    return {} if members is None else members


@lru_cache(maxsize=1024)
def read_model_marks(kind: Hint) -> MarkedMembers:
    """Return what a class of pydantic models marks; as a whole where its schema cannot be made or read."""
    try:
        return _read_marks(kind)
    except Exception:  # the seam to what the program says of its classes
        return MarkedMembers(is_whole=True)


def _read_marks(kind: Hint) -> MarkedMembers:
    schemas: list[JsonSchema] = []
    for mode in _MODES:
        with suppress(Exception):  # the seam to the classes of the program
            schemas.append(kind.model_json_schema(mode=mode))
    layers = [(layer, schema) for schema in schemas for layer in _iter_layers(schema)]
    if any(has_secret_schema(_strip_members(layer)) for layer, _ in layers):
        return MarkedMembers(is_whole=True)
    if not layers:
        return _read_marks_of_fields(kind)
    properties = [(key, part, schema) for layer, schema in layers for key, part in layer.get("properties", {}).items()]
    keys = {key for key, part, schema in properties if _is_marked(part, schema)}
    outer_keys = {key for key, part, _ in properties if has_secret_schema(part)}
    names, outer_names = _read_field_names(kind)
    names |= keys
    outer_names |= outer_keys
    for name, item in {**kind.model_fields, **kind.model_computed_fields}.items():
        aliases = list_model_names(name, item)
        if aliases & keys or (keys and getattr(kind, "__pydantic_root_model__", False)):
            names.add(name)
        if aliases & outer_keys:
            outer_names.add(name)
    others = [({key: layer[key] for key in _OTHER_KEYS if key in layer}, schema) for layer, schema in layers]
    return MarkedMembers(names, outer_names, any(_is_marked(part, schema) for part, schema in others))


def _read_marks_of_fields(kind: Hint) -> MarkedMembers:
    """Return what the fields of a class mark of which no JSON Schema can be made."""
    if kind.model_config.get("json_schema_extra") is not None:
        return MarkedMembers(is_whole=True)
    names, outer_names = _read_field_names(kind)
    for name, item in kind.model_fields.items():
        schemas = [item.json_schema_extra, *(getattr(part, "json_schema", None) for part in item.metadata)]
        if callable(item.json_schema_extra) or any(map(has_secret_schema, schemas)):
            outer_names.add(name)
    return MarkedMembers(names, outer_names)


def _read_field_names(kind: Hint) -> tuple[set[str], set[str]]:
    """Return the fields and private attributes that hints mark, as `read_marked_names` does."""
    return read_marked_names({**read_model_hints(kind), **read_private_hints(kind)})


def list_model_names(name: str, item: Hint) -> set[str]:
    """Return the names by which schemas may have a field of a pydantic model."""
    key = find_model_key(item, name) if hasattr(item, "validation_alias") else None
    return {name, key, item.alias, getattr(item, "serialization_alias", None)} - {None}


def _iter_layers(schema: JsonSchema) -> Iterator[JsonSchema]:
    """Yield the schemas that all hold for the very value that *schema* describes."""
    layers, seen = [schema], set[int]()
    while layers:
        layer = layers.pop()
        if id(layer) in seen or not isinstance(layer, dict):
            continue
        seen.add(id(layer))
        yield layer
        layers += [*layer.get("allOf", ()), resolve_pointer(schema, layer.get("$ref"))]


def _strip_members(layer: JsonSchema) -> JsonSchema:
    return {keyword: value for keyword, value in layer.items() if keyword not in _MEMBER_KEYWORDS}


def _is_marked(part: object, root: JsonSchema) -> bool:
    """Tell whether a part of a schema marks anything as secret, also where its references lead."""
    parts, seen = [part], set[str]()
    while parts:
        for schema in iter_schemas(parts.pop()):
            if marks_secret(schema):
                return True
            reference = schema.get("$ref")
            if isinstance(reference, str) and reference not in seen:
                seen.add(reference)
                parts.append(resolve_pointer(root, reference))
    return False
