"""
Checks of the formats of JSON Schema for times, as widely as pydantic reads and writes them.

RFC 3339, which JSON Schema names, knows no time without an offset, and no duration with a sign or a fraction;
ISO 8601 does, and the schemas of pydantic models say the same formats of such values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from praval_tools.lazy_regex import LazyRegex
from praval_tools.schema.schema_tree import SchemaPart, has_early_draft

if TYPE_CHECKING:
    import jsonschema_rs

_DURATION: Final = LazyRegex(
    r"-?P(?=.)(?:[0-9]+Y)?(?:[0-9]+M)?(?:[0-9]+W)?(?:[0-9]+D)?"
    r"(?:T(?=.)(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+(?:[.][0-9]+)?S)?)?"
)


@cache
def _get_rfc_validator(name: str) -> jsonschema_rs.Validator:
    import jsonschema_rs

    return jsonschema_rs.validator_for({"format": name}, validate_formats=True)


def _is_time(name: str, text: str) -> bool:
    """Tell whether *text* has the format *name*, with or without an offset."""
    is_valid = _get_rfc_validator(name).is_valid
    return is_valid(text) or is_valid(f"{text}Z")


def _is_duration(text: str) -> bool:
    """Tell whether *text* is a duration of ISO 8601, also a negative one, or with a fraction of a second."""
    return _DURATION.fullmatch(text) is not None


_TIMES: Final[Mapping[str, Callable[[str], bool]]] = {name: partial(_is_time, name) for name in ("date-time", "time")}
_ALL: Final[Mapping[str, Callable[[str], bool]]] = {**_TIMES, "duration": _is_duration}


def get_time_formats(schema: SchemaPart) -> Mapping[str, Callable[[str], bool]]:
    """Return the check of each format for times that the draft of *schema* knows: early ones leave durations alone."""
    return _TIMES if has_early_draft(schema) else _ALL
