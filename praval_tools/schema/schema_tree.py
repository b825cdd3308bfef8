"""Walks over the schemas inside a JSON Schema, changes them, and puts references in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from praval_tools.schema.json_pointer import resolve_pointer

JsonSchema: TypeAlias = dict[str, Any]
SchemaPart: TypeAlias = JsonSchema | bool
"""A schema inside another one: True allows everything, False nothing."""
SchemaPath: TypeAlias = tuple[str | int, ...]
"""The keys and indexes that lead to a schema inside another one."""

_SCHEMA_KEYWORDS: Final = frozenset(
    {"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "additionalItems",
     "unevaluatedItems", "unevaluatedProperties", "contentSchema"}
)  # fmt: skip
_SCHEMA_LIST_KEYWORDS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_BRANCH_KEYWORDS: Final = ("allOf", "anyOf", "oneOf")
_SCHEMA_MAP_KEYWORDS: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
_MAX_INLINED_SCHEMAS: Final = 10_000
_UNRESOLVED: Final = object()


def map_subschemas(schema: Mapping[str, Any], change: Callable[[Any], Any]) -> JsonSchema:
    """Return a copy of *schema* with *change* applied to each schema directly inside it."""
    changed: JsonSchema = {}
    for keyword, value in schema.items():
        if keyword in _SCHEMA_LIST_KEYWORDS and isinstance(value, list):
            changed[keyword] = [change(item) for item in value]
        elif keyword in _SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
            changed[keyword] = {name: change(item) for name, item in value.items()}
        else:
            changed[keyword] = change(value) if keyword in _SCHEMA_KEYWORDS else value
    return changed


def has_early_draft(schema: object) -> bool:
    """Tell whether a schema says that it is of a draft of JSON Schema up to draft-07."""
    return isinstance(schema, Mapping) and "draft-0" in str(schema.get("$schema"))


def refer_to(schema: Any, base: str, *, also_definitions: bool) -> Any:
    """
    Return *schema* with references into the schema that is known as *base*, instead of into its own root.

    Args:
        schema: What may have references.
        base: The URI of the schema in which they lead somewhere.
        also_definitions: Change those to whole definitions, to the root itself and to anchors, too.
    """
    if not isinstance(schema, dict):
        return schema
    changed = map_subschemas(schema, lambda part: refer_to(part, base, also_definitions=also_definitions))
    if not isinstance(reference := changed.get("$ref"), str) or not reference.startswith("#"):
        return changed
    is_definition = reference.startswith(("#/$defs/", "#/definitions/")) and reference.count("/") == 2  # as a whole
    if also_definitions or (reference[1:2] == "/" and not is_definition):
        changed["$ref"] = base + reference
    return changed


def close_object_schemas(node: object, *, keeps_open: bool = True) -> Any:
    """
    Return *node*, a schema, with objects closed that name their properties, at any depth.

    Pydantic drops other properties silently, or reads them as properties that it knows, by its aliases.

    Args:
        node: The schema.
        keeps_open: Objects that say which other properties they take stay as they are.
    """
    if not isinstance(node, dict):
        return node
    closed = map_subschemas(node, lambda part: close_object_schemas(part, keeps_open=keeps_open))
    if isinstance(closed.get("properties"), dict) and not (keeps_open and "additionalProperties" in closed):
        closed["additionalProperties"] = False
    return closed


def iter_schemas(schema: object) -> Iterator[JsonSchema]:
    """Yield *schema* and every schema inside it, boolean schemas left out."""
    for _, part in iter_located_schemas(schema):
        yield part


def iter_located_schemas(schema: object, path: SchemaPath = ()) -> Iterator[tuple[SchemaPath, JsonSchema]]:
    """Yield *schema* and every schema inside it, each with its path, boolean schemas left out."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for keyword, value in schema.items():
        if keyword in _SCHEMA_LIST_KEYWORDS and isinstance(value, list):
            for index, item in enumerate(value):
                yield from iter_located_schemas(item, (*path, keyword, index))
        elif keyword in _SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
            for name, item in value.items():
                yield from iter_located_schemas(item, (*path, keyword, name))
        elif keyword in _SCHEMA_KEYWORDS:
            yield from iter_located_schemas(value, (*path, keyword))


def get_item_name(item: object) -> str:
    """
    Return the name of the place that *item*, a schema of one place of an array, has; the empty text if it has none.

    It is the title, as which pydantic writes the names of the fields of a NamedTuple.
    """
    title = item.get("title") if isinstance(item, Mapping) else None
    return title if isinstance(title, str) else ""


def inline_references(schema: SchemaPart, root: Mapping[str, Any], *, deep: bool = True) -> SchemaPart:
    """
    Return *schema* with the schemas that its references lead to in their place.

    Args:
        schema: What may have references.
        root: The schema in which they lead somewhere.
        deep: False: those in the schemas of members stay, such as under `properties` and `items`.

    Returns:
        True, which allows everything, where a reference is unresolved or recursive, or the schema gets too large.
    """
    remaining = _MAX_INLINED_SCHEMAS

    def inline(part: Any, open_references: frozenset[str]) -> Any:
        nonlocal remaining
        remaining -= 1
        if remaining < 0:
            raise RecursionError
        if not isinstance(part, dict):
            return part
        plain = {key: value for key, value in part.items() if key not in ("$ref", "$defs", "definitions")}
        parts = plain if deep else {key: plain[key] for key in _BRANCH_KEYWORDS if key in plain}
        inlined = {**plain, **map_subschemas(parts, lambda inner: inline(inner, open_references))}
        if "$ref" not in part:
            return inlined
        reference = part["$ref"]
        target = resolve_pointer(root, reference, _UNRESOLVED)
        if target is _UNRESOLVED or reference in open_references:
            raise RecursionError
        target = inline(target, open_references | {reference})
        return {**inlined, "allOf": [*inlined.get("allOf", ()), target]} if inlined else target

    try:
        inlined: SchemaPart = inline(schema, frozenset())
    except RecursionError:
        return True
    return inlined
