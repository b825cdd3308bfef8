"""Tells secrets that can be searched for in texts from those that are too short, and hides these in their places."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from typing import Final

from praval_tools.journal.redaction.nested_json import parse_json
from praval_tools.journal.redaction.secret_search import (
    MIN_SECRET_LENGTH,
    SecretMarkers,
    iter_secret_scalars,
    iter_secret_texts,
)
from praval_tools.schema.secret_names import HARMLESS_VALUES
from praval_tools.schema.written_secrets import JsonPlace, has_at, replace_places
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


def mark_short_secrets(
    places: Iterable[tuple[JsonPlace, PythonValue]], make_marker: Callable[[PythonValue], str]
) -> dict[JsonPlace, tuple[PythonValue, str]]:
    """Return, by its place, each secret in JSON of which some is too short to be searched for, with its marker."""
    return {
        place: (secret, make_marker(secret))
        for place, secret in places
        if any(not collect_secret_texts([scalar]) for scalar in iter_secret_scalars(secret))
    }


def hide_short_secrets(json: PythonValue, secrets: SecretMarkers, as_in: PythonValue = None) -> PythonValue:
    """
    Return *json* without the secrets in their places.

    Args:
        json: Where they may be; in a place may be another value now, which stays.
        secrets: Those of the call.
        as_in: What *json* became, where that tells what is hidden already.
    """
    seen = json if as_in is None else as_in
    return replace_places(json, {
        place: marker for place, (part, marker) in secrets.places.items() if has_at(seen, place, part)
    })  # fmt: skip
