"""Tells secrets that can be searched for in texts from those that are too short, and hides these in their places."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Final

from praval_tools.journal.redaction.nested_json import parse_json
from praval_tools.journal.redaction.secret_search import (
    MIN_SECRET_LENGTH,
    ShortSecrets,
    iter_secret_scalars,
    iter_secret_texts,
)
from praval_tools.schema.secret_names import HARMLESS_VALUES
from praval_tools.schema.written_secrets import JsonPlace, has_at
from praval_tools.tools.value_codec import PythonValue

MARKER_PATTERN: Final = re.compile(r"\[secret [0-9a-f]{32}\]")


def collect_secret_texts(
    secrets: Iterable[PythonValue], known_names: Container[PythonValue] | None = None
) -> set[str]:
    """Return the texts in *secrets* that are long enough to be searched for, and are no markers out of a journal."""
    return {
        text
        for secret in secrets
        for text in iter_secret_texts(secret, parse_json, known_names)
        if len(text) >= MIN_SECRET_LENGTH and text.lower() not in HARMLESS_VALUES and not MARKER_PATTERN.fullmatch(text)
    }


def has_short_secrets(secrets: Iterable[PythonValue]) -> bool:
    """Tell whether something in *secrets* is too short to be searched for."""
    return any(not collect_secret_texts([scalar]) for secret in secrets for scalar in iter_secret_scalars(secret))


def mark_short_secrets(
    places: Iterable[tuple[JsonPlace, PythonValue]], make_marker: Callable[[PythonValue], str]
) -> ShortSecrets:
    """Return what is secret in places, and of which something is too short to be searched for."""
    return {(place, make_marker(secret)): secret for place, secret in places if has_short_secrets([secret])}


def iter_scalars(places: Iterable[tuple[JsonPlace, PythonValue]]) -> Iterator[tuple[JsonPlace, PythonValue]]:
    """Yield the scalars in what is secret in places: the names of fields around them stay readable."""
    for place, secret in places:
        if isinstance(secret, dict | list):
            parts = secret.items() if isinstance(secret, dict) else enumerate(secret)
            yield from iter_scalars([((*place, step), part) for step, part in parts])
        else:
            yield place, secret


def find_open_places(clean: PythonValue, given: PythonValue, places: ShortSecrets) -> dict[JsonPlace, str]:
    """
    Return the places of short secrets that are still to be seen in *clean*, each with its marker.

    Args:
        clean: What *given* became without the secrets that can be found.
        given: Another value may be in a place by now, which is none.
        places: These secrets.
    """
    open_places = [(_find_open_place(clean, place), marker) for (place, marker), part in places.items()
                   if has_at(given, place, part)]  # fmt: skip
    return {place: marker for place, marker in open_places if place is not None}


def _find_open_place(clean: PythonValue, place: JsonPlace) -> JsonPlace | None:
    """Return a place that is not hidden, or what is around it where a key was hidden; None where it is hidden."""
    for depth, step in enumerate(place):
        if isinstance(clean, str):
            return None if MARKER_PATTERN.fullmatch(clean) else place[:depth]
        if not (step in clean if isinstance(clean, dict) else isinstance(clean, list) and step in range(len(clean))):
            return place[:depth]
        clean = clean[step]
    return None if isinstance(clean, str) and MARKER_PATTERN.fullmatch(clean) else place
