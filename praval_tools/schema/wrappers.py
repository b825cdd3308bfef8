"""Type handlers (schema, decoding, encoding) for hints around hints: Annotated, NewType, type aliases, unions."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Final, NewType, TypeVar, Union, cast

from praval_tools.schema.constraints import Constraints, make_checker, make_decimal_checker, read_constraints
from praval_tools.schema.decode_hooks import remember_union_results
from praval_tools.schema.scalars import make_unencodable_error
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.text_formats import DECIMAL_TEXT_SCHEMA
from praval_tools.schema.type_handler import (
    DecodeHook,
    DecodeHookFactory,
    EncodeHook,
    EncodeHookFactory,
    Mismatch,
    SchemaBuilder,
    TypeHandler,
    Unencodable,
)
from praval_tools.schema.type_hints import (
    Hint,
    format_hint,
    get_origin,
    has_secret_mark,
    is_type_alias,
    is_union,
    resolve_alias,
    unwrap_hint,
)
from praval_tools.schema.union_members import WrittenByMember, take_union_member

# ── Annotated ────────────────────────────────────────────────────────────────────────────────────


def make_annotated_handler(get_json_types: Callable[[Hint], frozenset[str]]) -> TypeHandler:
    """Return the row for `Annotated`; *get_json_types* tells which JSON types can be constrained in a hint."""

    def read_keywords(hint: Hint) -> JsonSchema:
        return read_constraints(hint.__metadata__).to_keywords(get_json_types(hint.__origin__))

    def find_problem(hint: Hint) -> str | None:
        return _find_annotated_problem(read_constraints(hint.__metadata__), hint.__origin__, get_json_types)

    def build_schema(hint: Hint, builder: SchemaBuilder) -> JsonSchema:
        constraints, keywords = read_constraints(hint.__metadata__), read_keywords(hint)
        inner = builder.build(hint.__origin__)
        if _is_bounded_decimal(hint, keywords):
            inner, keywords = {"anyOf": [dict(DECIMAL_TEXT_SCHEMA), {"type": "number", **keywords}]}, {}
        if keywords.keys() & inner.keys():
            inner = {"allOf": [inner]}
        description = {"description": constraints.description} if constraints.description else {}
        write_only = {"writeOnly": True} if has_secret_mark(hint.__metadata__) else {}
        return {**inner, **keywords, **description, **write_only}

    def make_decode_hook(hint: Hint, decoders: DecodeHookFactory) -> DecodeHook:
        keywords, inner = read_keywords(hint), decoders.get_hook(hint.__origin__)
        if not keywords:
            return inner
        if _is_bounded_decimal(hint, keywords):
            return _make_decimal_hook(inner, make_decimal_checker(keywords))
        return _make_checked_hook(inner, make_checker(keywords))

    return TypeHandler(
        name="an annotated type",
        types=(Annotated,),
        get_inner_hints=lambda hint: (hint.__origin__,),
        find_problem=find_problem,
        build_schema=build_schema,
        make_decode_hook=make_decode_hook,
        make_encode_hook=_make_annotated_encode_hook,
    )


def _make_annotated_encode_hook(hint: Hint, encoders: EncodeHookFactory) -> EncodeHook:
    encode = encoders.get_hook(hint.__origin__)
    if not has_secret_mark(hint.__metadata__):
        return encode

    def encode_secret(value: object) -> object:
        try:
            return encode(value)
        except Unencodable as error:
            error.steps.clear()  # keys inside of it are secret, too
            raise

    return encode_secret


def _find_annotated_problem(
    constraints: Constraints, inner: Hint, get_json_types: Callable[[Hint], frozenset[str]]
) -> str | None:
    if constraints.problems:
        return "; ".join(constraints.problems)
    if misplaced := constraints.find_misplaced(get_json_types(inner)):
        return (
            f"{' and '.join(misplaced)} cannot be said of {format_hint(inner)} in JSON Schema; check it in the function"
        )
    if (
        constraints.values
        and is_union(unwrap_hint(inner))
        and any(unwrap_hint(member) is Decimal for member in unwrap_hint(inner).__args__)
    ):
        return "constrain the Decimal itself, not the union around it: Annotated[Decimal, …] | None"
    return None


def _is_bounded_decimal(hint: Hint, keywords: JsonSchema) -> bool:
    """Tell whether bounds are of a Decimal: JSON Schema can say them of a number only, and the text is checked, too."""
    return bool(keywords) and unwrap_hint(hint) is Decimal


def _make_decimal_hook(inner: DecodeHook, check: Callable[[Decimal], None]) -> DecodeHook:
    def decode(value: object, hint: Hint) -> Decimal:
        decoded: Decimal = inner(value, hint)
        check(decoded)
        return decoded

    return decode


def _make_checked_hook(inner: DecodeHook, check: Callable[[Any], None]) -> DecodeHook:
    def decode(value: object, hint: Hint) -> Any:
        decoded = inner(value, hint)
        check(value)
        return decoded

    return decode


# ── NewType, aliases, type variables ─────────────────────────────────────────────────────────────


def _get_inner_hint(hint: Hint) -> Any:
    if isinstance(hint, NewType):
        return hint.__supertype__
    if is_type_alias(hint):
        return resolve_alias(hint)
    if isinstance(hint, TypeVar) and hint.__constraints__:
        members = tuple(sorted(hint.__constraints__, key=lambda kind: kind is bytes))  # text is text first
        return Union[members]  # noqa: UP007
    return hint.__bound__ or Any if isinstance(hint, TypeVar) else hint.__args__[0]


def _build_alias_schema(hint: Hint, builder: SchemaBuilder) -> JsonSchema:
    name = getattr(hint, "__name__", None) or format_hint(hint)
    return builder.build_reference(hint, name, lambda: builder.build(resolve_alias(hint)))


TRANSPARENT_HANDLER: Final = TypeHandler(
    name="a name for a type",
    types=(),
    matches=lambda hint: isinstance(hint, NewType | TypeVar),
    get_inner_hints=lambda hint: (_get_inner_hint(hint),),
    build_schema=lambda hint, builder: builder.build(_get_inner_hint(hint)),
    make_decode_hook=lambda hint, decoders: decoders.get_hook(_get_inner_hint(hint)),
    make_encode_hook=lambda hint, encoders: encoders.get_hook(_get_inner_hint(hint)),
)

ALIAS_HANDLER: Final = TypeHandler(
    name="a type alias",
    matches=is_type_alias,
    get_inner_hints=lambda hint: (resolve_alias(hint),),
    build_schema=_build_alias_schema,
    make_decode_hook=lambda hint, decoders: decoders.get_hook(resolve_alias(hint)),
    make_encode_hook=lambda hint, encoders: encoders.get_hook(resolve_alias(hint)),
)


# ── unions ───────────────────────────────────────────────────────────────────────────────────────


def _build_union_schema(hint: Hint, builder: SchemaBuilder) -> JsonSchema:
    return {"anyOf": [builder.build(member) for member in hint.__args__]}


def _make_union_decode_hook(hint: Hint, decoders: DecodeHookFactory) -> DecodeHook:
    members = hint.__args__
    if _is_optional(hint):
        return _make_optional_hook(next(decoders.get_hook(member) for member in members if member is not type(None)))
    hooks = [] if decoders.exact else [decoders.get_exact_hook(member) for member in members]
    hooks += [decoders.get_hook(member) for member in members]

    def decode(value: object) -> Any:
        deepest: Mismatch | None = None
        for hook in hooks:
            try:
                return hook(value, None)
            except Mismatch as error:
                if deepest is None or len(error.steps) > len(deepest.steps):
                    deepest = error
        raise deepest or Mismatch("fits none of the types")

    remembered = remember_union_results(decode)
    if not decoders.reads_results:
        return remembered
    by_name = dict(zip(_name_members(hint), hooks[-len(members) :], strict=True))

    def decode_recorded(value: object, _: object) -> object:
        name = take_union_member()
        if name is None:
            return remembered(value, None)
        if name not in by_name:
            raise Mismatch("was written by another type")
        return by_name[name](value, None)

    return decode_recorded


def _is_optional(hint: Hint) -> bool:
    return len(hint.__args__) == 2 and type(None) in hint.__args__


def _make_optional_hook(hook: DecodeHook) -> DecodeHook:
    def decode(value: object, _: object) -> Any:
        return None if value is None else hook(value, None)

    return decode


def _make_union_encode_hook(hint: Hint, encoders: EncodeHookFactory) -> EncodeHook:
    hooks = [(_get_runtime_type(member), encoders.get_hook(member)) for member in hint.__args__]
    if encoders.marks_members and not _is_optional(hint):
        hooks = [(of, _mark_member(name, hook)) for name, (of, hook) in zip(_name_members(hint), hooks, strict=True)]

    def encode(value: object) -> Any:
        kind, deepest = type(value), None
        ordered = [hook for of, hook in hooks if of is kind] + [hook for of, hook in hooks if of is not kind]
        for hook in ordered:
            try:
                return hook(value)
            except Unencodable as error:
                if deepest is None or len(error.steps) > len(deepest.steps):
                    deepest = error
        raise deepest if deepest and deepest.steps else make_unencodable_error(format_hint(hint), value)

    return cast("EncodeHook", remember_union_results(encode))


def _name_members(hint: Hint) -> list[str]:
    """Return a name of its own for each member of a union."""
    names = list(map(format_hint, hint.__args__))
    return [name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names)]


def _mark_member(name: str, hook: EncodeHook) -> EncodeHook:
    return lambda value: WrittenByMember(name, hook(value))


def _get_runtime_type(hint: Hint) -> Hint:
    inner = unwrap_hint(hint)
    return get_origin(inner) or inner


UNION_HANDLER: Final = TypeHandler(
    name="a union",
    types=(Union, type(int | str)),
    get_inner_hints=lambda hint: hint.__args__,
    build_schema=_build_union_schema,
    make_decode_hook=_make_union_decode_hook,
    make_encode_hook=_make_union_encode_hook,
)
