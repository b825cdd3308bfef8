"""Rows of the table for single values in JSON's own types: text, numbers, truth values, null, choices, anything."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum, Flag
from typing import Any, Final, Literal, get_origin

from praval_tools.names import shorten
from praval_tools.schema.json_values import INT_LIMIT, check_json, json_key
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
    encodable,
)


def refuse(wanted: str, value: object) -> Unencodable:
    """Return the error for a *value* that is not what the hint declares."""
    return Unencodable(f"{type(value).__qualname__} came where {wanted} is declared ({shorten(value, 40)})")


def _text(value: Any, _: Any) -> str:
    if type(value) is not str:
        raise Mismatch("is not text")
    if not value.isascii() and not encodable(value):
        raise Mismatch("holds half of a surrogate pair")
    return value


def _integer(value: Any, _: Any) -> int:
    if type(value) is int and -INT_LIMIT < value < INT_LIMIT:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    raise Mismatch("is not an integer")


def _exact_integer(value: Any, _: Any) -> int:
    if type(value) is int and -INT_LIMIT < value < INT_LIMIT:
        return value
    raise Mismatch("is not an integer")


def _number(value: Any, _: Any) -> float:
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is int and -INT_LIMIT < value < INT_LIMIT:
        try:
            return float(value)
        except OverflowError:  # JSON Schema knows no largest number, so neither do we
            return value
    raise Mismatch("is not a finite number")


def _exact_number(value: Any, _: Any) -> float:
    if type(value) is float and math.isfinite(value):
        return value
    raise Mismatch("is not a finite number")


def _truth(value: Any, _: Any) -> bool:
    if type(value) is bool:
        return value
    raise Mismatch("is not true or false")


def _null(value: Any, _: Any) -> None:
    if value is not None:
        raise Mismatch("is not null")


def _anything(value: Any, _: Any) -> Any:
    check_json(value)
    return value


def _encode_text(value: Any) -> str:
    if not isinstance(value, str):
        raise refuse("str", value)
    if not value.isascii() and not encodable(value):
        raise Unencodable("the text holds half of a surrogate pair, which JSON cannot carry")
    return str.__str__(value) if type(value) is not str else value


def _encode_integer(value: Any) -> int:
    if type(value) is bool or not isinstance(value, int):
        raise refuse("int", value)
    if not -INT_LIMIT < value < INT_LIMIT:
        raise Unencodable("the integer has more than 4300 digits")
    return int(value)


def _encode_number(value: Any) -> float:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Unencodable(f"float {value!r} has no JSON form")
        return float(value)
    return _encode_integer(value) if isinstance(value, int) else _reject("float", value)


def _reject(wanted: str, value: object) -> Any:
    raise refuse(wanted, value)


def _encode_truth(value: Any) -> bool:
    return value if type(value) is bool else bool(_reject("bool", value))


def _encode_null(value: Any) -> None:
    if value is not None:
        raise refuse("None", value)


def _row(name: str, types: tuple[Any, ...], json_type: str, hooks: tuple[Hook, Hook], encode: Encode) -> Form:
    wide, exact = hooks
    return Form(
        name=name,
        types=types,
        takes=frozenset({json_type}),
        schema=lambda hint, schemas: {"type": json_type},
        structure=lambda hint, structures: exact if structures.exact else wide,
        encode=lambda hint, encodes: encode,
    )


# ── choices: Literal and Enum ────────────────────────────────────────────────────────────────────


def is_choice(hint: Any) -> bool:
    """Tell whether *hint* is an Enum or a Literal."""
    return get_origin(hint) is Literal or (isinstance(hint, type) and issubclass(hint, Enum))


def choices(hint: Any) -> tuple[tuple[Any, Any], ...]:
    """Return each allowed (JSON value, Python value) of a Literal or Enum, in order of declaration."""
    found: dict[Any, tuple[Any, Any]] = {}
    members: Iterable[Any] = hint.__args__ if get_origin(hint) is Literal else hint
    for member in members:
        plain = _plain(member)
        found.setdefault(json_key(plain), (plain, member))
    return tuple(found.values())


def _plain(member: Any) -> Any:
    value = member.value if isinstance(member, Enum) else member
    return _listed(value)


def _listed(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_listed(one) for one in value]
    if isinstance(value, Enum):
        return _listed(value.value)
    for kind in (str, int, float):  # a member of a StrEnum is its own value
        if isinstance(value, kind) and type(value) not in (kind, bool):
            return kind(value)
    return value


def _choices_problem(hint: Any) -> str | None:
    if isinstance(hint, type) and issubclass(hint, Flag):
        return "a Flag has no JSON form; take a set of an Enum"
    try:
        allowed = choices(hint)
        for plain, _ in allowed:
            check_json(plain)
    except (Mismatch, TypeError):
        return "its values are not JSON values; give its members text or numbers as values"
    return None if allowed else "it has no members"


_JSON_NAMES: Final[dict[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}


def _choices_schema(hint: Any, _: Schemas) -> JsonSchema:
    values = [plain for plain, _ in choices(hint)]
    kinds = {_JSON_NAMES.get(type(value), "") for value in values}
    named = {"type": kinds.pop()} if len(kinds) == 1 and "" not in kinds else {}
    return {**named, "enum": values}


def _choices_structure(hint: Any, structures: Structures) -> Hook:
    by_key = {json_key(plain): (type(plain), member) for plain, member in choices(hint)}
    exact = structures.exact

    def structure(value: Any, _: Any) -> Any:
        try:
            kind, member = by_key[json_key(value)]
        except (KeyError, Mismatch):
            raise Mismatch("is none of the allowed values") from None
        if exact and type(value) is not kind:
            raise Mismatch("is none of the allowed values")
        return member

    return structure


def _choices_encode(hint: Any, _: Encodes) -> Encode:
    if isinstance(hint, type):
        plain_of = {member: plain for plain, member in choices(hint)}
        return lambda value: plain_of[value] if type(value) is hint else _reject(hint.__name__, value)
    allowed = {(type(member), member): plain for plain, member in choices(hint)}

    def encode(value: Any) -> Any:
        try:
            return allowed[(type(value), value)]
        except (KeyError, TypeError):
            raise refuse("one of the Literal's values", value) from None

    return encode




PLAIN_ENCODES: Final[dict[type, Encode]] = {
    str: _encode_text,
    int: _encode_integer,
    float: _encode_number,
    bool: _encode_truth,
    type(None): _encode_null,
}
"""What encodes a value of JSON's own types by its type."""

SCALARS: Final = (
    _row("text", (str,), "string", (_text, _text), _encode_text),
    _row("an integer", (int,), "integer", (_integer, _exact_integer), _encode_integer),
    _row("a number", (float,), "number", (_number, _exact_number), _encode_number),
    _row("true or false", (bool,), "boolean", (_truth, _truth), _encode_truth),
    _row("null", (None, type(None)), "null", (_null, _null), _encode_null),
    Form(
        name="anything",
        types=(Any,),
        schema=lambda hint, schemas: {},
        structure=lambda hint, structures: _anything,
        encode=lambda hint, encodes: encodes.value,
    ),
    Form(
        name="one of given values",
        types=(Literal,),
        fits=is_choice,
        problem=_choices_problem,
        schema=_choices_schema,
        structure=_choices_structure,
        encode=_choices_encode,
    ),
)
