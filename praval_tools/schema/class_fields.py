"""What the classes that hold data look like from outside: one list of fields for all kinds of them."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final, Generic, get_origin

import attrs
import msgspec
from attrs import NOTHING

from praval_tools.schema.type_hints import Unresolved, resolve, substitute

_MARKS: Final = tuple(
    mark
    for module in (typing, sys.modules.get("typing_extensions"))
    for name in ("Required", "NotRequired", "ReadOnly", "Final")
    if (mark := getattr(module, name, None)) is not None
)


class Field(msgspec.Struct, frozen=True):
    """
    One field of a class, as JSON and Python see it.

    Args:
        key: Its name in JSON, and as an argument of the class.
        attribute: Its name on an instance.
        hint: Its resolved hint.
        default: Its default; `NOTHING` where there is none that can be shown.
        required: It must be given.
        readable: An instance has it (an `InitVar` is gone after `__init__`).
    """

    key: str
    attribute: str
    hint: Any
    default: Any
    required: bool
    readable: bool = True


def origin_of(hint: Any) -> Any:
    """Return the class that *hint* is, or is a parametrised form of."""
    return get_origin(hint) or hint


def is_typed_dict(hint: Any) -> bool:
    """Tell whether *hint* is a TypedDict, of `typing` or of `typing_extensions`."""
    kind = origin_of(hint)
    return isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__required_keys__")


def is_named_tuple(hint: Any) -> bool:
    """Tell whether *hint* is a NamedTuple with hints."""
    kind = origin_of(hint)
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def is_record(hint: Any) -> bool:
    """Tell whether *hint* is an attrs class or a dataclass."""
    kind = origin_of(hint)
    return isinstance(kind, type) and (attrs.has(kind) or dataclasses.is_dataclass(kind))


def fields_of(hint: Any) -> tuple[Field, ...]:
    """
    Return the fields of the class *hint* that its constructor takes.

    Raises:
        Unresolved: A hint in it names something that does not exist (yet).
    """
    kind = origin_of(hint)
    hints = class_hints(kind)
    values = {typing.Self: kind, **_parameters(hint, kind)}
    read: Callable[[type, Mapping[str, Any]], Iterator[Field]]
    if is_typed_dict(kind):
        read = _typed_dict_fields
    elif is_named_tuple(kind):
        read = _named_tuple_fields
    else:
        read = _attrs_fields if attrs.has(kind) else _dataclass_fields
    return tuple(msgspec.structs.replace(one, hint=substitute(one.hint, values)) for one in read(kind, hints))


def _parameters(hint: Any, kind: type) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    if hint is not kind:
        found.update(zip(getattr(kind, "__parameters__", ()), hint.__args__, strict=False))
    for base in getattr(kind, "__orig_bases__", ()):
        of = get_origin(base)
        if of is not None and of is not Generic and hasattr(of, "__parameters__"):
            for name, value in zip(of.__parameters__, base.__args__, strict=False):
                found.setdefault(name, substitute(value, found))
    return found


def class_hints(kind: type) -> dict[str, Any]:
    """
    Return the resolved hints of *kind* and its bases by name, `Annotated` and `Required` kept.

    A class may name itself, even one that is local to a function.
    """
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if not (given := base.__dict__.get("__annotations__")) and not (given := _lazy_annotations(base)):
            continue
        module = sys.modules.get(base.__module__)
        names = vars(module) if module is not None else {}
        near = {one.__name__: one for one in (base, kind)}
        near.update({one.__name__: one for one in getattr(base, "__type_params__", ())})
        for name, hint in given.items():
            found[name] = resolve(hint, names, near)
    return found


def _lazy_annotations(base: type) -> Mapping[str, Any]:
    if sys.version_info < (3, 14):
        return {}
    try:
        return getattr(base, "__annotations__", {}) if "__annotate_func__" in base.__dict__ else {}
    except NameError as error:
        raise Unresolved(str(error)) from None


def _without_marks(hint: Any) -> tuple[Any, set[str]]:
    """Return *hint* without `Required`, `NotRequired`, `ReadOnly` and `Final`, and the names of those."""
    found: set[str] = set()
    metadata: tuple[Any, ...] = ()
    while True:
        origin = get_origin(hint)
        if origin in _MARKS:
            found.add(getattr(origin, "_name", "") or origin.__name__)
            hint = hint.__args__[0]
        elif origin is typing.Annotated and get_origin(hint.__origin__) in _MARKS:
            metadata += hint.__metadata__
            hint = hint.__origin__
        else:
            return (typing.Annotated[(hint, *metadata)] if metadata else hint), found


def _typed_dict_fields(kind: type, hints: Mapping[str, Any]) -> Iterator[Field]:
    required: frozenset[str] = kind.__required_keys__  # type: ignore[attr-defined]
    for name, hint in hints.items():
        inner, marks = _without_marks(hint)
        # under `from __future__ import annotations` __required_keys__ has not seen the marks
        needed = "Required" in marks or ("NotRequired" not in marks and name in required)
        yield Field(name, name, inner, NOTHING, needed)


def _named_tuple_fields(kind: type, hints: Mapping[str, Any]) -> Iterator[Field]:
    defaults: Mapping[str, Any] = kind._field_defaults  # type: ignore[attr-defined]
    for name in kind._fields:  # type: ignore[attr-defined]
        default = defaults.get(name, NOTHING)
        yield Field(name, name, hints.get(name, Any), default, default is NOTHING)


def _attrs_fields(kind: type, hints: Mapping[str, Any]) -> Iterator[Field]:
    for one in attrs.fields(kind):
        if one.init:
            hint = hints.get(one.name, Any if one.type is None else one.type)
            default = one.default
            if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
                default = _made(default.factory) if not default.takes_self else NOTHING
            yield Field(one.alias, one.name, _without_marks(hint)[0], default, one.default is NOTHING)


def _dataclass_fields(kind: type, hints: Mapping[str, Any]) -> Iterator[Field]:
    every: Mapping[str, dataclasses.Field[Any]] = kind.__dataclass_fields__  # type: ignore[attr-defined]
    for name, one in every.items():
        hint = hints.get(name, one.type)
        passing = isinstance(hint, dataclasses.InitVar) or hint is dataclasses.InitVar
        if not one.init or hint is ClassVar or get_origin(hint) is ClassVar:
            continue
        default: Any = NOTHING if one.default is dataclasses.MISSING else one.default
        required = default is NOTHING and one.default_factory is dataclasses.MISSING
        if one.default_factory is not dataclasses.MISSING:
            default = _made(one.default_factory)
        inner = getattr(hint, "type", Any) if passing else hint
        yield Field(name, name, _without_marks(inner)[0], default, required, readable=not passing)


def _made(factory: Any) -> Any:
    """Return what *factory* makes if it is an empty container; any other may differ from call to call."""
    return factory() if factory in (list, dict, set, tuple, frozenset) else NOTHING
