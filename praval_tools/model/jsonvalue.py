"""Plain JSON values: what is one, when two are equal, and their canonical text."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any, Final

from praval_tools.model.form import Mismatch, Unencodable, encodable

INT_LIMIT: Final = 10**4300
"""Python writes no integer of more digits as text, so none travels as JSON."""

DEPTH_LIMIT: Final = 64
_EXACT: Final = 2.0**53


def check_json(value: Any, depth: int = DEPTH_LIMIT) -> None:
    """
    Accept *value* if it is made of JSON values only, at most *depth* levels deep.

    Raises:
        Mismatch: Naming the first place where it is not.
    """
    kind = type(value)
    if kind is str:
        if not value.isascii() and not encodable(value):
            raise Mismatch("holds half of a surrogate pair")
    elif kind is float:
        if not math.isfinite(value):
            raise Mismatch("is not a finite number")
    elif kind is int:
        if not -INT_LIMIT < value < INT_LIMIT:
            raise Mismatch("has more than 4300 digits")
    elif kind is list or kind is dict:
        _check_inside(value, depth - 1)
    elif kind is not bool and value is not None:
        raise Mismatch(f"is no JSON value but {kind.__name__}")


def _check_inside(value: Any, depth: int) -> None:
    if depth < 0:
        raise Mismatch("is nested too deeply")
    steps = enumerate(value) if type(value) is list else value.items()
    for step, one in steps:
        try:
            if type(value) is dict:
                _check_key(step)
            check_json(one, depth)
        except Mismatch as error:
            raise error.at(step if type(step) in (int, str) else repr(step)) from None


def _check_key(key: Any) -> None:
    if type(key) is not str:
        raise Mismatch(f"has a key that is no text but {type(key).__name__}")
    check_json(key)


def json_key(value: Any) -> Any:
    """
    Return a hashable key that two values share exactly if JSON Schema calls them equal.

    So 1 and 1.0 share one; True and 1 do not.
    """
    kind = type(value)
    if kind is bool:
        return (bool, value)
    if kind is float and not -_EXACT < value < _EXACT and math.isfinite(value):
        return int(Decimal(repr(value)))
    if kind is list:
        return (list, *map(json_key, value))
    if kind is dict:
        return (dict, frozenset((key, json_key(one)) for key, one in value.items()))
    if kind is str or kind is int or kind is float or value is None:
        return value
    raise Mismatch(f"is no JSON value but {kind.__name__}")


def canonical(value: Any) -> str:
    """Return *value* as JSON text that is the same for equal values: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def compact(value: Any) -> str:
    """Return *value* as JSON text without spaces, keys in their own order."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def key_text(value: Any) -> str:
    """
    Return *value*, one of JSON's, as the text of a key.

    Raises:
        Unencodable: It is a list or an object.
    """
    if type(value) is bool:
        return "true" if value else "false"
    if isinstance(value, list | dict):
        raise Unencodable("a list or an object cannot be a key in JSON")
    return "null" if value is None else str(value)
