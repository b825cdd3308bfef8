"""Readable errors for wrong calls of public methods: what is unknown or missing, and which names are similar."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from types import FunctionType
from typing import Final, ParamSpec, TypeVar

from praval_tools.names import shorten_repr, suggest_names

C = TypeVar("C", bound=type)
P = ParamSpec("P")
R = TypeVar("R")

_KINDS: Final = inspect.Parameter


def explain_misuse(cls: C) -> C:
    """
    Let the public methods of *cls* say in one line what is wrong with a call that does not fit them.

    Left as they are: async methods, and those that are called most often.
    """
    for name, method in list(vars(cls).items()):
        is_public = name == "__init__" or not name.startswith("_")
        if isinstance(method, FunctionType) and is_public and not _is_left_alone(method):
            setattr(cls, name, _with_readable_errors(method, cls.__name__ if name == "__init__" else name))
    return cls


def _is_left_alone(method: FunctionType) -> bool:
    return inspect.iscoroutinefunction(method) or method.__name__ in ("call", "call_json", "execute")


def _with_readable_errors(method: Callable[P, R], label: str) -> Callable[P, R]:
    @wraps(method)
    def checked(*args: P.args, **keywords: P.kwargs) -> R:
        try:
            return method(*args, **keywords)
        except TypeError as error:
            traceback = error.__traceback__
            if traceback is not None and traceback.tb_next is not None:  # raised inside the method
                raise
            problem = describe_misuse(label, inspect.signature(method), args[1:], keywords)
            raise TypeError(problem or str(error)) from None

    return checked


def describe_misuse(
    label: str, signature: inspect.Signature, args: tuple[object, ...], keywords: Mapping[str, object]
) -> str:
    """Return what does not fit in a call of the method *label*, which *args* leaves out the object of."""
    parameters = list(signature.parameters.values())[1:]
    either = _KINDS.POSITIONAL_OR_KEYWORD
    by_position = [parameter.name for parameter in parameters if parameter.kind in (_KINDS.POSITIONAL_ONLY, either)]
    by_name = [parameter.name for parameter in parameters if parameter.kind in (_KINDS.KEYWORD_ONLY, either)]
    if len(args) > len(by_position):
        taken, extra = ", ".join(by_position) or "nothing", shorten_repr(args[len(by_position)])
        return f"{label}() takes by position: {taken}; pass {extra} and what follows by name."
    for name in keywords:
        if name in by_position and name not in by_name and by_position.index(name) >= len(args):
            return f"{label}() takes {name!r} by position: {label}({shorten_repr(keywords[name])}, …)."
    takes_any_name = any(parameter.kind is _KINDS.VAR_KEYWORD for parameter in parameters)
    for name in keywords:
        if name not in by_name and not takes_any_name:
            return describe_unknown_keyword(label, name, by_name)
    given = {*by_position[: len(args)], *keywords}
    needed = [parameter for parameter in parameters if parameter.name in {*by_position, *by_name}]
    missing = [one.name for one in needed if one.default is one.empty and one.name not in given]
    return f"{label}() needs {' and '.join(map(repr, missing))}." if missing else ""


def describe_unknown_keyword(label: str, name: str, known: Iterable[str]) -> str:
    """Return that *label* takes no keyword *name*, with similar ones, or else with all that it takes."""
    known = list(known)
    suggestion = suggest_names(name, known) or _list_names(known)
    return f"{label}() takes no {name!r}.{suggestion}"


def _list_names(names: list[str]) -> str:
    return f" It takes by name: {', '.join(names)}." if names else ""
