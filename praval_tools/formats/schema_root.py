"""
Adapts a tool's schema to what every provider requires.

A plain object at the root, `items` in each list, and no property that is True or False.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from praval_tools.schema.json_pointer import resolve_pointer
from praval_tools.schema.schema_tree import JsonSchema, iter_schemas, map_subschemas

_BRANCH_KEYWORDS: Final = ("anyOf", "oneOf", "allOf")
_ROOT_DROPPED_KEYWORDS: Final = frozenset(
    (*_BRANCH_KEYWORDS, "not", "enum", "const", "if", "then", "else", "$ref", "$schema", "$id")
)
_KEYWORDS_OF_OTHERS: Final = ("additionalProperties", "unevaluatedProperties")
"""What they say holds for members that nothing else names."""
_MAX_DEPTH: Final = 200

_CollectedProperties: TypeAlias = tuple[JsonSchema, set[str]]


def flatten_root(schema: JsonSchema) -> JsonSchema:
    """
    Return *schema* with an object at its root that has no branches, which providers refuse there.

    The result may be looser, never narrower; a call is checked against the whole schema anyway.
    """
    if schema.get("type") == "object" and not _ROOT_DROPPED_KEYWORDS & schema.keys():
        return schema
    left_out = (*_ROOT_DROPPED_KEYWORDS, "required", "unevaluatedProperties")  # which are those that no branch names
    flat = {key: value for key, value in schema.items() if key not in left_out}
    properties, required = _collect_properties(schema, schema, {}, 0)
    flat["type"], flat["properties"] = "object", properties
    if required:
        flat["required"] = [name for name in properties if name in required]
    return flat


def _collect_properties(
    schema: object, root: JsonSchema, collected: dict[str, _CollectedProperties], level: int
) -> _CollectedProperties:
    """
    Return the properties that *schema* names, and those of them that it always requires.

    The target of a reference is read once and kept in *collected*; a reference into itself adds nothing.
    """
    if not isinstance(schema, dict) or level > _MAX_DEPTH:
        return {}, set()
    properties = dict(schema["properties"]) if isinstance(schema.get("properties"), dict) else {}
    required = {name for name in schema.get("required", ()) if isinstance(name, str)}
    if isinstance(pointer := schema.get("$ref"), str):
        if pointer not in collected:
            collected[pointer] = {}, set()
            collected[pointer] = _collect_properties(resolve_pointer(root, pointer), root, collected, level + 1)
        _merge_properties(properties, collected[pointer][0])
        required |= collected[pointer][1]
    for key in _BRANCH_KEYWORDS:
        branches = [_collect_properties(branch, root, collected, level + 1) for branch in schema.get(key, ())]
        for branch_properties, _ in branches:
            _merge_properties(properties, branch_properties)
        if branches:
            required_sets = [branch_required for _, branch_required in branches]
            required |= set().union(*required_sets) if key == "allOf" else set.intersection(*required_sets)
    return properties, required & properties.keys()


def _merge_properties(properties: JsonSchema, additional: JsonSchema) -> None:
    """Add the *additional* properties; a property that is in both may be as either says."""
    for name, schema in additional.items():
        known = properties.get(name)
        if known is None or known == schema:
            properties[name] = schema
        elif isinstance(known, dict) and set(known) == {"anyOf"}:
            properties[name] = {"anyOf": [*known["anyOf"], schema]}
        else:
            properties[name] = {"anyOf": [known, schema]}


def refer_to_defined_root(schema: JsonSchema) -> JsonSchema:
    """Return *schema* with what refers to its root referring to a definition instead, so that the root may change."""
    if all(part.get("$ref") != "#" for part in iter_schemas(schema)):
        return schema
    name = "root"
    while name in schema.get("$defs", {}):
        name += "_"

    def refer(part: JsonSchema) -> None:
        if part.get("$ref") == "#":
            part["$ref"] = f"#/$defs/{name}"

    changed = _copy_changed(schema, refer)
    root = {key: value for key, value in changed.items() if key not in ("$defs", "definitions", "$schema", "$id")}
    return {**changed, "$defs": {**changed.get("$defs", {}), name: root}}


def allow_member(schema: JsonSchema, name: str) -> JsonSchema:
    """
    Return *schema* without what it says of the number and the names of all members that keeps out one called *name*.

    Nothing is lost: a call is checked against the whole schema without that member.
    """
    import jsonschema_rs

    kept = {key: value for key, value in schema.items() if key not in ("maxProperties", "propertyNames")}
    patterns = kept.get("patternProperties")
    if isinstance(patterns, dict):
        others = [key for key in patterns if jsonschema_rs.is_valid({"patternProperties": {key: False}}, {name: ""})]
        if len(others) < len(patterns):  # what they allow would be kept out as a member that nothing names
            kept = {key: value for key, value in kept.items() if key not in _KEYWORDS_OF_OTHERS}
        kept["patternProperties"] = {pattern: patterns[pattern] for pattern in others}
    return kept


def remove_boolean_properties(schema: JsonSchema) -> JsonSchema:
    """
    Return *schema* without the properties that no value fits, and with an object for those that any value fits.

    Some clients know no boolean there. Nothing is lost: a call is checked against the whole schema anyway.
    """

    def remove(part: JsonSchema) -> None:
        for keyword in ("properties", "patternProperties"):
            if isinstance(members := part.get(keyword), dict):
                kept = {name: member for name, member in members.items() if member is not False}
                part[keyword] = {name: {} if member is True else member for name, member in kept.items()}

    return _copy_changed(schema, remove)


def add_missing_items(schema: JsonSchema) -> JsonSchema:
    """Return *schema* with `items` in each list, without which OpenAI takes none."""

    def add(part: JsonSchema) -> None:
        kind = part.get("type")
        if kind == "array" or (isinstance(kind, list) and "array" in kind):
            part.setdefault("items", {})

    return _copy_changed(schema, add)


def _copy_changed(schema: JsonSchema, change: Callable[[JsonSchema], None]) -> JsonSchema:
    """Return a copy of *schema* after *change* of each schema in it, down to some depth."""

    def copy(part: Any, level: int) -> Any:
        if not isinstance(part, dict) or level > _MAX_DEPTH:
            return part
        copied = map_subschemas(part, lambda inner: copy(inner, level + 1))
        change(copied)
        return copied

    changed: JsonSchema = copy(schema, 0)
    return changed
