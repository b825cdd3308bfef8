"""Arguments as JSON: parsed, judged by their schema, mended where the coercion table allows."""

from __future__ import annotations

from praval_tools.schema.coercion import Repair
from praval_tools.schema.json_input import (
    MAX_BYTES,
    MAX_DEPTH,
    BadArguments,
    check_values,
    parse,
    plain_copy,
    quick,
    shown_json,
)
from praval_tools.schema.supplied_schema import check_given_schema
from praval_tools.schema.validator import Validator

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "BadArguments",
    "Repair",
    "Validator",
    "check_given_schema",
    "check_values",
    "parse",
    "plain_copy",
    "quick",
    "shown_json",
]
