"""Type handlers (schema, decoding, encoding) for attrs, dataclasses, TypedDict, NamedTuple and pydantic models."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final, cast, get_args

from praval_tools.names import describe_error, get_class_name, get_qualified_name
from praval_tools.schema.class_fields import (
    ClassField,
    get_all_fields,
    get_class_origin,
    get_fields,
    has_class_fields,
    is_attrs_or_dataclass,
    is_pydantic_model,
    is_same_model,
    is_typed_dict,
    list_extra_hints,
)
from praval_tools.schema.docstrings import extract_description, extract_parameter_descriptions
from praval_tools.schema.hidden_values import prepend_written_step
from praval_tools.schema.json_values import (
    MAX_DEPTH,
    are_scalars,
    check_json,
    copy_members,
    to_canonical_json,
)
from praval_tools.schema.model_schemas import (
    clean_model_schema,
    describe_model,
    describe_result,
    read_class_examples,
)
from praval_tools.schema.scalars import make_unencodable_error
from praval_tools.schema.schema_tree import (
    JsonSchema,
    close_object_schemas,
    inline_references,
    iter_schemas,
)
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
from praval_tools.schema.type_hints import NOTHING, Hint, UnresolvedHintError, format_hint
from praval_tools.schema.validator import compile_schema
from praval_tools.schema.value_reader import ValueReader, find_model_key, get_field_key, is_stored_field
from praval_tools.schema.written_sets import write_model
from praval_tools.values.builtin_iteration import iterate_items_without_overrides

_MAX_UNION_ATTEMPTS: Final = 50_000


def _list_field_hints(hint: Hint) -> tuple[Any, ...]:
    return tuple(item.hint for item in get_fields(hint))


def _build_class_schema(hint: Hint, builder: SchemaBuilder) -> JsonSchema:
    return builder.build_reference(hint, format_hint(hint), lambda: _build_object_schema(hint, builder))


def _build_object_schema(hint: Hint, builder: SchemaBuilder) -> JsonSchema:
    properties: JsonSchema = {}
    required: list[str] = []
    doc = _get_own_docstring(get_class_origin(hint))
    descriptions = extract_parameter_descriptions(doc)
    for item in get_all_fields(hint) if builder.describes_all_members else get_fields(hint):
        properties[item.key] = schema = builder.build(item.hint)
        if item.key in descriptions:
            schema.setdefault("description", descriptions[item.key])
        if item.required:
            required.append(item.key)
        elif item.is_argument and not is_typed_dict(hint):
            builder.add_default(item.hint, item.default, schema)
    schema_of_class: JsonSchema = {"type": "object", "properties": properties}
    if text := extract_description(doc).partition("\n\n")[0].replace("\n", " "):
        schema_of_class["description"] = text
    if required:
        schema_of_class["required"] = required
    extras = [builder.build(item) for item in list_extra_hints(hint)] if builder.describes_all_members else []
    schema_of_class["additionalProperties"] = {"anyOf": extras} if extras else False
    return {**schema_of_class, **read_class_examples(get_class_origin(hint))}


def _get_own_docstring(kind: type) -> str:
    """Return the docstring that *kind* itself has, not one made by a decorator."""
    text = kind.__dict__.get("__doc__") or ""
    return "" if text.startswith(f"{get_class_name(kind)}(") else text


def _make_class_decode_hook(hint: Hint, decoders: DecodeHookFactory) -> DecodeHook:
    fields = {item.key: decoders.get_hook(item.hint) for item in get_fields(hint)}
    required = [item.key for item in get_fields(hint) if item.required]
    make: Callable[..., Any] = dict if is_typed_dict(hint) else get_class_origin(hint)
    stored_names = _map_stored_names(hint) if decoders.reads_results else {}

    def decode(value: object, _: object) -> Any:
        if type(value) is not dict:
            raise Mismatch("is not an object")
        members = copy_members(value)
        for name in required:
            if name not in members:
                raise Mismatch("is missing", name)
        name, decoded = "", {}
        try:
            for name, item in members.items():
                decoded[name] = fields[name](item, None)
        except KeyError:
            raise Mismatch("is not a known key", name) from None
        except Mismatch as error:
            raise error.prepend_step(name) from None
        instance = _construct_instance(make, decoded)
        for key, attribute in stored_names.items():
            if key in decoded:
                object.__setattr__(instance, attribute, decoded[key])
        return instance

    return decode


def _map_stored_names(hint: Hint) -> dict[str, str]:
    """
    Return the attribute of each key that instances store.

    A recorded value was changed by its class already: what the constructor makes of it a second time does not count.
    """
    kind = get_class_origin(hint)
    fields = get_fields(hint) if is_attrs_or_dataclass(hint) else ()
    return {item.key: item.attribute for item in fields if is_stored_field(kind, item)}


def _construct_instance(make: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call a class; what its validators and converters raise is the fault of the value."""
    if make is dict:
        return values
    try:
        return make(**values)
    except (Mismatch, RecursionError):
        raise
    except Exception as error:
        name = get_qualified_name(cast("type", make))
        raise Mismatch(f"was refused by {name}: {describe_error(error)}") from None


