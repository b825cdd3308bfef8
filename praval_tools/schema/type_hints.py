"""Type hints as values: resolved from text, taken apart, and written as Python text."""

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
    TypeVar,
    Union,
    get_origin,
)

_UNIONS: Final = (Union, types.UnionType)
_ALIASES: Final = tuple(
    kind
    for module in ("typing", "typing_extensions")
    if (kind := getattr(__import__(module), "TypeAliasType", None)) is not None
)


class UnresolvedHintError(Exception):
    """A forward reference names something that does not exist (yet)."""


class InvalidHintError(Exception):
    """A hint in text form is no Python expression, or fails when evaluated."""


@lru_cache(maxsize=2048)
def _compile_hint(text: str) -> types.CodeType:
    return compile(text.strip(), "<hint>", "eval", dont_inherit=True)


def evaluate_hint(text: str, names: Mapping[str, Any], inner: Mapping[str, Any] | None = None) -> Any:
    """
    Return what the hint *text* means where *names* are the globals and *inner* the names nearer to it.

    Raises:
        Unresolved: A name in it is not defined there.
        BadHint: It is no expression, or evaluating it fails.
    """
    if inner is None and text.isidentifier():
        if text in names:
            return names[text]
        found = getattr(builtins, text, names)
        if found is not names:
            return found
    try:
        return eval(_compile_hint(text), dict(names) if type(names) is not dict else names, inner)  # noqa: S307
    except (NameError, AttributeError) as error:
        raise UnresolvedHintError(str(error)) from None
    except Exception as error:
        raise InvalidHintError(f"the hint {text!r} cannot be evaluated ({type(error).__name__}: {error})") from None


def resolve_hint(hint: Any, names: Mapping[str, Any], inner: Mapping[str, Any] | None = None) -> Any:
    """Return *hint* with every text and forward reference in it replaced by what it means."""
    if type(hint) is str:
        return resolve_hint(evaluate_hint(hint, names, inner), names, inner)
    if is_class(hint):
        return hint
    if type(hint) is ForwardRef:
        return resolve_hint(evaluate_hint(hint.__forward_arg__, names, inner), names, inner)
    return _map_type_arguments(hint, lambda part: resolve_hint(part, names, inner))


def substitute_type_variables(hint: Any, values: Mapping[Any, Any]) -> Any:
    """Return *hint* with type variables replaced by what *values* gives for them."""
    if isinstance(hint, TypeVar) or hint is typing.Self:
        return values.get(hint, hint)
    if not values or is_class(hint):
        return hint
    return _map_type_arguments(hint, lambda part: substitute_type_variables(part, values))


def _map_type_arguments(hint: Any, change: Callable[[Any], Any]) -> Any:
    """Return *hint* with *change* applied to its arguments; the same object where nothing changes."""
    args = getattr(hint, "__args__", None)
    origin: Any = get_origin(hint)
    if not args or origin is Literal:
        return hint
    if origin is Annotated:
        inner = change(hint.__origin__)
        return hint if inner is hint.__origin__ else Annotated[(inner, *hint.__metadata__)]
    changed = tuple(change(one) if not isinstance(one, list) else one for one in args)
    if all(map(operator.is_, changed, args)):
        return hint
    if origin in _UNIONS:
        return Union[changed]  # noqa: UP007
    return types.GenericAlias(origin, changed) if isinstance(hint, types.GenericAlias) else hint.copy_with(changed)


def is_class(hint: Any) -> bool:
    """Tell whether *hint* is a class, not a parametrised one."""
    return isinstance(hint, type) and not isinstance(hint, types.GenericAlias)


def is_path_type(hint: Any) -> bool:
    """Tell whether *hint* is a path, by the names of its bases: `pathlib` is not imported for it."""
    return isinstance(hint, type) and any(
        one.__name__ == "PurePath" and one.__module__.partition(".")[0] == "pathlib" for one in hint.__mro__
    )


def is_union(hint: Any) -> bool:
    """Tell whether *hint* is `X | Y`, `Union[X, Y]` or `Optional[X]`."""
    return get_origin(hint) in _UNIONS


def is_type_alias(hint: Any) -> bool:
    """Tell whether *hint* was made by a `type` statement or by `TypeAliasType`."""
    return isinstance(hint, _ALIASES) or isinstance(get_origin(hint), _ALIASES)


