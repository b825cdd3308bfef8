"""Reads JSON that is the text of other values, where secrets may be."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

from praval_tools.journal.redaction.secret_search import MarkedSpan, SecretMarkers
from praval_tools.lazy_regex import LazyRegex
from praval_tools.schema.json_values import read_json_text
from praval_tools.tools.value_codec import PythonValue, is_plain_json

_MAX_JSON_NESTING: Final = 100
"""Levels down to which JSON text inside JSON text is read; deeper it is searched as text."""

_SCALAR: Final = LazyRegex(r'"[^"\\]*(?:\\.[^"\\]*)*"|[^\s\[\]{},:"]+')


def parse_json(text: str, level: int = 0) -> PythonValue:
    """Return the value of which *text* is the JSON text; the text itself where it is none, or repeats a key."""
    value = read_json_text(text) if level <= _MAX_JSON_NESTING else text
    return value if is_plain_json(value) else text


def parse_nested_json(value: PythonValue) -> PythonValue:
    """Return the value of which *value* is the JSON text, however often it was encoded; itself where it is none."""
    while isinstance(value, str | bytes | bytearray):
        text = value if isinstance(value, str) else decode_bytes(value)
        if (inner := parse_json(text)) is text:
            break
        value = inner
    return value


def iter_json_parts(text: str, spans: Iterable[MarkedSpan], secrets: SecretMarkers) -> Iterator[MarkedSpan]:
    """
    Yield those *spans*, of *secrets* in a JSON text, that are not inside of one string, key or number in it.

    One with escapes is yielded, too, where the decoded string does not hold the secret.
    """
    scalars = [match.span() for match in _SCALAR.finditer(text)]
    starts, is_found_inside = [start for start, _ in scalars], dict[int, bool]()
    for span in spans:
        number = bisect_right(starts, span[0]) - 1
        if number < 0 or span[1] > scalars[number][1]:
            yield span
        elif "\\" in text[span[0] : span[1]]:  # what is written with escapes may be another text
            if number not in is_found_inside:
                scalar = str(parse_json(text[slice(*scalars[number])]))
                is_found_inside[number] = any(secrets.find_spans(scalar))
            if not is_found_inside[number]:
                yield span


def decode_bytes(value: bytes | bytearray) -> str:
    """Return the text of bytes, also of those that are no UTF-8."""
    return value.decode("utf-8", "surrogateescape")
