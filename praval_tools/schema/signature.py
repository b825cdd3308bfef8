"""
What a function takes and gives back, read when it is declared as a tool.

Only code object, defaults and hints are looked at, because this is paid for every tool of a program:
`inspect.signature` alone would cost more than the whole of it.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import types
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from attrs import NOTHING

from praval_tools.schema.annotations import annotations_of, names_near
from praval_tools.schema.return_hints import returned_items
from praval_tools.schema.type_hints import (
    BadHint,
    Unresolved,
    bare,
    hint_text,
    is_union,
    resolve,
)
from praval_tools.schema.type_lookup import PLAIN, is_fine, judge

Kind = Literal["normal", "extra", "context"]

_BUILTINS: Final = vars(builtins)
_VAR_POSITIONAL: Final = inspect.CO_VARARGS
_VAR_KEYWORD: Final = inspect.CO_VARKEYWORDS
_ASYNC: Final = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_GENERATOR: Final = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


class Parameter(msgspec.Struct, frozen=True, gc=False):
    """
    One parameter of a function.

    Args:
        name: Its name.
        hint: Its resolved hint; the text of it as long as it does not resolve.
        default: What it is when left out; `NOTHING` means that it is required.
        kind: `normal`, `extra` for `**kwargs`, or `context` for what is injected and never in the schema.
        by_keyword: It must be passed by its name.
    """

    name: str
    hint: Any
    default: Any
    kind: Kind = "normal"
    by_keyword: bool = False


class Signature(msgspec.Struct, frozen=True, gc=False):
    """
    What a function takes and gives back.

    Args:
        parameters: In order of declaration.
        returns: The resolved return hint; `Any` where there is none.
        is_async: Calling it gives an awaitable or an asynchronous iterator.
        problems: Why it cannot be a tool: every reason, each with the fix.
        unresolved: A hint names something that does not exist yet; read again at first use.
        is_generator: It yields its results, which form a list.
        taken: Names that an extra argument cannot have, because they are bound already.
    """

    parameters: tuple[Parameter, ...] = ()
    returns: Any = Any
    is_async: bool = False
    problems: tuple[str, ...] = ()
    unresolved: bool = False
    is_generator: bool = False
    taken: tuple[str, ...] = ()

    def describe(self) -> dict[str, dict[str, Any]]:
        """Return each visible parameter's type as text, whether it is required, and its default."""
        return {
            one.name: {
                "type": hint_text(one.hint),
                "required": one.default is NOTHING,
                "default": None if one.default is NOTHING else one.default,
            }
            for one in self.parameters
            if one.kind == "normal"
        }

    def return_text(self) -> str:
        """Return the return hint as Python text."""
        return hint_text(self.returns)


class _Reading(msgspec.Struct):
    """What is known while one function is read."""

    annotations: Mapping[str, Any]
    names: Mapping[str, Any]
    near: Mapping[str, Any] | None
    strict: bool
    context_types: tuple[type, ...]
    parameters: list[Parameter] = msgspec.field(default_factory=list)
    problems: list[str] = msgspec.field(default_factory=list)
    unresolved: bool = False

    def hint(self, name: str, subject: str) -> Any:
        """Return the resolved and judged hint of *name*; what is wrong with it goes to the problems."""
        hint = self.annotations.get(name, NOTHING)
        if type(hint) is type and hint in PLAIN:
            return hint
        if hint is NOTHING:
            if self.strict:
                self.problems.append(_missing(name))
            return Any
        if type(hint) is str:
            found = self.names.get(hint) if hint in self.names else _BUILTINS.get(hint)
            if self.near is None and type(found) is type and found in PLAIN:
                return found
        elif is_fine(hint):
            return hint
        try:
            hint = self._resolved(hint)
            return hint if _is_context(hint, self.context_types) else self._judged(name, hint, subject)
        except Unresolved:
            self.unresolved = True
        except BadHint as error:
            self.problems.append(f"{subject}: {error}")
        return hint

    def _resolved(self, hint: Any) -> Any:
        try:
            return resolve(hint, self.names, self.near)
        except Unresolved:  # the context's class is often imported for type checkers only
            known = {kind.__name__: kind for kind in self.context_types}
            return resolve(hint, self.names, {**known, **(self.near or {})})

    def _judged(self, name: str, hint: Any, subject: str) -> Any:
        try:
            found = judge(returned_items(hint) if name == "return" else hint)
        except RecursionError:
            found = ("its hint is nested too deeply",)
        self.problems += [f"{subject}: {problem}" for problem in found]
        return hint

    def add(self, name: str, default: Any, by_keyword: bool) -> None:
        """Read one parameter."""
        hint = self.annotations.get(name)
        if type(hint) is type and hint in PLAIN:
            self.parameters.append(Parameter(name, hint, default, "normal", by_keyword))
            return
        hint = self.hint(name, f"parameter {name!r}")
        kind: Kind = "context" if _is_context(hint, self.context_types) else "normal"
        self.parameters.append(Parameter(name, hint, default, kind, by_keyword))


def _missing(name: str) -> str:
    if name == "return":
        return "it has no return hint; say what it returns: `-> float`, or `-> None` for nothing"
    return f"parameter {name!r} has no type hint; give it one: `{name}: str`"


