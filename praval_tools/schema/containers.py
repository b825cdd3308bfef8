"""Type handlers (schema, decoding, encoding) for lists, tuples, sets and dicts."""

from __future__ import annotations

import collections.abc as abc
import typing
from collections.abc import Callable
from itertools import repeat
from typing import Annotated, Any, Final, Literal

from praval_tools.names import format_count
from praval_tools.schema.dict_keys import find_key_problem, get_key_handler
from praval_tools.schema.hash_collisions import check_hash_collisions
from praval_tools.schema.hidden_values import prepend_written_step
from praval_tools.schema.json_values import make_equality_key, sort_json_items, to_step
from praval_tools.schema.scalars import make_iterator_error, make_unencodable_error
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.type_handler import (
    DecodeHook,
    DecodeHookFactory,
    EncodeHook,
    EncodeHookFactory,
    Mismatch,
    SchemaBuilder,
    TypeHandler,
    Unencodable,
    collect_items,
)
from praval_tools.schema.type_hints import Hint, format_hint, get_origin, has_secret_mark, unwrap_hint
from praval_tools.schema.union_members import remove_union_members
from praval_tools.values.builtin_iteration import iterate_items_without_overrides, iterate_without_overrides

SCALAR_ITEMS_SCHEMA: Final[JsonSchema] = {"type": ["string", "number", "boolean", "null"]}
"""The items of a set without an item hint: whatever Python can hash."""


def _get_type_arguments(hint: Hint) -> tuple[Hint, ...]:
    return getattr(hint, "__args__", ()) if get_origin(hint) is not None else ()


def get_item_hint(hint: Hint) -> Hint:
    """Return the hint of the items of a list-like *hint*; `Any` where it has none."""
    args = _get_type_arguments(hint)
    return args[0] if args else Any


# ── lists ──────────────────────────────────────────────────────────────


def build_list_schema(hint: Hint, builder: SchemaBuilder) -> JsonSchema:
    """Return the schema of a list of the items of *hint*."""
    items = builder.build(get_item_hint(hint))
    return {"type": "array", **({"items": items} if items else {})}


def _make_items_decode_hook(
    hook: DecodeHook, make: Callable[[list[Any]], Any] | None, unique: bool = False
) -> DecodeHook:
    def decode(value: object, _: object) -> Any:
        if type(value) is not list:
            raise Mismatch("is not a list")
        decoded = collect_items(map(hook, value, repeat(None)))
        if unique and len(value) > 1:
            keys = list(map(make_equality_key, value))
            check_hash_collisions(keys)
            if len(set(keys)) != len(keys):
                raise Mismatch("holds an item twice")
        return decoded if make is None else _construct_container(make, decoded)

    return decode


def _construct_container(make: Callable[[list[Any]], Any], items: list[Any]) -> Any:
    try:
        if make in (set, frozenset):
            check_hash_collisions(items)
        return make(items)
    except TypeError as error:  # a class whose hash fails for this value
        raise Mismatch(f"cannot be gathered: {error}") from None


def _make_list_decode_hook(hint: Hint, decoders: DecodeHookFactory) -> DecodeHook:
    return _make_items_decode_hook(decoders.get_hook(get_item_hint(hint)), None)


def make_items_encode_hook(hint: Hint, encoders: EncodeHookFactory) -> EncodeHook:
    """Return the hook that writes an iterable as a list; text and mappings are not lists."""
    hook, type_name = encoders.get_hook(get_item_hint(hint)), format_hint(hint)
    to_json = remove_union_members if encoders.marks_members else None

    def encode(value: object) -> list[Any]:
        if isinstance(value, str | bytes | abc.Mapping) or not isinstance(value, abc.Iterable):
            raise make_unencodable_error(type_name, value)
        if isinstance(value, abc.Iterator):
            raise make_iterator_error(value)
        encoded = collect_items(map(hook, iterate_without_overrides(value)))
        return sort_json_items(encoded, to_json) if isinstance(value, abc.Set) else encoded

    return encode


# ── tuples ───────────────────────────────────────────────────────────────────────────────────────


def _is_variadic(hint: Hint) -> bool:
    args = _get_type_arguments(hint)
    return hint is tuple or hint is typing.Tuple or (len(args) == 2 and args[1] is ...)  # noqa: UP006


def _get_tuple_item_hints(hint: Hint) -> tuple[Hint, ...]:
    return tuple(part for part in _get_type_arguments(hint) if part is not ...)


