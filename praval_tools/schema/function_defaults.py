"""Finds what a function fills in where nothing is given, to pass it on: what is judged is then what it gets."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Container, Iterator, Mapping, Set
from types import CodeType, FunctionType, MethodType
from typing import Final, NamedTuple, TypeAlias

from praval_tools.schema.signature import MAX_WRAPPERS, Signature
from praval_tools.schema.type_hints import NOTHING

_MARK: Final = "__passes_defaults_on__"

_NameTest: TypeAlias = Callable[[CodeType, str], bool]


class _Layer(NamedTuple):
    """
    A function around or under wrappers, or a partial.

    Args:
        code: The code of the function; None for a partial.
        values: Its own defaults that can be passed by name, or what the partial binds by name.
    """

    code: CodeType | None
    values: Mapping[str, object]


def list_defaults(signature: Signature) -> dict[str, object]:
    """Return the defaults of the parameters that a caller may give."""
    parameters = (parameter for parameter in signature.parameters if parameter.kind == "normal")
    return {item.name: item.default for item in parameters if item.default is not NOTHING}


def find_passable_defaults(function: object, signature: Signature, offered: Container[str]) -> dict[str, object]:
    """
    Return the defaults that can be passed to *function* by name.

    Where the function under all wrappers has one, that counts, else that of the outermost wrapper that has.

    Not those that a wrapper does not take: it gives what it wraps a value of its own. So may one that takes any name,
    such as a decorator that hands in a connection: what no caller may give is passed only where each wrapper names it.

    Args:
        function: What is called.
        signature: What was read of it, wrappers looked through.
        offered: The names that a caller may give, also where a partial binds them: that is their default then.
    """
    is_taken_by = _make_name_test(offered)
    layers, defaults = list(_iter_layers(function)), list_defaults(signature)
    for code, values in reversed(layers):
        if code is None:
            defaults |= {name: value for name, value in values.items() if name in offered}
        else:
            defaults = {name: value for name, value in defaults.items() if is_taken_by(code, name)}
    own = _collect_defaults_of_wrappers(layers, is_taken_by)
    return {name: value for name, value in own.items() if name in offered or _may_take(signature, name)} | defaults


def find_defaults_of_wrappers(function: object, names: Set[str], offered: Container[str]) -> dict[str, object]:
    """Return the defaults that wrappers of *function* have for *names*, of which a caller may give *offered*."""
    own = _collect_defaults_of_wrappers(list(_iter_layers(function)), _make_name_test(offered))
    return {name: value for name, value in own.items() if name in names}


def _make_name_test(offered: Container[str]) -> _NameTest:
    return lambda code, name: (_takes_name if name in offered else _has_parameter)(code, name)


def _collect_defaults_of_wrappers(layers: list[_Layer], is_taken_by: _NameTest) -> dict[str, object]:
    """Return the wrappers' own defaults that each wrapper further out takes; what a partial binds is none."""
    defaults = dict[str, object]()
    for code, values in reversed(layers[:-1]):
        if code is None:
            defaults = {name: value for name, value in defaults.items() if name not in values}
        else:
            defaults = {name: value for name, value in defaults.items() if is_taken_by(code, name)} | dict(values)
    return defaults


def _may_take(signature: Signature, name: str) -> bool:
    """Tell whether the function under all wrappers takes an argument of this name, by its `**kwargs`, too."""
    if name in signature.bound_names:
        return False
    kinds = {parameter.name: parameter.kind for parameter in signature.parameters if parameter.kind != "extra"}
    return kinds.get(name) == "normal" or (name not in kinds and len(kinds) < len(signature.parameters))


def is_taken(function: object, name: str, offered: Container[str]) -> bool:
    """Tell whether *function* and each wrapper of it take a default of this name, by `find_passable_defaults`."""
    is_taken_by = _make_name_test(offered)
    return all(code is None or is_taken_by(code, name) for code, _ in _iter_layers(function))


def mark_as_passing_on(function: Callable[..., object]) -> None:
    """Say of a function with `**kwargs` that it hands in nothing itself, so that it takes what no caller may give."""
    # `functools.wraps` copies the mark to other functions, whose code is another
    setattr(function, _MARK, function.__code__)


def _iter_layers(function: object) -> Iterator[_Layer]:
    """Yield each function around and under wrappers, and each partial, outermost first; not those that only pass on."""
    bound_count = 0
    for _ in range(MAX_WRAPPERS):
        if isinstance(function, MethodType):
            function, bound_count = function.__func__, bound_count + 1
        elif isinstance(function, staticmethod):
            function = function.__func__
        elif isinstance(function, functools.partial):
            yield _Layer(None, function.keywords)
            bound_count += len(function.args)
            function = function.func
        else:
            call = function if isinstance(function, FunctionType) else _find_call(function)
            if call is not None and vars(call).get(_MARK) is not call.__code__:
                yield _Layer(call.__code__, _read_defaults(call, bound_count + (call is not function)))
            function = getattr(function, "__wrapped__", None)
            if function is None:
                return


def _find_call(function: object) -> FunctionType | None:
    call = inspect.getattr_static(type(function), "__call__", None)
    return call if isinstance(call, FunctionType) else None


def _read_defaults(function: FunctionType, bound_count: int) -> dict[str, object]:
    """Return the defaults of a function, wrappers not looked through, that can be passed by name."""
    code, values = function.__code__, function.__defaults__ or ()
    first, names = code.co_argcount - len(values), code.co_varnames
    start = max(first, bound_count, code.co_posonlyargcount)
    defaults = {names[index]: values[index - first] for index in range(start, code.co_argcount)}
    return defaults | dict(function.__kwdefaults__ or {})


def _takes_name(code: CodeType, name: str) -> bool:
    return bool(code.co_flags & inspect.CO_VARKEYWORDS) or _has_parameter(code, name)


def _has_parameter(code: CodeType, name: str) -> bool:
    return name in code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
