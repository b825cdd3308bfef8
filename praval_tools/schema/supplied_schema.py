"""Checks a parameters schema that is given with a tool instead of derived from its hints."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Final

from praval_tools.names import shorten_repr, suggest_names
from praval_tools.schema.json_input import MalformedArgumentsError, format_json_path, normalize_json
from praval_tools.schema.json_pointer import resolve_pointer
from praval_tools.schema.schema_tree import JsonSchema
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


def check_supplied_schema(schema: object) -> tuple[JsonSchema, tuple[str, ...]]:
    """
    Return the schema as it will be used, and every reason why it cannot be used.

    `{}` means no parameters; `{"q": "string"}` is short for required properties.
    """
    if not isinstance(schema, Mapping):
        return {}, (f"parameters: {shorten_repr(schema)} is not a JSON Schema",)
    try:
        checked: JsonSchema = copy.deepcopy(normalize_json(dict(schema)))
    except MalformedArgumentsError as error:
        return {}, tuple(f"parameters: {problem.path}: {problem.reason}" for problem in error.problems)
    if not checked:
        return {"type": "object", "properties": {}, "additionalProperties": False}, ()
    if checked.keys() - _SHORTHAND_EXCLUDED and all(isinstance(value, str) for value in checked.values()):
        return _expand_shorthand(checked)
    problems = list(_find_root_problems(checked))
    problems.extend(_find_reference_problems(checked))
    if not problems and _count_down_nodes(checked, checked, [_MAX_NODES], ()) < 0:
        problems.append("parameters: it is too large once its references are followed")
    if not problems:
        problems.extend(_find_meta_schema_problems(checked))
    if "type" not in checked:
        checked = {"type": "object", **checked}
    return checked, tuple(problems)


def _expand_shorthand(types: dict[str, str]) -> tuple[JsonSchema, tuple[str, ...]]:
    problems = []
    for name, kind in types.items():
        if kind not in _JSON_TYPES:
            hint = suggest_names(kind, _JSON_TYPES, "; did you mean ") or f"; use one of {', '.join(_JSON_TYPES)}"
            problems.append(f"parameters: {name!r} has the unknown type {shorten_repr(kind)}{hint}")
    properties = {name: {"type": kind} for name, kind in types.items()}
    schema = {"type": "object", "properties": properties, "required": list(types), "additionalProperties": False}
    return schema, tuple(problems)


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
