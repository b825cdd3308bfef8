"""
Reads signatures of functions that are declared as tools: parameters, return hint, and what is wrong with them.

Only code object, defaults and hints are read, because this is paid for every tool of a program:
`inspect.signature` alone would cost more than all of it.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import sys
import types
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from praval_tools.names import get_class_name
from praval_tools.schema.hidden_values import holds_named_secret
from praval_tools.schema.marked_values import has_marked_values
from praval_tools.schema.secret_marks import contains_secret_mark
from praval_tools.schema.type_handler import Unencodable
from praval_tools.schema.type_hints import (
    NOTHING,
    Hint,
    InvalidHintError,
    UnresolvedHintError,
    evaluate_hint,
    format_hint,
    get_origin,
    is_union,
    resolve_hint,
    unwrap_hint,
    unwrap_return_hint,
)
from praval_tools.schema.type_lookup import PLAIN_HINTS, find_hint_problems, is_known_supported
from praval_tools.schema.value_reader import ValueReader
from praval_tools.values.plain_arguments import to_plain_argument

ParameterKind = Literal["normal", "extra", "context"]

_BUILTINS: Final = vars(builtins)
MAX_WRAPPERS: Final = 64
"""How many wrappers around a function are looked through; one that wraps itself has no end."""

_VAR_POSITIONAL: Final = inspect.CO_VARARGS
_VAR_KEYWORD: Final = inspect.CO_VARKEYWORDS
_ASYNC_FLAGS: Final = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_GENERATOR_FLAGS: Final = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


class Parameter(msgspec.Struct, frozen=True, gc=False):
    """
    One parameter of a function.

    Args:
        name: Its name.
        hint: Its resolved hint; the text of it as long as it does not resolve.
        default: What it is when left out; `NOTHING` means that it is required.
        kind: `normal`, `extra` for `**kwargs`, or `context` for what is injected and never in the schema.
        keyword_only: It must be passed by its name.
    """

    name: str
    hint: Hint
    default: Any
    kind: ParameterKind = "normal"
    keyword_only: bool = False


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
        bound_names: Names that an extra argument cannot have, because they are bound already.
    """

    parameters: tuple[Parameter, ...] = ()
    returns: Any = Any
    is_async: bool = False
    problems: tuple[str, ...] = ()
    unresolved: bool = False
    is_generator: bool = False
    bound_names: tuple[str, ...] = ()

    def describe_parameters(self) -> dict[str, dict[str, Any]]:
        """Return the type of each visible parameter as text, whether it is required, and its default, if not secret."""
        defaults = {parameter.name: _read_default(parameter) for parameter in self.parameters}
        return {
            parameter.name: {
                "type": format_hint(parameter.hint),
                "required": parameter.default is NOTHING,
                "default": None if _hides_default(parameter.name, defaults) else parameter.default,
            }
            for parameter in self.parameters
            if parameter.kind == "normal"
        }

    def format_return_hint(self) -> str:
        """Return the return hint as Python text."""
        return format_hint(self.returns)


def _read_default(parameter: Parameter) -> object:
    """Return a default as JSON; `NOTHING` where there is none, or it is marked as secret, or cannot be read."""
    default = parameter.default
    if default is NOTHING or contains_secret_mark(parameter.hint) or has_marked_values(default):
        return NOTHING
    try:
        return ValueReader().read(to_plain_argument(default))
    except Unencodable:
        return NOTHING


def _hides_default(name: str, defaults: Mapping[str, object]) -> bool:
    return defaults[name] is NOTHING or holds_named_secret(name, defaults[name], defaults)


