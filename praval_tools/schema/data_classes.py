"""Rows of the table for classes that hold data: attrs, dataclasses, TypedDict, NamedTuple, pydantic models."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from attrs import NOTHING

from praval_tools.schema.class_fields import (
    ClassField,
    get_class_origin,
    get_fields,
    is_attrs_or_dataclass,
    is_named_tuple,
    is_typed_dict,
)
from praval_tools.schema.docstrings import extract_description, extract_parameter_descriptions
from praval_tools.schema.json_values import check_json
from praval_tools.schema.scalars import make_unencodable_error
from praval_tools.schema.schema_tree import JsonSchema
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
from praval_tools.schema.type_hints import Hint, format_hint
from praval_tools.schema.validator import compile_schema


def _list_field_hints(hint: Hint) -> tuple[Any, ...]:
    return tuple(one.hint for one in get_fields(hint))


def _build_class_schema(hint: Hint, builder: SchemaBuilder) -> JsonSchema:
    return builder.build_reference(hint, format_hint(hint), lambda: _build_object_schema(hint, builder))


def _build_object_schema(hint: Hint, builder: SchemaBuilder) -> JsonSchema:
    properties: JsonSchema = {}
    required: list[str] = []
    doc = _get_own_docstring(get_class_origin(hint))
    described = extract_parameter_descriptions(doc)
    for one in get_fields(hint):
        properties[one.key] = schema = builder.build(one.hint)
        if one.key in described:
            schema.setdefault("description", described[one.key])
        if one.required:
            required.append(one.key)
        elif one.default is not NOTHING:
            builder.add_default(one.hint, one.default, schema)
    made: JsonSchema = {"type": "object", "properties": properties}
    if text := extract_description(doc).partition("\n\n")[0].replace("\n", " "):
        made["description"] = text
    if required:
        made["required"] = required
    return {**made, "additionalProperties": False}


def _get_own_docstring(kind: type) -> str:
    """Return the docstring that *kind* itself has, not one made by a decorator."""
    text = kind.__dict__.get("__doc__") or ""
    return "" if text.startswith(f"{kind.__name__}(") else text


def _make_class_decode_hook(hint: Hint, decoders: DecodeHookFactory) -> DecodeHook:
    fields = {one.key: decoders.get_hook(one.hint) for one in get_fields(hint)}
    required = [one.key for one in get_fields(hint) if one.required]
    make: Callable[..., Any] = dict if is_typed_dict(hint) else get_class_origin(hint)

    def decode(value: object, _: object) -> Any:
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
            raise error.prepend_step(name) from None
        return _construct_instance(make, made)

    return decode


def _construct_instance(make: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call a class; what its validators and converters raise is the fault of the value."""
    if make is dict:
        return values
    try:
        return make(**values)
    except (Mismatch, RecursionError):
        raise
    except Exception as error:
        raise Mismatch(f"was refused by {make.__qualname__}: {error or type(error).__name__}") from None


def _make_class_encode_hook(hint: Hint, encoders: EncodeHookFactory) -> EncodeHook:
    fields = [(one, encoders.get_hook(one.hint)) for one in get_fields(hint) if one.readable or one.required]
    read = _make_item_reader(hint) if is_typed_dict(hint) else _make_attribute_reader(hint)
    wanted = format_hint(hint)

    def encode(value: object) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for one, hook in fields:
            if (found := read(value, one)) is not NOTHING:
                try:
                    made[one.key] = hook(found)
                except Unencodable as error:
                    raise error.prepend_step(one.key) from None
            elif one.required:
                raise Unencodable(f"{wanted} cannot be read back: it has no {one.attribute}", one.key)
        return made

    return encode


_FieldReader = Callable[[Any, ClassField], Any]


def _make_attribute_reader(hint: Hint) -> _FieldReader:
    kind = get_class_origin(hint)

    def read_attribute(value: object, one: ClassField) -> Any:
        if type(value) is not kind:
            raise make_unencodable_error(format_hint(hint), value)
        return getattr(value, one.attribute, NOTHING) if one.readable else NOTHING

    return read_attribute


def _make_item_reader(hint: Hint) -> _FieldReader:
    known = {one.key for one in get_fields(hint)}

    def read_item(value: object, one: ClassField) -> Any:
        if not isinstance(value, Mapping) or not value.keys() <= known:
            raise make_unencodable_error(format_hint(hint), value)
        return value.get(one.key, NOTHING)

    return read_item


# ── pydantic, where it is installed ──────────────────────────────────────────────────────────────