def _make_class_encode_hook(hint: Hint, encoders: EncodeHookFactory) -> EncodeHook:
    fields = [(item, encoders.get_hook(item.hint)) for item in get_fields(hint) if item.readable or item.required]
    make_reader = _make_item_reader if is_typed_dict(hint) else _make_attribute_reader
    read_fields, type_name = make_reader(hint, [item for item, _ in fields]), format_hint(hint)
    base = get_class_origin(hint) if encoders.takes_subclasses and is_attrs_or_dataclass(hint) else None

    def encode(value: object) -> dict[str, Any]:
        if base is not None and (kind := type(value)) is not base and issubclass(kind, base):
            written: dict[str, Any] = encoders.get_hook(kind)(value)
            return written
        encoded: dict[str, Any] = {}
        for (item, hook), field_value in zip(fields, read_fields(value), strict=True):
            if field_value is not NOTHING:
                try:
                    encoded[item.key] = hook(field_value)
                except Unencodable as error:
                    raise prepend_written_step(error, item.key) from None
            elif item.required:
                raise Unencodable(f"{type_name} cannot be read back: it has no {item.attribute}", item.key)
        return encoded

    return encode


_FieldsReader = Callable[[object], list[object]]
"""Returns the value of each field; `NOTHING` where there is none."""


def _make_attribute_reader(hint: Hint, fields: list[ClassField]) -> _FieldsReader:
    kind = get_class_origin(hint)

    def read_attributes(value: object) -> list[object]:
        if type(value) is not kind:
            raise make_unencodable_error(format_hint(hint), value)
        return [getattr(value, item.attribute, NOTHING) if item.readable else NOTHING for item in fields]

    return read_attributes


def _make_item_reader(hint: Hint, fields: list[ClassField]) -> _FieldsReader:
    known = {item.key for item in fields}

    def read_items(value: object) -> list[object]:
        stored = dict(iterate_items_without_overrides(value)) if isinstance(value, Mapping) else None
        if stored is None or not stored.keys() <= known:
            raise make_unencodable_error(format_hint(hint), value)
        return [stored.get(item.key, NOTHING) for item in fields]

    return read_items


# ── pydantic, where it is installed ──────────────────────────────────────────────────────────────


def _find_model_problem(hint: Hint) -> str | None:
    """
    Return why a model has no JSON Schema, or why no caller could give a field of it by the name of its schema.

    Raises:
        UnresolvedHintError: A model in it refers to what does not exist (yet).
    """
    if problem := _find_schema_problem(hint):
        return problem
    kinds, seen = [hint], set()
    while kinds:
        kind = kinds.pop()
        kinds.extend(get_args(kind))
        if not is_pydantic_model(kind) or kind in seen:
            continue
        seen.add(kind)
        by_name = kind.model_config.get("populate_by_name") or kind.model_config.get("validate_by_name")
        for name, item in kind.model_fields.items():
            if not by_name and find_model_key(item, name) is None:
                place = f"{get_class_name(kind)}.{name}"
                return f"{place} has no alias that is one name; give it one: AliasChoices({name!r}, …)"
            kinds.append(item.annotation)
    return None