class _SignatureReader(msgspec.Struct):
    """The state of reading one function."""

    annotations: Mapping[str, Any]
    global_names: Mapping[str, Any]
    enclosing_names: Mapping[str, Any] | None
    strict: bool
    context_types: tuple[type, ...]
    parameters: list[Parameter] = msgspec.field(default_factory=list)
    problems: list[str] = msgspec.field(default_factory=list)
    unresolved: bool = False

    def read_hint(self, name: str, subject: str) -> Any:
        """Return the resolved and judged hint of *name*; what is wrong with it goes to the problems."""
        hint = self.annotations.get(name, NOTHING)
        if type(hint) is type and hint in PLAIN_HINTS:
            return hint
        if hint is NOTHING:
            if self.strict:
                self.problems.append(_describe_missing_hint(name))
            return Any
        if type(hint) is str:
            value = self.global_names.get(hint) if hint in self.global_names else _BUILTINS.get(hint)
            if self.enclosing_names is None and type(value) is type and value in PLAIN_HINTS:
                return value
        elif is_known_supported(hint):
            return hint
        try:
            hint = self._resolve_hint(hint)
            return hint if _is_context_hint(hint, self.context_types) else self._check_hint(name, hint, subject)
        except UnresolvedHintError:
            self.unresolved = True
        except InvalidHintError as error:
            self.problems.append(f"{subject}: {error}")
            return Any
        except RecursionError:
            self.problems.append(f"{subject}: its hint is nested too deeply, or never ends; make it a class")
            return Any
        return hint

    def _resolve_hint(self, hint: Hint) -> Any:
        try:
            return resolve_hint(hint, self.global_names, self.enclosing_names)
        except UnresolvedHintError:  # the context's class is often imported for type checkers only
            known = {kind.__name__: kind for kind in self.context_types}
            names = {**known, **(self.enclosing_names or {})}
            try:
                return resolve_hint(hint, self.global_names, names)
            except UnresolvedHintError:
                return _resolve_context_hint(hint, self.context_types, self.global_names, names)

    def _check_hint(self, name: str, hint: Hint, subject: str) -> Any:
        problems = find_hint_problems(unwrap_return_hint(hint) if name == "return" else hint)
        self.problems += [f"{subject}: {problem}" for problem in problems]
        return hint

    def read_parameter(self, name: str, default: Any, keyword_only: bool) -> None:
        """Read one parameter."""
        hint = self.annotations.get(name)
        if type(hint) is type and hint in PLAIN_HINTS:
            self.parameters.append(Parameter(name, hint, default, "normal", keyword_only))
            return
        hint = self.read_hint(name, f"parameter {name!r}")
        kind: ParameterKind = "context" if _is_context_hint(hint, self.context_types) else "normal"
        self.parameters.append(Parameter(name, hint, default, kind, keyword_only))


def _resolve_context_hint(
    hint: Hint, context_types: tuple[type, ...], global_names: Mapping[str, object], names: Mapping[str, object]
) -> Hint:
    """
    Return a context with parameters that are imported for type checkers only: what they are, no schema says.

    Raises:
        UnresolvedHintError: The hint is another one.
    """
    import ast

    node = ast.parse(hint.strip(), mode="eval").body if isinstance(hint, str) else None
    if isinstance(node, ast.Subscript):
        context: Hint = evaluate_hint(ast.unparse(node.value), global_names, names)
        if _is_context_hint(context, context_types):
            is_optional = isinstance(node.slice, ast.BinOp) and ast.unparse(node.slice).endswith("| None")
            return context[Any | None if is_optional else Any]
    raise UnresolvedHintError(str(hint))


def _describe_missing_hint(name: str) -> str:
    if name == "return":
        return "it has no return hint; say what it returns: `-> float`, or `-> None` for nothing"
    return f"parameter {name!r} has no type hint; give it one: `{name}: str`"


def _is_context_hint(hint: Hint, context_types: tuple[type, ...]) -> bool:
    if not context_types:
        return False
    if isinstance(hint, type):
        return issubclass(hint, context_types) if not isinstance(hint, types.GenericAlias) else False
    origin = get_origin(hint)
    if isinstance(origin, type) and issubclass(origin, context_types):
        return True
    inner = unwrap_hint(hint)
    if is_union(inner):
        return any(_is_context_hint(member, context_types) for member in inner.__args__)
    return inner is not hint and _is_context_hint(inner, context_types)