def _build_tuple_schema(hint: Hint, builder: SchemaBuilder) -> JsonSchema:
    if _is_variadic(hint):
        return build_list_schema(hint, builder)
    if not (parts := _get_type_arguments(hint)):
        return {"type": "array", "maxItems": 0}
    prefix = [builder.build(part) for part in parts]
    return {"type": "array", "prefixItems": prefix, "items": False, "minItems": len(parts)}


def _make_tuple_decode_hook(hint: Hint, decoders: DecodeHookFactory) -> DecodeHook:
    if _is_variadic(hint):
        return _make_items_decode_hook(decoders.get_hook(get_item_hint(hint)), tuple)
    hooks = [decoders.get_hook(part) for part in _get_type_arguments(hint)]

    def decode(value: object, _: object) -> tuple[Any, ...]:
        if type(value) is not list or len(value) != len(hooks):
            raise Mismatch(f"is not a list of {format_count(len(hooks), 'item')}")
        return tuple(collect_items(hook(item, None) for hook, item in zip(hooks, value, strict=True)))

    return decode


def _make_tuple_encode_hook(hint: Hint, encoders: EncodeHookFactory) -> EncodeHook:
    if _is_variadic(hint):
        return make_items_encode_hook(hint, encoders)
    hooks, type_name = [encoders.get_hook(part) for part in _get_type_arguments(hint)], format_hint(hint)

    def encode(value: object) -> list[Any]:
        items = list(iterate_without_overrides(value)) if isinstance(value, tuple | list) else None
        if items is None or len(items) != len(hooks):
            raise make_unencodable_error(type_name, value)
        return collect_items(hook(item) for hook, item in zip(hooks, items, strict=True))

    return encode


# ── sets ─────────────────────────────────────────────────────────────────────────────────────────


def _build_set_schema(hint: Hint, builder: SchemaBuilder) -> JsonSchema:
    items = SCALAR_ITEMS_SCHEMA if unwrap_hint(get_item_hint(hint)) is Any else builder.build(get_item_hint(hint))
    return {"type": "array", "items": dict(items), "uniqueItems": True}


def _refuse_containers(hook: DecodeHook) -> DecodeHook:
    def decode(value: object, _: object) -> Any:
        if type(value) in (list, dict):
            raise Mismatch("cannot be in a set")
        return hook(value, None)

    return decode


def _make_set_decode_hook(hint: Hint, decoders: DecodeHookFactory) -> DecodeHook:
    hook = decoders.get_hook(get_item_hint(hint))
    if unwrap_hint(get_item_hint(hint)) is Any:
        hook = _refuse_containers(hook)
    make = frozenset if (get_origin(hint) or hint) in (frozenset, abc.Set) else set
    return _make_items_decode_hook(hook, make, unique=True)


def _make_set_encode_hook(hint: Hint, encoders: EncodeHookFactory) -> EncodeHook:
    encode_items, type_name = make_items_encode_hook(hint, encoders), format_hint(hint)

    def encode(value: object) -> Any:
        if not isinstance(value, abc.Set):
            raise make_unencodable_error(type_name, value)
        return encode_items(value)

    return encode


def _find_set_problem(hint: Hint) -> str | None:
    item = unwrap_hint(get_item_hint(hint))
    if item is Any:
        return None
    reason = explain_unhashable(item)
    return f"its items cannot be in a set ({reason}); take list[{format_hint(item)}]" if reason else None


def explain_unhashable(hint: Hint) -> str | None:
    """Return why values of *hint* cannot be hashed, or None."""
    hint = unwrap_hint(hint)
    origin = get_origin(hint) or hint
    if origin is Any:
        return "Any may be a list"
    if isinstance(origin, type) and getattr(origin, "__hash__", None) is None:
        return f"{format_hint(hint)} has no hash"
    if origin in (abc.Sequence, abc.Mapping, abc.Iterable, abc.Collection) or hint is tuple:
        return f"{format_hint(hint)} may have no hash"
    if origin in (list, dict, set):
        return f"{format_hint(hint)} has no hash"
    if origin is Literal:
        return None
    reasons = (explain_unhashable(part) for part in _get_type_arguments(hint) if part is not ...)
    return next((reason for reason in reasons if reason), None)


# ── dicts ────────────────────────────────────────────────────────────────────────────────────────


