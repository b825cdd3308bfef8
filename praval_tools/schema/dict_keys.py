"""
Rows of the table for the keys of dicts: in JSON they are text, whatever they are in Python.

Each has one spelling per value, so that two keys of an object never become one key of the dict.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time
from typing import Any, Final, get_origin
from uuid import UUID

from praval_tools.schema.json_values import key_text
from praval_tools.schema.scalars import choices, is_choice, refuse
from praval_tools.schema.text_formats import text_structure
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

_INTEGER: Final = "^(?:0|-?[1-9][0-9]{0,4000})$"
_NUMBER: Final = (
    r"^-?(?:(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,20})?"
    r"|[1-9](?:\.[0-9]{1,20})?e(?:[+]?(?:[0-9]{1,2}|[12][0-9]{2}|30[0-7])|-[0-9]{1,3}))$"
)
_KEY_TYPES: Final = (date, datetime, time, UUID)


def _pattern_key(kind: type, name: str, pattern: str, parse: Callable[[str], Any], write: Callable[[Any], str]) -> Form:
    hook = text_structure(pattern, parse, f"has a key that is not {name}")
    matches = text_structure(pattern, str, "")

    def encode(value: Any) -> str:
        if type(value) is not kind:
            raise refuse(f"a key of type {kind.__name__}", value)
        try:
            return str(matches(write(value), None))
        except Mismatch:
            raise Unencodable(f"the key {value!r} has no JSON form") from None

    return Form(
        name=name,
        types=(kind,),
        schema=lambda hint, schemas: {"pattern": pattern},
        structure=lambda hint, structures: hook,
        encode=lambda hint, encodes: encode,
    )


def _through(hint: Any, schemas: Schemas) -> JsonSchema:
    made = schemas.of(hint)
    return {} if made == {"type": "string"} else made


def _choice_schema(hint: Any, _: Schemas) -> JsonSchema:
    return {"enum": list(_spelled(hint))}


def _spelled(hint: Any) -> dict[str, Any]:
    """Return each spelling of a key and the member that it stands for."""
    return {key_text(plain): member for plain, member in choices(bare(hint))}


def _choice_structure(hint: Any, _: Structures) -> Hook:
    spelled = _spelled(hint)

    def structure(value: Any, _: Any) -> Any:
        if type(value) is str and value in spelled:
            return spelled[value]
        raise Mismatch("has a key that is none of the allowed ones")

    return structure


def _choice_encode(hint: Any, encodes: Encodes) -> Encode:
    hook = encodes.hook(hint)
    return lambda value: key_text(hook(value))


_TEXT: Final = Form(
    name="text",
    schema=_through,
    structure=lambda hint, structures: structures.hook(hint),
    encode=lambda hint, encodes: encodes.hook(hint),
)
_ANY: Final = Form(
    name="text",
    schema=lambda hint, schemas: {},
    structure=lambda hint, structures: structures.hook(str),
    encode=lambda hint, encodes: encodes.hook(str),
)
_CHOICE: Final = Form(name="a choice", schema=_choice_schema, structure=_choice_structure, encode=_choice_encode)
_TRUTH: Final = Form(
    name="true or false",
    schema=lambda hint, schemas: {"enum": ["true", "false"]},
    structure=lambda hint, structures: _truth,
    encode=lambda hint, encodes: lambda value: key_text(encodes.hook(bool)(value)),
)
_NUMBERS: Final = {
    int: _pattern_key(int, "an integer", _INTEGER, int, str),
    float: _pattern_key(float, "a number", _NUMBER, float, repr),
}


def _truth(value: Any, _: Any) -> bool:
    if value not in ("true", "false"):
        raise Mismatch("has a key that is not true or false")
    return bool(value == "true")


def key_form(hint: Any) -> Form:
    """Return the row for keys of *hint*."""
    inner = bare(hint)
    if inner is Any:
        return _ANY
    if inner is bool:
        return _TRUTH
    if inner in _NUMBERS:
        return _NUMBERS[inner]
    return _CHOICE if is_choice(inner) else _TEXT


def key_problem(hint: Any) -> str | None:
    """Return why *hint* cannot be the type of keys, or None."""
    inner = bare(hint)
    if is_choice(inner):
        spelled = [key_text(plain) for plain, _ in choices(inner)]
        return None if len(set(spelled)) == len(spelled) else "two of its keys are the same text in JSON"
    if inner in (int, float, bool) and hint is not inner and get_origin(hint) is not None:
        return f"constraints on {hint_text(inner)} keys have no JSON form; check them in the function"
    if inner in (Any, str, int, float, bool, *_KEY_TYPES):
        return None
    return f"keys of type {hint_text(hint)} have no JSON form; take str, int, float, bool, an Enum, UUID or date"
