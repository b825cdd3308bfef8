"""Reads JSON that is the text of other values, where secrets may be."""

from __future__ import annotations

import json
from typing import Final

from praval_tools.schema.json_values import reject_constant
from praval_tools.tools.value_codec import PythonValue, is_plain_json

_MAX_JSON_NESTING: Final = 100
"""Levels down to which JSON text inside JSON text is read; deeper it is searched as text."""

_JSON_OPENERS: Final = ("{", "[", '"')


def parse_json(text: str, level: int = 0) -> PythonValue:
    """Return the value of which *text* is the JSON text; the text itself where it is none, or repeats a key."""
    if text[:64].lstrip()[:1] not in _JSON_OPENERS or level > _MAX_JSON_NESTING:
        return text
    try:
        value = json.loads(text, object_pairs_hook=_build_unique_dict, parse_constant=reject_constant)
    except (ValueError, RecursionError):
        return text
    return value if is_plain_json(value) else text


def parse_nested_json(value: PythonValue) -> PythonValue:
    """Return the value of which *value* is the JSON text, however often it was encoded; itself where it is none."""
    while isinstance(value, str | bytes | bytearray):
        text = value if isinstance(value, str) else decode_bytes(value)
        if (inner := parse_json(text)) is text:
            break
        value = inner
    return value


def decode_bytes(value: bytes | bytearray) -> str:
    """Return the text of bytes, also of those that are no UTF-8."""
    return value.decode("utf-8", "surrogateescape")


def _build_unique_dict(pairs: list[tuple[str, PythonValue]]) -> dict[str, PythonValue]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a repeated key")
    return members