def _get_key_and_value_hints(hint: Hint) -> tuple[Hint, Hint]:
    args = _get_type_arguments(hint)
    return (args[0], args[1]) if len(args) == 2 else (str, Any)


def _build_dict_schema(hint: Hint, builder: SchemaBuilder) -> JsonSchema:
    key, item = _get_key_and_value_hints(hint)
    names, items = get_key_handler(key).build_schema(key, builder), builder.build(item)
    schema: JsonSchema = {"type": "object"}
    if names:
        schema["propertyNames"] = names
    return {**schema, "additionalProperties": items or True}


def _make_dict_decode_hook(hint: Hint, decoders: DecodeHookFactory) -> DecodeHook:
    key_hint, item_hint = _get_key_and_value_hints(hint)
    key_hook, item_hook = get_key_handler(key_hint).make_decode_hook(key_hint, decoders), decoders.get_hook(item_hint)
    is_text = unwrap_hint(key_hint) in (str, Any)

    def decode(value: object, _: object) -> dict[Any, Any]:
        if type(value) is not dict:
            raise Mismatch("is not an object")
        name, pairs = "", []
        try:
            for name, member in value.items():
                pairs.append((key_hook(name, None), item_hook(member, None)))
        except Mismatch as error:
            raise error.prepend_step(to_step(name)) from None
        if not is_text:
            check_hash_collisions([key for key, _ in pairs])
        decoded = dict(pairs)
        if len(decoded) != len(value):
            raise Mismatch("holds a key twice, in two spellings")
        return decoded

    return decode


def make_dict_encode_hook(hint: Hint, encoders: EncodeHookFactory) -> EncodeHook:
    """Return the hook that writes a mapping as an object, its keys as text."""
    key_hint, item_hint = _get_key_and_value_hints(hint)
    key_hook, item_hook, type_name = (
        get_key_handler(key_hint).make_encode_hook(key_hint, encoders),
        encoders.get_hook(item_hint),
        format_hint(hint),
    )
    has_secret_keys = get_origin(key_hint) is Annotated and has_secret_mark(key_hint.__metadata__)

    def encode(value: object) -> dict[str, Any]:
        if not isinstance(value, abc.Mapping):
            raise make_unencodable_error(type_name, value)
        name, encoded = None, {}
        try:
            for name, member in iterate_items_without_overrides(value):
                if (text := key_hook(name)) in encoded:
                    raise Unencodable("another key has the same text in JSON")
                encoded[text] = item_hook(member)
        except Unencodable as error:
            raise prepend_written_step(error, "*" if has_secret_keys else to_step(name)) from None
        return encoded

    return encode


def _find_dict_problem(hint: Hint) -> str | None:
    return find_key_problem(_get_key_and_value_hints(hint)[0])


LIST_TYPES: Final = (list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable)

CONTAINER_HANDLERS: Final = (
    TypeHandler(
        name="a list",
        types=LIST_TYPES,
        constrainable_types=frozenset({"array"}),
        get_inner_hints=_get_type_arguments,
        build_schema=build_list_schema,
        make_decode_hook=_make_list_decode_hook,
        make_encode_hook=make_items_encode_hook,
    ),
    TypeHandler(
        name="a tuple",
        types=(tuple,),
        constrainable_types=frozenset({"array"}),
        get_inner_hints=_get_tuple_item_hints,
        build_schema=_build_tuple_schema,
        make_decode_hook=_make_tuple_decode_hook,
        make_encode_hook=_make_tuple_encode_hook,
    ),
    TypeHandler(
        name="a set",
        types=(set, frozenset, abc.Set, abc.MutableSet),
        constrainable_types=frozenset({"array"}),
        get_inner_hints=_get_type_arguments,
        find_problem=_find_set_problem,
        build_schema=_build_set_schema,
        make_decode_hook=_make_set_decode_hook,
        make_encode_hook=_make_set_encode_hook,
    ),
    TypeHandler(
        name="a dict",
        types=(dict, abc.Mapping, abc.MutableMapping),
        constrainable_types=frozenset({"object"}),
        get_inner_hints=lambda hint: _get_key_and_value_hints(hint)[1:],
        find_problem=_find_dict_problem,
        build_schema=_build_dict_schema,
        make_decode_hook=_make_dict_decode_hook,
        make_encode_hook=make_dict_encode_hook,
    ),
)