def read_signature(
    function: object,
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
    unwrapped = _unwrap_callable(function)
    if isinstance(unwrapped, str):
        return Signature(problems=(unwrapped,))
    inner, bound_count, bound_keywords = unwrapped
    code = inner.__code__
    try:
        annotations = read_annotations(inner)
    except UnresolvedHintError:
        return Signature(unresolved=True, is_async=is_async_callable(function))
    enclosing_names = collect_enclosing_names(inner, namespace)
    strict = strict and inner.__name__ != "<lambda>"
    reader = _SignatureReader(annotations, inner.__globals__, enclosing_names, strict, context_types)
    bound_names = _read_parameters(reader, inner, bound_count, bound_keywords)
    returns = reader.read_hint("return", "the result") if strict or "return" in annotations else Any
    flags = code.co_flags if inner is function else _get_code_flags(function)
    return Signature(
        tuple(reader.parameters),
        returns,
        bool(flags & _ASYNC_FLAGS),
        tuple(reader.problems),
        reader.unresolved,
        bool(flags & _GENERATOR_FLAGS),
        bound_names,
    )


def _read_parameters(
    reader: _SignatureReader, inner: types.FunctionType, bound_count: int, bound_keywords: Mapping[str, Any]
) -> tuple[str, ...]:
    """Read every parameter into *reader*; return the names that are bound already."""
    code, defaults = inner.__code__, inner.__defaults__ or ()
    names, count, flags = code.co_varnames, code.co_argcount, code.co_flags
    first_default = count - len(defaults)
    is_keyword_only = False
    for position in range(bound_count, count):
        name = names[position]
        if position == 0 and name in ("self", "cls") and name not in reader.annotations:
            reader.problems.append(_UNBOUND_SELF)
            continue
        if position < code.co_posonlyargcount:
            reader.problems.append(f"parameter {name!r} is positional-only, and a model passes names; remove the `/`")
        default = defaults[position - first_default] if position >= first_default else NOTHING
        if name in bound_keywords:
            is_keyword_only = True
        else:
            reader.read_parameter(name, default, is_keyword_only)
    keyword_defaults = inner.__kwdefaults__ or {}
    end = count + code.co_kwonlyargcount
    for name in names[count:end]:
        if name not in bound_keywords:
            reader.read_parameter(name, keyword_defaults.get(name, NOTHING), True)
    if flags & _VAR_POSITIONAL:
        reader.problems.append(f"`*{names[end]}` has no names that a model could pass; take a list parameter")
        end += 1
    if flags & _VAR_KEYWORD:
        name = names[end]
        reader.parameters.append(Parameter(name, reader.read_hint(name, f"`**{name}`"), NOTHING, "extra", True))
    return (*names[:bound_count], *bound_keywords)


_UNBOUND_SELF: Final = (
    "`self` is not bound; register the object with registry.register_object(instance), "
    "or make a tool of the bound method"
)


_UnwrappedCallable = tuple[types.FunctionType, int, Mapping[str, Any]]


def _unwrap_callable(function: object) -> _UnwrappedCallable | str:
    """
    Return the function under wrappers, how many leading parameters are bound, and which others are.

    What a partial binds is gone for callers: a model must not put another value in its place.
    """
    bound_count = 0
    bound_keywords: Mapping[str, Any] = {}
    for _ in range(MAX_WRAPPERS):
        if type(function) is types.FunctionType:
            wrapped = getattr(function, "__wrapped__", None)
            if wrapped is None:
                return function, bound_count, bound_keywords
            function = wrapped
        elif isinstance(function, types.MethodType):
            function, bound_count = function.__func__, bound_count + 1
        elif isinstance(function, functools.partial):
            bound_count, bound_keywords = bound_count + len(function.args), {**function.keywords, **bound_keywords}
            function = function.func
        elif isinstance(function, staticmethod):
            function = function.__func__
        elif isinstance(function, type):
            return "it is a class; make a tool of a function that builds one, or use registry.register_object"
        elif not callable(function):
            return f"it is not callable but {get_class_name(type(function))}; give a function"
        elif callable(wrapped := getattr(function, "__wrapped__", None)):
            function = wrapped
        elif isinstance(call := inspect.getattr_static(type(function), "__call__"), types.FunctionType):
            function, bound_count = call, bound_count + 1
        else:
            return f"{function!r} has no readable parameters; wrap it in a function with type hints"
    return "it wraps itself; give a function"


def _get_code_flags(function: object) -> int:
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


def is_async_callable(function: object) -> bool:
    """Tell whether calling *function* gives an awaitable or an asynchronous iterator."""
    return bool(_get_code_flags(function) & _ASYNC_FLAGS)


def read_annotations(function: types.FunctionType) -> Mapping[str, Any]:
    """
    Return the hints of *function*, unresolved text as text.

    Raises:
        UnresolvedHintError: Python evaluates hints lazily (3.14) and one names something that does not exist yet.
    """
    try:
        return function.__annotations__
    except NameError as error:
        if sys.version_info < (3, 14):
            raise UnresolvedHintError(str(error)) from None
        import annotationlib

        return annotationlib.get_annotations(function, format=annotationlib.Format.FORWARDREF)


def collect_enclosing_names(
    function: types.FunctionType, namespace: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Return the names that hints of *function* may use beside its globals; None where there are none."""
    cells = function.__closure__
    parameters = getattr(function, "__type_params__", ())
    if not cells and not parameters and namespace is None:
        return None
    names = dict(namespace or {})
    for name, cell in zip(function.__code__.co_freevars, cells or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not filled yet: the function around is still running
            continue
    names.update({parameter.__name__: parameter for parameter in parameters})
    return names
