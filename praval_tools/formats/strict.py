"""
Schemas for the strict modes, in which a provider lets its model write nothing else.

Each provider takes a part of JSON Schema. What only narrows a value moves into the description; what cannot be left
out, such as an open object, makes the schema one that cannot be strict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from attrs import frozen

from praval_tools.schema.json_pointer import resolve_pointer

_UNSUPPORTED_KEYWORDS: Final = frozenset(
    (
        "allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies", "prefixItems",
        "patternProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "additionalItems",
        "$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor", "$id",
    )
)  # fmt: skip
_OMITTED_KEYWORDS: Final = frozenset(("$schema", "$defs", "definitions", "$comment", "examples", "deprecated", "readOnly",
                            "writeOnly", "$vocabulary"))  # fmt: skip
_ANNOTATION_KEYWORDS: Final = ("title", "description", "default")
_SHAPE_KEYWORDS: Final = frozenset(("type", "properties", "required", "additionalProperties", "items", "enum", "const",
                           "anyOf", "oneOf", "$ref"))  # fmt: skip
_DEFINITION_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MAX_DEPTH: Final = 60
_MAX_NODES: Final = 50_000
_SCALAR_TYPES: Final = ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"), (type(None), "null"))
_KNOWN_TYPES: Final = frozenset(("object", "array", *(name for _, name in _SCALAR_TYPES)))


@frozen(kw_only=True)
class StrictRules:
    """
    What a provider's strict mode takes.

    Args:
        keywords: What may narrow a value; each of them with a test of what it may be.
        formats: Of texts.
        type_lists: A value may be of one of several types in a list; False: by `anyOf`.
        all_required: Each property is required; one that may be left out may be null instead.
        recursive: A schema may refer to itself.
        properties: Most properties.
        depth: Most levels of lists and objects.
        enums: Most values of all enums.
        letters: Most characters of names and enum values.
        long_enum: Most characters of the texts of one enum that has more than 250 of them.
        optional: Most properties that may be left out.
        unions: Most properties of several types.
    """

    keywords: Mapping[str, Any]
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


class StrictCost(msgspec.Struct, frozen=True):
    """What a strict tool takes of what all strict tools of a request may have together."""

    tools: int = 1
    optional: int = 0
    unions: int = 0


class NotStrictError(Exception):
    """The schema cannot be strict; the text says why."""


def make_strict_schema(schema: dict[str, Any], rules: StrictRules) -> tuple[dict[str, Any], StrictCost] | None:
    """Return *schema* for a strict mode, and what it costs; None: it cannot be strict."""
    try:
        made = _StrictRewriter(schema, rules).rewrite_root()
        return made, _measure_cost(made, rules)
    except (NotStrictError, RecursionError):
        return None


class _StrictRewriter:
    """Rewrites one schema; the definitions that it refers to are rewritten once."""

    def __init__(self, root: dict[str, Any], rules: StrictRules) -> None:
        self._root, self._rules = root, rules
        self._names_by_pointer: dict[str, str] = {}
        self._definitions: dict[str, Any] = {}
        self._open_pointers: list[str] = []
        self._node_count = 0

    def rewrite_root(self) -> dict[str, Any]:
        """Return the whole."""
        schema, seen = self._root, set[str]()
        while "$ref" in schema and schema["$ref"] not in seen:
            seen.add(schema["$ref"])
            schema = self._inline_reference(schema)
        if schema.get("type") != "object" or "anyOf" in schema or "oneOf" in schema or "enum" in schema:
            raise NotStrictError("its root is no plain object")
        made = self._rewrite(schema, 0)
        if self._definitions:
            made["$defs"] = self._definitions
        return made

    def _rewrite(self, schema: Any, level: int) -> dict[str, Any]:
        self._node_count += 1
        if not isinstance(schema, dict) or level > _MAX_DEPTH or self._node_count > _MAX_NODES:
            raise NotStrictError("it takes anything somewhere, or is too large")
        if wrong := _UNSUPPORTED_KEYWORDS & schema.keys():
            raise NotStrictError(f"it has {min(wrong)}")
        if "$ref" in schema:
            return self._rewrite_reference(schema, level)
        made: dict[str, Any] = {}
        branches = [key for key in ("anyOf", "oneOf") if key in schema]
        if branches:
            self._rewrite_union(schema, branches, made, level)
        elif "enum" in schema or "const" in schema:
            self._rewrite_enum(schema, made)
        else:
            self._rewrite_typed(schema, made, level)
        return self._add_annotations(schema, made)

    def _rewrite_union(self, schema: dict[str, Any], branches: list[str], made: dict[str, Any], level: int) -> None:
        if len(branches) > 1 or _SHAPE_KEYWORDS & schema.keys() - {branches[0]}:
            raise NotStrictError("a union has more than its branches")
        made["anyOf"] = [self._rewrite(one, level + 1) for one in schema[branches[0]]]

    def _rewrite_enum(self, schema: dict[str, Any], made: dict[str, Any]) -> None:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        kinds = [next((name for kind, name in _SCALAR_TYPES if type(one) is kind), "") for one in values]
        if not values or not all(kinds):
            raise NotStrictError("an enum has values that are no scalars")
        unique = list(dict.fromkeys(kinds))
        if len(unique) == 1 or self._rules.type_lists:
            made["type"] = unique[0] if len(unique) == 1 else unique
        made["enum"] = list(values)

    def _rewrite_typed(self, schema: dict[str, Any], made: dict[str, Any], level: int) -> None:
        said = schema.get("type")
        kinds = said if isinstance(said, list) else [said]
        if not kinds or not _KNOWN_TYPES.issuperset(one if isinstance(one, str) else "" for one in kinds):
            raise NotStrictError("it takes anything somewhere")
        if isinstance(said, list) and not self._rules.type_lists:
            bare = {key: one for key, one in schema.items() if key not in _ANNOTATION_KEYWORDS}
            made["anyOf"] = [self._rewrite({**bare, "type": one}, level + 1) for one in said]
            return
        made["type"] = said
        if "object" in kinds:
            self._rewrite_object(schema, made, level)
        if "array" in kinds:
            made["items"] = self._rewrite(schema.get("items"), level + 1)

    def _rewrite_object(self, schema: dict[str, Any], made: dict[str, Any], level: int) -> None:
        if schema.get("additionalProperties") is not False:
            raise NotStrictError("an object is open")
        properties, required = schema.get("properties", {}), schema.get("required", ())
        made["properties"] = inner = {}
        for name, one in properties.items():
            inner[name] = self._rewrite(one, level + 1)
            if self._rules.all_required and name not in required:
                inner[name] = _make_nullable(inner[name])
        made["required"] = list(inner) if self._rules.all_required else [one for one in inner if one in required]
        made["additionalProperties"] = False
        if any(name not in inner for name in required):
            raise NotStrictError("it requires a property that it does not name")

    def _add_annotations(self, schema: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
        """Add what *schema* says besides its shape: as the provider takes it, else in the description."""
        unsaid: dict[str, Any] = {}
        for key, value in schema.items():
            if key in _SHAPE_KEYWORDS or key in _OMITTED_KEYWORDS or key in _ANNOTATION_KEYWORDS:
                continue
            fits = self._rules.keywords.get(key)
            kept = value in self._rules.formats if key == "format" else fits is not None and fits(value)
            (made if kept else unsaid)[key] = value
        for key in _ANNOTATION_KEYWORDS:
            if schema.get(key) is not None:
                made[key] = schema[key]
        if unsaid:
            said = "{" + ", ".join(f"{key}: {value}" for key, value in unsaid.items()) + "}"
            made["description"] = f"{made['description']}\n\n{said}" if made.get("description") else said
        return made

    # ── references ───────────────────────────────────────────────────────────────────────────────

    def _rewrite_reference(self, schema: dict[str, Any], level: int) -> dict[str, Any]:
        pointer = schema["$ref"]
        beside = schema.keys() - _OMITTED_KEYWORDS - {"$ref"}
        if beside - set(_ANNOTATION_KEYWORDS):
            raise NotStrictError("a reference has more than a description")
        if not isinstance(pointer, str):
            raise NotStrictError("a reference is no text")
        if pointer in self._open_pointers and not self._rules.recursive:
            raise NotStrictError("it refers to itself")
        if beside and pointer not in self._open_pointers:
            self._open_pointers.append(pointer)
            try:
                return self._rewrite(self._inline_reference(schema), level)
            finally:
                self._open_pointers.pop()
        return {"$ref": self._rewrite_definition(pointer, level)}

    def _inline_reference(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return what a reference leads to, with what stands beside the reference."""
        found = resolve_pointer(self._root, schema["$ref"])
        if not isinstance(found, dict):
            raise NotStrictError("a reference leads nowhere")
        beside = {key: schema[key] for key in _ANNOTATION_KEYWORDS if key in schema}
        return {**found, **beside}

    def _rewrite_definition(self, pointer: str, level: int) -> str:
        """Return where the definition of *pointer* is in the rewritten schema; it is rewritten at the first time."""
        if pointer == "#" and self._rules.recursive and "$ref" not in self._root:
            return "#"
        if pointer not in self._names_by_pointer:
            found = resolve_pointer(self._root, pointer)
            name = pointer.rpartition("/")[2]
            name = name if _DEFINITION_NAME.fullmatch(name) else f"part_{len(self._names_by_pointer) + 1}"
            while name in self._definitions:
                name += "_"
            self._names_by_pointer[pointer] = name
            self._definitions[name] = {}
            self._open_pointers.append(pointer)
            try:
                self._definitions[name] = self._rewrite(found, level)
            finally:
                self._open_pointers.pop()
        return f"#/$defs/{self._names_by_pointer[pointer]}"


