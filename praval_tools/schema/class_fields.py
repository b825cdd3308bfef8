"""Lists the fields of classes that hold data, in one form for attrs, dataclasses, TypedDict and NamedTuple."""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final, Generic

import attrs
import msgspec

from praval_tools.names import get_class_name, to_plain_text
from praval_tools.schema.type_hints import (
    NOTHING,
    Hint,
    HintError,
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
    One field of a class, as JSON and Python see it; its names are plain texts, whatever the class has.

    Args:
        key: Its name in JSON, and as an argument of the class.
        attribute: Its name on an instance.
        hint: Its resolved hint.
        default: Its default; `NOTHING` where there is none that can be shown.
        required: It must be given.
        readable: An instance has it (an `InitVar` is gone after `__init__`).
        is_argument: The constructor takes it.
    """

    key: str
    attribute: str
    hint: Hint
    default: Any
    required: bool
    readable: bool = True
    is_argument: bool = True

    def __post_init__(self) -> None:
        """Drop classes of the names, which could run code of their own wherever the schema is read."""
        for name in ("key", "attribute"):
            msgspec.structs.force_setattr(self, name, to_plain_text(getattr(self, name)))


def get_class_origin(hint: Hint) -> Hint:
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
    return isinstance(kind, type) and (attrs.has(kind) or hasattr(kind, "__dataclass_fields__"))


def has_class_fields(hint: Hint) -> bool:
    """Tell whether *hint* is an attrs class, a dataclass, a TypedDict or a NamedTuple."""
    return is_attrs_or_dataclass(hint) or is_typed_dict(hint) or is_named_tuple(hint)


def is_pydantic_model(hint: Hint) -> bool:
    """Tell whether *hint* is a pydantic model; pydantic is never imported for the question."""
    pydantic = sys.modules.get("pydantic")
    base = getattr(pydantic, "BaseModel", None)
    return base is not None and isinstance(hint, type) and issubclass(hint, base)


def is_same_model(kind: type, other: type) -> bool:
    """
    Tell whether two classes are one model, as far as hints say.

    pydantic makes a class each time it reads `Model[Annotated[int, Field(ge=0)]]`, as it cannot hash a `Field`.
    """
    if kind is other:
        return True
    if not (is_pydantic_model(kind) and is_pydantic_model(other)):
        return False
    (origin, args), (other_origin, other_args) = map(_get_model_arguments, (kind, other))
    return origin is not None and origin is other_origin and _are_same_hints(args, other_args)


def _get_model_arguments(model: Hint) -> tuple[Hint, tuple[Hint, ...]]:
    metadata = model.__pydantic_generic_metadata__
    return metadata["origin"], metadata["args"]


def _are_same_hints(hints: tuple[Hint, ...], others: tuple[Hint, ...]) -> bool:
    return len(hints) == len(others) > 0 and all(map(_is_same_hint, hints, others))


def _is_same_hint(hint: Hint, other: Hint) -> bool:
    """Tell whether two hints are equal, but for the models that are made anew, and for fields without equality."""
    if hint == other:
        return True
    if isinstance(hint, type) and isinstance(other, type):
        return is_same_model(hint, other)
    origin = get_origin(hint)
    if origin is None or origin is not get_origin(other):
        return False
    if origin is typing.Annotated:
        has_same_marks = repr(hint.__metadata__) == repr(other.__metadata__)
        return has_same_marks and _is_same_hint(hint.__origin__, other.__origin__)
    return _are_same_hints(typing.get_args(hint), typing.get_args(other))


def is_pydantic_secret(kind: type) -> bool:
    """Tell whether *kind* is a class of pydantic that hides one value; pydantic is never imported for the question."""
    pydantic = sys.modules.get("pydantic")
    bases = (getattr(pydantic, name, None) for name in ("SecretStr", "SecretBytes", "Secret"))
    return any(base is not None and issubclass(kind, base) for base in bases)


def get_fields(hint: Hint) -> tuple[ClassField, ...]:
    """
    Return the fields of the class *hint* that its constructor takes.

    Raises:
        HintError: A hint in it cannot be resolved.
    """
    return tuple(item for item in get_all_fields(hint) if item.is_argument)


def get_all_fields(hint: Hint, *, keeps_unresolved: bool = False) -> tuple[ClassField, ...]:
    """
    Return the fields of the class *hint*, also those that its constructor does not take.

    Args:
        hint: The class, or a parametrised form of it.
        keeps_unresolved: Hints that cannot be resolved stay as they are written.

    Raises:
        HintError: A hint in it cannot be resolved.
    """
    kind = get_class_origin(hint)
    hints = resolve_class_hints(kind, keeps_unresolved=keeps_unresolved)
    values = {typing.Self: kind, **_bind_type_parameters(hint, kind)}
    read_fields: Callable[[type, Mapping[str, Any]], Iterator[ClassField]]
    if is_typed_dict(kind):
        read_fields = _iter_typed_dict_fields
    elif is_named_tuple(kind):
        read_fields = _iter_named_tuple_fields
    else:
        read_fields = _iter_attrs_fields if attrs.has(kind) else _iter_dataclass_fields
    return tuple(
        msgspec.structs.replace(item, hint=substitute_type_variables(item.hint, values))
        for item in read_fields(kind, hints)
    )


def _bind_type_parameters(hint: Hint, kind: type) -> dict[Hint, Hint]:
    bound: dict[Any, Any] = {}
    if hint is not kind:
        bound.update(zip(getattr(kind, "__parameters__", ()), hint.__args__, strict=False))
    for base in getattr(kind, "__orig_bases__", ()):
        of = get_origin(base)
        if of is not None and of is not Generic and hasattr(of, "__parameters__"):
            for name, value in zip(of.__parameters__, base.__args__, strict=False):
                bound.setdefault(name, substitute_type_variables(value, bound))
    return bound


def resolve_class_hints(
    kind: type, wanted: Container[str] | None = None, *, keeps_unresolved: bool = False
) -> dict[str, Any]:
    """
    Return the resolved hints of *kind* and its bases by name, `Annotated` and `Required` kept.

    A class may name itself, even one that is local to a function.

    Args:
        kind: The class.
        wanted: The names whose hints are resolved; None: all.
        keeps_unresolved: Those that cannot be resolved stay as they are written.

    Raises:
        HintError: One cannot be resolved.
    """
    hints: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if not (annotations := base.__dict__.get("__annotations__")) and not (
            annotations := _read_lazy_annotations(base)
        ):
            continue
        names, local_names = _list_names(base, kind)
        for name, hint in annotations.items():
            if wanted is None or name in wanted:
                try:
                    hints[name] = resolve_hint(hint, names, local_names)
                except HintError:
                    if not keeps_unresolved:
                        raise
                    hints[name] = hint
    return hints


def _list_names(base: type, kind: type) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """Return what texts of hints in *base*, a base of *kind* or this itself, may name: its globals, its locals."""
    module = sys.modules.get(to_plain_text(base.__module__))
    local_names: dict[str, object] = {get_class_name(item): item for item in (base, kind)}
    local_names.update({to_plain_text(item.__name__): item for item in getattr(base, "__type_params__", ())})
    return vars(module) if module is not None else {}, local_names


def list_extra_hints(hint: Hint) -> list[Hint]:
    """
    Return the hints of keys that a TypedDict does not name: its `extra_items`, else those of its bases.

    One that cannot be resolved stays as it is written. Other classes have none.
    """
    kind = get_class_origin(hint)
    if not is_typed_dict(kind):
        return []
    undeclared = getattr(sys.modules.get(type(kind).__module__), "NoExtraItems", None)
    extra = getattr(kind, "__extra_items__", undeclared)
    if extra is undeclared:  # a TypedDict derives from nothing but dict, whatever it was declared with
        hints = [inner for base in getattr(kind, "__orig_bases__", ()) for inner in list_extra_hints(base)]
    else:
        with suppress(HintError):
            extra = resolve_hint(extra, *_list_names(kind, kind))
        hints = [_strip_qualifiers(extra)[0]]
    values = _bind_type_parameters(hint, kind)
    return [substitute_type_variables(inner, values) for inner in hints]


def _read_lazy_annotations(base: type) -> Mapping[str, Any]:
    if sys.version_info < (3, 14):
        return {}
    try:
        return getattr(base, "__annotations__", {}) if "__annotate_func__" in base.__dict__ else {}
    except NameError as error:
        raise UnresolvedHintError(str(error)) from None


def _strip_qualifiers(hint: Hint) -> tuple[Hint, set[str]]:
    """Return *hint* without `Required`, `NotRequired`, `ReadOnly` and `Final`, and the names of those."""
    qualifiers: set[str] = set()
    metadata: tuple[Any, ...] = ()
    while True:
        origin = get_origin(hint)
        if origin in _QUALIFIERS:
            qualifiers.add(getattr(origin, "_name", "") or origin.__name__)
            hint = hint.__args__[0]
        elif origin is typing.Annotated and get_origin(hint.__origin__) in _QUALIFIERS:
            metadata += hint.__metadata__
            hint = hint.__origin__
        else:
            return (typing.Annotated[(hint, *metadata)] if metadata else hint), qualifiers


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
    for attribute in attrs.fields(kind):
        hint = hints.get(attribute.name, Any if attribute.type is None else attribute.type)
        default = attribute.default
        if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
            default = call_container_factory(default.factory) if not default.takes_self else NOTHING
        yield ClassField(
            attribute.alias if attribute.init else attribute.name, attribute.name, _strip_qualifiers(hint)[0], default,
            attribute.default is NOTHING, is_argument=attribute.init,
        )  # fmt: skip


def _iter_dataclass_fields(kind: type, hints: Mapping[str, Any]) -> Iterator[ClassField]:
    import dataclasses  # loaded by who has dataclasses

    fields: Mapping[str, dataclasses.Field[Any]] = kind.__dataclass_fields__  # type: ignore[attr-defined]
    for name, item in fields.items():
        hint = hints.get(name, item.type)
        is_init_only = isinstance(hint, dataclasses.InitVar) or hint is dataclasses.InitVar
        if hint is ClassVar or get_origin(hint) is ClassVar:
            continue
        default: Any = NOTHING if item.default is dataclasses.MISSING else item.default
        required = default is NOTHING and item.default_factory is dataclasses.MISSING
        if item.default_factory is not dataclasses.MISSING:
            default = call_container_factory(item.default_factory)
        inner = _strip_qualifiers(getattr(hint, "type", Any) if is_init_only else hint)[0]
        if (info := getattr(kind, "__pydantic_fields__", {}).get(name)) is not None:  # what pydantic's `Field` says
            inner = typing.Annotated[(inner, info)]
            required, default = info.is_required(), NOTHING if info.is_required() else default
            if type(default) is type(info):
                default = info.get_default(call_default_factory=False)
        yield ClassField(name, name, inner, default, required, readable=not is_init_only, is_argument=item.init)


def call_container_factory(factory: Any) -> Any:
    """Return what *factory* makes if it is an empty container; any other may differ from call to call."""
    return factory() if factory in (list, dict, set, tuple, frozenset) else NOTHING