def _find_schema_problem(kind: Hint) -> str | None:
    """Return why pydantic makes no JSON Schema of a class of models."""
    import json

    if not is_pydantic_model(kind):
        return None
    try:
        if not kind.__pydantic_complete__ and not kind.model_rebuild(raise_errors=False):
            raise UnresolvedHintError(get_class_name(kind))
        for mode in ("validation", "serialization"):
            json.dumps(kind.model_json_schema(mode=mode))
    except UnresolvedHintError:
        raise
    except Warning:  # where warnings are errors; it says that a default is left out
        return None
    except (Exception, SystemExit) as error:  # the seam to code of the class
        reason = get_class_name(type(error))
        return f"{get_class_name(kind)} has no JSON Schema ({reason}); take a model whose fields have one"
    return None


def _build_model_schema(hint: Hint, builder: SchemaBuilder) -> JsonSchema:
    def build() -> JsonSchema:
        schema = close_object_schemas(
            describe_result(
                hint, hides_values=builder.hides_values, adds_taken_members=builder.describes_all_members
            )
            if builder.describes_results
            else describe_model(
                hint, hides_values=builder.hides_values, adds_marked_members=builder.describes_all_members
            )
        )
        definitions: dict[str, JsonSchema] = schema.pop("$defs", {})
        references: dict[str, str] = {}
        for name in definitions:  # the names first, because the schemas refer to each other
            references[f"#/$defs/{name}"] = builder.build_reference((hint, name), name, dict)["$ref"]
        for name, definition in definitions.items():
            cleaned_definition = clean_model_schema(definition, references, builder.hides_values)
            builder.replace_definition((hint, name), cleaned_definition)
        return clean_model_schema(schema, references, builder.hides_values)

    return builder.build_reference(hint, get_class_name(hint), build)


def _make_model_decode_hook(hint: Hint, decoders: DecodeHookFactory) -> DecodeHook:
    @cache
    def compile_check() -> Any:
        return compile_schema(close_object_schemas(hint.model_json_schema()), takes_iso_8601=True).is_valid

    @cache
    def get_max_depth() -> int:
        return _get_max_union_depth(hint.model_json_schema())

    def decode(value: object, _: object) -> Any:
        given = _to_given_form(hint, value) if decoders.reads_results else value
        try:
            fits = compile_check()(given)
        except ValueError:  # it is not JSON
            fits = False
        if not fits and not decoders.reads_results:  # pydantic takes more than it says, True for 1 among others
            raise Mismatch(f"does not fit the schema of {get_class_name(hint)}")
        if get_max_depth() < MAX_DEPTH and _get_object_depth(given) > get_max_depth():
            raise Mismatch(f"is nested more than {get_max_depth()} levels deep, and pydantic tries every union in it")
        try:
            model = _validate_model(hint, given)
        except Mismatch:
            if not decoders.reads_results:
                raise
            model, fits = _validate_model(hint, given, is_strict=False), False  # it may write durations as numbers
        if not fits and not _is_written_as(model, value):
            raise Mismatch(f"is not what {get_class_name(hint)} writes")
        return model

    return decode


def _validate_model(hint: Hint, value: object, *, is_strict: bool = True) -> object:
    import json

    from pydantic import ValidationError

    try:
        try:
            return hint.model_validate_json(json.dumps(value, allow_nan=False), strict=is_strict)
        except ValidationError:
            text = json.dumps(_convert_integral_floats(value), allow_nan=False)
            return hint.model_validate_json(text, strict=is_strict)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise Mismatch(str(first["msg"]), *reversed(first["loc"])) from None
    except (Mismatch, RecursionError):
        raise
    except Exception as error:  # the seam to validators
        raise Mismatch(f"was refused by {get_class_name(hint)}: {describe_error(error)}") from None


def _is_written_as(model: object, value: object) -> bool:
    """Tell whether a model writes itself as *value*, of whatever else its schema wants of arguments."""
    try:
        return to_canonical_json(write_model(model)) == to_canonical_json(value)
    except Exception:  # the seam to serializers
        return False


def _to_given_form(hint: Hint, value: object) -> object:
    """Return *value*, which models in *hint* wrote, under the names that they take, and without computed fields."""
    if isinstance(value, list):
        return [_to_given_form(get_args(hint), item) for item in value]
    if not isinstance(value, dict):
        return value
    kinds = [kind for kind in _iter_models(hint) if not getattr(kind, "__pydantic_root_model__", False)]
    kind = next((kind for matches in (_declares_keys, _may_hold_keys) for kind in kinds if matches(kind, value)), None)
    if kind is None:
        return {key: _to_given_form(get_args(hint), item) for key, item in value.items()}
    names, given = _list_written_names(kind), {}
    for key, item in value.items():
        if (name := names.get(key)) is None:
            given[key] = item
        elif name in kind.model_fields:
            given[get_field_key(kind, name)] = _to_given_form(kind.model_fields[name].annotation, item)
    return given


