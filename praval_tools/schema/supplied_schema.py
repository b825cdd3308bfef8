"""Schemas that were given with a tool instead of derived: checked when the tool is defined."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from praval_tools.names import find_similar_names, shorten_repr
from praval_tools.schema.json_input import MalformedArgumentsError, normalize_json
from praval_tools.schema.json_pointer import resolve_pointer
from praval_tools.schema.validator import compile_schema, shorten_text

_JSON_TYPES: Final = ("string", "integer", "number", "boolean", "array", "object", "null")
_MAX_NODES: Final = 100_000
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


def check_supplied_schema(schema: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """
    Return the schema as it will be used, and every reason why it cannot be.

    `{}` means no parameters; `{"q": "string"}` is short for required properties.
    """
    if not isinstance(schema, Mapping):
        return {}, (f"parameters: {shorten_repr(schema)} is no JSON Schema",)
    try:
        made = copy.deepcopy(normalize_json(dict(schema)))
    except MalformedArgumentsError as bad:
        return {}, tuple(f"parameters: {one.path}: {one.reason}" for one in bad.problems)
    if not made:
        return {"type": "object", "properties": {}, "additionalProperties": False}, ()
    if made.keys() - _SHORTHAND_EXCLUDED and all(isinstance(one, str) for one in made.values()):
        return _expand_shorthand(made)
    problems = list(_find_root_problems(made))
    problems.extend(_find_reference_problems(made))
    if not problems and _count_remaining_nodes(made, made, [_MAX_NODES], ()) < 0:
        problems.append("parameters: it is too large once its references are followed")
    if not problems:
        problems.extend(_find_meta_schema_problems(made))
    if "type" not in made:
        made = {"type": "object", **made}
    return made, tuple(problems)


def _expand_shorthand(given: dict[str, str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    problems = []
    for name, kind in given.items():
        if kind not in _JSON_TYPES:
            match = find_similar_names(kind, _JSON_TYPES)
            hint = f"; did you mean {match[0]!r}?" if match else f"; use one of {', '.join(_JSON_TYPES)}"
            problems.append(f"parameters: {name!r} has the unknown type {shorten_repr(kind)}{hint}")
    properties = {name: {"type": kind} for name, kind in given.items()}
    made = {"type": "object", "properties": properties, "required": list(given), "additionalProperties": False}
    return made, tuple(problems)


def _count_remaining_nodes(schema: Any, root: dict[str, Any], left: list[int], within: tuple[str, ...]) -> int:
    """Return how many places are left once the references of *schema* are followed, each into itself but once."""
    left[0] -= 1
    if left[0] < 0:
        return left[0]
    if isinstance(schema, list):
        for one in schema:
            _count_remaining_nodes(one, root, left, within)
    elif isinstance(schema, dict):
        for key, one in schema.items():
            if key in ("$ref", "$dynamicRef") and isinstance(one, str):
                if one not in within:
                    _count_remaining_nodes(resolve_pointer(root, one), root, left, (*within, one))
            elif key not in ("enum", "const", "default", "examples", "$defs", "definitions"):
                _count_remaining_nodes(one, root, left, within)
    return left[0]


def _find_root_problems(schema: dict[str, Any]) -> Iterator[str]:
    kind = schema.get("type")
    if kind is None and not schema.keys() & {"properties", "allOf", "anyOf", "oneOf", "$ref", "required"}:
        yield "parameters: the root says no type; it must be an object with properties"
    elif kind is not None and kind != "object":
        yield f"parameters: the root is {shorten_repr(kind)}, but arguments are always an object"


def _find_reference_problems(schema: dict[str, Any]) -> Iterator[str]:
    for place, reference in _iter_references(schema):
        if not isinstance(reference, str):
            yield f"parameters: {place} is no text"
        elif not reference.startswith("#"):
            yield f"parameters: {place} leads outside of the schema ({shorten_repr(reference)}); it is never fetched"
        elif reference != "#" and (reference.startswith("#/") and resolve_pointer(schema, reference) is None):
            yield f"parameters: {place} leads nowhere ({shorten_repr(reference)})"


def _iter_references(schema: Any) -> Iterator[tuple[str, Any]]:
    stack = [("$", schema)]
    while stack:
        place, here = stack.pop()
        if isinstance(here, dict):
            for key, item in here.items():
                if key in ("$ref", "$dynamicRef") and not place.endswith((".properties", ".$defs", ".definitions")):
                    yield f"{place}.{key}", item
                elif key not in ("enum", "const", "default", "examples"):
                    stack.append((f"{place}.{key}", item))
        elif isinstance(here, list):
            stack.extend((f"{place}[{index}]", item) for index, item in enumerate(here))


def _find_meta_schema_problems(schema: dict[str, Any]) -> Iterator[str]:
    import jsonschema_rs

    dialect = schema.get("$schema", _DIALECTS[0])
    if not isinstance(dialect, str) or dialect.rstrip("#") not in _DIALECTS:  # an unknown one would be fetched
        yield f"parameters: $.$schema: {shorten_repr(dialect)} is unknown; leave it out"
        return
    try:
        jsonschema_rs.meta.validate(schema)
        compile_schema(schema)
    except jsonschema_rs.ValidationError as error:
        place = "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
        yield f"parameters: {place} is no valid JSON Schema: {shorten_text(str(error.message))}"
    except (ValueError, RecursionError) as error:
        yield f"parameters: no valid JSON Schema: {shorten_text(str(error))}"
