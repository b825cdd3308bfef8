"""Finds known secrets in text: as they are, escaped, quoted, in base64, or shortened."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from binascii import a2b_base64
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from html import escape
from typing import Final, TypeAlias
from urllib.parse import quote, quote_plus

from praval_tools.names import format_count
from praval_tools.schema.json_values import INT_LIMIT, LOWER_INT_LIMIT
from praval_tools.schema.written_secrets import JsonPlace
from praval_tools.tools.value_codec import OpaqueValue, PythonValue

MIN_SECRET_LENGTH: Final = 4
"""Shorter secrets are not searched for elsewhere: every text would hold them by chance."""

_MAX_SEARCHED_END: Final = 2_048
_MAX_PIECE_LENGTH: Final = 2_048
_URLSAFE_TRANSLATION: Final = str.maketrans("+/", "-_")
_PAIR_SEPARATOR: Final = re.compile("[;&]")
_AUTH_SCHEMES: Final = re.compile(r"(?:(?:bearer|basic|digest|token)\s+)+", re.IGNORECASE)

MarkedSpan = tuple[int, int, str]
"""Start and end of a secret in a text, and its marker."""


class _TextIndex:
    """
    Texts to be found in others, all in one pass, each with a marker; every text has four characters or more.

    Where several begin at one place, the longest is found. A long text is searched for piece by piece: the pieces
    touch, so that it is replaced as a whole.
    """

    __slots__ = ("_beginnings", "_markers", "_prefixes", "_texts")

    def __init__(self, markers: Mapping[str, str]) -> None:
        self._markers = {piece: marker for text, marker in markers.items() for piece in _split_into_pieces(text)}
        self._texts = sorted(self._markers)
        self._beginnings = {text[:MIN_SECRET_LENGTH] for text in self._texts}
        self._prefixes: list[int] = []  # for each text, the longest other one with which it begins; -1: none
        for number, text in enumerate(self._texts):
            prefix = number - 1
            while prefix >= 0 and not text.startswith(self._texts[prefix]):
                prefix = self._prefixes[prefix]
            self._prefixes.append(prefix)

    def find_spans(self, text: str) -> Iterator[MarkedSpan]:
        """Yield the spans of *text* that hold one of the texts."""
        beginnings, texts = self._beginnings, self._texts
        for start in range(len(text) - MIN_SECRET_LENGTH + 1):
            if text[start : start + MIN_SECRET_LENGTH] in beginnings:
                number = bisect_right(texts, text[start : start + _MAX_PIECE_LENGTH]) - 1
                while number >= 0 and not text.startswith(texts[number], start):
                    number = self._prefixes[number]
                if number >= 0:
                    yield start, start + len(texts[number]), self._markers[texts[number]]


def _split_into_pieces(text: str) -> Iterator[str]:
    """Yield pieces of *text* that cover it; the last has the full length, too, so that it is not found by chance."""
    for start in range(0, max(1, len(text) - _MAX_PIECE_LENGTH), _MAX_PIECE_LENGTH):
        yield text[start : start + _MAX_PIECE_LENGTH]
    if len(text) > _MAX_PIECE_LENGTH:
        yield text[-_MAX_PIECE_LENGTH:]


ShortSecrets: TypeAlias = Mapping[tuple[JsonPlace, str], PythonValue]
"""Secrets that are too short to be searched for, each by its place and its marker; others may come to a place later."""


class SecretMarkers:
    """
    The secrets of one call, each with its marker.

    Immutable; false where there are none.

    Args:
        markers: The marker of each secret.
        whole_marker: Replaces any text as a whole, where there are too many secrets to search for them.
        places: Those in the arguments that are too short to be searched for.
    """

    __slots__ = ("_form_index", "_markers", "_markers_by_fragment", "_whole_marker", "places")

    def __init__(
        self, markers: Mapping[str, str] | None = None, whole_marker: str = "", *,
        places: ShortSecrets | None = None,
    ) -> None:  # fmt: skip
        self._markers, self._whole_marker, self.places = dict(markers or {}), whole_marker, dict(places or {})
        self._form_index: _TextIndex | None = None
        self._markers_by_fragment: dict[str, str] | None = None

    def __bool__(self) -> bool:
        return bool(self._markers or self._whole_marker or self.places)

    def __iter__(self) -> Iterator[str]:
        return iter(self._markers)

    def __repr__(self) -> str:
        return f"<{format_count(len(self._markers), 'secret')}>"

    def __or__(self, other: SecretMarkers) -> SecretMarkers:
        whole_marker = self._whole_marker or other._whole_marker
        has_all = self._markers.items() >= other._markers.items() and self.places.keys() >= other.places.keys()
        if has_all and whole_marker == self._whole_marker:
            return self  # with its index
        markers, places = {**self._markers, **other._markers}, {**self.places, **other.places}
        return SecretMarkers(markers, whole_marker, places=places)

    def get_marker(self, text: str) -> str | None:
        """Return the marker of *text* if it is one of the secrets."""
        return self._markers.get(text)

    def find_spans(self, text: str) -> Iterator[MarkedSpan]:
        """Yield the spans of *text* that hold a secret in any of its written forms."""
        if self._whole_marker:
            return iter([(0, len(text), self._whole_marker)])
        if self._form_index is None:
            secrets = sorted(self._markers.items())  # two may have a form in common: the same one's marker, always
            self._form_index = _TextIndex(
                {form: marker for secret, marker in secrets for form in build_written_forms(secret)}
            )
        return self._form_index.find_spans(text)

    def find_fragments(self, text: str) -> Iterator[MarkedSpan]:
        """Yield the spans of *text* that hold four characters of a secret in a row; error texts are often shortened."""
        if self._markers_by_fragment is None:
            self._markers_by_fragment = {
                form[start : start + MIN_SECRET_LENGTH]: marker
                for secret, marker in self._markers.items()
                for form in map(_keep_ends, build_written_forms(secret))
                for start in range(len(form) - MIN_SECRET_LENGTH + 1)
            }
        for start in range(len(text) - MIN_SECRET_LENGTH + 1):
            fragment = text[start : start + MIN_SECRET_LENGTH]
            if fragment in self._markers_by_fragment:
                yield start, start + MIN_SECRET_LENGTH, self._markers_by_fragment[fragment]


NO_SECRETS: Final = SecretMarkers()


def replace_spans(text: str, spans: Iterable[MarkedSpan]) -> str:
    """Return *text* with every span replaced by its marker; spans that touch or overlap become the first's."""
    parts: list[str] = []
    last_end = 0
    for start, end, marker in sorted(spans, key=lambda span: (span[0], -span[1])):
        if end <= last_end:
            continue
        if start > last_end or not parts:
            parts += (text[last_end:start], marker)
        last_end = end
    return "".join((*parts, text[last_end:])) if parts else text


