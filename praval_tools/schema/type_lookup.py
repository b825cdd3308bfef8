"""Which hints have a JSON form, by the table of types, and the judgement on those that have none."""

from __future__ import annotations

import collections.abc as abc
import types
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Annotated, Any, Final, Literal, get_origin
from uuid import UUID
from weakref import WeakSet

from praval_tools.lazy_import import load
from praval_tools.schema.type_handler import TypeHandler
from praval_tools.schema.type_hints import format_hint, is_class, is_path_type, is_union, unwrap_hint


def get_constrainable_types(hint: Any) -> frozenset[str]:
    """Return the JSON types of *hint* to which constraints can apply."""
    inner = unwrap_hint(hint)
    if is_union(inner):
        return frozenset().union(*map(get_constrainable_types, inner.__args__))
    form = find_type_handler(inner)
    return form.constrainable_types if form is not None else frozenset()


PLAIN_HINTS: Final = frozenset({str, int, float, bool, None, type(None), list, dict, set, tuple, bytes, Any})
"""Hints that need no judgement."""

_BUILTIN_HINTS: Final = PLAIN_HINTS | {date, datetime, time, timedelta, Decimal, UUID, frozenset}
_SUPPORTED_HINTS: Final[set[Any]] = set()
_SUPPORTED_CLASSES: Final[WeakSet[type]] = WeakSet()
"""Hints that were judged and have a form: a hint is judged once. Only Python's own are kept alive by that."""

_MAX_SUPPORTED_HINTS: Final = 4096

_ADVICE: Final[tuple[tuple[Any, str], ...]] = (
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
def _load_type_table() -> Any:
    return load("praval_tools.schema.type_table")  # needed only once a tool is called


def find_type_handler(hint: Any) -> TypeHandler | None:
    """Return the row of *hint*, or None if it has no JSON form."""
    try:
        found: TypeHandler | None = _load_type_table().HANDLERS_BY_TYPE.get(get_origin(hint) or hint)
    except TypeError:  # not hashable, so no type
        return None
    if found is not None:
        return found
    return next((form for form in _load_type_table().PREDICATE_HANDLERS if form.matches(hint)), None)


def get_type_handler(hint: Any) -> TypeHandler:
    """Return the row of *hint*; `TypeError` if it has none."""
    if (form := find_type_handler(hint)) is None:
        raise TypeError(f"{format_hint(hint)} has no JSON form")
    return form


def has_only_builtin_types(hint: Any) -> bool:
    """Tell whether *hint* is made of Python's own types only, so that remembering it keeps nothing else alive."""
    origin = get_origin(hint)
    if origin is None:
        return hint is ... or ((is_class(hint) or hint is Any or hint is None) and _is_builtin_hint(hint))
    if origin is Literal:
        return not any(isinstance(one, Enum) for one in hint.__args__)
    return origin is not Annotated and all(map(has_only_builtin_types, getattr(hint, "__args__", ())))


def _is_builtin_hint(hint: Any) -> bool:
    return hint in _BUILTIN_HINTS or (is_path_type(hint) and hint.__module__.partition(".")[0] == "pathlib")


def can_hold_any_object(hint: Any) -> bool:
    """Tell whether values of *hint* may hold objects of any type: it is, or contains, Any or a bare container."""
    if hint is Any or hint in (list, dict, set, frozenset, tuple):
        return True
    return get_origin(hint) is not Literal and any(map(can_hold_any_object, getattr(hint, "__args__", ())))


def is_known_supported(hint: Any) -> bool:
    """Tell whether *hint*, made of Python's own types only, was judged before and has a form."""
    try:
        return hint in _SUPPORTED_HINTS
    except TypeError:  # something in it has no hash, so it is not remembered
        return False


def find_hint_problems(hint: Any) -> tuple[str, ...]:
    """
    Return why *hint* has no JSON form: every reason in it, none if it has one.

    Raises:
        Unresolved: A class in it names something that does not exist (yet).
    """
    found: list[str] = []
    _collect_hint_problems(hint, found, [])
    if not found and len(_SUPPORTED_HINTS) < _MAX_SUPPORTED_HINTS and has_only_builtin_types(hint):
        _SUPPORTED_HINTS.add(hint)
    return tuple(found)


def _collect_hint_problems(hint: Any, found: list[str], around: list[Any]) -> None:
    if hint is None or hint is Any or (type(hint) is type and hint in PLAIN_HINTS):
        return
    named = is_class(hint)
    if (named and hint in _SUPPORTED_CLASSES) or any(one is hint or (not named and one == hint) for one in around):
        return
    form = find_type_handler(hint)
    if form is None:
        found.append(f"{format_hint(hint)} has no JSON form; {_suggest_alternative(hint)}")
        return
    if problem := form.find_problem(hint):
        found.append(f"{format_hint(hint)}: {problem}")
        return
    before = len(found)
    for part in form.get_inner_hints(hint):
        _collect_hint_problems(part, found, [*around, hint])
    if named and not around and len(found) == before:
        _SUPPORTED_CLASSES.add(hint)


def _suggest_alternative(hint: Any) -> str:
    kind = get_origin(hint) or hint
    for one, advice in _ADVICE:
        if kind is one:
            return advice
    if isinstance(kind, type):
        return "make it an attrs class, a dataclass or a TypedDict, or take its parts as parameters"
    return "take a type that JSON has, or an attrs class, dataclass or TypedDict of such"
