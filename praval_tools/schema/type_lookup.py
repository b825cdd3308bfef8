"""Finds the type handler of a type hint in the type table, or the reasons why it has none."""

from __future__ import annotations

import collections.abc as abc
import types
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Annotated, Any, Final, Literal
from uuid import UUID
from weakref import WeakSet

from praval_tools.lazy_import import load
from praval_tools.schema.type_handler import TypeHandler
from praval_tools.schema.type_hints import Hint, format_hint, get_origin, is_class, is_path_type, is_union, unwrap_hint


def get_constrainable_types(hint: Hint) -> frozenset[str]:
    """Return the JSON types of *hint* to which constraints can apply."""
    inner = unwrap_hint(hint)
    if is_union(inner):
        return frozenset().union(*map(get_constrainable_types, inner.__args__))
    handler = find_type_handler(inner)
    return handler.constrainable_types if handler is not None else frozenset()


PLAIN_HINTS: Final = frozenset({str, int, float, bool, None, type(None), list, dict, set, tuple, bytes, Any})
"""Hints that need no check."""

_BUILTIN_HINTS: Final = PLAIN_HINTS | {date, datetime, time, timedelta, Decimal, UUID, frozenset}
_SUPPORTED_HINTS: Final[set[Hint]] = set()
_SUPPORTED_CLASSES: Final[WeakSet[type]] = WeakSet()
"""Hints that were checked and have a handler: each is checked once. Only Python's own types are kept alive here."""

_MAX_SUPPORTED_HINTS: Final = 4096

_ADVICE: Final[tuple[tuple[Hint, str], ...]] = (
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


def find_type_handler(hint: Hint) -> TypeHandler | None:
    """Return the handler of *hint*, or None if it has no JSON form."""
    try:
        handler: TypeHandler | None = _load_type_table().HANDLERS_BY_TYPE.get(get_origin(hint) or hint)
    except TypeError:  # not hashable, so not a type
        return None
    if handler is not None:
        return handler
    return next((handler for handler in _load_type_table().PREDICATE_HANDLERS if handler.matches(hint)), None)


def get_type_handler(hint: Hint) -> TypeHandler:
    """Return the handler of *hint*; `TypeError` if it has none."""
    if (handler := find_type_handler(hint)) is None:
        raise TypeError(f"{format_hint(hint)} has no JSON form")
    return handler


def has_only_builtin_types(hint: Hint) -> bool:
    """Tell whether *hint* is made of Python's own types only, so that remembering it keeps nothing else alive."""
    origin = get_origin(hint)
    if origin is None:
        return hint is ... or ((is_class(hint) or hint is Any or hint is None) and _is_builtin_hint(hint))
    if origin is Literal:
        return not any(isinstance(value, Enum) for value in hint.__args__)
    if origin is Annotated or not _is_builtin_origin(hint):
        return False
    return all(map(has_only_builtin_types, getattr(hint, "__args__", ())))


_BUILTIN_MODULES: Final = frozenset(("builtins", "collections", "collections.abc"))


def _is_builtin_origin(hint: Hint) -> bool:
    """Tell whether *hint* is a union or one of Python's own containers; a generic class runs code of its own."""
    return is_union(hint) or getattr(get_origin(hint), "__module__", None) in _BUILTIN_MODULES


def _is_builtin_hint(hint: Hint) -> bool:
    return hint in _BUILTIN_HINTS or (is_path_type(hint) and hint.__module__.partition(".")[0] == "pathlib")


def can_hold_any_object(hint: Hint) -> bool:
    """Tell whether values of *hint* may hold objects of any type: it is, or contains, Any or a bare container."""
    if hint is Any or hint in (list, dict, set, frozenset, tuple):
        return True
    return get_origin(hint) is not Literal and any(map(can_hold_any_object, getattr(hint, "__args__", ())))


def is_known_supported(hint: Hint) -> bool:
    """Tell whether *hint*, made of Python's own types only, was checked before and has a handler."""
    try:
        return hint in _SUPPORTED_HINTS
    except TypeError:  # something in it has no hash, so it is not remembered
        return False


def find_hint_problems(hint: Hint) -> tuple[str, ...]:
    """
    Return why *hint* has no JSON form: every reason in it, none if it has one.

    Raises:
        UnresolvedHintError: A class in it names something that does not exist (yet).
    """
    problems: list[str] = []
    _collect_hint_problems(hint, problems, [])
    if not problems and len(_SUPPORTED_HINTS) < _MAX_SUPPORTED_HINTS and has_only_builtin_types(hint):
        _SUPPORTED_HINTS.add(hint)
    return tuple(problems)


def _collect_hint_problems(hint: Hint, problems: list[str], enclosing: list[Hint]) -> None:
    if hint is None or hint is Any or (type(hint) is type and hint in PLAIN_HINTS):
        return
    is_named = is_class(hint)
    if is_named and hint in _SUPPORTED_CLASSES:
        return
    if any(outer is hint or (not is_named and outer == hint) for outer in enclosing):
        return
    handler = find_type_handler(hint)
    if handler is None:
        problems.append(f"{format_hint(hint)} has no JSON form; {_suggest_alternative(hint)}")
        return
    if problem := handler.find_problem(hint):
        problems.append(f"{format_hint(hint)}: {problem}")
        return
    count = len(problems)
    for part in handler.get_inner_hints(hint):
        _collect_hint_problems(part, problems, [*enclosing, hint])
    if is_named and not enclosing and len(problems) == count:
        _SUPPORTED_CLASSES.add(hint)


def _suggest_alternative(hint: Hint) -> str:
    kind = get_origin(hint) or hint
    for unsupported, advice in _ADVICE:
        if kind is unsupported:
            return advice
    if isinstance(kind, type):
        return "make it an attrs class, a dataclass or a TypedDict, or take its parts as parameters"
    return "take a type that JSON has, or an attrs class, dataclass or TypedDict of such"
