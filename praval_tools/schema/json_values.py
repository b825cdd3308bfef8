"""Plain JSON values: what is one, when two are equal, and their canonical text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from praval_tools.schema.type_handler import Mismatch, Unencodable, is_utf8_encodable

INT_LIMIT: Final = 10**4300
"""Python writes no integer of more digits as text, so none travels as JSON."""

MAX_DEPTH: Final = 64
MAX_CONTAINERS: Final = 1_000_000
_MAX_EXACT_FLOAT: Final = 2.0**53


def check_json(value: Any) -> None:
    """
    Accept *value* if it is made of JSON values only, at most 64 levels deep.

    Raises:
        Mismatch: Naming a place where it is not.
    """
    kind = type(value)
    if kind is str:
        if not value.isascii() and not is_utf8_encodable(value):
            raise Mismatch("holds half of a surrogate pair")
    elif kind is float:
        if not math.isfinite(value):
            raise Mismatch("is not a finite number")
    elif kind is int:
        if not -INT_LIMIT < value < INT_LIMIT:
            raise Mismatch("has more than 4300 digits")
    elif kind is list or kind is dict:
        for inner, path in iter_containers(value):
            _check_members(inner, path)
    elif kind is not bool and value is not None:
        raise Mismatch(f"is no JSON value but {kind.__name__}")


JsonSteps = tuple[Any, ...]


def iter_containers(value: Any) -> Iterator[tuple[Any, JsonSteps]]:
    """
    Yield every list and dict in *value*, itself included, with the steps that lead there.

    Without recursion, and not for ever where one list is held many times.

    Raises:
        Mismatch: They are nested more than 64 levels deep, or there are more than a million.
    """
    stack: list[tuple[Any, JsonSteps]] = [(value, ())]
    count = 0
    while stack:
        here, path = stack.pop()
        kind, count = type(here), count + 1
        if kind is not list and kind is not dict:
            continue
        if len(path) >= MAX_DEPTH or count > MAX_CONTAINERS:
            raise Mismatch("is nested too deeply" if len(path) >= MAX_DEPTH else "holds too many lists and objects")
        yield here, path
        steps = enumerate(here) if kind is list else here.items()
        stack += [(one, (*path, step)) for step, one in steps if type(one) is list or type(one) is dict]


def _check_members(value: Any, path: JsonSteps) -> None:
    steps = enumerate(value) if type(value) is list else value.items()
    for step, one in steps:
        try:
            if type(value) is dict:
                _check_key(step)
            if type(one) is not list and type(one) is not dict:
                check_json(one)
        except Mismatch as error:
            for outer in (step, *reversed(path)):
                error.prepend_step(outer if type(outer) in (int, str) else repr(outer))
            raise


def _check_key(key: Any) -> None:
    if type(key) is not str:
        raise Mismatch(f"has a key that is no text but {type(key).__name__}")
    check_json(key)


def make_equality_key(value: Any) -> Any:
    """
    Return a hashable key that two values share exactly if JSON Schema calls them equal.

    So 1 and 1.0 share one; True and 1 do not.
    """
    kind = type(value)
    if kind is bool:
        return (bool, value)
    if kind is float and not -_MAX_EXACT_FLOAT < value < _MAX_EXACT_FLOAT and math.isfinite(value):
        return int(Decimal(repr(value)))
    if kind is list:
        return (list, *map(make_equality_key, value))
    if kind is dict:
        return (dict, frozenset((key, make_equality_key(one)) for key, one in value.items()))
    if kind is str or kind is int or kind is float or value is None:
        return value
    raise Mismatch(f"is no JSON value but {kind.__name__}")


def to_canonical_json(value: Any) -> str:
    """Return *value* as JSON text that is the same for equal values: sorted keys, no spaces."""
    import json

    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def to_compact_json(value: Any) -> str:
    """Return *value* as JSON text without spaces, keys in their own order."""
    import json

    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def to_key_text(value: Any) -> str:
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


def sort_json_items(items: list[Any]) -> list[Any]:
    """Return *items* in an order that does not depend on hashing."""
    try:
        if len({type(one) for one in items}) == 1:
            return sorted(items)
    except TypeError:
        pass
    return sorted(items, key=_make_sort_key)


def _make_sort_key(item: Any) -> str:
    try:
        return to_canonical_json(item)
    except (TypeError, ValueError):
        return repr(item)
