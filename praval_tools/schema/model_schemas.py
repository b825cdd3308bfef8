"""Has pydantic describe its models: the fields of a NamedTuple with their names, and no default that holds a secret."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from praval_tools.schema.json_values import is_json, sort_json_items, to_canonical_json
from praval_tools.schema.lost_marks import add_lost_marks
from praval_tools.schema.marked_values import has_marked_values
from praval_tools.schema.schema_tree import JsonSchema, get_item_name, inline_references, map_subschemas
from praval_tools.schema.type_hints import Hint
from praval_tools.schema.written_sets import sort_sets

_VALUE_KEYWORDS: Final = frozenset({
    "default", "examples", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"
})  # fmt: skip
_CLASS_TYPES: Final = frozenset({"model", "dataclass", "typed-dict"})
"""Kinds of pydantic's core schemas whose members have hints."""
_EXAMPLE_KEYWORDS: Final = ("examples", "example")


def describe_model(
    hint: Hint, mode: str = "validation", *, hides_values: bool = True, adds_marked_members: bool = False
) -> JsonSchema:
    """
    Return the schema of a model as pydantic makes it, without defaults in which a class marks anything as secret.

    What its hints mark is marked in it, whatever the model says of itself.

    Args:
        hint: The model.
        mode: Of pydantic: `validation` describes what the model takes, `serialization` what it writes.
        hides_values: False: with all defaults; null stands for those that have no JSON form, or that a factory makes.
        adds_marked_members: Also describe marked members that the model leaves out of its schema.
    """
    parameters = inspect.signature(hint.model_json_schema).parameters
    generator = parameters.get("schema_generator")
    own_generator = _make_schema_generator(generator and generator.default, hides_values, adds_marked_members)
    options = {"mode": mode, "schema_generator": own_generator}
    if not any(item.kind is item.VAR_KEYWORD for item in parameters.values()):
        options = {name: value for name, value in options.items() if name in parameters}
    try:
        described: JsonSchema = hint.model_json_schema(**options)
    except TypeError as error:
        if "schema_generator" not in str(error):  # else it passes a generator of its own on
            raise
        options.pop("schema_generator", None)
        described = hint.model_json_schema(**options)
    if "$ref" not in described:  # one that the class made in its own way, where the generator added nothing
        add_lost_marks(described, hint, adds_members=adds_marked_members)
    return described


@lru_cache(maxsize=64)
def _make_schema_generator(base: Hint, hides_values: bool, adds_marked_members: bool) -> Hint:
    """Return the generator of schemas *base*, or pydantic's own if that is none, so that it leaves defaults out."""
    from pydantic.json_schema import GenerateJsonSchema

    is_generator = isinstance(base, type) and issubclass(base, GenerateJsonSchema)
    parent: Hint = base if is_generator else GenerateJsonSchema

    class SchemaWithoutSecrets(parent):  # type: ignore[misc]
        ignored_warning_kinds = parent.ignored_warning_kinds | (set() if hides_values else {"non-serializable-default"})

        def generate_inner(self, schema: Hint) -> JsonSchema:
            described: JsonSchema = super().generate_inner(schema)
            if schema["type"] in _CLASS_TYPES and schema.get("cls") is not None:
                reference = described.get("$ref")
                target = described if reference is None else self.get_schema_from_definitions(reference)
                if target is not None:  # else it has no schema, which is reported
                    add_lost_marks(target, schema["cls"], adds_members=adds_marked_members)
            return described

        def default_schema(self, schema: Hint) -> JsonSchema:
            if hides_values and has_marked_values(schema.get("default")):
                schema = {key: value for key, value in schema.items() if key != "default"}
            described: JsonSchema = super().default_schema(schema)
            default = described.get("default")
            return described if hides_values else {**described, "default": default if is_json(default) else None}

        def encode_default(self, dft: Hint) -> Hint:
            return sort_sets(super().encode_default(dft), dft)

        def named_tuple_schema(self, schema: Hint) -> JsonSchema:
            return _name_items(super().named_tuple_schema(schema), schema["fields"])

        def p_arguments_schema(self, arguments: Hint, var_args_schema: Hint) -> JsonSchema:  # before pydantic 2.14
            return _name_items(super().p_arguments_schema(arguments, var_args_schema), arguments)

    return SchemaWithoutSecrets


