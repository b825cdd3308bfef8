"""Sanitizes what other parties send: repairs or refuses names, removes invisible characters and secrets from texts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from praval_tools.names import shorten_repr
from praval_tools.report.text import UNSAFE_CHARACTERS
from praval_tools.schema.schema_tree import JsonSchema

_LEGAL: Final = re.compile(r"[A-Za-z0-9_.-]+")
_REPAIRABLE: Final = re.compile(r"[\x20-\x7e]+")
_OTHER: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_KEPT: Final = frozenset("\n\t\u200c\u200d")
"""Control characters that are part of texts, and the joiners that some scripts and emoji need."""

_MISLEADING: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))
_TEXT_KEYWORDS: Final = frozenset(("title", "description", "$comment"))
_MAP_KEYWORDS: Final = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
_REMOVED: Final = "[secret]"
_ESCAPES: Final = "\\%&+"
_ESCAPE: Final = re.compile(f"[{re.escape(_ESCAPES)}]")
_SHORT_ESCAPES: Final = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}
_ENTITIES: Final = {'"': "quot", "'": "apos", "&": "amp", "<": "lt", ">": "gt"}
_MAX_BYTE: Final = 0xFF
_MAX_DIGITS: Final = 300
"""Longer numbers do not fit into a float, as which many parties read all numbers."""

_VALUE_KEYWORDS: Final = frozenset(("enum", "const", "default", "examples", "required"))


def repair_name(name: str) -> str | None:
    """Return *name*, or a legal one instead of one that is printable ASCII; None for all others."""
    if _LEGAL.fullmatch(name):
        return name
    repaired = _OTHER.sub("_", name).strip("_") if _REPAIRABLE.fullmatch(name) else ""
    return repaired or None


def quote_name(name: object) -> str:
    """Return a name for a message: in ASCII, so that it cannot look like another one."""
    return shorten_repr(name).encode("ascii", "backslashreplace").decode()


def clean_text(text: str, secrets: Sequence[str] = ()) -> str:
    """
    Return *text* without escapes, marks of direction and invisible characters.

    Args:
        text: The text, from which secrets are removed as it came.
        secrets: What must not be in it where such characters stood in between, either.
    """
    if text.isascii() and text.isprintable():
        return text
    shown = UNSAFE_CHARACTERS.sub(lambda found: found[0] if found[0] in _KEPT else "", text)
    cleaned = "".join(char for char in shown if char in _KEPT or unicodedata.category(char) not in _MISLEADING)
    return cleaned if cleaned == text else str(remove_secrets(cleaned, secrets))


def clean_schema(schema: JsonSchema, secrets: Sequence[str] = ()) -> JsonSchema:
    """Return a copy of *schema* whose titles and descriptions are clean; what values are compared with stays."""
    return {key: _clean_member(key, value, secrets) for key, value in schema.items()}


def _clean_member(key: str, value: object, secrets: Sequence[str]) -> object:
    if key in _TEXT_KEYWORDS and isinstance(value, str):
        return clean_text(value, secrets)
    if key in _VALUE_KEYWORDS:
        return value
    if key in _MAP_KEYWORDS and isinstance(value, dict):
        return {name: clean_schema(part, secrets) if isinstance(part, dict) else part for name, part in value.items()}
    if isinstance(value, dict):
        return clean_schema(value, secrets)
    if isinstance(value, list):
        return [clean_schema(part, secrets) if isinstance(part, dict) else part for part in value]
    return value


def replace_surrogates(value: object) -> object:
    """Return a JSON value with a replacement character for each half of a surrogate pair, which no name has."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {str(replace_surrogates(key)): replace_surrogates(item) for key, item in value.items()}
    return list(map(replace_surrogates, value)) if isinstance(value, list) else value


def remove_secrets(value: object, secrets: Sequence[str]) -> object:
    """
    Return a JSON value without the *secrets*, which the other party may send back.

    They are also found as JSON, HTML, a URL or a `repr` writes them; one of digits also as a number.
    """
    if not secrets:
        return value
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, _REMOVED)
        return _compile_written(tuple(secrets)).sub(_REMOVED, value) if _ESCAPE.search(value) else value
    if isinstance(value, dict):
        return {str(remove_secrets(key, secrets)): remove_secrets(item, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [remove_secrets(item, secrets) for item in value]
    is_secret = type(value) in (int, float) and value in _read_numbers(tuple(secrets))
    return _REMOVED if is_secret else value


def remove_secret_bytes(data: bytes, secrets: Sequence[str]) -> bytes:
    """Return *data* without the *secrets*, which are found as in texts."""
    text = data.decode(errors="surrogateescape")
    return str(remove_secrets(text, secrets)).encode(errors="surrogateescape")


@lru_cache(maxsize=64)
def _read_numbers(secrets: tuple[str, ...]) -> frozenset[float]:
    """Return the numbers as which another party may read *secrets*, also where it has no exact ones of that size."""
    digits = [text for text in secrets if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS]
    numbers = list(map(int, digits))
    return frozenset([*numbers, *map(float, numbers)])


@lru_cache(maxsize=64)
def _compile_written(secrets: tuple[str, ...]) -> re.Pattern[str]:
    parts = (re.findall(r"\\+|[^\\]", secret) for secret in secrets)  # a run of backslashes is one part: linear work
    firsts = re.escape("".join({_ESCAPES, *(secret[:1] for secret in secrets)}))
    return re.compile(f"(?=[{firsts}])(?:" + "|".join("".join(map(_match_written, chars)) for chars in parts) + ")")


def _match_written(char: str) -> str:
    """
    Return a pattern of what a character, or a run of backslashes, may be written as: of a bounded length.

    No two of its branches match the same text: what they match alike would be tried twice, for each character.
    """
    if char.startswith("\\"):
        count, coded = len(char), r"(?i:%5c)|\\{1,3}(?i:u005c|x5c)|&#(?i:x0{0,4}5c|0{0,4}92);"
        return rf"(?:\\{{{count},{4 * count}}}|(?:{coded}){{{count}}})"
    number, octets = ord(char), quote(char, safe="", errors="replace")
    encoded = octets if octets.startswith("%") else f"%{number:02x}"
    units = re.findall("....", char.encode("utf-16-be", "surrogatepass").hex())
    in_python = f"\\x{number:02x}" if number <= _MAX_BYTE else f"\\U{number:08x}"
    in_json, in_bytes = "".join(f"\\u{unit}" for unit in units), encoded.replace("%", "\\x")
    forms = (in_json, in_python, in_bytes, _SHORT_ESCAPES.get(char, ""))
    different = dict.fromkeys(form.lower() for form in forms if form)
    escaped = "|".join(re.escape(form).replace(r"\\", r"\\{1,3}") for form in different)
    named = f"|{_ENTITIES[char]}" if char in _ENTITIES else ""
    plain = "[ +]" if char == " " else re.escape(char)
    return (
        rf"(?:\\{{0,3}}(?:{plain}|&(?:#(?i:x0{{0,4}}{number:x}|0{{0,4}}{number}){named});)"
        rf"|(?i:{encoded}|{escaped}))"
    )
