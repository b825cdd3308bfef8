"""Resolves, unwraps and formats type hints; and the `Secret` mark."""

from __future__ import annotations

import builtins
import collections.abc as abc
import operator
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import lru_cache
from typing import (
    Annotated,
    Any,
    Final,
    ForwardRef,
    Literal,
    Never,
    NewType,
    NoReturn,
    TypeAlias,
    TypeVar,
    Union,
)

import attrs

from praval_tools.names import get_class_name, get_qualified_name, has_type, to_plain_text

Hint: TypeAlias = Any
"""A type hint: Python has no static type for what `int`, `list[int]` and `int | None` have in common."""

get_origin: Final[Callable[[Hint], Hint]] = typing.get_origin
"""`typing.get_origin` without its overloads, which know no such thing as any hint."""

NOTHING: Final = attrs.NOTHING
"""What stands for a value or a default that is not there, where `None` is a value."""


class RecursiveReference:
    """
    A reference to a hint that holds the reference, as in `JSON = Union[list["JSON"], str]`: a type alias by its text.

    Args:
        text: The reference.
        value: What it means, with the references in it unresolved.
        names: The globals of the reference.
        inner: Its locals.
    """

    __type_params__ = ()

    def __init__(self, text: str, value: Hint, names: Mapping[str, object], inner: Mapping[str, object] | None) -> None:
        self.__name__, self.__value__, self.names = text, value, names
        self.inner: Mapping[str, object] = {} if inner is None or text not in inner else inner

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecursiveReference) or self.names is not other.names:
            return False
        return (self.__name__, self.__value__, self.inner) == (other.__name__, other.__value__, other.inner)

    def __hash__(self) -> int:
        return hash(self.__name__)

    def __repr__(self) -> str:
        return self.__name__


_UNIONS: Final = (Union, types.UnionType)
_ALIASES: Final = (
    RecursiveReference,
    *(
        kind
        for module in ("typing", "typing_extensions")
        if (kind := getattr(__import__(module), "TypeAliasType", None)) is not None
    ),
)


class HintError(Exception):
    """A hint says nothing that could be used."""


class UnresolvedHintError(HintError):
    """A forward reference names something that does not exist (yet)."""


class InvalidHintError(HintError):
    """A hint in text form is not a Python expression, or fails when evaluated."""


@lru_cache(maxsize=2048)
def _compile_hint(text: str) -> types.CodeType:
    return compile(text.strip(), "<hint>", "eval", dont_inherit=True)


def evaluate_hint(text: str, names: Mapping[str, Any], inner: Mapping[str, Any] | None = None) -> Hint:
    """
    Evaluate the hint *text* with *names* as its globals and *inner* as its locals.

    Raises:
        UnresolvedHintError: A name in it is not defined there.
        InvalidHintError: It is not an expression, or evaluating it fails.
    """
    if inner is None and text.isidentifier():
        if text in names:
            return names[text]
        if hasattr(builtins, text):
            return getattr(builtins, text)
    try:
        return eval(_compile_hint(text), dict(names) if type(names) is not dict else names, inner)  # noqa: S307
    except (NameError, AttributeError) as error:
        raise UnresolvedHintError(str(error)) from None
    except Exception as error:
        reason = f"{get_class_name(type(error))}: {error}"
        raise InvalidHintError(f"the hint {text!r} cannot be evaluated ({reason})") from None


def resolve_hint(hint: Hint, names: Mapping[str, object], inner: Mapping[str, object] | None = None) -> Hint:
    """
    Return *hint* with every text and forward reference in it replaced by what it means.

    A reference to what holds it is replaced by an alias.
    """
    open_references: dict[str, bool] = {}  # of each, whether it was met again inside what it means

    def resolve(part: Hint) -> Hint:
        if is_class(part):
            return part
        if type(part) is str:
            return resolve_reference(part)
        if type(part) is ForwardRef:
            return resolve_reference(part.__forward_arg__)
        return _map_type_arguments(part, resolve)

    def resolve_reference(text: str) -> Hint:
        value = evaluate_hint(text, names, inner)
        if is_class(value):
            return value
        if text in open_references:
            open_references[text] = True
        else:
            open_references[text] = False
            resolved = resolve(value)
            if not open_references.pop(text):
                return resolved
        return RecursiveReference(text, value, names, inner)

    return resolve(hint)


