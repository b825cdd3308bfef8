"""Which hints have a JSON form, by the table of types, and the judgement on those that have none."""

from __future__ import annotations

import collections.abc as abc
import types
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final, Literal, get_origin
from uuid import UUID
from weakref import WeakSet

from praval_tools.schema.type_handler import Form
from praval_tools.schema.type_hints import bare, hint_text, is_class, is_path, is_union


def takes_of(hint: Any) -> frozenset[str]:
    """Return the JSON types of *hint* to which constraints can apply."""
    inner = bare(hint)
    if is_union(inner):
        return frozenset().union(*map(takes_of, inner.__args__))
    form = form_of(inner)
    return form.takes if form is not None else frozenset()


PLAIN: Final = frozenset({str, int, float, bool, None, type(None), list, dict, set, tuple, bytes, Any})
"""Hints that need no judgement."""

_OWN: Final = PLAIN | {date, datetime, time, timedelta, Decimal, UUID, frozenset}
_FINE: Final[set[Any]] = set()
_FINE_CLASSES: Final[WeakSet[type]] = WeakSet()
"""Hints that were judged and have a form: a hint is judged once. Only Python's own are kept alive by that."""

_MEMORY: Final = 4096

_INSTEAD: Final[tuple[tuple[Any, str], ...]] = (
    (abc.Callable, "take the name of a function as str, or bind the function when the tool is made"),
    (object, "say Any for any JSON value"),
    (complex, "take two floats, or tuple[float, float]"),
    (bytearray, "take bytes"),
    (memoryview, "take bytes"),
    (type, "take a Literal of names"),
    (types.ModuleType, "import it in the function"),
    (range, "take a start and a stop as int"),
    (abc.Iterator, "take list"),
)


@cache
def _table() -> Any:
    return import_module("praval_tools.schema.type_table")  # needed only once a tool is called


def form_of(hint: Any) -> Form | None:
    """Return the row of *hint*, or None if it has no JSON form."""
    try:
        found: Form | None = _table().BY_TYPE.get(get_origin(hint) or hint)
    except TypeError:  # not hashable, so no type
        return None
    if found is not None:
        return found
    return next((form for form in _table().BY_TEST if form.fits(hint)), None)


def row_of(hint: Any) -> Form:
    """Return the row of *hint*; `TypeError` if it has none."""
    if (form := form_of(hint)) is None:
        raise TypeError(f"{hint_text(hint)} has no JSON form")
    return form


def is_closed(hint: Any) -> bool:
    """Tell whether *hint* is made of Python's own types only, so that remembering it keeps nothing else alive."""
    origin = get_origin(hint)
    if origin is None:
        return hint is ... or ((is_class(hint) or hint is Any or hint is None) and _is_own(hint))
    if origin is Literal:
        return not any(isinstance(one, Enum) for one in hint.__args__)
    return origin is not Annotated and all(map(is_closed, getattr(hint, "__args__", ())))


def _is_own(hint: Any) -> bool:
    return hint in _OWN or (is_path(hint) and hint.__module__.partition(".")[0] == "pathlib")


def holds_anything(hint: Any) -> bool:
    """Tell whether values of *hint* may hold objects of any type: it is, or contains, Any or a bare container."""
    if hint is Any or hint in (list, dict, set, frozenset, tuple):
        return True
    return get_origin(hint) is not Literal and any(map(holds_anything, getattr(hint, "__args__", ())))


def is_fine(hint: Any) -> bool:
    """Tell whether *hint*, made of Python's own types only, was judged before and has a form."""
    try:
        return hint in _FINE
    except TypeError:  # something in it has no hash, so it is not remembered
        return False


def judge(hint: Any) -> tuple[str, ...]:
    """
    Return why *hint* has no JSON form: every reason in it, none if it has one.

    Raises:
        Unresolved: A class in it names something that does not exist (yet).
    """
    found: list[str] = []
    _judge(hint, found, [])
    if not found and len(_FINE) < _MEMORY and is_closed(hint):
        _FINE.add(hint)
    return tuple(found)


def _judge(hint: Any, found: list[str], around: list[Any]) -> None:
    if hint is None or hint is Any or (type(hint) is type and hint in PLAIN):
        return
    named = is_class(hint)
    if (named and hint in _FINE_CLASSES) or any(one is hint or (not named and one == hint) for one in around):
        return
    form = form_of(hint)
    if form is None:
        found.append(f"{hint_text(hint)} has no JSON form; {_instead(hint)}")
        return
    if problem := form.problem(hint):
        found.append(f"{hint_text(hint)}: {problem}")
        return
    before = len(found)
    for part in form.parts(hint):
        _judge(part, found, [*around, hint])
    if named and not around and len(found) == before:
        _FINE_CLASSES.add(hint)


def _instead(hint: Any) -> str:
    kind = get_origin(hint) or hint
    for one, advice in _INSTEAD:
        if kind is one:
            return advice
    if isinstance(kind, type):
        return "make it an attrs class, a dataclass or a TypedDict, or take its parts as parameters"
    return "take a type that JSON has, or an attrs class, dataclass or TypedDict of such"
