"""Type handlers (schema, decoding, encoding) for text, numbers, booleans, null, enums, literals and `Any`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum, Flag
from typing import Any, Final, Literal

from praval_tools.names import get_class_name, get_qualified_name, shorten_repr, to_plain_scalar
from praval_tools.schema.json_input import copy_json
from praval_tools.schema.json_values import (
    INT_LIMIT,
    LOWER_INT_LIMIT,
    SCALAR_TYPES,
    check_json,
    is_utf8_encodable,
    make_equality_key,
)
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
)
from praval_tools.schema.type_hints import Hint, get_origin


def make_unencodable_error(type_name: str, value: object) -> Unencodable:
    """Return the error for a *value* that is not what the hint declares, without the value, which may be secret."""
    return Unencodable(f"{get_qualified_name(type(value))} came where {type_name} is declared")


def make_iterator_error(value: object) -> Unencodable:
    """Return the error for an iterator where nobody can put a list in its place: reading it would empty it."""
    return Unencodable(f"{get_qualified_name(type(value))} is an iterator and can be read only once; hold a list")


def _decode_text(value: object, _: object) -> str:
    if type(value) is not str:
        raise Mismatch("is not text")
    if not value.isascii() and not is_utf8_encodable(value):
        raise Mismatch("holds half of a surrogate pair")
    return value


def _decode_integer(value: object, _: object) -> int:
    if type(value) is int and LOWER_INT_LIMIT < value < INT_LIMIT:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    raise Mismatch("is not an integer")


def _decode_recorded_integer(value: object, _: object) -> float:
    _decode_integer(value, None)
    return value  # type: ignore[return-value]


def _decode_exact_integer(value: object, _: object) -> int:
    if type(value) is int and LOWER_INT_LIMIT < value < INT_LIMIT:
        return value
    raise Mismatch("is not an integer")


def _decode_number(value: object, _: object) -> float:
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is int and LOWER_INT_LIMIT < value < INT_LIMIT:
        try:
            return float(value)
        except OverflowError:
            raise Mismatch("is larger or smaller than every float") from None
    raise Mismatch("is not a finite number")


def _decode_recorded_number(value: object, _: object) -> float:
    _decode_number(value, None)
    return value  # type: ignore[return-value]


def _decode_exact_number(value: object, _: object) -> float:
    number = _decode_number(value, None)
    if type(value) is float:
        return number
    raise Mismatch("is an integer")


def _decode_boolean(value: object, _: object) -> bool:
    if type(value) is bool:
        return value
    raise Mismatch("is not true or false")


def _decode_null(value: object, _: object) -> None:
    if value is not None:
        raise Mismatch("is not null")


def _decode_any(value: object, _: object) -> Any:
    check_json(value)
    return value if type(value) in SCALAR_TYPES else copy_json(value)  # a tool may change its own


def _encode_text(value: object) -> str:
    if not isinstance(value, str):
        raise make_unencodable_error("str", value)
    text = value if type(value) is str else str.__str__(value)  # a subclass may say what it likes
    if not text.isascii() and not is_utf8_encodable(text):
        raise Unencodable("the text holds half of a surrogate pair, which JSON cannot carry")
    return text


def _encode_integer(value: object) -> int:
    if type(value) is bool or not isinstance(value, int):
        raise make_unencodable_error("int", value)
    number = int.__int__(value)
    if not LOWER_INT_LIMIT < number < INT_LIMIT:
        raise Unencodable("the integer has more than 4300 digits")
    return number


def _encode_number(value: object) -> float:
    if type(value) is float and value - value == 0:  # finite, as nearly all are
        return value
    if isinstance(value, float):
        number = float.__float__(value)
        if not math.isfinite(number):
            raise Unencodable(f"float {number!r} has no JSON form")
        return number
    if isinstance(value, int):
        integer = _encode_integer(value)
        try:
            float(integer)
        except OverflowError:
            raise Unencodable("the integer is larger or smaller than every float; declare int") from None
        return integer
    return float(_raise_unencodable("float", value))


def _raise_unencodable(type_name: str, value: object) -> Any:
    raise make_unencodable_error(type_name, value)


def _encode_boolean(value: object) -> bool:
    return value if type(value) is bool else bool(_raise_unencodable("bool", value))


def _encode_null(value: object) -> None:
    if value is not None:
        raise make_unencodable_error("None", value)


def _make_scalar_handler(
    name: str, types: tuple[Any, ...], json_type: str, hooks: tuple[DecodeHook, DecodeHook, DecodeHook],
    encode: EncodeHook,
) -> TypeHandler:  # fmt: skip
    """Return the handler of a scalar type, by its hooks for arguments, for recorded results, and without widening."""
    wide, recorded, exact = hooks

    def make_decode_hook(_: Hint, decoders: DecodeHookFactory) -> DecodeHook:
        return exact if decoders.exact else recorded if decoders.reads_results else wide

    return TypeHandler(
        name=name,
        types=types,
        constrainable_types=frozenset({json_type}),
        build_schema=lambda hint, builder: {"type": json_type},
        make_decode_hook=make_decode_hook,
        make_encode_hook=lambda hint, encoders: encode,
    )


# ── choices: Literal and Enum ────────────────────────────────────────────────────────────────────


def is_choice(hint: Hint) -> bool:
    """Tell whether *hint* is an Enum or a Literal."""
    return get_origin(hint) is Literal or (isinstance(hint, type) and issubclass(hint, Enum))


def list_choices(hint: Hint) -> tuple[tuple[Any, Any], ...]:
    """Return each allowed (JSON value, Python value) of a Literal or Enum, in order of declaration."""
    choices: dict[Any, tuple[Any, Any]] = {}
    members: Iterable[Any] = hint.__args__ if get_origin(hint) is Literal else hint
    for member in members:
        plain = _get_json_choice(member)
        choices.setdefault(make_equality_key(plain), (plain, member))
    return tuple(choices.values())


def _get_json_choice(member: Any) -> Any:
    value = member.value if isinstance(member, Enum) else member
    return _to_plain_choice(value)


def _to_plain_choice(value: object) -> Any:
    if isinstance(value, tuple | list):
        return [_to_plain_choice(item) for item in value]
    if isinstance(value, Enum):
        return _to_plain_choice(value.value)
    return to_plain_scalar(value)  # a member of a StrEnum is its own value


def _find_choices_problem(hint: Hint) -> str | None:
    if isinstance(hint, type) and issubclass(hint, Flag):
        return "a Flag has no JSON form; take a set of an Enum"
    try:
        allowed = list_choices(hint)
        for plain, _ in allowed:
            check_json(plain)
    except (Mismatch, TypeError):
        return "its values are not JSON values; give its members text or numbers as values"
    for plain, member in allowed:
        if isinstance(member, str | int | float) and _get_payload(member) != plain:
            return f"its member {member!r} is not its value {shorten_repr(plain)}; give it one value"
    return None if allowed else "it has no members"


def _get_payload(member: str | float) -> str | float:
    """Return what a member of an Enum, that is a text or a number as well, is in Python's own arithmetic."""
    kind = next(kind for kind in (str, int, float) if isinstance(member, kind))
    return kind.__add__(member, kind())  # type: ignore[operator]


