"""Rows of the table for hints around hints: Annotated, NewType, type aliases, unions."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Final, NewType, TypeVar, Union, get_origin

from praval_tools.schema.constraints import Constraints, checker, read_constraints
from praval_tools.schema.scalars import refuse
from praval_tools.schema.secret import is_secret
from praval_tools.schema.type_handler import (
    Encode,
    Encodes,
    Form,
    Hook,
    JsonSchema,
    Mismatch,
    Schemas,
    Structures,
    Unencodable,
)
from praval_tools.schema.type_hints import alias_value, bare, hint_text, is_alias, is_union

# ── Annotated ────────────────────────────────────────────────────────────────────────────────────


def annotated_form(takes_of: Callable[[Any], frozenset[str]]) -> Form:
    """Return the row for `Annotated`; *takes_of* tells which JSON types can be constrained in a hint."""

    def keywords(hint: Any) -> JsonSchema:
        return read_constraints(hint.__metadata__).keywords(takes_of(hint.__origin__))

    def problem(hint: Any) -> str | None:
        return _annotated_problem(read_constraints(hint.__metadata__), hint.__origin__, takes_of)

    def schema(hint: Any, schemas: Schemas) -> JsonSchema:
        read, found = read_constraints(hint.__metadata__), keywords(hint)
        inner = {"type": "number"} if _bounded_decimal(hint, found) else schemas.of(hint.__origin__)
        if found.keys() & inner.keys():
            inner = {"allOf": [inner]}
        described = {"description": read.description} if read.description else {}
        secret = {"writeOnly": True} if is_secret(hint.__metadata__) else {}
        return {**inner, **found, **described, **secret}

    def structure(hint: Any, structures: Structures) -> Hook:
        found, inner = keywords(hint), structures.hook(hint.__origin__)
        if not found:
            return inner
        return _constrained(inner, checker(found), _bounded_decimal(hint, found))

    def encode(hint: Any, encodes: Encodes) -> Encode:
        inner = encodes.hook(hint.__origin__)
        if encodes.keep_decimal or not _bounded_decimal(hint, keywords(hint)):
            return inner
        return lambda value: _decimal_number(inner(value))

    return Form(
        name="an annotated type",
        types=(Annotated,),
        parts=lambda hint: (hint.__origin__,),
        problem=problem,
        schema=schema,
        structure=structure,
        encode=encode,
    )


def _annotated_problem(read: Constraints, inner: Any, takes_of: Callable[[Any], frozenset[str]]) -> str | None:
    if read.problems:
        return "; ".join(read.problems)
    if wrong := read.misplaced(takes_of(inner)):
        return f"{' and '.join(wrong)} cannot be said of {hint_text(inner)} in JSON Schema; check it in the function"
    if read.values and is_union(bare(inner)) and any(bare(one) is Decimal for one in bare(inner).__args__):
        return "constrain the Decimal itself, not the union around it: Annotated[Decimal, …] | None"
    return None


def _bounded_decimal(hint: Any, keywords: JsonSchema) -> bool:
    """Bounds say nothing about text, so a Decimal that has some is a number in JSON."""
    return bool(keywords) and bare(hint) is Decimal


def _decimal_number(text: Any) -> int | float:
    value = Decimal(text)
    number = int(value) if value == value.to_integral_value() else float(value)
    if Decimal(repr(number)) != value:
        raise Unencodable(f"Decimal {text} has more digits than a JSON number holds; return it without bounds")
    return number


def _constrained(inner: Hook, check: Callable[[Any], None], number_only: bool) -> Hook:
    def structure(value: Any, hint: Any) -> Any:
        if number_only and type(value) is str:
            raise Mismatch("is not a number")
        made = inner(value, hint)
        check(value)
        return made

    return structure


# ── NewType, aliases, type variables ─────────────────────────────────────────────────────────────


def _inside(hint: Any) -> Any:
    if isinstance(hint, NewType):
        return hint.__supertype__
    if is_alias(hint):
        return alias_value(hint)
    return hint.__bound__ or Any if isinstance(hint, TypeVar) else hint.__args__[0]


def _alias_schema(hint: Any, schemas: Schemas) -> JsonSchema:
    name = getattr(hint, "__name__", None) or hint_text(hint)
    return schemas.named(hint, name, lambda: schemas.of(alias_value(hint)))


TRANSPARENT: Final = Form(
    name="a name for a type",
    types=(),
    fits=lambda hint: isinstance(hint, NewType | TypeVar),
    parts=lambda hint: (_inside(hint),),
    schema=lambda hint, schemas: schemas.of(_inside(hint)),
    structure=lambda hint, structures: structures.hook(_inside(hint)),
    encode=lambda hint, encodes: encodes.hook(_inside(hint)),
)

ALIAS: Final = Form(
    name="a type alias",
    fits=is_alias,
    parts=lambda hint: (alias_value(hint),),
    schema=_alias_schema,
    structure=lambda hint, structures: structures.hook(alias_value(hint)),
    encode=lambda hint, encodes: encodes.hook(alias_value(hint)),
)


# ── unions ───────────────────────────────────────────────────────────────────────────────────────


def _union_schema(hint: Any, schemas: Schemas) -> JsonSchema:
    return {"anyOf": [schemas.of(member) for member in hint.__args__]}


def _union_structure(hint: Any, structures: Structures) -> Hook:
    members = hint.__args__
    plain = [one for one in members if one is not type(None)]
    if len(plain) == 1 and len(members) == 2:
        return _or_none(structures.hook(plain[0]))
    hooks = [] if structures.exact else [structures.exactly(member) for member in members]
    hooks += [structures.hook(member) for member in members]

    def structure(value: Any, _: Any) -> Any:
        deepest: Mismatch | None = None
        for hook in hooks:
            try:
                return hook(value, None)
            except Mismatch as error:
                if deepest is None or len(error.steps) > len(deepest.steps):
                    deepest = error
        raise deepest or Mismatch("fits none of the types")

    return structure


def _or_none(hook: Hook) -> Hook:
    def structure(value: Any, _: Any) -> Any:
        return None if value is None else hook(value, None)

    return structure


def _union_encode(hint: Any, encodes: Encodes) -> Encode:
    hooks = [(_runtime_type(member), encodes.hook(member)) for member in hint.__args__]

    def encode(value: Any) -> Any:
        kind, deepest = type(value), None
        ordered = [hook for of, hook in hooks if of is kind] + [hook for of, hook in hooks if of is not kind]
        for hook in ordered:
            try:
                return hook(value)
            except Unencodable as error:
                if deepest is None or len(error.steps) > len(deepest.steps):
                    deepest = error
        raise deepest if deepest and deepest.steps else refuse(hint_text(hint), value)

    return encode


def _runtime_type(hint: Any) -> Any:
    inner = bare(hint)
    return get_origin(inner) or inner


UNION: Final = Form(
    name="a union",
    types=(Union, type(int | str)),
    parts=lambda hint: hint.__args__,
    schema=_union_schema,
    structure=_union_structure,
    encode=_union_encode,
)
