"""Rows of the table for classes that hold data: attrs, dataclasses, TypedDict, NamedTuple, pydantic models."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from inspect import cleandoc
from typing import Any, Final

from attrs import NOTHING

from praval_tools.model.fields import (
    Field,
    fields_of,
    is_named_tuple,
    is_record,
    is_typed_dict,
    origin_of,
)
from praval_tools.model.form import (
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
from praval_tools.model.hints import hint_text
from praval_tools.model.scalars import refuse


def _parts(hint: Any) -> tuple[Any, ...]:
    return tuple(one.hint for one in fields_of(hint))


def _schema(hint: Any, schemas: Schemas) -> JsonSchema:
    return schemas.named(hint, hint_text(hint), lambda: _object_schema(hint, schemas))


def _object_schema(hint: Any, schemas: Schemas) -> JsonSchema:
    properties: JsonSchema = {}
    required: list[str] = []
    for one in fields_of(hint):
        properties[one.key] = schemas.of(one.hint)
        if one.required:
            required.append(one.key)
        elif one.default is not NOTHING:
            schemas.default(one.hint, one.default, properties[one.key])
    made: JsonSchema = {"type": "object", **_described(origin_of(hint)), "properties": properties}
    return {**made, **({"required": required} if required else {}), "additionalProperties": False}


def _described(kind: type) -> JsonSchema:
    """Return the first paragraph of the docstring that *kind* itself has, not one made by a decorator."""
    text = kind.__dict__.get("__doc__") or ""
    if not text or text.startswith(f"{kind.__name__}(") or text.startswith("Alias for field"):
        return {}
    return {"description": cleandoc(text).partition("\n\n")[0].replace("\n", " ")}


def _structure(hint: Any, structures: Structures) -> Hook:
    fields = {one.key: structures.hook(one.hint) for one in fields_of(hint)}
    required = [one.key for one in fields_of(hint) if one.required]
    make: Callable[..., Any] = dict if is_typed_dict(hint) else origin_of(hint)

    def structure(value: Any, _: Any) -> Any:
        if type(value) is not dict:
            raise Mismatch("is not an object")
        for name in required:
            if name not in value:
                raise Mismatch("is missing", name)
        name, made = "", {}
        try:
            for name, one in value.items():
                made[name] = fields[name](one, None)
        except KeyError:
            raise Mismatch("is no known key", str(name)) from None
        except Mismatch as error:
            raise error.at(name) from None
        return _made(make, made)

    return structure


def _made(make: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call a class; what its validators and converters raise is the fault of the value."""
    if make is dict:
        return values
    try:
        return make(**values)
    except (Mismatch, RecursionError):
        raise
    except Exception as error:
        raise Mismatch(f"was refused by {make.__qualname__}: {error or type(error).__name__}") from None


def _encode(hint: Any, encodes: Encodes) -> Encode:
    kind = origin_of(hint)
    fields = [(one, encodes.hook(one.hint)) for one in fields_of(hint) if one.readable or one.required]
    typed_dict, wanted = is_typed_dict(hint), hint_text(hint)

    def encode(value: Any) -> dict[str, Any]:
        if typed_dict:
            if not isinstance(value, Mapping) or not value.keys() <= {one.key for one, _ in fields}:
                raise refuse(wanted, value)
        elif type(value) is not kind:
            raise refuse(wanted, value)
        read = (lambda one: value.get(one.key, NOTHING)) if typed_dict else (lambda one: _attribute(value, one))
        made: dict[str, Any] = {}
        for one, hook in fields:
            if (found := read(one)) is NOTHING:
                if one.required:
                    raise Unencodable(f"{wanted} cannot be read back: it has no {one.attribute}", one.key)
                continue
            try:
                made[one.key] = hook(found)
            except Unencodable as error:
                raise error.at(one.key) from None
        return made

    return encode


def _attribute(value: Any, one: Field) -> Any:
    return getattr(value, one.attribute, NOTHING) if one.readable else NOTHING


# ── pydantic, where it is installed ──────────────────────────────────────────────────────────────


def is_pydantic_model(hint: Any) -> bool:
    """Tell whether *hint* is a pydantic model; pydantic is never imported for the question."""
    pydantic = sys.modules.get("pydantic")
    base = getattr(pydantic, "BaseModel", None)
    return base is not None and isinstance(hint, type) and issubclass(hint, base)


def _model_schema(hint: Any, schemas: Schemas) -> JsonSchema:
    def build() -> JsonSchema:
        made: JsonSchema = hint.model_json_schema(ref_template="#/$defs/{model}")
        inner = made.pop("$defs", {})
        for name, one in inner.items():
            schemas.named((hint, name), name, lambda one=one: one)
        return made

    return schemas.named(hint, hint.__name__, build)


def _model_structure(hint: Any, _: Structures) -> Hook:
    def structure(value: Any, _: Any) -> Any:
        import json

        from pydantic import ValidationError

        try:
            return hint.model_validate_json(json.dumps(value, allow_nan=False), strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise Mismatch(str(first["msg"]), *reversed(first["loc"])) from None
        except (TypeError, ValueError) as error:
            raise Mismatch(str(error)) from None

    return structure


def _model_encode(hint: Any, _: Encodes) -> Encode:
    def encode(value: Any) -> Any:
        if not isinstance(value, hint):
            raise refuse(hint.__name__, value)
        return value.model_dump(mode="json", by_alias=True)

    return encode


CLASSES: Final = (
    Form(
        name="a pydantic model",
        fits=is_pydantic_model,
        schema=_model_schema,
        structure=_model_structure,
        encode=_model_encode,
    ),
    Form(
        name="a class with fields",
        fits=lambda hint: is_record(hint) or is_typed_dict(hint) or is_named_tuple(hint),
        takes=frozenset({"object"}),
        parts=_parts,
        schema=_schema,
        structure=_structure,
        encode=_encode,
    ),
)
