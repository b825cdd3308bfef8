"""Arguments as JSON: parsed, judged by their schema, mended where the coercion table allows."""

from __future__ import annotations

from praval_tools.schema.coercion import Repair
from praval_tools.schema.json_input import (
    MAX_BYTES,
    MAX_DEPTH,
    MalformedArgumentsError,
    copy_json,
    normalize_json,
    parse_arguments,
    preview_json,
    try_parse_simple,
)
from praval_tools.schema.supplied_schema import check_supplied_schema
from praval_tools.schema.validator import Validator

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MalformedArgumentsError",
    "Repair",
    "Validator",
    "check_supplied_schema",
    "normalize_json",
    "parse_arguments",
    "copy_json",
    "try_parse_simple",
    "preview_json",
]
