"""What the classes that hold data look like from outside: one list of fields for all kinds of them."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final, Generic

import attrs
import msgspec
from attrs import NOTHING

from praval_tools.schema.type_hints import (
    Hint,
    UnresolvedHintError,
    get_origin,
    resolve_hint,
    substitute_type_variables,
)

_QUALIFIERS: Final = tuple(
    mark
    for module in (typing, sys.modules.get("typing_extensions"))
    for name in ("Required", "NotRequired", "ReadOnly", "Final")
    if (mark := getattr(module, name, None)) is not None
)


class ClassField(msgspec.Struct, frozen=True):
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
    hint: Hint
    default: Any
    required: bool
    readable: bool = True


def get_class_origin(hint: Hint) -> Any:
    """Return the class that *hint* is, or is a parametrised form of."""
    return get_origin(hint) or hint


def is_typed_dict(hint: Hint) -> bool:
    """Tell whether *hint* is a TypedDict, of `typing` or of `typing_extensions`."""
    kind = get_class_origin(hint)
    return isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__required_keys__")


def is_named_tuple(hint: Hint) -> bool:
    """Tell whether *hint* is a NamedTuple with hints."""
    kind = get_class_origin(hint)
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def is_attrs_or_dataclass(hint: Hint) -> bool:
    """Tell whether *hint* is an attrs class or a dataclass."""
    kind = get_class_origin(hint)
    return isinstance(kind, type) and (attrs.has(kind) or dataclasses.is_dataclass(kind))


def get_fields(hint: Hint) -> tuple[ClassField, ...]:
    """
    Return the fields of the class *hint* that its constructor takes.

    Raises:
        Unresolved: A hint in it names something that does not exist (yet).
    """
    kind = get_class_origin(hint)
    hints = resolve_class_hints(kind)
    values = {typing.Self: kind, **_bind_type_parameters(hint, kind)}
    read: Callable[[type, Mapping[str, Any]], Iterator[ClassField]]
    if is_typed_dict(kind):
        read = _iter_typed_dict_fields
    elif is_named_tuple(kind):
        read = _iter_named_tuple_fields
    else:
        read = _iter_attrs_fields if attrs.has(kind) else _iter_dataclass_fields
    return tuple(
        msgspec.structs.replace(one, hint=substitute_type_variables(one.hint, values)) for one in read(kind, hints)
    )


def _bind_type_parameters(hint: Hint, kind: type) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    if hint is not kind:
        found.update(zip(getattr(kind, "__parameters__", ()), hint.__args__, strict=False))
    for base in getattr(kind, "__orig_bases__", ()):
        of = get_origin(base)
        if of is not None and of is not Generic and hasattr(of, "__parameters__"):
            for name, value in zip(of.__parameters__, base.__args__, strict=False):
                found.setdefault(name, substitute_type_variables(value, found))
    return found


def resolve_class_hints(kind: type) -> dict[str, Any]:
    """
    Return the resolved hints of *kind* and its bases by name, `Annotated` and `Required` kept.

    A class may name itself, even one that is local to a function.
    """
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if not (given := base.__dict__.get("__annotations__")) and not (given := _read_lazy_annotations(base)):
            continue
        module = sys.modules.get(base.__module__)
        names = vars(module) if module is not None else {}
        near = {one.__name__: one for one in (base, kind)}
        near.update({one.__name__: one for one in getattr(base, "__type_params__", ())})
        for name, hint in given.items():
            found[name] = resolve_hint(hint, names, near)
    return found


def _read_lazy_annotations(base: type) -> Mapping[str, Any]:
    if sys.version_info < (3, 14):
        return {}
    try:
        return getattr(base, "__annotations__", {}) if "__annotate_func__" in base.__dict__ else {}
    except NameError as error:
        raise UnresolvedHintError(str(error)) from None


def _strip_qualifiers(hint: Hint) -> tuple[Any, set[str]]:
    """Return *hint* without `Required`, `NotRequired`, `ReadOnly` and `Final`, and the names of those."""
    found: set[str] = set()
    metadata: tuple[Any, ...] = ()
    while True:
        origin = get_origin(hint)
        if origin in _QUALIFIERS:
            found.add(getattr(origin, "_name", "") or origin.__name__)
            hint = hint.__args__[0]
        elif origin is typing.Annotated and get_origin(hint.__origin__) in _QUALIFIERS:
            metadata += hint.__metadata__
            hint = hint.__origin__
        else:
            return (typing.Annotated[(hint, *metadata)] if metadata else hint), found


def _iter_typed_dict_fields(kind: type, hints: Mapping[str, Any]) -> Iterator[ClassField]:
    required: frozenset[str] = kind.__required_keys__  # type: ignore[attr-defined]
    for name, hint in hints.items():
        inner, marks = _strip_qualifiers(hint)
        # under `from __future__ import annotations` __required_keys__ has not seen the marks
        needed = "Required" in marks or ("NotRequired" not in marks and name in required)
        yield ClassField(name, name, inner, NOTHING, needed)


def _iter_named_tuple_fields(kind: type, hints: Mapping[str, Any]) -> Iterator[ClassField]:
    defaults: Mapping[str, Any] = kind._field_defaults  # type: ignore[attr-defined]
    for name in kind._fields:  # type: ignore[attr-defined]
        default = defaults.get(name, NOTHING)
        yield ClassField(name, name, hints.get(name, Any), default, default is NOTHING)


def _iter_attrs_fields(kind: type, hints: Mapping[str, Any]) -> Iterator[ClassField]:
    for one in attrs.fields(kind):
        if one.init:
            hint = hints.get(one.name, Any if one.type is None else one.type)
            default = one.default
            if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
                default = _call_container_factory(default.factory) if not default.takes_self else NOTHING
            yield ClassField(one.alias, one.name, _strip_qualifiers(hint)[0], default, one.default is NOTHING)


def _iter_dataclass_fields(kind: type, hints: Mapping[str, Any]) -> Iterator[ClassField]:
    every: Mapping[str, dataclasses.Field[Any]] = kind.__dataclass_fields__  # type: ignore[attr-defined]
    for name, one in every.items():
        hint = hints.get(name, one.type)
        passing = isinstance(hint, dataclasses.InitVar) or hint is dataclasses.InitVar
        if not one.init or hint is ClassVar or get_origin(hint) is ClassVar:
            continue
        default: Any = NOTHING if one.default is dataclasses.MISSING else one.default
        required = default is NOTHING and one.default_factory is dataclasses.MISSING
        if one.default_factory is not dataclasses.MISSING:
            default = _call_container_factory(one.default_factory)
        inner = getattr(hint, "type", Any) if passing else hint
        yield ClassField(name, name, _strip_qualifiers(inner)[0], default, required, readable=not passing)


def _call_container_factory(factory: Any) -> Any:
    """Return what *factory* makes if it is an empty container; any other may differ from call to call."""
    return factory() if factory in (list, dict, set, tuple, frozenset) else NOTHING
