"""
Rewrites a tool's schema for a provider's strict mode, in which the model can write nothing that does not fit.

Each provider takes a part of JSON Schema. A keyword that only narrows a value moves into the description; what cannot
be left out, such as an open object, makes strict mode impossible for the schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import define, frozen

from praval_tools.formats.union_branches import UnionBranches
from praval_tools.schema.json_pointer import resolve_pointer
from praval_tools.schema.schema_tree import JsonSchema

_UNSUPPORTED_KEYWORDS: Final = frozenset(
    (
        "allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies", "prefixItems",
        "patternProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "additionalItems",
        "$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor", "$id",
    )
)  # fmt: skip
_OMITTED_KEYWORDS: Final = frozenset(
    ("$schema", "$defs", "definitions", "$comment", "examples", "deprecated", "readOnly", "writeOnly", "$vocabulary")
)
_ANNOTATION_KEYWORDS: Final = ("title", "description", "default")
_SHAPE_KEYWORDS: Final = frozenset(("type", "properties", "required", "additionalProperties", "items", "enum", "const",
                           "anyOf", "oneOf", "$ref"))  # fmt: skip
_DEFINITION_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MAX_DEPTH: Final = 60
_MAX_NODES: Final = 50_000
_SCALAR_TYPES: Final = {bool: "boolean", str: "string", int: "integer", float: "number", type(None): "null"}
_KNOWN_TYPES: Final = frozenset(("object", "array", *_SCALAR_TYPES.values()))


@frozen(kw_only=True)
class StrictRules:
    """
    What a provider's strict mode takes.

    Args:
        keywords: The keywords that may narrow a value, each with a test of its value.
        formats: The formats that texts may have.
        type_lists: A value may be of one of several types in a list; False: by `anyOf`.
        all_required: Each property is required; one that may be left out may be null instead, unless its default is
            all that it takes.
        recursive: A schema may refer to itself.
        properties: Greatest number of properties.
        depth: Greatest number of levels of lists and objects.
        enums: Greatest number of values of all enums.
        letters: Greatest number of characters of names and enum values.
        long_enum: Greatest number of characters of the texts of one enum that has more than 250 of them.
        optional: Greatest number of properties that may be left out.
        unions: Greatest number of properties of several types.
    """

    keywords: Mapping[str, Callable[[Any], bool]]
    formats: frozenset[str]
    type_lists: bool
    all_required: bool
    recursive: bool
    properties: int = 1 << 31
    depth: int = _MAX_DEPTH
    enums: int = 1 << 31
    letters: int = 1 << 31
    long_enum: int = 1 << 31
    optional: int = 1 << 31
    unions: int = 1 << 31


@frozen
class StrictCost:
    """The share of one strict tool in the budget that all strict tools of a request have together."""

    tools: int = 1
    optional: int = 0
    unions: int = 0


class NotStrictError(Exception):
    """The schema cannot be strict; the text says why."""


def make_strict_schema(schema: JsonSchema, rules: StrictRules) -> tuple[JsonSchema, StrictCost] | None:
    """Return *schema* for a strict mode, and what it costs; None if it cannot be strict."""
    try:
        strict = _StrictRewriter(schema, rules).rewrite_root()
        return strict, _measure_cost(strict, rules)
    except (NotStrictError, RecursionError):
        return None


class _StrictRewriter:
    """Rewrites one schema; the definitions that it refers to are rewritten once."""

    def __init__(self, root: JsonSchema, rules: StrictRules) -> None:
        self._root, self._rules, self._unions = root, rules, UnionBranches(root)
        self._names_by_pointer: dict[str, str] = {}
        self._definitions: JsonSchema = {}
        self._open_pointers: list[str] = []
        self._node_count = 0

    def rewrite_root(self) -> JsonSchema:
        """Return the whole schema, rewritten."""
        schema, seen = self._root, set[str]()
        while "$ref" in schema and schema["$ref"] not in seen:
            seen.add(schema["$ref"])
            schema = self._inline_reference(schema)
        if schema.get("type") != "object" or "anyOf" in schema or "oneOf" in schema or "enum" in schema:
            raise NotStrictError("its root is not a plain object")
        strict = self._rewrite(schema, 0)
        return {**strict, "$defs": self._definitions} if self._definitions else strict

    def _rewrite(self, schema: object, level: int) -> JsonSchema:
        self._node_count += 1
        if not isinstance(schema, dict) or level > _MAX_DEPTH or self._node_count > _MAX_NODES:
            raise NotStrictError("it takes anything somewhere, or is too large")
        if unsupported := _UNSUPPORTED_KEYWORDS & schema.keys():
            raise NotStrictError(f"it has {min(unsupported)}")
        if "$ref" in schema:
            return self._rewrite_reference(schema, level)
        branches = [key for key in ("anyOf", "oneOf") if key in schema]
        if branches:
            shape = self._rewrite_union(schema, branches, level)
        elif "enum" in schema or "const" in schema:
            shape = self._rewrite_enum(schema)
        else:
            shape = self._rewrite_typed(schema, level)
        return self._add_annotations(schema, shape)

    def _rewrite_union(self, schema: JsonSchema, branches: list[str], level: int) -> JsonSchema:
        if len(branches) > 1 or _SHAPE_KEYWORDS & schema.keys() - {branches[0]}:
            raise NotStrictError("a union has more than its branches")
        if self._rules.all_required and not self._unions.are_distinct(schema[branches[0]]):
            raise NotStrictError("only what may be left out tells the classes of a union apart")
        return {"anyOf": [self._rewrite(branch, level + 1) for branch in schema[branches[0]]]}

    def _rewrite_enum(self, schema: JsonSchema) -> JsonSchema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        kinds = list(dict.fromkeys(_SCALAR_TYPES.get(type(value), "") for value in values))
        if not values or not all(kinds):
            raise NotStrictError("an enum has values that are not scalars")
        if len(kinds) == 1 or self._rules.type_lists:
            return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": list(values)}
        return {"enum": list(values)}

    def _rewrite_typed(self, schema: JsonSchema, level: int) -> JsonSchema:
        kind = schema.get("type")
        kinds = kind if isinstance(kind, list) else [kind]
        if not kinds or not all(isinstance(name, str) and name in _KNOWN_TYPES for name in kinds):
            raise NotStrictError("it takes anything somewhere")
        if isinstance(kind, list) and not self._rules.type_lists:
            bare = {key: value for key, value in schema.items() if key not in _ANNOTATION_KEYWORDS}
            return {"anyOf": [self._rewrite({**bare, "type": name}, level + 1) for name in kinds]}
        shape: JsonSchema = {"type": kind}
        if "object" in kinds:
            shape |= self._rewrite_object(schema, level)
        if "array" in kinds:
            shape["items"] = self._rewrite(schema.get("items"), level + 1)
        return shape

    def _rewrite_object(self, schema: JsonSchema, level: int) -> JsonSchema:
        if schema.get("additionalProperties") is not False:
            raise NotStrictError("an object is open")
        required, properties = schema.get("required", ()), JsonSchema()
        for name, inner in schema.get("properties", {}).items():
            properties[name] = self._rewrite(inner, level + 1)
            if self._rules.all_required and name not in required and not self._unions.is_constant(inner):
                properties[name] = _make_nullable(properties[name])
        if any(name not in properties for name in required):
            raise NotStrictError("it requires a property that it does not name")
        names = [name for name in properties if self._rules.all_required or name in required]
        return {"properties": properties, "required": names, "additionalProperties": False}

    def _add_annotations(self, schema: JsonSchema, shape: JsonSchema) -> JsonSchema:
        """Add the keywords of *schema* besides its shape: as they are if the provider takes them, else described."""
        described: JsonSchema = {}
        for key, value in schema.items():
            if key in _SHAPE_KEYWORDS or key in _OMITTED_KEYWORDS or key in _ANNOTATION_KEYWORDS:
                continue
            is_allowed = self._rules.keywords.get(key)
            is_kept = value in self._rules.formats if key == "format" else is_allowed is not None and is_allowed(value)
            (shape if is_kept else described)[key] = value
        shape |= {key: schema[key] for key in _ANNOTATION_KEYWORDS if schema.get(key) is not None}
        if described:
            text = "{" + ", ".join(f"{key}: {value}" for key, value in described.items()) + "}"
            shape["description"] = f"{shape['description']}\n\n{text}" if shape.get("description") else text
        return shape

    # ── references ───────────────────────────────────────────────────────────────────────────────

    def _rewrite_reference(self, schema: JsonSchema, level: int) -> JsonSchema:
        pointer = schema["$ref"]
        beside = schema.keys() - _OMITTED_KEYWORDS - {"$ref"}
        if beside - set(_ANNOTATION_KEYWORDS):
            raise NotStrictError("a reference has more than a description")
        if not isinstance(pointer, str):
            raise NotStrictError("a reference is not text")
        if pointer in self._open_pointers and not self._rules.recursive:
            raise NotStrictError("it refers to itself")
        if beside and pointer not in self._open_pointers:
            self._open_pointers.append(pointer)
            try:
                return self._rewrite(self._inline_reference(schema), level)
            finally:
                self._open_pointers.pop()
        return {"$ref": self._rewrite_definition(pointer, level)}

    def _inline_reference(self, schema: JsonSchema) -> JsonSchema:
        """Return the target of a reference, with the annotations beside the reference."""
        target = resolve_pointer(self._root, schema["$ref"])
        if not isinstance(target, dict):
            raise NotStrictError("a reference is unresolved")
        return {**target, **{key: schema[key] for key in _ANNOTATION_KEYWORDS if key in schema}}

    def _rewrite_definition(self, pointer: str, level: int) -> str:
        """Return where *pointer* leads in the rewritten schema; a definition is rewritten at its first reference."""
        if pointer == "#" and self._rules.recursive and "$ref" not in self._root:
            return "#"
        if pointer not in self._names_by_pointer:
            target = resolve_pointer(self._root, pointer)
            name = pointer.rpartition("/")[2]
            name = name if _DEFINITION_NAME.fullmatch(name) else f"part_{len(self._names_by_pointer) + 1}"
            while name in self._definitions:
                name += "_"
            self._names_by_pointer[pointer] = name
            self._definitions[name] = {}
            self._open_pointers.append(pointer)
            try:
                self._definitions[name] = self._rewrite(target, level)
            finally:
                self._open_pointers.pop()
        return f"#/$defs/{self._names_by_pointer[pointer]}"


def _make_nullable(schema: JsonSchema) -> JsonSchema:
    """Return *schema* changed so that it takes null, too."""
    kinds = schema.get("type")
    if kinds is None:
        members = schema.get("anyOf")
        if members is None:
            return {"anyOf": [schema, {"type": "null"}]}
        if any(member.get("type") == "null" for member in members):
            return schema
        return {**schema, "anyOf": [*members, {"type": "null"}]}
    kinds = kinds if isinstance(kinds, list) else [kinds]
    nullable = schema if "null" in kinds else {**schema, "type": [*kinds, "null"]}
    if "enum" in schema and None not in schema["enum"]:
        nullable = {**nullable, "enum": [*schema["enum"], None]}
    return nullable


# ── limits ───────────────────────────────────────────────────────────────────────────────────────


@define
class _StrictCounts:
    """What is counted in a strict schema; named as the limits of `StrictRules`."""

    properties: int = 0
    enums: int = 0
    letters: int = 0
    long_enum: int = 0
    optional: int = 0
    unions: int = 0
    depth: int = 0


def _measure_cost(schema: JsonSchema, rules: StrictRules) -> StrictCost:
    """Return what a strict schema costs; `NotStrictError` where it is more than a provider takes."""
    definitions = schema.get("$defs", {})
    counts = _StrictCounts(letters=sum(map(len, definitions)), depth=_DepthCounter(schema).measure_depth(schema))
    for part in (schema, *definitions.values()):
        _add_counts(part, counts)
    for name in ("properties", "enums", "letters", "long_enum", "optional", "unions", "depth"):
        if getattr(counts, name) > getattr(rules, name):
            raise NotStrictError(f"it has more than {getattr(rules, name)} {name}")
    return StrictCost(1, counts.optional, counts.unions)


def _list_members(schema: JsonSchema) -> list[JsonSchema]:
    return [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]


def _add_counts(schema: JsonSchema, counts: _StrictCounts) -> None:
    properties = schema.get("properties", {})
    counts.properties += len(properties)
    counts.letters += sum(map(len, properties))
    counts.optional += len(properties) - len(schema.get("required", ())) if properties else 0
    counts.unions += sum("anyOf" in inner or isinstance(inner.get("type"), list) for inner in properties.values())
    if enum := schema.get("enum"):
        text_length = sum(len(value) for value in enum if isinstance(value, str))
        counts.enums += len(enum)
        counts.letters += text_length + sum(len(str(value)) for value in enum if not isinstance(value, str))
        counts.long_enum = max(counts.long_enum, text_length if len(enum) > 250 else 0)
    for inner in (*_list_members(schema), *schema.get("anyOf", ())):
        _add_counts(inner, counts)


class _DepthCounter:
    """Counts levels of lists and objects; a definition that is inside itself counts once."""

    def __init__(self, root: JsonSchema) -> None:
        self._root, self._depths_by_pointer = root, dict[str, int]()

    def measure_depth(self, schema: JsonSchema) -> int:
        """Return the number of levels of *schema*."""
        if "$ref" in schema:
            pointer = schema["$ref"]
            if pointer not in self._depths_by_pointer:
                self._depths_by_pointer[pointer] = 0
                self._depths_by_pointer[pointer] = self.measure_depth(resolve_pointer(self._root, pointer))
            return self._depths_by_pointer[pointer]
        members = _list_members(schema)
        own = int(bool(members) or "properties" in schema)
        return max(
            own + max(map(self.measure_depth, members), default=0),
            max(map(self.measure_depth, schema.get("anyOf", ())), default=0),
        )
