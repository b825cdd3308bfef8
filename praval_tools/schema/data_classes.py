"""Rows of the table for classes that hold data: attrs, dataclasses, TypedDict, NamedTuple, pydantic models."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from attrs import NOTHING

from praval_tools.schema.class_fields import (
    Field,
    fields_of,
    is_named_tuple,
    is_record,
    is_typed_dict,
    origin_of,
)
from praval_tools.schema.docstrings import description_of, parameter_descriptions
from praval_tools.schema.json_values import check_json
from praval_tools.schema.scalars import refuse
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
from praval_tools.schema.type_hints import hint_text
from praval_tools.schema.validator import compiled


def _parts(hint: Any) -> tuple[Any, ...]:
    return tuple(one.hint for one in fields_of(hint))


def _schema(hint: Any, schemas: Schemas) -> JsonSchema:
    return schemas.named(hint, hint_text(hint), lambda: _object_schema(hint, schemas))


def _object_schema(hint: Any, schemas: Schemas) -> JsonSchema:
    properties: JsonSchema = {}
    required: list[str] = []
    doc = _own_doc(origin_of(hint))
    described = parameter_descriptions(doc)
    for one in fields_of(hint):
        properties[one.key] = schema = schemas.of(one.hint)
        if one.key in described:
            schema.setdefault("description", described[one.key])
        if one.required:
            required.append(one.key)
        elif one.default is not NOTHING:
            schemas.default(one.hint, one.default, schema)
    made: JsonSchema = {"type": "object", "properties": properties}
    if text := description_of(doc).partition("\n\n")[0].replace("\n", " "):
        made["description"] = text
    if required:
        made["required"] = required
    return {**made, "additionalProperties": False}


def _own_doc(kind: type) -> str:
    """Return the docstring that *kind* itself has, not one made by a decorator."""
    text = kind.__dict__.get("__doc__") or ""
    return "" if text.startswith(f"{kind.__name__}(") else text


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
    fields = [(one, encodes.hook(one.hint)) for one in fields_of(hint) if one.readable or one.required]
    read = _item_of(hint) if is_typed_dict(hint) else _attribute_of(hint)
    wanted = hint_text(hint)

    def encode(value: Any) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for one, hook in fields:
            if (found := read(value, one)) is not NOTHING:
                try:
                    made[one.key] = hook(found)
                except Unencodable as error:
                    raise error.at(one.key) from None
            elif one.required:
                raise Unencodable(f"{wanted} cannot be read back: it has no {one.attribute}", one.key)
        return made

    return encode


_Read = Callable[[Any, Field], Any]


def _attribute_of(hint: Any) -> _Read:
    kind = origin_of(hint)

    def read(value: Any, one: Field) -> Any:
        if type(value) is not kind:
            raise refuse(hint_text(hint), value)
        return getattr(value, one.attribute, NOTHING) if one.readable else NOTHING

    return read


def _item_of(hint: Any) -> _Read:
    known = {one.key for one in fields_of(hint)}

    def read(value: Any, one: Field) -> Any:
        if not isinstance(value, Mapping) or not value.keys() <= known:
            raise refuse(hint_text(hint), value)
        return value.get(one.key, NOTHING)

    return read


# ── pydantic, where it is installed ──────────────────────────────────────────────────────────────


def is_pydantic_model(hint: Any) -> bool:
    """Tell whether *hint* is a pydantic model; pydantic is never imported for the question."""
    pydantic = sys.modules.get("pydantic")
    base = getattr(pydantic, "BaseModel", None)
    return base is not None and isinstance(hint, type) and issubclass(hint, base)


def _model_schema(hint: Any, schemas: Schemas) -> JsonSchema:
    def build() -> JsonSchema:
        made: JsonSchema = _closed(hint.model_json_schema())
        inner: dict[str, JsonSchema] = made.pop("$defs", {})
        refs: dict[str, str] = {}
        for name in inner:  # the names first, because the schemas refer to each other
            refs[f"#/$defs/{name}"] = schemas.named((hint, name), name, dict)["$ref"]
        for name, one in inner.items():
            schemas.fill((hint, name), _tidy(one, refs))
        tidied: JsonSchema = _tidy(made, refs)
        return tidied

    return schemas.named(hint, hint.__name__, build)


def _tidy(node: Any, refs: Mapping[str, str], names: bool = False) -> Any:
    """Return *node* without titles, its references renamed; *names* tells that its keys are no keywords."""
    if isinstance(node, list):
        return [_tidy(one, refs) for one in node]
    if not isinstance(node, dict):
        return node
    made: dict[str, Any] = {}
    for key, one in node.items():
        if names or key not in ("title", "default", "enum", "const", "examples", "$ref"):
            made[key] = _tidy(one, refs, names=not names and key == "properties")
        elif key == "$ref":
            made[key] = refs.get(one, one)
        elif key != "title":
            made[key] = one
    return made


def _model_structure(hint: Any, _: Structures) -> Hook:
    @cache
    def fits() -> Any:
        return compiled(_closed(hint.model_json_schema())).is_valid

    def structure(value: Any, _: Any) -> Any:
        import json

        from pydantic import ValidationError

        if not fits()(value):  # pydantic takes more than it says, True for 1 among others
            raise Mismatch(f"does not fit the schema of {hint.__name__}")
        try:
            return hint.model_validate_json(json.dumps(_integral(value), allow_nan=False), strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise Mismatch(str(first["msg"]), *reversed(first["loc"])) from None
        except (TypeError, ValueError) as error:
            raise Mismatch(str(error)) from None

    return structure


def _integral(value: Any) -> Any:
    """Return *value* with 3.0 as 3: an integer for JSON Schema, a float for pydantic."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_integral(one) for one in value]
    return {key: _integral(one) for key, one in value.items()} if isinstance(value, dict) else value


def _closed(node: Any) -> Any:
    """Return *node* with objects that say nothing of other properties closed: pydantic would drop them silently."""
    if isinstance(node, list):
        return [_closed(one) for one in node]
    if not isinstance(node, dict):
        return node
    made = {key: one if key in ("enum", "const", "default", "examples") else _closed(one) for key, one in node.items()}
    if made.get("type") == "object" and isinstance(made.get("properties"), dict):
        made.setdefault("additionalProperties", False)
    return made


def _model_encode(hint: Any, _: Encodes) -> Encode:
    def encode(value: Any) -> Any:
        if not isinstance(value, hint):
            raise refuse(hint.__name__, value)
        made = value.model_dump(mode="json", by_alias=True)
        try:
            check_json(made)
        except Mismatch as error:
            raise Unencodable(f"{hint.__name__}: {error.reason}", *error.steps) from None
        return made

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
