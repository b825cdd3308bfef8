"""Explains wrong calls of public functions and classes in one line: what is unknown or missing, and similar names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from itertools import takewhile
from types import FunctionType
from typing import Final, NoReturn, ParamSpec, TypeAlias, TypeVar, cast

import msgspec

from praval_tools.names import shorten_repr, suggest_names
from praval_tools.values.plain_arguments import to_plain_argument

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., object])
P = ParamSpec("P")
R = TypeVar("R")

_KINDS: Final = inspect.Parameter
_CATCH_ALL: Final = (_KINDS.VAR_POSITIONAL, _KINDS.VAR_KEYWORD)
_BY_PLACE: Final = (_KINDS.POSITIONAL_ONLY, _KINDS.POSITIONAL_OR_KEYWORD)

MISSING: Final = type("MISSING", (), {"__repr__": lambda self: "MISSING", "__slots__": ()})()
"""What a method that is called often gets for an argument that is missing; see `checks_own_calls`."""


def checks_own_calls(method: F) -> F:
    """
    Leave the check of its calls to a method that is called often: in place of a missing argument it gets `MISSING`.

    Type checkers see what is required. Arguments that fit nothing are taken by `*more: Never` and `**unknown: Never`.
    """
    function = cast("FunctionType", method)
    own = function.__defaults__ or ()
    function.__defaults__ = (MISSING,) * (function.__code__.co_argcount - 1 - len(own)) + own
    function.checks_own_calls = True  # type: ignore[attr-defined]
    return method


def refuse_wrong_call(method: Callable[..., object], args: Iterable[object], unknown: Mapping[str, object]) -> NoReturn:
    """Raise what is wrong with a call of *method*, which checks its own calls: its arguments, and unknown keywords."""
    signature = inspect.signature(method)
    named = [parameter for parameter in signature.parameters.values() if parameter.kind not in _CATCH_ALL][1:]
    required = [item.replace(default=item.empty) if item.default is MISSING else item for item in named]
    given = tuple(takewhile(lambda value: value is not MISSING, args))
    signature = inspect.Signature(required)
    raise TypeError(describe_misuse(method.__name__, signature, given, unknown))


def explain_misuse(cls: C) -> C:
    """
    Let the public methods of *cls* say in one line what is wrong with a call that does not fit them.

    Left as they are: those with `checks_own_calls`.
    """
    return _explain_misuse(cls, takes_plain_arguments=False)


def explain_misuse_and_take_plain_arguments(cls: C) -> C:
    """Do what `explain_misuse` does, and give the methods plain arguments; see `to_plain_argument`."""
    return _explain_misuse(cls, takes_plain_arguments=True)


def _explain_misuse(cls: C, *, takes_plain_arguments: bool) -> C:
    for name, member in list(vars(cls).items()):
        method = member.__func__ if isinstance(member, classmethod) else member
        is_public = name == "__init__" or not name.startswith("_")
        if isinstance(method, FunctionType) and is_public and not hasattr(method, "checks_own_calls"):
            label = cls.__name__ if name == "__init__" else name
            checked = _with_readable_errors(method, label, takes_plain_arguments=takes_plain_arguments)
            setattr(cls, name, classmethod(checked) if method is not member else checked)
    return cls


class ExplainedStructType(type(msgspec.Struct)):  # type: ignore[misc]  # its own type has no public name
    """The class of structs that say in one line what is wrong with how they are made; it slows that down tenfold."""

    def __call__(cls, *args: object, **fields: object) -> object:
        try:
            return super().__call__(*args, **fields)
        except TypeError as error:
            signature = inspect.signature(cls)
            raise TypeError(describe_misuse(cls.__name__, signature, args, fields) or str(error)) from None


def explain_wrong_calls(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function say in one line what is wrong with a call that does not fit it."""
    return _with_readable_errors(function, function.__name__, leading=0)