def is_pydantic_model(hint: Hint) -> bool:
    """Tell whether *hint* is a pydantic model; pydantic is never imported for the question."""
    pydantic = sys.modules.get("pydantic")
    base = getattr(pydantic, "BaseModel", None)
    return base is not None and isinstance(hint, type) and issubclass(hint, base)


def _build_model_schema(hint: Hint, builder: SchemaBuilder) -> JsonSchema:
    def build() -> JsonSchema:
        made: JsonSchema = _close_object_schemas(hint.model_json_schema())
        inner: dict[str, JsonSchema] = made.pop("$defs", {})
        refs: dict[str, str] = {}
        for name in inner:  # the names first, because the schemas refer to each other
            refs[f"#/$defs/{name}"] = builder.build_reference((hint, name), name, dict)["$ref"]
        for name, one in inner.items():
            builder.replace_definition((hint, name), _clean_model_schema(one, refs))
        tidied: JsonSchema = _clean_model_schema(made, refs)
        return tidied

    return builder.build_reference(hint, hint.__name__, build)


def _clean_model_schema(node: object, refs: Mapping[str, str], keys_are_names: bool = False) -> Any:
    """Return *node* without titles, its references renamed; *names* tells that its keys are no keywords."""
    if isinstance(node, list):
        return [_clean_model_schema(one, refs) for one in node]
    if not isinstance(node, dict):
        return node
    made: dict[str, Any] = {}
    for key, one in node.items():
        if keys_are_names or key not in ("title", "default", "enum", "const", "examples", "$ref"):
            made[key] = _clean_model_schema(one, refs, keys_are_names=not keys_are_names and key == "properties")
        elif key == "$ref":
            made[key] = refs.get(one, one)
        elif key != "title":
            made[key] = one
    return made


def _make_model_decode_hook(hint: Hint, _: DecodeHookFactory) -> DecodeHook:
    @cache
    def compile_check() -> Any:
        return compile_schema(_close_object_schemas(hint.model_json_schema())).is_valid

    def decode(value: object, _: object) -> Any:
        import json

        from pydantic import ValidationError

        if not compile_check()(value):  # pydantic takes more than it says, True for 1 among others
            raise Mismatch(f"does not fit the schema of {hint.__name__}")
        try:
            return hint.model_validate_json(json.dumps(_convert_integral_floats(value), allow_nan=False), strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise Mismatch(str(first["msg"]), *reversed(first["loc"])) from None
        except (TypeError, ValueError) as error:
            raise Mismatch(str(error)) from None

    return decode


def _convert_integral_floats(value: object) -> Any:
    """Return *value* with 3.0 as 3: an integer for JSON Schema, a float for pydantic."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_convert_integral_floats(one) for one in value]
    return {key: _convert_integral_floats(one) for key, one in value.items()} if isinstance(value, dict) else value


def _close_object_schemas(node: object) -> Any:
    """Return *node* with objects that say nothing of other properties closed: pydantic would drop them silently."""
    if isinstance(node, list):
        return [_close_object_schemas(one) for one in node]
    if not isinstance(node, dict):
        return node
    made = {
        key: one if key in ("enum", "const", "default", "examples") else _close_object_schemas(one)
        for key, one in node.items()
    }
    if made.get("type") == "object" and isinstance(made.get("properties"), dict):
        made.setdefault("additionalProperties", False)
    return made


def _make_model_encode_hook(hint: Hint, _: EncodeHookFactory) -> EncodeHook:
    def encode(value: object) -> Any:
        if not isinstance(value, hint):
            raise make_unencodable_error(hint.__name__, value)
        made = value.model_dump(mode="json", by_alias=True)
        try:
            check_json(made)
        except Mismatch as error:
            raise Unencodable(f"{hint.__name__}: {error.reason}", *error.steps) from None
        return made

    return encode


CLASS_HANDLERS: Final = (
    TypeHandler(
        name="a pydantic model",
        matches=is_pydantic_model,
        build_schema=_build_model_schema,
        make_decode_hook=_make_model_decode_hook,
        make_encode_hook=_make_model_encode_hook,
    ),
    TypeHandler(
        name="a class with fields",
        matches=lambda hint: is_attrs_or_dataclass(hint) or is_typed_dict(hint) or is_named_tuple(hint),
        constrainable_types=frozenset({"object"}),
        get_inner_hints=_list_field_hints,
        build_schema=_build_class_schema,
        make_decode_hook=_make_class_decode_hook,
        make_encode_hook=_make_class_encode_hook,
    ),
)
