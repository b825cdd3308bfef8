"""Finds what a function fills in where nothing is given, to pass it on: what is judged is then what it gets."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Set
from types import CodeType, FunctionType, MethodType
from typing import Final

from praval_tools.schema.signature import MAX_WRAPPERS, Signature
from praval_tools.schema.type_hints import NOTHING

_MARK: Final = "__passes_defaults_on__"


def list_defaults(signature: Signature) -> dict[str, object]:
    """Return the defaults of the parameters that a caller may give."""
    parameters = (parameter for parameter in signature.parameters if parameter.kind == "normal")
    return {item.name: item.default for item in parameters if item.default is not NOTHING}


def find_passable_defaults(function: object, signature: Signature, offered: Set[str]) -> dict[str, object]:
    """
    Return the defaults that can be passed to *function* by name.

    Not those that a wrapper does not take: it gives what it wraps a value of its own. So may one that takes any name,
    such as a decorator that hands in a connection: what no caller may give is passed only where each wrapper names it.

    Args:
        function: What is called.
        signature: What was read of it, wrappers looked through.
        offered: The names that a caller may give, also where a partial binds them: that is their default then.
    """
    defaults = list_defaults(signature)
    for layer, keywords in _iter_layers(function):
        defaults |= {name: keywords[name] for name in keywords.keys() & offered - defaults.keys()}
        if layer is not None:
            defaults = {
                name: value
                for name, value in defaults.items()
                if (_takes_name if name in offered else _has_parameter)(layer, name)
            }
    return defaults


def is_taken(function: object, name: str) -> bool:
    """Tell whether *function* and each wrapper of it take what is passed by this name."""
    return all(layer is None or _takes_name(layer, name) for layer, _ in _iter_layers(function))


def mark_as_passing_on(function: Callable[..., object]) -> None:
    """Say of a function with `**kwargs` that it hands in nothing itself, so that it takes what no caller may give."""
    # `functools.wraps` copies the mark to other functions, whose code is another
    setattr(function, _MARK, function.__code__)  # type: ignore[attr-defined]


def _iter_layers(function: object) -> Iterator[tuple[CodeType | None, Mapping[str, object]]]:
    """
    Yield the code of each function around and under wrappers, and what each partial binds, outermost first.

    Without those that only pass on what they get.
    """
    for _ in range(MAX_WRAPPERS):
        if isinstance(function, MethodType | staticmethod):
            function = function.__func__
        elif isinstance(function, functools.partial):
            yield None, function.keywords
            function = function.func
        else:
            call = function if isinstance(function, FunctionType) else _find_call(function)
            if call is not None and vars(call).get(_MARK) is not call.__code__:
                yield call.__code__, {}
            function = getattr(function, "__wrapped__", None)
            if function is None:
                return


def _find_call(function: object) -> FunctionType | None:
    call = inspect.getattr_static(type(function), "__call__", None)
    return call if isinstance(call, FunctionType) else None


def _takes_name(code: CodeType, name: str) -> bool:
    return bool(code.co_flags & inspect.CO_VARKEYWORDS) or _has_parameter(code, name)


def _has_parameter(code: CodeType, name: str) -> bool:
    return name in code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