def _name_items(array: JsonSchema, fields: Iterable[Mapping[str, object]]) -> JsonSchema:
    """Return the schema of a NamedTuple with the names of its fields as titles: they say what is secret."""
    if "prefixItems" not in array:  # it has no field
        return array
    items = zip(array["prefixItems"], fields, strict=True)
    return {**array, "prefixItems": [{**item, "title": field["name"]} for item, field in items]}


def describe_result(hint: Hint, *, hides_values: bool = True, adds_taken_members: bool = False) -> JsonSchema:
    """
    Return the schema of what a model writes; what it may leave out of what it takes, a result may leave out, too.

    Args:
        hint: The model.
        hides_values: Without defaults in which a class marks anything as secret.
        adds_taken_members: Also describe the members of what it takes in place of an instance, by their names there.
    """
    taken = describe_model(hint, adds_marked_members=adds_taken_members)
    written = describe_model(hint, "serialization", hides_values=hides_values)
    for schema, other in [(written, taken), *(
        (part, taken.get("$defs", {}).get(name, {})) for name, part in written.get("$defs", {}).items()
    )]:  # fmt: skip
        if "required" in schema:
            schema["required"] = [name for name in schema["required"] if name in other.get("required", ())]
        if adds_taken_members:
            _add_members(schema, other)
    if adds_taken_members and "$defs" in taken:
        written["$defs"] = {**taken["$defs"], **written.get("$defs", {})}
    return written


def _add_members(schema: JsonSchema, other: JsonSchema) -> None:
    """Add the members of objects that *other* describes to those of *schema*; what both describe may be either."""
    members: JsonSchema = schema.get("properties", {})
    added: JsonSchema = other.get("properties", {})
    if added:
        schema["properties"] = members | {
            name: member if members.get(name, member) == member else {"anyOf": [members[name], member]}
            for name, member in added.items()
        }


def read_class_examples(kind: Hint) -> JsonSchema:
    """
    Return the examples of a dataclass or TypedDict that its configuration for pydantic says.

    Pydantic shows them to frameworks, so they are in the tool's own schema as well: it says which of them are hidden.
    """
    if not (getattr(kind, "__pydantic_config__", None) or {}).get("json_schema_extra"):
        return {}
    from pydantic import TypeAdapter

    try:
        schema = TypeAdapter(kind).json_schema()
        described = inline_references(schema, schema, deep=False)
    except Exception:  # the seam to the classes of the program: pydantic describes it to no framework either
        return {}
    assert isinstance(described, dict)
    examples: JsonSchema = {keyword: described[keyword] for keyword in _EXAMPLE_KEYWORDS if keyword in described}
    return examples if is_json(examples) else {}


def clean_model_schema(schema: JsonSchema, references: Mapping[str, str], hides_values: bool) -> JsonSchema:
    """
    Return *schema* without titles, and without values that are no JSON, its references renamed.

    The titles of the items of an array stay: they are the names of the fields of a NamedTuple.
    """
    cleaned = map_subschemas(
        schema, lambda part: clean_model_schema(part, references, hides_values) if isinstance(part, dict) else part
    )
    cleaned.pop("title", None)
    for item, cleaned_item in zip(schema.get("prefixItems", ()), cleaned.get("prefixItems", ()), strict=True):
        if name := get_item_name(item):
            cleaned_item["title"] = name
    if cleaned.get("uniqueItems") is True and isinstance(examples := cleaned.get("examples"), list):
        cleaned["examples"] = [sort_json_items(one) if isinstance(one, list) else one for one in examples]
    for keyword in _VALUE_KEYWORDS & cleaned.keys():
        try:
            to_canonical_json(cleaned[keyword])
        except ValueError:  # infinity and NaN are no JSON
            del cleaned[keyword]
    if hides_values and cleaned.get("writeOnly") is True:
        cleaned.pop("default", None)
    if "$ref" in cleaned:
        cleaned["$ref"] = references.get(cleaned["$ref"], cleaned["$ref"])
    return cleaned