def resolve_alias(hint: Any) -> Any:
    """Return what the type alias *hint* stands for, its parameters filled in."""
    alias = hint if isinstance(hint, _ALIASES) else get_origin(hint)
    names = vars(sys.modules.get(alias.__module__, builtins))
    value = resolve_hint(alias.__value__, names, {alias.__name__: alias})
    return (
        value
        if alias is hint
        else substitute_type_variables(value, dict(zip(alias.__type_params__, hint.__args__, strict=False)))
    )


def unwrap_hint(hint: Any) -> Any:
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


def make_hint_key(hint: Any) -> Any:
    """
    Return a hashable key for *hint* that tells apart what must not share a hook.

    `int | str == str | int` for Python, and `1 == True`: neither is the same hint here.
    """
    origin = get_origin(hint)
    if origin is Annotated:
        return (Annotated, make_hint_key(hint.__origin__), repr(hint.__metadata__))
    if origin is Literal:
        return (Literal, *((type(one), one) for one in hint.__args__))
    if origin is None:
        return hint
    return (origin, *map(make_hint_key, getattr(hint, "__args__", ())))


def format_hint(hint: Any) -> str:
    """Return *hint* as Python text: `float`, `list[int]`, `int | None`; the same for a hint given as text."""
    if hint is None or hint is type(None):
        return "None"
    if type(hint) is str:
        return hint
    if is_class(hint):
        return str(hint.__qualname__).rpartition("<locals>.")[2]
    return _format_compound_hint(hint)


def _format_compound_hint(hint: Any) -> str:
    origin = get_origin(hint)
    if origin is Annotated:
        return format_hint(hint.__origin__)
    if origin in _UNIONS:
        return " | ".join(map(format_hint, hint.__args__))
    if origin is Literal:
        return f"Literal[{', '.join(map(_format_literal, hint.__args__))}]"
    if type(hint) is ForwardRef:
        return hint.__forward_arg__
    args = getattr(hint, "__args__", ())
    if origin is None:
        return str(getattr(hint, "__name__", None) or repr(hint).removeprefix("typing."))
    if not args:
        return "tuple[()]" if isinstance(hint, types.GenericAlias) else format_hint(origin)
    if origin is Callable:
        return f"Callable[{_format_type_argument(list(args[:-1]))}, {format_hint(args[-1])}]"
    return f"{format_hint(origin)}[{', '.join(map(_format_type_argument, args))}]"


def _format_type_argument(part: Any) -> str:
    if type(part) is list:
        return f"[{', '.join(map(format_hint, part))}]"
    return "..." if part is ... else format_hint(part)


def _format_literal(value: Any) -> str:
    return f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)


_ITERATOR_TYPES: Final = (
    abc.Iterator,
    abc.Generator,
    abc.AsyncIterator,
    abc.AsyncIterable,
    abc.AsyncGenerator,
)
_AWAITABLE_TYPES: Final = (abc.Awaitable, abc.Coroutine)


def unwrap_return_hint(hint: Any) -> Any:
    """
    Return the hint of what a call gives in the end.

    The items of a generator form a list; what is awaited is given itself; what never returns gives nothing.
    """
    if hint is NoReturn or hint is Never:
        return None
    origin = get_origin(hint) or hint
    if origin in _ITERATOR_TYPES:
        args = getattr(hint, "__args__", ()) if origin is not hint else ()
        return list[args[0]] if args else list  # type: ignore[valid-type]
    if origin in _AWAITABLE_TYPES:
        args = getattr(hint, "__args__", ()) if origin is not hint else ()
        return unwrap_return_hint(args[-1]) if args else Any
    return hint


class Secret:
    """
    Marks a parameter as secret: `Annotated[str, Secret]`.

    The tool gets the value as it is; the journal gets a marker that tells equal values from different ones.
    Also inside classes, lists, dicts and unions. The schema says `writeOnly`.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "Secret()"


def has_secret_mark(metadata: Iterable[Any]) -> bool:
    """Tell whether the metadata of an `Annotated` holds the mark, as the class or as an instance of it."""
    return any(one is Secret or type(one) is Secret for one in metadata)