def _with_readable_errors(
    method: Callable[P, R], label: str, *, leading: int = 1, takes_plain_arguments: bool = False
) -> Callable[P, R]:
    """Return *method* with readable errors; its *leading* parameters are not the caller's, such as `self`."""
    make_plain = _make_argument_converter(method) if takes_plain_arguments else None

    def explain(error: TypeError, args: tuple[object, ...], keywords: Mapping[str, object]) -> TypeError:
        signature = inspect.signature(method)
        signature = signature.replace(parameters=list(signature.parameters.values())[leading:])
        return TypeError(describe_misuse(label, signature, args[leading:], keywords) or str(error))

    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def awaited(*args: P.args, **keywords: P.kwargs) -> object:
            if make_plain is not None:
                args, keywords = make_plain(args, keywords)  # type: ignore[assignment]
            try:
                work = method(*args, **keywords)
            except TypeError as error:
                raise explain(error, args, keywords) from None
            return await work

        return awaited  # type: ignore[return-value]

    @wraps(method)
    def checked(*args: P.args, **keywords: P.kwargs) -> R:
        if make_plain is not None:
            args, keywords = make_plain(args, keywords)  # type: ignore[assignment]
        try:
            return method(*args, **keywords)
        except TypeError as error:
            traceback = error.__traceback__
            if traceback is not None and traceback.tb_next is not None:  # raised inside the method
                raise
            raise explain(error, args, keywords) from None

    return checked


_Args: TypeAlias = tuple[object, ...]
_Keywords: TypeAlias = dict[str, object]

_VALUE_PARAMETERS: Final = frozenset({"self", "cls", "deps", "result", "arguments", "parameters", "where"})
"""Parameters for values of the program, which stay as they are."""


def _make_argument_converter(method: Callable[..., object]) -> Callable[[_Args, _Keywords], tuple[_Args, _Keywords]]:
    """Return a function that makes the names and settings among the arguments of *method* plain."""
    parameters = inspect.signature(method).parameters.values()
    more = [item.kind for item in parameters if item.kind in _CATCH_ALL and item.name not in _VALUE_PARAMETERS]
    takes_more_places, takes_more_names = (kind in more for kind in _CATCH_ALL)
    names = {item.name for item in parameters if item.kind not in _CATCH_ALL}
    places = [item.name not in _VALUE_PARAMETERS for item in parameters if item.kind in _BY_PLACE]

    def make_plain(args: _Args, keywords: _Keywords) -> tuple[_Args, _Keywords]:
        for place, value in enumerate(args):
            if type(value) is not str and (places[place] if place < len(places) else takes_more_places):
                args = (*args[:place], to_plain_argument(value), *args[place + 1 :])
        for name, value in keywords.items():
            if type(value) is not str and name not in _VALUE_PARAMETERS and (name in names or takes_more_names):
                keywords[name] = to_plain_argument(value)
        return args, keywords

    return make_plain


def describe_misuse(
    label: str, signature: inspect.Signature, args: tuple[object, ...], keywords: Mapping[str, object]
) -> str:
    """Return what does not fit in a call of *label*, which has this *signature* for its callers."""
    parameters = list(signature.parameters.values())
    either = _KINDS.POSITIONAL_OR_KEYWORD
    by_position = [parameter.name for parameter in parameters if parameter.kind in (_KINDS.POSITIONAL_ONLY, either)]
    by_name = [parameter.name for parameter in parameters if parameter.kind in (_KINDS.KEYWORD_ONLY, either)]
    if len(args) > len(by_position):
        taken, extra = ", ".join(by_position) or "nothing", shorten_repr(args[len(by_position)])
        takes_names = by_name or any(parameter.kind is _KINDS.VAR_KEYWORD for parameter in parameters)
        rest = f"pass {extra} and what follows by name" if takes_names else f"leave {extra} and what follows out"
        return f"{label}() takes by position: {taken}; {rest}."
    for name in keywords:
        if name in by_position and name not in by_name and by_position.index(name) >= len(args):
            return f"{label}() takes {name!r} by position: {label}({shorten_repr(keywords[name])}, …)."
    takes_any_name = any(parameter.kind is _KINDS.VAR_KEYWORD for parameter in parameters)
    for name in keywords:
        if name not in by_name and not takes_any_name:
            return describe_unknown_keyword(label, name, by_name)
    for name in by_position[: len(args)]:
        if name in keywords and name in by_name:
            return f"{label}() got {name!r} twice: by its position and by its name."
    given = {*by_position[: len(args)], *keywords}
    needed = [parameter for parameter in parameters if parameter.name in {*by_position, *by_name}]
    missing = [item.name for item in needed if item.default is item.empty and item.name not in given]
    return f"{label}() needs {' and '.join(map(repr, missing))}." if missing else ""


def describe_unknown_keyword(label: str, name: str, known: Iterable[str]) -> str:
    """Return that *label* takes no keyword *name*, with similar ones, or else with all that it takes."""
    known = list(known)
    suggestion = suggest_names(name, known) or _list_names(known)
    return f"{label}() takes no {name!r}.{suggestion}"


def _list_names(names: list[str]) -> str:
    return f" It takes by name: {', '.join(names)}." if names else " It takes no arguments by name."
