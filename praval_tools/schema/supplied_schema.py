"""Checks a parameters schema that is given with a tool instead of derived from its hints."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Final

from praval_tools.names import find_similar_names, fold_name, shorten_repr, suggest_names
from praval_tools.schema.json_input import MalformedArgumentsError, normalize_json
from praval_tools.schema.json_pointer import format_json_path, resolve_pointer
from praval_tools.schema.schema_tree import JsonSchema, SchemaPath, iter_located_schemas
from praval_tools.schema.signature import Signature
from praval_tools.schema.validator import compile_schema, shorten_text

_JSON_TYPES: Final = ("string", "integer", "number", "boolean", "array", "object", "null")
_MAX_NODES: Final = 100_000
_VALUE_KEYWORDS: Final = ("enum", "const", "default", "examples")
_DIALECTS: Final = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-04/schema",
)
_SHORTHAND_EXCLUDED: Final = frozenset(
    (
        "$schema", "$id", "$ref", "$defs", "definitions", "type", "properties", "required", "additionalProperties",
        "patternProperties", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "title", "description", "default",
        "examples", "enum", "const",
    )
)  # fmt: skip
_KEYWORDS: Final = (
    "$schema", "$id", "$ref", "$defs", "$anchor", "$dynamicRef", "$dynamicAnchor", "$vocabulary", "$comment",
    "$recursiveRef", "$recursiveAnchor", "id", "definitions", "type", "enum", "const", "default", "examples", "title",
    "description", "format", "deprecated", "readOnly", "writeOnly", "allOf", "anyOf", "oneOf", "not", "if", "then",
    "else", "properties", "patternProperties", "additionalProperties", "propertyNames", "required", "minProperties",
    "maxProperties", "dependencies", "dependentRequired", "dependentSchemas", "unevaluatedProperties", "items",
    "prefixItems", "additionalItems", "unevaluatedItems", "contains", "minContains", "maxContains", "minItems",
    "maxItems", "uniqueItems", "minLength", "maxLength", "pattern", "contentEncoding", "contentMediaType",
    "contentSchema", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "nullable", "discriminator", "xml", "externalDocs", "example",
)  # fmt: skip
"""Those of every dialect that is known here, and what OpenAPI adds."""


def check_supplied_schema(schema: object, signature: Signature | None = None) -> tuple[JsonSchema, tuple[str, ...]]:
    """
    Return the schema as it will be used, and every reason why it cannot be used.

    `{}` means no parameters; `{"q": "string"}` is short for required properties.

    Args:
        schema: What was supplied.
        signature: That of the function; what is injected there, no schema can offer.
    """
    if not isinstance(schema, Mapping):
        return {}, (f"parameters: {shorten_repr(schema)} is not a JSON Schema",)
    try:
        checked: JsonSchema = copy.deepcopy(normalize_json(dict(schema)))
    except MalformedArgumentsError as error:
        return {}, tuple(f"parameters: {problem.path}: {problem.reason}" for problem in error.problems)
    if not checked:
        return {"type": "object", "properties": {}, "additionalProperties": False}, ()
    if _is_shorthand(checked):
        expanded, type_problems = _expand_shorthand(checked)
        return expanded, (*type_problems, *find_injected_names(expanded, signature))
    problems = list(_find_root_problems(checked))
    problems.extend(_find_reference_problems(checked))
    if not problems:
        problems.extend(_find_size_problems(checked))
    if not problems:
        problems.extend(_find_meta_schema_problems(checked))
    if "type" not in checked:
        checked = {"type": "object", **checked}
    return checked, (*problems, *find_injected_names(checked, signature))


def find_injected_names(schema: JsonSchema, signature: Signature | None) -> Iterator[str]:
    """Yield the parameters of a schema that no caller can give: the library fills them in."""
    properties = schema.get("properties")
    for parameter in () if signature is None else signature.parameters:
        if parameter.kind == "context" and isinstance(properties, dict) and parameter.name in properties:
            yield f"parameters: {parameter.name!r} is injected as the ToolContext; leave it out of the schema"


def find_misspelt_keywords(schema: JsonSchema) -> Iterator[tuple[SchemaPath, str]]:
    """
    Yield the path of each key that is almost a keyword of JSON Schema, and that keyword.

    JSON Schema allows any other key, so that a misspelt one has no effect.
    """
    for path, part in iter_located_schemas({} if _is_shorthand(schema) else schema):
        for key in part.keys() - _KEYWORDS:
            similar = () if key.startswith("x-") else find_similar_names(key, _KEYWORDS, 1)
            if similar and _is_misspelling(fold_name(key), fold_name(similar[0])):
                yield (*path, key), similar[0]


def _is_misspelling(key: str, keyword: str) -> bool:
    """Tell whether *key* is a keyword with a few letters changed or left out: `units` is not `items`."""
    is_start = keyword.startswith(key)
    return is_start or (abs(len(key) - len(keyword)) <= 2 and bool(find_similar_names(key, (keyword,), cutoff=0.7)))


def _is_shorthand(schema: JsonSchema) -> bool:
    """Tell whether a schema has the types of parameters by their names."""
    return bool(schema.keys() - _SHORTHAND_EXCLUDED) and all(isinstance(value, str) for value in schema.values())


def _expand_shorthand(types: dict[str, str]) -> tuple[JsonSchema, tuple[str, ...]]:
    problems = []
    for name, kind in types.items():
        if kind not in _JSON_TYPES:
            hint = suggest_names(kind, _JSON_TYPES, "; did you mean ") or f"; use one of {', '.join(_JSON_TYPES)}"
            problems.append(f"parameters: {name!r} has the unknown type {shorten_repr(kind)}{hint}")
    properties = {name: {"type": kind} for name, kind in types.items()}
    schema = {"type": "object", "properties": properties, "required": list(types), "additionalProperties": False}
    return schema, tuple(problems)


def _find_size_problems(schema: JsonSchema) -> Iterator[str]:
    try:
        if _count_down_nodes(schema, schema, [_MAX_NODES], ()) < 0:
            yield "parameters: it is too large once its references are followed"
    except RecursionError:
        yield "parameters: its references lead too deep into each other"


def _count_down_nodes(schema: object, root: JsonSchema, remaining: list[int], open_references: tuple[str, ...]) -> int:
    """Return what remains of a budget of nodes once references are followed, each into itself only once."""
    remaining[0] -= 1
    if remaining[0] < 0:
        return remaining[0]
    if isinstance(schema, list):
        for item in schema:
            _count_down_nodes(item, root, remaining, open_references)
    elif isinstance(schema, dict):
        for key, item in schema.items():
            if key in ("$ref", "$dynamicRef") and isinstance(item, str):
                if item not in open_references:
                    _count_down_nodes(resolve_pointer(root, item), root, remaining, (*open_references, item))
            elif key not in (*_VALUE_KEYWORDS, "$defs", "definitions"):
                _count_down_nodes(item, root, remaining, open_references)
    return remaining[0]


def _find_root_problems(schema: JsonSchema) -> Iterator[str]:
    kind = schema.get("type")
    if kind is None and not schema.keys() & {"properties", "allOf", "anyOf", "oneOf", "$ref", "required"}:
        yield "parameters: the root says no type; it must be an object with properties"
    elif kind is not None and kind != "object":
        yield f"parameters: the root is {shorten_repr(kind)}, but arguments are always an object"


def _find_reference_problems(schema: JsonSchema) -> Iterator[str]:
    for place, reference in _iter_references(schema):
        if not isinstance(reference, str):
            yield f"parameters: {place} is not text"
        elif not reference.startswith("#"):
            yield f"parameters: {place} leads outside the schema ({shorten_repr(reference)}); it is never fetched"
        elif reference != "#" and (reference.startswith("#/") and resolve_pointer(schema, reference) is None):
            yield f"parameters: {place} is unresolved ({shorten_repr(reference)})"


def _iter_references(schema: JsonSchema) -> Iterator[tuple[str, object]]:
    stack: list[tuple[str, object]] = [("$", schema)]
    while stack:
        place, node = stack.pop()
        if isinstance(node, dict):
            for key, item in node.items():
                if key in ("$ref", "$dynamicRef") and not place.endswith((".properties", ".$defs", ".definitions")):
                    yield f"{place}.{key}", item
                elif key not in _VALUE_KEYWORDS:
                    stack.append((f"{place}.{key}", item))
        elif isinstance(node, list):
            stack.extend((f"{place}[{index}]", item) for index, item in enumerate(node))


def _find_meta_schema_problems(schema: JsonSchema) -> Iterator[str]:
    import jsonschema_rs

    dialect = schema.get("$schema", _DIALECTS[0])
    if not isinstance(dialect, str) or dialect.rstrip("#") not in _DIALECTS:  # an unknown dialect would be fetched
        yield f"parameters: $.$schema: {shorten_repr(dialect)} is unknown; leave it out"
        return
    try:
        jsonschema_rs.meta.validate(schema)
        compile_schema(schema)
    except jsonschema_rs.ValidationError as error:
        path = format_json_path(error.instance_path)
        yield f"parameters: {path} is not valid JSON Schema: {shorten_text(error.message)}"
    except (ValueError, RecursionError) as error:
        yield f"parameters: not valid JSON Schema: {shorten_text(str(error))}"
