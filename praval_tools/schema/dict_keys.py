"""
Type handlers (schema, decoding, encoding) for the keys of dicts, which are text in JSON.

Each value has one spelling, so that two keys of an object never become one key of the dict.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time
from typing import Any, Final
from uuid import UUID

from praval_tools.names import get_class_name
from praval_tools.schema.json_values import to_key_text
from praval_tools.schema.scalars import is_choice, list_choices, make_unencodable_error
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.text_formats import make_text_decode_hook
from praval_tools.schema.type_handler import (
    DecodeHook,
    DecodeHookFactory,
    EncodeHook,
    EncodeHookFactory,
    Mismatch,
    SchemaBuilder,
    TypeHandler,
    Unencodable,
)
from praval_tools.schema.type_hints import Hint, format_hint, get_origin, unwrap_hint

_INTEGER_PATTERN: Final = "^(?:0|-?[1-9][0-9]{0,4000})$"
_NUMBER_PATTERN: Final = (
    r"^-?(?:(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,20})?"
    r"|[1-9](?:\.[0-9]{1,20})?e(?:[+]?(?:[0-9]{1,2}|[12][0-9]{2}|30[0-7])|-[0-9]{1,3}))$"
)
_KEY_TYPES: Final = (date, datetime, time, UUID)


def _make_pattern_handler(
    kind: type, name: str, pattern: str, parse: Callable[[str], Any], write: Callable[[Any], str]
) -> TypeHandler:
    hook = make_text_decode_hook(pattern, parse, f"has a key that is not {name}")
    recorded_hook = make_text_decode_hook(pattern, _parse_recorded_number, f"has a key that is not {name}")
    matches = make_text_decode_hook(pattern, str, "")

    def encode(value: object) -> str:
        if type(value) is not kind:
            raise make_unencodable_error(f"a key of type {get_class_name(kind)}", value)
        try:
            return str(matches(write(value), None))
        except Mismatch:
            raise Unencodable(f"the key is {get_class_name(kind)} without a JSON form") from None

    return TypeHandler(
        name=name,
        types=(kind,),
        build_schema=lambda hint, builder: {"pattern": pattern},
        make_decode_hook=lambda hint, decoders: recorded_hook if decoders.reads_results else hook,
        make_encode_hook=lambda hint, encoders: encode,
    )


def _parse_recorded_number(text: str) -> float:
    return int(text) if text.removeprefix("-").isdecimal() else float(text)


def _build_text_schema(hint: Hint, builder: SchemaBuilder) -> JsonSchema:
    schema = builder.build(hint)
    return {} if schema == {"type": "string"} else schema


def _build_choice_schema(hint: Hint, _: SchemaBuilder) -> JsonSchema:
    return {"enum": list(_map_key_texts(hint))}


def _map_key_texts(hint: Hint) -> dict[str, Any]:
    """Return each spelling of a key and the member that it stands for."""
    return {to_key_text(plain): member for plain, member in list_choices(unwrap_hint(hint))}


def _make_choice_decode_hook(hint: Hint, _: DecodeHookFactory) -> DecodeHook:
    choices = _map_key_texts(hint)

    def decode(value: object, _: object) -> Any:
        if type(value) is str and value in choices:
            return choices[value]
        raise Mismatch("has a key that is none of the allowed ones")

    return decode


def _make_choice_encode_hook(hint: Hint, encoders: EncodeHookFactory) -> EncodeHook:
    hook = encoders.get_hook(hint)
    return lambda value: to_key_text(hook(value))


_TEXT_HANDLER: Final = TypeHandler(
    name="text",
    build_schema=_build_text_schema,
    make_decode_hook=lambda hint, decoders: decoders.get_hook(hint),
    make_encode_hook=lambda hint, encoders: encoders.get_hook(hint),
)
_ANY_HANDLER: Final = TypeHandler(
    name="text",
    build_schema=lambda hint, builder: {},
    make_decode_hook=lambda hint, decoders: decoders.get_hook(str),
    make_encode_hook=lambda hint, encoders: encoders.get_hook(str),
)
_CHOICE_HANDLER: Final = TypeHandler(
    name="a choice",
    build_schema=_build_choice_schema,
    make_decode_hook=_make_choice_decode_hook,
    make_encode_hook=_make_choice_encode_hook,
)
_BOOLEAN_HANDLER: Final = TypeHandler(
    name="true or false",
    build_schema=lambda hint, builder: {"enum": ["true", "false"]},
    make_decode_hook=lambda hint, decoders: _decode_boolean_key,
    make_encode_hook=lambda hint, encoders: lambda value: to_key_text(encoders.get_hook(bool)(value)),
)
_NUMBER_HANDLERS: Final = {
    int: _make_pattern_handler(int, "an integer", _INTEGER_PATTERN, int, str),
    float: _make_pattern_handler(float, "a number", _NUMBER_PATTERN, float, repr),
}


def _decode_boolean_key(value: object, _: object) -> bool:
    if type(value) is not str or value not in ("true", "false"):
        raise Mismatch("has a key that is not true or false")
    return value == "true"


def get_key_handler(hint: Hint) -> TypeHandler:
    """Return the handler for keys of *hint*."""
    inner = unwrap_hint(hint)
    if inner is Any:
        return _ANY_HANDLER
    if inner is bool:
        return _BOOLEAN_HANDLER
    if inner in _NUMBER_HANDLERS:
        return _NUMBER_HANDLERS[inner]
    return _CHOICE_HANDLER if is_choice(inner) else _TEXT_HANDLER


def find_key_problem(hint: Hint) -> str | None:
    """Return why *hint* cannot be the type of keys, or None."""
    inner = unwrap_hint(hint)
    if is_choice(inner):
        key_texts = [to_key_text(plain) for plain, _ in list_choices(inner)]
        return None if len(set(key_texts)) == len(key_texts) else "two of its keys are the same text in JSON"
    if inner in (int, float, bool) and hint is not inner and get_origin(hint) is not None:
        return f"constraints on {format_hint(inner)} keys have no JSON form; check them in the function"
    if inner in (Any, str, int, float, bool, *_KEY_TYPES):
        return None
    return f"keys of type {format_hint(hint)} have no JSON form; take str, int, float, bool, an Enum, UUID or date"