def build_written_forms(secret: str) -> set[str]:
    """Return the forms in which *secret* is commonly written, without those of fewer than four characters."""
    data = secret.encode("utf-8", "surrogatepass")
    forms = {secret} if secret.isascii() and secret.isalnum() else {secret, *_iter_escaped_forms(secret, data)}
    for core in (b64encode(data).decode(), *_iter_base64_cores(data)):
        forms.update((core, core.translate(_URLSAFE_TRANSLATION)))
    for part in (data, _decode_base64(secret)):
        written = repr(part)[2:-1]  # as a text or an error quotes bytes
        forms.update((part.hex(), part.hex().upper(), written, json.dumps(written)[1:-1]))
    return {form for form in forms if len(form) >= MIN_SECRET_LENGTH}


def _iter_escaped_forms(secret: str, data: bytes) -> Iterator[str]:
    """Yield what JSON, HTML, Python and URLs make of a secret that has more than letters and digits."""
    escaped = json.dumps(secret)[1:-1]
    plain = json.dumps(secret, ensure_ascii=False)[1:-1]
    yield from (escaped, plain, json.dumps(escaped)[1:-1], json.dumps(plain, ensure_ascii=False)[1:-1])
    yield from (escape(secret), escape(secret, quote=False))
    for text in (secret, escaped, plain):
        yield from (repr(text)[1:-1], ascii(text)[1:-1], repr(f"{text}'\"")[1:-1].removesuffix("\\'\""))
    for quoted in (quote(data, safe=""), quote(data), quote_plus(data, safe=""), quote_plus(data, safe="/")):
        yield from (quoted, _lowercase_hex_escapes(quoted))


