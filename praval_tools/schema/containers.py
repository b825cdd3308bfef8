"""Rows of the table for lists, tuples, sets and dicts."""

from __future__ import annotations

import collections.abc as abc
import typing
from collections.abc import Callable
from typing import Any, Final, Literal, get_origin

from praval_tools.schema.dict_keys import key_form, key_problem
from praval_tools.schema.json_values import in_order, json_key
from praval_tools.schema.scalars import refuse
from praval_tools.schema.type_handler import (
    Encode,
    Encodes,
    Form,
    Hook,
    JsonSchema,
    Mismatch,
    Schemas,
    Structures,
    Unencodable,
)
from praval_tools.schema.type_hints import bare, hint_text

SCALAR_ITEMS: Final[JsonSchema] = {"type": ["string", "number", "boolean", "null"]}
"""What a set of anything can hold: what Python can hash."""


def _args(hint: Any) -> tuple[Any, ...]:
    return getattr(hint, "__args__", ()) if get_origin(hint) is not None else ()


def item_hint(hint: Any) -> Any:
    """Return the hint of the items of a list-like *hint*; `Any` where it has none."""
    args = _args(hint)
    return args[0] if args else Any


# ── lists and what is given as one ───────────────────────────────────────────────────────────────


def list_schema(hint: Any, schemas: Schemas) -> JsonSchema:
    """Return the schema of a list of the items of *hint*."""
    items = schemas.of(item_hint(hint))
    return {"type": "array", **({"items": items} if items else {})}


def _items_structure(item: Hook, make: Callable[[list[Any]], Any] | None, unique: bool = False) -> Hook:
    def structure(value: Any, _: Any) -> Any:
        if type(value) is not list:
            raise Mismatch("is not a list")
        made: list[Any] = []
        try:
            for one in value:
                made.append(item(one, None))
        except Mismatch as error:
            raise error.at(len(made)) from None
        if unique and len(value) > 1 and len(set(map(json_key, value))) != len(value):
            raise Mismatch("holds an item twice")
        return made if make is None else _gathered(make, made)

    return structure


def _gathered(make: Callable[[list[Any]], Any], made: list[Any]) -> Any:
    try:
        return make(made)
    except TypeError as error:  # a class whose hash fails for this value
        raise Mismatch(f"cannot be gathered: {error}") from None


def _list_structure(hint: Any, structures: Structures) -> Hook:
    return _items_structure(structures.hook(item_hint(hint)), None)


def items_encode(hint: Any, encodes: Encodes) -> Encode:
    """Return the hook that writes what can be iterated over as a list; text and mappings are no lists."""
    item, wanted = encodes.hook(item_hint(hint)), hint_text(hint)

    def encode(value: Any) -> list[Any]:
        if isinstance(value, str | bytes | abc.Mapping) or not isinstance(value, abc.Iterable):
            raise refuse(wanted, value)
        made: list[Any] = []
        try:
            for one in value:
                made.append(item(one))
        except Unencodable as error:
            raise error.at(len(made)) from None
        return in_order(made) if isinstance(value, abc.Set) else made

    return encode


# ── tuples ───────────────────────────────────────────────────────────────────────────────────────


def _is_variadic(hint: Any) -> bool:
    args = _args(hint)
    return hint is tuple or hint is typing.Tuple or (len(args) == 2 and args[1] is ...)  # noqa: UP006


def _tuple_parts(hint: Any) -> tuple[Any, ...]:
    return tuple(one for one in _args(hint) if one is not ...)


def _tuple_schema(hint: Any, schemas: Schemas) -> JsonSchema:
    if _is_variadic(hint):
        return list_schema(hint, schemas)
    if not (parts := _args(hint)):
        return {"type": "array", "maxItems": 0}
    prefix = [schemas.of(part) for part in parts]
    return {"type": "array", "prefixItems": prefix, "items": False, "minItems": len(parts)}


def _tuple_structure(hint: Any, structures: Structures) -> Hook:
    if _is_variadic(hint):
        return _items_structure(structures.hook(item_hint(hint)), tuple)
    hooks = [structures.hook(part) for part in _args(hint)]

    def structure(value: Any, _: Any) -> tuple[Any, ...]:
        if type(value) is not list or len(value) != len(hooks):
            raise Mismatch(f"is not a list of {len(hooks)} items")
        made: list[Any] = []
        try:
            for hook, one in zip(hooks, value, strict=True):
                made.append(hook(one, None))
        except Mismatch as error:
            raise error.at(len(made)) from None
        return tuple(made)

    return structure


def _tuple_encode(hint: Any, encodes: Encodes) -> Encode:
    if _is_variadic(hint):
        return items_encode(hint, encodes)
    hooks, wanted = [encodes.hook(part) for part in _args(hint)], hint_text(hint)

    def encode(value: Any) -> list[Any]:
        if not isinstance(value, tuple | list) or len(value) != len(hooks):
            raise refuse(wanted, value)
        made: list[Any] = []
        try:
            for hook, one in zip(hooks, value, strict=True):
                made.append(hook(one))
        except Unencodable as error:
            raise error.at(len(made)) from None
        return made

    return encode


