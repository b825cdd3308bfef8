"""Secrets that come back: in error texts and results, as they are, escaped, quoted, in base64, or cut short."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus

from praval_tools.schema.json_values import INT_LIMIT

MIN_SECRET_LENGTH: Final = 4
"""Secrets of fewer characters are not looked for elsewhere: every text would hold them by chance."""

_MAX_SEARCHED_END: Final = 2_048
_URLSAFE_TRANSLATION: Final = str.maketrans("+/", "-_")


class SecretMarkers:
    """
    The secrets of one call, each with the marker that stands for it.

    Immutable; false where there are none.
    """

    __slots__ = ("_markers_by_fragment", "_markers", "_markers_by_form")

    def __init__(self, markers: Mapping[str, str] | None = None) -> None:
        self._markers = dict(markers or {})
        self._markers_by_form: dict[str, str] | None = None
        self._markers_by_fragment: dict[str, str] | None = None

    def __bool__(self) -> bool:
        return bool(self._markers)

    def __repr__(self) -> str:
        return f"<{len(self._markers)} secrets>"

    def __or__(self, other: SecretMarkers) -> SecretMarkers:
        return SecretMarkers({**self._markers, **other._markers}) if other._markers else self

    def get_marker(self, text: str) -> str | None:
        """Return the marker of *text* if it is one of the secrets."""
        return self._markers.get(text)

    def find_spans(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield where *text* holds a secret in any of its written forms: start, end and marker."""
        if self._markers_by_form is None:
            self._markers_by_form = {
                form: mark for one, mark in self._markers.items() for form in build_written_forms(one)
            }
        return _find_occurrences(text, self._markers_by_form)

    def find_fragments(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield where *text* holds four or more characters of a secret in a row; error texts are often cut."""
        if self._markers_by_fragment is None:
            self._markers_by_fragment = {
                form[start : start + MIN_SECRET_LENGTH]: mark
                for one, mark in self._markers.items()
                for form in map(_keep_ends, build_written_forms(one))
                for start in range(len(form) - MIN_SECRET_LENGTH + 1)
            }
        return _find_occurrences(text, self._markers_by_fragment)


NO_SECRETS: Final = SecretMarkers()


def _find_occurrences(text: str, needles: Mapping[str, str]) -> Iterator[tuple[int, int, str]]:
    for needle, mark in needles.items():
        start = text.find(needle)
        while start >= 0:
            yield start, start + len(needle), mark
            start = text.find(needle, start + 1)


def replace_spans(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    """Return *text* with every span replaced by its marker; spans that touch or overlap become the first's."""
    made: list[str] = []
    done = 0
    for start, end, mark in sorted(spans, key=lambda span: (span[0], -span[1])):
        if end <= done:
            continue
        if start > done or not made:
            made += (text[done:start], mark)
        done = end
    return "".join((*made, text[done:])) if made else text


def build_written_forms(secret: str) -> set[str]:
    """Return the ways in which *secret* is commonly written, those of fewer than four characters left out."""
    escaped = json.dumps(secret)[1:-1]
    plain = json.dumps(secret, ensure_ascii=False)[1:-1]
    forms = {secret, escaped, plain, json.dumps(escaped)[1:-1], json.dumps(plain, ensure_ascii=False)[1:-1]}
    forms.update((repr(secret)[1:-1], ascii(secret)[1:-1], repr(f"{secret}'\"")[1:-1].removesuffix("\\'\"")))
    data = secret.encode("utf-8", "surrogatepass")
    for quoted in (quote(data, safe=""), quote(data), quote_plus(data, safe=""), quote_plus(data, safe="/")):
        forms.update((quoted, _lowercase_hex_escapes(quoted)))
    for core in (b64encode(data).decode(), *_iter_base64_cores(data)):
        forms.update((core, core.translate(_URLSAFE_TRANSLATION)))
    forms.update((data.hex(), data.hex().upper()))
    return {one for one in forms if len(one) >= MIN_SECRET_LENGTH}


def _keep_ends(form: str) -> str:
    """Return what of a long form is looked for in parts: whoever cuts a text keeps its head or its tail."""
    return form if len(form) <= 2 * _MAX_SEARCHED_END else f"{form[:_MAX_SEARCHED_END]}\0{form[-_MAX_SEARCHED_END:]}"


def _lowercase_hex_escapes(quoted: str) -> str:
    parts = quoted.split("%")
    return "%".join([parts[0], *(one[:2].lower() + one[2:] for one in parts[1:])])


def _iter_base64_cores(data: bytes) -> Iterator[str]:
    """Yield the characters that only *data* decides, for each way in which it can lie in what was encoded."""
    for before in range(3):
        text = b64encode(bytes(before) + data).decode()
        yield text[-(-8 * before // 6) : 8 * (before + len(data)) // 6]


def iter_secret_texts(value: Any, parse: Callable[[str], Any]) -> Iterator[str]:
    """
    Yield the texts in a secret *value* that may come back alone.

    Args:
        value: Made of JSON and Python's own containers.
        parse: Returns what a text is the JSON text of, or the text itself.
    """
    stack = [value]
    while stack:
        here = stack.pop()
        if isinstance(here, str):
            yield here
            if "=" in here:  # cookies, and what stands behind a `?`
                yield from (part.partition("=")[2].strip() for part in _PAIR_SEPARATOR.split(here))
            scheme, _, rest = here.partition(" ")
            if scheme.lower() in _AUTH_SCHEMES and rest:
                stack.append(rest.strip())
            elif (inner := parse(here)) is not here:
                stack.append(inner)
        elif isinstance(here, dict):
            stack += here.values()
        elif isinstance(here, list | tuple | set | frozenset):
            stack += here
        elif isinstance(here, bytes):
            stack.append(here.decode("utf-8", "surrogateescape"))
        elif here is not None and not isinstance(here, bool):
            yield format_scalar(here)


def format_scalar(value: Any) -> str:
    """Return the text of a value; of a number with more digits than Python spells, the one that is written of it."""
    return hex(value) if isinstance(value, int) and not -INT_LIMIT < value < INT_LIMIT else str(value)


_PAIR_SEPARATOR: Final = re.compile("[;&]")
_AUTH_SCHEMES: Final = frozenset({"bearer", "basic", "digest", "token"})