def _keep_ends(form: str) -> str:
    """Return the head and tail of a long form, which are searched for in parts: shortening a text keeps one of them."""
    return form if len(form) <= 2 * _MAX_SEARCHED_END else f"{form[:_MAX_SEARCHED_END]}\0{form[-_MAX_SEARCHED_END:]}"


def _lowercase_hex_escapes(quoted: str) -> str:
    parts = quoted.split("%")
    return "%".join([parts[0], *(part[:2].lower() + part[2:] for part in parts[1:])])


def _iter_base64_cores(data: bytes) -> Iterator[str]:
    """Yield the characters that only *data* decides, for each offset that it can have in what was encoded."""
    for offset in range(3):
        text = b64encode(bytes(offset) + data).decode()
        yield text[-(-8 * offset // 6) : 8 * (offset + len(data)) // 6]


def iter_secret_scalars(json: PythonValue) -> Iterator[PythonValue]:
    """Yield the keys, texts and numbers in a JSON value, but what is empty."""
    if isinstance(json, dict | list):
        for part in (*json, *json.values()) if isinstance(json, dict) else json:
            yield from iter_secret_scalars(part)
    elif json is not None and json != "" and type(json) is not bool:
        yield json


def iter_secret_texts(
    value: PythonValue, parse: Callable[[str], PythonValue], known_names: Container[PythonValue] | None = None
) -> Iterator[str]:
    """
    Yield the texts in a secret *value* that may occur alone in results and messages.

    Args:
        value: Made of JSON values and Python's own containers.
        parse: Returns the value of which a text is the JSON text, or the text itself.
        known_names: The keys in it that are not secret; None: none is.
    """
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, str):
            yield part
            with suppress(UnicodeDecodeError):  # bytes, which errors quote as they are
                if decoded := _decode_base64(part).decode():
                    yield decoded
            if "=" in part:  # cookies, and the query of a URL
                yield from (pair.partition("=")[2].strip() for pair in _PAIR_SEPARATOR.split(part))
            if (schemes := _AUTH_SCHEMES.match(part)) is not None:
                stack.append(part[schemes.end() :].strip())
            elif (inner := parse(part)) is not part:
                stack.append(inner)
        elif isinstance(part, dict):
            stack += part.values()
            stack += () if known_names is None else (key for key in part if key not in known_names)
        elif isinstance(part, list | tuple | set | frozenset):
            stack += part
        elif isinstance(part, bytes):
            stack.append(part.decode("utf-8", "surrogateescape"))
        elif isinstance(part, OpaqueValue):
            stack.append(part.text)
        elif part is not None and not isinstance(part, bool):
            yield format_scalar(part)


def _decode_base64(text: str) -> bytes:
    """Return the bytes of which *text* is the base64; none where it is not."""
    try:
        return a2b_base64(text, strict_mode=True) if len(text) % 4 == 0 else b""
    except ValueError:
        return b""


def format_scalar(value: object) -> str:
    """Return the text of a value; of an integer with more digits than Python formats, its written form."""
    return hex(value) if isinstance(value, int) and not LOWER_INT_LIMIT < value < INT_LIMIT else str(value)