_JSON_TYPE_NAMES: Final[dict[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}


def _build_choices_schema(hint: Hint, _: SchemaBuilder) -> JsonSchema:
    values = [plain for plain, _ in list_choices(hint)]
    kinds = {_JSON_TYPE_NAMES.get(type(value), "") for value in values}
    type_keyword = {"type": kinds.pop()} if len(kinds) == 1 and "" not in kinds else {}
    return {**type_keyword, "enum": values}


def _make_choices_decode_hook(hint: Hint, decoders: DecodeHookFactory) -> DecodeHook:
    by_key = {make_equality_key(plain): (type(plain), member) for plain, member in list_choices(hint)}
    exact = decoders.exact

    def decode(value: object, _: object) -> Any:
        try:
            kind, member = by_key[make_equality_key(value)]
        except (KeyError, Mismatch):
            raise Mismatch("is none of the allowed values") from None
        if exact and type(value) is not kind:
            raise Mismatch("is none of the allowed values")
        return member

    return decode


def _make_choices_encode_hook(hint: Hint, _: EncodeHookFactory) -> EncodeHook:
    if isinstance(hint, type):
        plain_of = {member: plain for plain, member in list_choices(hint)}
        return lambda value: plain_of[value] if type(value) is hint else _raise_unencodable(get_class_name(hint), value)
    allowed = {(type(member), member): plain for plain, member in list_choices(hint)}

    def encode(value: object) -> Any:
        try:
            return allowed[(type(value), value)]
        except (KeyError, TypeError):
            raise make_unencodable_error("one of the Literal's values", value) from None

    return encode


SCALAR_ENCODE_HOOKS: Final[dict[type, EncodeHook]] = {
    str: _encode_text,
    int: _encode_integer,
    float: _encode_number,
    bool: _encode_boolean,
    type(None): _encode_null,
}
"""What encoders a value of JSON's own types by its type."""

SCALAR_HANDLERS: Final = (
    _make_scalar_handler("text", (str,), "string", (_decode_text,) * 3, _encode_text),
    _make_scalar_handler(
        "an integer",
        (int,),
        "integer",
        (_decode_integer, _decode_recorded_integer, _decode_exact_integer),
        _encode_integer,
    ),
    _make_scalar_handler(
        "a number", (float,), "number", (_decode_number, _decode_recorded_number, _decode_exact_number), _encode_number
    ),
    _make_scalar_handler("true or false", (bool,), "boolean", (_decode_boolean,) * 3, _encode_boolean),
    _make_scalar_handler("null", (None, type(None)), "null", (_decode_null,) * 3, _encode_null),
    TypeHandler(
        name="anything",
        types=(Any,),
        build_schema=lambda hint, builder: {},
        make_decode_hook=lambda hint, decoders: _decode_any,
        make_encode_hook=lambda hint, encoders: encoders.encode_value,
    ),
    TypeHandler(
        name="one of given values",
        types=(Literal,),
        matches=is_choice,
        find_problem=_find_choices_problem,
        build_schema=_build_choices_schema,
        make_decode_hook=_make_choices_decode_hook,
        make_encode_hook=_make_choices_encode_hook,
    ),
)
