"""
Checks of the formats of JSON Schema for times, as widely as pydantic reads and writes them.

RFC 3339, which JSON Schema names, knows no time without an offset, and no duration with a sign or a fraction;
ISO 8601 does, and the schemas of pydantic models say the same formats of such values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

from praval_tools.lazy_regex import LazyRegex
from praval_tools.schema.schema_tree import SchemaPart

if TYPE_CHECKING:
    import jsonschema_rs

_DURATION: Final = LazyRegex(
    r"-?P(?=.)(?:[0-9]+Y)?(?:[0-9]+M)?(?:[0-9]+W)?(?:[0-9]+D)?"
    r"(?:T(?=.)(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+(?:[.][0-9]+)?S)?)?"
)
_FIRST_DRAFTS: Final = ("draft-04", "draft-06", "draft-07")
"""They know no format for durations, and leave a format that they do not know unchecked."""


@cache
def _get_rfc_validator(name: str) -> jsonschema_rs.Validator:
    import jsonschema_rs

    return jsonschema_rs.validator_for({"format": name}, validate_formats=True)


def _is_date_time(text: str) -> bool:
    """Tell whether *text* is a date-time, with or without an offset."""
    is_valid = _get_rfc_validator("date-time").is_valid
    return is_valid(text) or is_valid(f"{text}Z")


def _is_time(text: str) -> bool:
    """Tell whether *text* is a time, with or without an offset."""
    is_valid = _get_rfc_validator("time").is_valid
    return is_valid(text) or is_valid(f"{text}Z")


def _is_duration(text: str) -> bool:
    """Tell whether *text* is a duration of ISO 8601, also a negative one, or with a fraction of a second."""
    return _DURATION.fullmatch(text) is not None


_FORMATS: Final = {"date-time": _is_date_time, "time": _is_time, "duration": _is_duration}


def get_time_formats(schema: SchemaPart) -> Mapping[str, Callable[[str], bool]]:
    """Return the check of each format for times that the draft of *schema* knows."""
    draft = str(schema.get("$schema", "")) if isinstance(schema, Mapping) else ""
    if any(first in draft for first in _FIRST_DRAFTS):
        return {name: check for name, check in _FORMATS.items() if name != "duration"}
    return _FORMATS