def _declares_keys(kind: Hint, value: Mapping[str, object]) -> bool:
    return _list_written_names(kind).keys() >= value.keys()


def _may_hold_keys(kind: Hint, value: Mapping[str, object]) -> bool:
    """Tell whether a model that allows extra keys could have written *value*."""
    names = _list_written_names(kind).items()
    required = {key for key, name in names if name in kind.model_fields and kind.model_fields[name].is_required()}
    return kind.model_config.get("extra") == "allow" and required <= value.keys()


def _list_written_names(kind: Hint) -> dict[str, str]:
    """Return the name of each field of a model, computed ones too, by the key under which it is written."""
    fields = {**kind.model_fields, **kind.model_computed_fields}
    return {getattr(item, "serialization_alias", None) or item.alias or name: name for name, item in fields.items()}


def _iter_models(hint: Hint) -> Iterator[Hint]:
    if is_pydantic_model(hint):
        yield hint
        if getattr(hint, "__pydantic_root_model__", False):
            yield from _iter_models(hint.model_fields["root"].annotation)
    for part in hint if isinstance(hint, tuple) else get_args(hint):
        yield from _iter_models(part)


def _get_max_union_depth(schema: JsonSchema) -> int:
    """
    Return how deep objects may be nested that pydantic decodes.

    It tries the members of a union one by one, each with all that is inside it, so a model that contains itself
    by way of a union takes as many times longer with each level as the union has members.
    """
    members = max((_count_object_members(part) for part in iter_schemas(schema)), default=0)
    if members < 2 or inline_references(schema, schema) is not True:
        return MAX_DEPTH
    return int(math.log(_MAX_UNION_ATTEMPTS, members))


def _get_object_depth(value: object) -> int:
    """Return how many objects are nested in each other."""
    if isinstance(value, dict):
        return 1 + max(map(_get_object_depth, value.values()), default=0)
    return max(map(_get_object_depth, value), default=0) if isinstance(value, list) else 0


def _count_object_members(schema: JsonSchema) -> int:
    """Return how many members of a union may contain others; none where a discriminator names the one to try."""
    members = [] if "discriminator" in schema else [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return sum(bool(member.keys() & {"$ref", "properties", "items", "additionalProperties"}) for member in members)


def _convert_integral_floats(value: object) -> Any:
    """Return *value* with 3.0 as 3: an integer for JSON Schema, a float for pydantic."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_convert_integral_floats(item) for item in value]
    return {key: _convert_integral_floats(item) for key, item in value.items()} if isinstance(value, dict) else value


def _make_model_encode_hook(hint: Hint, encoders: EncodeHookFactory) -> EncodeHook:
    reader = ValueReader(keep_decimal=False, reads_made_fields=False) if encoders.reads_models else None

    def encode(value: object) -> Any:
        is_model = not are_scalars((value,)) and (isinstance(value, hint) or is_same_model(type(value), hint))
        if not is_model:  # asked last, as the class may answer by code of its own
            raise make_unencodable_error(get_class_name(hint), value)
        if reader is not None:
            return reader.read(value)
        dumped = write_model(value)
        try:
            check_json(dumped)
        except Mismatch as error:
            raise Unencodable(f"{get_class_name(hint)}: {error.reason}", *error.steps) from None
        return dumped

    return encode


CLASS_HANDLERS: Final = (
    TypeHandler(
        name="a pydantic model",
        matches=is_pydantic_model,
        find_problem=_find_model_problem,
        build_schema=_build_model_schema,
        make_decode_hook=_make_model_decode_hook,
        make_encode_hook=_make_model_encode_hook,
    ),
    TypeHandler(
        name="a class with fields",
        matches=has_class_fields,
        constrainable_types=frozenset({"object"}),
        get_inner_hints=_list_field_hints,
        build_schema=_build_class_schema,
        make_decode_hook=_make_class_decode_hook,
        make_encode_hook=_make_class_encode_hook,
    ),
)