def _make_nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Return *schema* that takes null, too."""
    kinds = schema.get("type")
    if kinds is None:
        members = schema.get("anyOf")
        if members is None:
            return {"anyOf": [schema, {"type": "null"}]}
        if any(one.get("type") == "null" for one in members):
            return schema
        return {**schema, "anyOf": [*members, {"type": "null"}]}
    kinds = kinds if isinstance(kinds, list) else [kinds]
    made = schema if "null" in kinds else {**schema, "type": [*kinds, "null"]}
    return {**made, "enum": [*schema["enum"], None]} if "enum" in schema and None not in schema["enum"] else made


# ── limits ───────────────────────────────────────────────────────────────────────────────────────


class _StrictCounts:
    """What is counted in a schema."""

    def __init__(self) -> None:
        self.properties = self.enums = self.letters = self.optional = self.unions = self.longest = 0


def _measure_cost(schema: dict[str, Any], rules: StrictRules) -> StrictCost:
    """Return what a strict schema costs, or raise `CannotError` where it is more than a provider takes."""
    sums, definitions = _StrictCounts(), schema.get("$defs", {})
    sums.letters += sum(map(len, definitions))
    for one in (schema, *definitions.values()):
        _add_counts(one, sums)
    depth = _DepthCounter(schema).measure_depth(schema)
    for name, most in (("properties", rules.properties), ("enums", rules.enums), ("letters", rules.letters),
                       ("optional", rules.optional), ("unions", rules.unions)):  # fmt: skip
        if getattr(sums, name) > most:
            raise NotStrictError(f"it has more than {most} {name}")
    if depth > rules.depth or sums.longest > rules.long_enum:
        raise NotStrictError("it is nested too deeply, or an enum is too long")
    return StrictCost(1, sums.optional, sums.unions)


def _add_counts(schema: dict[str, Any], sums: _StrictCounts) -> None:
    properties = schema.get("properties", {})
    sums.properties += len(properties)
    sums.letters += sum(map(len, properties))
    sums.optional += len(properties) - len(schema.get("required", ())) if properties else 0
    sums.unions += sum("anyOf" in one or isinstance(one.get("type"), list) for one in properties.values())
    if enum := schema.get("enum"):
        sums.enums += len(enum)
        texts = sum(len(one) for one in enum if isinstance(one, str))
        sums.letters += texts + sum(len(str(one)) for one in enum if not isinstance(one, str))
        sums.longest = max(sums.longest, texts if len(enum) > 250 else 0)
    for one in (*properties.values(), *schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])):
        _add_counts(one, sums)


class _DepthCounter:
    """Counts levels of lists and objects; a definition that is inside of itself counts once."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root, self._depths_by_pointer = root, dict[str, int]()

    def measure_depth(self, schema: dict[str, Any]) -> int:
        """Return the levels of *schema*."""
        if "$ref" in schema:
            pointer = schema["$ref"]
            if pointer not in self._depths_by_pointer:
                self._depths_by_pointer[pointer] = 0
                self._depths_by_pointer[pointer] = self.measure_depth(resolve_pointer(self._root, pointer))
            return self._depths_by_pointer[pointer]
        held = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
        own = int(bool(held) or "properties" in schema)
        return max(
            own + max(map(self.measure_depth, held), default=0),
            max(map(self.measure_depth, schema.get("anyOf", ())), default=0),
        )