# ── sets ─────────────────────────────────────────────────────────────────────────────────────────


def _set_schema(hint: Any, schemas: Schemas) -> JsonSchema:
    items = SCALAR_ITEMS if bare(item_hint(hint)) is Any else schemas.of(item_hint(hint))
    return {"type": "array", "items": dict(items), "uniqueItems": True}


def _scalar(hook: Hook) -> Hook:
    def structure(value: Any, _: Any) -> Any:
        if type(value) in (list, dict):
            raise Mismatch("cannot be in a set")
        return hook(value, None)

    return structure


def _set_structure(hint: Any, structures: Structures) -> Hook:
    hook = structures.hook(item_hint(hint))
    if bare(item_hint(hint)) is Any:
        hook = _scalar(hook)
    make = frozenset if (get_origin(hint) or hint) in (frozenset, abc.Set) else set
    return _items_structure(hook, make, unique=True)


def _set_encode(hint: Any, encodes: Encodes) -> Encode:
    encode_items, wanted = items_encode(hint, encodes), hint_text(hint)

    def encode(value: Any) -> Any:
        if not isinstance(value, abc.Set):
            raise refuse(wanted, value)
        return encode_items(value)

    return encode


def _set_problem(hint: Any) -> str | None:
    item = bare(item_hint(hint))
    if item is Any:
        return None
    reason = unhashable(item)
    return f"its items cannot be in a set ({reason}); take list[{hint_text(item)}]" if reason else None


def unhashable(hint: Any) -> str | None:
    """Return why values of *hint* cannot be hashed, or None."""
    hint = bare(hint)
    origin = get_origin(hint) or hint
    if origin is Any:
        return "Any may be a list"
    if isinstance(origin, type) and getattr(origin, "__hash__", None) is None:
        return f"{hint_text(hint)} has no hash"
    if origin in (abc.Sequence, abc.Mapping, abc.Iterable, abc.Collection) or hint is tuple:
        return f"{hint_text(hint)} may have no hash"
    if origin in (list, dict, set):
        return f"{hint_text(hint)} has no hash"
    if origin is Literal:
        return None
    reasons = (unhashable(part) for part in _args(hint) if part is not ...)
    return next((reason for reason in reasons if reason), None)


# ── dicts ────────────────────────────────────────────────────────────────────────────────────────


def _dict_args(hint: Any) -> tuple[Any, Any]:
    args = _args(hint)
    return (args[0], args[1]) if len(args) == 2 else (str, Any)


def _dict_schema(hint: Any, schemas: Schemas) -> JsonSchema:
    key, item = _dict_args(hint)
    names, items = key_form(key).schema(key, schemas), schemas.of(item)
    made: JsonSchema = {"type": "object"}
    if names:
        made["propertyNames"] = names
    return {**made, "additionalProperties": items or True}


def _dict_structure(hint: Any, structures: Structures) -> Hook:
    key, item = _dict_args(hint)
    key_hook, item_hook = key_form(key).structure(key, structures), structures.hook(item)

    def structure(value: Any, _: Any) -> dict[Any, Any]:
        if type(value) is not dict:
            raise Mismatch("is not an object")
        name, made = "", {}
        try:
            for name, one in value.items():
                made[key_hook(name, None)] = item_hook(one, None)
        except Mismatch as error:
            raise error.at(name if type(name) is str else repr(name)) from None
        return made

    return structure


def dict_encode(hint: Any, encodes: Encodes) -> Encode:
    """Return the hook that writes a mapping as an object, its keys as text."""
    key, item = _dict_args(hint)
    key_hook, item_hook, wanted = key_form(key).encode(key, encodes), encodes.hook(item), hint_text(hint)

    def encode(value: Any) -> dict[str, Any]:
        if not isinstance(value, abc.Mapping):
            raise refuse(wanted, value)
        name, made = None, {}
        try:
            for name, one in value.items():
                made[key_hook(name)] = item_hook(one)
        except Unencodable as error:
            raise error.at(str(name)) from None
        return made

    return encode


def _dict_problem(hint: Any) -> str | None:
    return key_problem(_dict_args(hint)[0])


LISTS: Final = (list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable)

CONTAINERS: Final = (
    Form(
        name="a list",
        types=LISTS,
        takes=frozenset({"array"}),
        parts=_args,
        schema=list_schema,
        structure=_list_structure,
        encode=items_encode,
    ),
    Form(
        name="a tuple",
        types=(tuple,),
        takes=frozenset({"array"}),
        parts=_tuple_parts,
        schema=_tuple_schema,
        structure=_tuple_structure,
        encode=_tuple_encode,
    ),
    Form(
        name="a set",
        types=(set, frozenset, abc.Set, abc.MutableSet),
        takes=frozenset({"array"}),
        parts=_args,
        problem=_set_problem,
        schema=_set_schema,
        structure=_set_structure,
        encode=_set_encode,
    ),
    Form(
        name="a dict",
        types=(dict, abc.Mapping, abc.MutableMapping),
        takes=frozenset({"object"}),
        parts=lambda hint: _dict_args(hint)[1:],
        problem=_dict_problem,
        schema=_dict_schema,
        structure=_dict_structure,
        encode=dict_encode,
    ),
)
