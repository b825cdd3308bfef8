"""What every provider asks of a tool's schema, strict or not: a plain object at the root, items in each list."""

from __future__ import annotations

from typing import Any, Final

from praval_tools.schema.json_pointer import resolve_pointer

_BRANCH_KEYWORDS: Final = ("anyOf", "oneOf", "allOf")
_ROOT_DROPPED_KEYWORDS: Final = frozenset(
    (*_BRANCH_KEYWORDS, "not", "enum", "const", "if", "then", "else", "$ref", "$schema", "$id")
)
_SCHEMA_LIST_KEYWORDS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMA_KEYWORDS: Final = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_SCHEMA_MAP_KEYWORDS: Final = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_MAX_DEPTH: Final = 200

_CollectedProperties = tuple[dict[str, Any], set[str]]


def flatten_root(schema: dict[str, Any]) -> dict[str, Any]:
    """
    Return *schema* with an object at its root that has no branches, which providers refuse there.

    What it had is looser then, never narrower; a call is checked against the whole schema anyhow.
    """
    if schema.get("type") == "object" and not _ROOT_DROPPED_KEYWORDS & schema.keys():
        return schema
    made = {key: value for key, value in schema.items() if key not in _ROOT_DROPPED_KEYWORDS}
    made["type"] = "object"
    properties, required = _collect_properties(schema, schema, {}, 0)
    made["properties"] = properties
    made.pop("required", None)
    if required:
        made["required"] = [name for name in properties if name in required]
    return made


def _collect_properties(
    schema: Any, root: dict[str, Any], known: dict[str, _CollectedProperties], level: int
) -> _CollectedProperties:
    """
    Return the properties that *schema* speaks of, and those of them that it always requires.

    What a reference leads to is looked at once and is in *known* then; within itself it says nothing.
    """
    if not isinstance(schema, dict) or level > _MAX_DEPTH:
        return {}, set()
    properties = dict(schema["properties"]) if isinstance(schema.get("properties"), dict) else {}
    required = {one for one in schema.get("required", ()) if isinstance(one, str)}
    if isinstance(pointer := schema.get("$ref"), str):
        if pointer not in known:
            known[pointer] = {}, set()
            known[pointer] = _collect_properties(resolve_pointer(root, pointer), root, known, level + 1)
        more, needed = known[pointer]
        _merge_properties(properties, more)
        required |= needed
    for key in _BRANCH_KEYWORDS:
        found = [_collect_properties(one, root, known, level + 1) for one in schema.get(key, ())]
        for more, _ in found:
            _merge_properties(properties, more)
        if found:
            every = [needed for _, needed in found]
            required |= set().union(*every) if key == "allOf" else set.intersection(*every)
    return properties, required & properties.keys()


def _merge_properties(properties: dict[str, Any], more: dict[str, Any]) -> None:
    """Add *more*; a property that both have may be as either says."""
    for name, schema in more.items():
        known = properties.get(name)
        if known is None or known == schema:
            properties[name] = schema
        elif isinstance(known, dict) and set(known) == {"anyOf"}:
            properties[name] = {"anyOf": [*known["anyOf"], schema]}
        else:
            properties[name] = {"anyOf": [known, schema]}


def add_missing_items(schema: Any, level: int = 0) -> Any:
    """Return *schema* with `items` in each list, without which OpenAI takes none; itself where nothing is missing."""
    if not isinstance(schema, dict) or level > _MAX_DEPTH:
        return schema
    made = dict(schema)
    for key in _SCHEMA_KEYWORDS:
        if key in schema:
            made[key] = add_missing_items(schema[key], level + 1)
    for key in _SCHEMA_LIST_KEYWORDS:
        if isinstance(schema.get(key), list):
            made[key] = [add_missing_items(one, level + 1) for one in schema[key]]
    for key in _SCHEMA_MAP_KEYWORDS:
        if isinstance(schema.get(key), dict):
            made[key] = {name: add_missing_items(one, level + 1) for name, one in schema[key].items()}
    kind = schema.get("type")
    if (kind == "array" or (isinstance(kind, list) and "array" in kind)) and "items" not in made:
        made["items"] = {}
    return made