def substitute_type_variables(hint: Hint, values: Mapping[Hint, Hint]) -> Hint:
    """Return *hint* with its type variables replaced by their *values*."""
    if isinstance(hint, TypeVar) or hint is typing.Self:
        return values.get(hint, hint)
    if not values or is_class(hint):
        return hint
    return _map_type_arguments(hint, lambda part: substitute_type_variables(part, values))


def _map_type_arguments(hint: Hint, change: Callable[[Hint], Hint]) -> Hint:
    """Return *hint* with *change* applied to its arguments; the same object where nothing changes."""
    args = getattr(hint, "__args__", None)
    origin: Hint = get_origin(hint)
    if not args or origin is Literal:
        return hint
    if origin is Annotated:
        inner = change(hint.__origin__)
        return hint if inner is hint.__origin__ else Annotated[(inner, *hint.__metadata__)]
    changed = tuple(arg if isinstance(arg, list) else change(arg) for arg in args)
    if all(map(operator.is_, changed, args)):
        return hint
    if origin in _UNIONS:
        return Union[changed]  # noqa: UP007
    return types.GenericAlias(origin, changed) if isinstance(hint, types.GenericAlias) else hint.copy_with(changed)


def is_class(hint: Hint) -> bool:
    """Tell whether *hint* is a class, not a parametrised one."""
    return isinstance(hint, type) and not isinstance(hint, types.GenericAlias)


def is_path_type(hint: Hint) -> bool:
    """Tell whether *hint* is a path, by the names of its bases: `pathlib` is not imported for it."""
    return isinstance(hint, type) and any(
        get_class_name(base) == "PurePath" and type(base.__module__) is str
        and base.__module__.partition(".")[0] == "pathlib" for base in hint.__mro__
    )  # fmt: skip


def is_union(hint: Hint) -> bool:
    """Tell whether *hint* is `X | Y`, `Union[X, Y]` or `Optional[X]`."""
    return get_origin(hint) in _UNIONS


def is_type_alias(hint: Hint) -> bool:
    """Tell whether *hint* was made by a `type` statement or by `TypeAliasType`."""
    return isinstance(hint, _ALIASES) or isinstance(get_origin(hint), _ALIASES)


def resolve_alias(hint: Hint) -> Hint:
    """
    Return what the type alias *hint* stands for, its parameters filled in.

    Raises:
        InvalidHintError: It stands for itself, or for a union with itself.
    """
    value = _expand_alias(hint)
    if _leads_to_alias(value, (hint,)):
        raise InvalidHintError(
            f"the type {format_hint(hint)} stands for itself; put it inside a list, a dict or a class: "
            f"list[{format_hint(hint)}]"
        )
    return value


def _leads_to_alias(hint: Hint, aliases: tuple[Hint, ...]) -> bool:
    """Tell whether *hint* is an alias among *aliases* or leads to one, with no list, dict or class in between."""
    if get_origin(hint) is Annotated:
        return _leads_to_alias(hint.__origin__, aliases)
    if isinstance(hint, NewType):
        return _leads_to_alias(hint.__supertype__, aliases)
    if is_union(hint):
        return any(_leads_to_alias(member, aliases) for member in hint.__args__)
    if not is_type_alias(hint):
        return False
    return hint in aliases or _leads_to_alias(_expand_alias(hint), (*aliases, hint))


def _expand_alias(hint: Hint) -> Hint:
    alias = hint if isinstance(hint, _ALIASES) else get_origin(hint)
    if isinstance(alias, RecursiveReference):
        return resolve_hint(alias.__value__, alias.names, {**alias.inner, alias.__name__: alias})
    names = vars(sys.modules.get(to_plain_text(alias.__module__), builtins))
    value = resolve_hint(alias.__value__, names, {to_plain_text(alias.__name__): alias})
    arguments = {} if alias is hint else dict(zip(alias.__type_params__, hint.__args__, strict=False))
    return substitute_type_variables(value, arguments)