def _is_context(hint: Any, context_types: tuple[type, ...]) -> bool:
    if not context_types:
        return False
    if isinstance(hint, type):
        return issubclass(hint, context_types) if not isinstance(hint, types.GenericAlias) else False
    inner = bare(hint)
    if is_union(inner):
        return any(_is_context(one, context_types) for one in inner.__args__)
    return inner is not hint and _is_context(inner, context_types)


def read_signature(
    function: Any,
    *,
    strict: bool = True,
    context_types: tuple[type, ...] = (),
    namespace: Mapping[str, Any] | None = None,
) -> Signature:
    """
    Read what *function* takes and gives back.

    Never raises for the function's sake: `problems` of the result lists everything that is wrong with it.
    The parameters of a lambda are unconstrained, because it cannot have hints.

    Args:
        function: A function, bound method, partial, callable instance or static method.
        strict: A missing hint is a problem; else it means unconstrained.
        context_types: A parameter of one of these types is injected and never in the schema.
        namespace: More names that hints given as text may use: the locals of the function around.
    """
    shape = _shape(function)
    if isinstance(shape, str):
        return Signature(problems=(shape,))
    inner, bound, given = shape
    code = inner.__code__
    try:
        annotations = annotations_of(inner)
    except Unresolved:
        return Signature(unresolved=True, is_async=is_async(function))
    near = names_near(inner, namespace)
    strict = strict and inner.__name__ != "<lambda>"
    reading = _Reading(annotations, inner.__globals__, near, strict, context_types)
    taken = _read_parameters(reading, inner, bound, given)
    returns = reading.hint("return", "the result") if strict or "return" in annotations else Any
    flags = code.co_flags if inner is function else _flags(function)
    return Signature(
        tuple(reading.parameters),
        returns,
        bool(flags & _ASYNC),
        tuple(reading.problems),
        reading.unresolved,
        bool(flags & _GENERATOR),
        taken,
    )


def _read_parameters(
    reading: _Reading, inner: types.FunctionType, bound: int, given: Mapping[str, Any]
) -> tuple[str, ...]:
    """Read every parameter into *reading*; return the names that are bound already."""
    code, defaults = inner.__code__, inner.__defaults__ or ()
    names, count, flags = code.co_varnames, code.co_argcount, code.co_flags
    first_default = count - len(defaults)
    by_keyword = False
    for position in range(bound, count):
        name = names[position]
        if position == 0 and name in ("self", "cls") and name not in reading.annotations:
            reading.problems.append(_BARE_SELF)
            continue
        if position < code.co_posonlyargcount:
            reading.problems.append(f"parameter {name!r} is positional-only, and a model passes names; remove the `/`")
        default = defaults[position - first_default] if position >= first_default else NOTHING
        if name in given:
            by_keyword = True
        else:
            reading.add(name, default, by_keyword)
    keyword_defaults = inner.__kwdefaults__ or {}
    end = count + code.co_kwonlyargcount
    for name in names[count:end]:
        if name not in given:
            reading.add(name, keyword_defaults.get(name, NOTHING), True)
    if flags & _VAR_POSITIONAL:
        reading.problems.append(f"`*{names[end]}` has no names that a model could pass; take a list parameter")
        end += 1
    if flags & _VAR_KEYWORD:
        name = names[end]
        reading.parameters.append(Parameter(name, reading.hint(name, f"`**{name}`"), NOTHING, "extra", True))
    return (*names[:bound], *given)


_BARE_SELF: Final = (
    "`self` is not bound; register the object with registry.register_object(instance), "
    "or make a tool of the bound method"
)


_Shape = tuple[types.FunctionType, int, Mapping[str, Any]]


def _shape(function: Any) -> _Shape | str:
    """
    Return the function under wrappers, how many leading parameters are bound, and which others are.

    What a partial binds is gone for callers: a model must not put another value in its place.
    """
    bound = 0
    given: Mapping[str, Any] = {}
    for _ in range(64):
        if type(function) is types.FunctionType:
            wrapped = getattr(function, "__wrapped__", None)
            if wrapped is None:
                return function, bound, given
            function = wrapped
        elif isinstance(function, types.MethodType):
            function, bound = function.__func__, bound + 1
        elif isinstance(function, functools.partial):
            bound, given = bound + len(function.args), {**function.keywords, **given}
            function = function.func
        elif isinstance(function, staticmethod):
            function = function.__func__
        elif isinstance(function, type):
            return "it is a class; make a tool of a function that builds one, or use registry.register_object"
        elif not callable(function):
            return f"it is not callable but {type(function).__name__}; give a function"
        elif callable(wrapped := getattr(function, "__wrapped__", None)):
            function = wrapped
        elif isinstance(call := inspect.getattr_static(type(function), "__call__"), types.FunctionType):
            function, bound = call, bound + 1
        else:
            return f"{function!r} tells no parameters; wrap it in a function with type hints"
    return "it wraps itself; give a function"


def _flags(function: Any) -> int:
    """Return the code flags of what is called in the end, wrappers not looked through."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, types.MethodType | staticmethod):
            function = function.__func__
        elif isinstance(function, types.FunctionType):
            marked = inspect.iscoroutinefunction(function)
            return function.__code__.co_flags | (inspect.CO_COROUTINE if marked else 0)
        elif isinstance(call := inspect.getattr_static(type(function), "__call__", None), types.FunctionType):
            function = call
        else:
            return 0


def is_async(function: Any) -> bool:
    """Tell whether calling *function* gives an awaitable or an asynchronous iterator."""
    return bool(_flags(function) & _ASYNC)