def unwrap_hint(hint: Hint) -> Hint:
    """Return *hint* without `Annotated`, `NewType` and alias around it."""
    while True:
        if get_origin(hint) is Annotated:
            hint = hint.__origin__
        elif isinstance(hint, NewType):
            hint = hint.__supertype__
        elif is_type_alias(hint):
            hint = resolve_alias(hint)
        else:
            return hint


def format_hint(hint: Hint) -> str:
    """Return *hint* as Python text: `float`, `list[int]`, `int | None`; the same for a hint given as text."""
    if hint is None or hint is type(None):
        return "None"
    if type(hint) is str:
        return hint
    if is_class(hint):
        return str(get_qualified_name(hint)).rpartition("<locals>.")[2]
    return to_plain_text(_format_compound_hint(hint))


def _format_compound_hint(hint: Hint) -> str:
    origin = get_origin(hint)
    if origin is Annotated:
        return format_hint(hint.__origin__)
    if origin in _UNIONS:
        return " | ".join(map(format_hint, hint.__args__))
    if origin is Literal:
        return f"Literal[{', '.join(map(_format_literal, hint.__args__))}]"
    if type(hint) is ForwardRef:
        return to_plain_text(hint.__forward_arg__)
    args = getattr(hint, "__args__", ())
    if origin is None:
        name = getattr(hint, "__name__", None)
        return to_plain_text(name) if has_type(name, str) else to_plain_text(repr(hint)).removeprefix("typing.")
    if not args:
        return "tuple[()]" if isinstance(hint, types.GenericAlias) else format_hint(origin)
    if origin is Callable:
        return f"Callable[{_format_type_argument(list(args[:-1]))}, {format_hint(args[-1])}]"
    return f"{format_hint(origin)}[{', '.join(map(_format_type_argument, args))}]"


def _format_type_argument(part: Hint) -> str:
    if type(part) is list:
        return f"[{', '.join(map(format_hint, part))}]"
    return "..." if part is ... else format_hint(part)


def _format_literal(value: object) -> str:
    if isinstance(value, Enum):
        return f"{get_class_name(type(value))}.{to_plain_text(value.name)}"
    return to_plain_text(repr(value))


_ITERATOR_TYPES: Final = (
    abc.Iterator,
    abc.Generator,
    abc.AsyncIterator,
    abc.AsyncIterable,
    abc.AsyncGenerator,
)
_AWAITABLE_TYPES: Final = (abc.Awaitable, abc.Coroutine)


def unwrap_return_hint(hint: Hint) -> Hint:
    """
    Return the hint of the result of a call, for a return hint.

    A generator's result is the list of its items, an awaitable's what it gives; a function that never returns has None.
    """
    if hint is NoReturn or hint is Never:
        return None
    origin = get_origin(hint) or hint
    args = getattr(hint, "__args__", ()) if origin is not hint else ()
    if origin in _ITERATOR_TYPES:
        return list[args[0]] if args else list  # type: ignore[valid-type]
    if origin in _AWAITABLE_TYPES:
        return unwrap_return_hint(args[-1]) if args else Any
    return hint


class Secret:
    """
    Marks a parameter as secret: `Annotated[str, Secret]`.

    The tool gets the value as it is; the journal gets a marker that is the same for equal values.
    Also inside classes, lists, dicts and unions. The schema says `writeOnly`.
    """

    __slots__ = ()

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: object, handler: Callable[[object], dict[str, object]]
    ) -> object:
        """Say of a field of a pydantic model what the schema says of every other place."""
        return {**handler(core_schema), "writeOnly": True}

    def __repr__(self) -> str:
        return "Secret()"


def has_secret_mark(metadata: Iterable[object]) -> bool:
    """Tell whether the metadata of an `Annotated` holds the mark, as the class or as an instance of it."""
    return any(mark is Secret or type(mark) is Secret for mark in metadata)
