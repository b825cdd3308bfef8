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

from praval_tools.formats.schema_root import target

_NEVER: Final = frozenset(
    (
        "allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies", "prefixItems",
        "patternProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "additionalItems",
        "$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor", "$id",
    )
)  # fmt: skip
_UNSAID: Final = frozenset(("$schema", "$defs", "definitions", "$comment", "examples", "deprecated", "readOnly",
                            "writeOnly", "$vocabulary"))  # fmt: skip
_ANNOTATIONS: Final = ("title", "description", "default")
_SHAPE: Final = frozenset(("type", "properties", "required", "additionalProperties", "items", "enum", "const",
                           "anyOf", "oneOf", "$ref"))  # fmt: skip
_LABEL: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DEEPEST: Final = 60
_MOST_NODES: Final = 50_000
_TYPES: Final = ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"), (type(None), "null"))
_KNOWN_TYPES: Final = frozenset(("object", "array", *(name for _, name in _TYPES)))


@frozen(kw_only=True)
class Rules:
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
    depth: int = _DEEPEST
    enums: int = 1 << 31
    letters: int = 1 << 31
    long_enum: int = 1 << 31
    optional: int = 1 << 31
    unions: int = 1 << 31


class Cost(msgspec.Struct, frozen=True):
    """What a strict tool takes of what all strict tools of a request may have together."""

    tools: int = 1
    optional: int = 0
    unions: int = 0


class CannotError(Exception):
    """The schema cannot be strict; the text says why."""


def strict(schema: dict[str, Any], rules: Rules) -> tuple[dict[str, Any], Cost] | None:
    """Return *schema* for a strict mode, and what it costs; None: it cannot be strict."""
    try:
        made = _Strict(schema, rules).root()
        return made, _measured(made, rules)
    except (CannotError, RecursionError):
        return None


class _Strict:
    """Rewrites one schema; the definitions that it refers to are rewritten once."""

    def __init__(self, root: dict[str, Any], rules: Rules) -> None:
        self._root, self._rules = root, rules
        self._labels: dict[str, str] = {}
        self._defs: dict[str, Any] = {}
        self._within: list[str] = []
        self._nodes = 0

    def root(self) -> dict[str, Any]:
        """Return the whole."""
        schema, seen = self._root, set[str]()
        while "$ref" in schema and schema["$ref"] not in seen:
            seen.add(schema["$ref"])
            schema = self._inlined(schema)
        if schema.get("type") != "object" or "anyOf" in schema or "oneOf" in schema or "enum" in schema:
            raise CannotError("its root is no plain object")
        made = self._made(schema, 0)
        if self._defs:
            made["$defs"] = self._defs
        return made

    def _made(self, schema: Any, level: int) -> dict[str, Any]:
        self._nodes += 1
        if not isinstance(schema, dict) or level > _DEEPEST or self._nodes > _MOST_NODES:
            raise CannotError("it takes anything somewhere, or is too large")
        if wrong := _NEVER & schema.keys():
            raise CannotError(f"it has {min(wrong)}")
        if "$ref" in schema:
            return self._reference(schema, level)
        made: dict[str, Any] = {}
        branches = [key for key in ("anyOf", "oneOf") if key in schema]
        if branches:
            self._union(schema, branches, made, level)
        elif "enum" in schema or "const" in schema:
            self._enum(schema, made)
        else:
            self._typed(schema, made, level)
        return self._told(schema, made)

    def _union(self, schema: dict[str, Any], branches: list[str], made: dict[str, Any], level: int) -> None:
        if len(branches) > 1 or _SHAPE & schema.keys() - {branches[0]}:
            raise CannotError("a union has more than its branches")
        made["anyOf"] = [self._made(one, level + 1) for one in schema[branches[0]]]

    def _enum(self, schema: dict[str, Any], made: dict[str, Any]) -> None:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        kinds = [next((name for kind, name in _TYPES if type(one) is kind), "") for one in values]
        if not values or not all(kinds):
            raise CannotError("an enum has values that are no scalars")
        unique = list(dict.fromkeys(kinds))
        if len(unique) == 1 or self._rules.type_lists:
            made["type"] = unique[0] if len(unique) == 1 else unique
        made["enum"] = list(values)

    def _typed(self, schema: dict[str, Any], made: dict[str, Any], level: int) -> None:
        said = schema.get("type")
        kinds = said if isinstance(said, list) else [said]
        if not kinds or not _KNOWN_TYPES.issuperset(one if isinstance(one, str) else "" for one in kinds):
            raise CannotError("it takes anything somewhere")
        if isinstance(said, list) and not self._rules.type_lists:
            bare = {key: one for key, one in schema.items() if key not in _ANNOTATIONS}
            made["anyOf"] = [self._made({**bare, "type": one}, level + 1) for one in said]
            return
        made["type"] = said
        if "object" in kinds:
            self._object(schema, made, level)
        if "array" in kinds:
            made["items"] = self._made(schema.get("items"), level + 1)

    def _object(self, schema: dict[str, Any], made: dict[str, Any], level: int) -> None:
        if schema.get("additionalProperties") is not False:
            raise CannotError("an object is open")
        properties, required = schema.get("properties", {}), schema.get("required", ())
        made["properties"] = inner = {}
        for name, one in properties.items():
            inner[name] = self._made(one, level + 1)
            if self._rules.all_required and name not in required:
                inner[name] = _nullable(inner[name])
        made["required"] = list(inner) if self._rules.all_required else [one for one in inner if one in required]
        made["additionalProperties"] = False
        if any(name not in inner for name in required):
            raise CannotError("it requires a property that it does not name")

    def _told(self, schema: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
        """Add what *schema* says besides its shape: as the provider takes it, else in the description."""
        unsaid: dict[str, Any] = {}
        for key, value in schema.items():
            if key in _SHAPE or key in _UNSAID or key in _ANNOTATIONS:
                continue
            fits = self._rules.keywords.get(key)
            kept = value in self._rules.formats if key == "format" else fits is not None and fits(value)
            (made if kept else unsaid)[key] = value
        for key in _ANNOTATIONS:
            if schema.get(key) is not None:
                made[key] = schema[key]
        if unsaid:
            said = "{" + ", ".join(f"{key}: {value}" for key, value in unsaid.items()) + "}"
            made["description"] = f"{made['description']}\n\n{said}" if made.get("description") else said
        return made

    # ── references ───────────────────────────────────────────────────────────────────────────────

    def _reference(self, schema: dict[str, Any], level: int) -> dict[str, Any]:
        pointer = schema["$ref"]
        beside = schema.keys() - _UNSAID - {"$ref"}
        if beside - set(_ANNOTATIONS):
            raise CannotError("a reference has more than a description")
        if not isinstance(pointer, str):
            raise CannotError("a reference is no text")
        if pointer in self._within and not self._rules.recursive:
            raise CannotError("it refers to itself")
        if beside and pointer not in self._within:
            self._within.append(pointer)
            try:
                return self._made(self._inlined(schema), level)
            finally:
                self._within.pop()
        return {"$ref": self._label(pointer, level)}

    def _inlined(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return what a reference leads to, with what stands beside the reference."""
        found = target(self._root, schema["$ref"])
        if not isinstance(found, dict):
            raise CannotError("a reference leads nowhere")
        beside = {key: schema[key] for key in _ANNOTATIONS if key in schema}
        return {**found, **beside}

    def _label(self, pointer: str, level: int) -> str:
        """Return where the definition of *pointer* is in the rewritten schema; it is rewritten at the first time."""
        if pointer == "#" and self._rules.recursive and "$ref" not in self._root:
            return "#"
        if pointer not in self._labels:
            found = target(self._root, pointer)
            name = pointer.rpartition("/")[2]
            name = name if _LABEL.fullmatch(name) else f"part_{len(self._labels) + 1}"
            while name in self._defs:
                name += "_"
            self._labels[pointer] = name
            self._defs[name] = {}
            self._within.append(pointer)
            try:
                self._defs[name] = self._made(found, level)
            finally:
                self._within.pop()
        return f"#/$defs/{self._labels[pointer]}"


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
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


class _Sums:
    """What is counted in a schema."""

    def __init__(self) -> None:
        self.properties = self.enums = self.letters = self.optional = self.unions = self.longest = 0


def _measured(schema: dict[str, Any], rules: Rules) -> Cost:
    """Return what a strict schema costs, or raise `CannotError` where it is more than a provider takes."""
    sums, definitions = _Sums(), schema.get("$defs", {})
    sums.letters += sum(map(len, definitions))
    for one in (schema, *definitions.values()):
        _count(one, sums)
    depth = _Depth(schema).of(schema)
    for name, most in (("properties", rules.properties), ("enums", rules.enums), ("letters", rules.letters),
                       ("optional", rules.optional), ("unions", rules.unions)):  # fmt: skip
        if getattr(sums, name) > most:
            raise CannotError(f"it has more than {most} {name}")
    if depth > rules.depth or sums.longest > rules.long_enum:
        raise CannotError("it is nested too deeply, or an enum is too long")
    return Cost(1, sums.optional, sums.unions)


def _count(schema: dict[str, Any], sums: _Sums) -> None:
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
        _count(one, sums)


class _Depth:
    """Counts levels of lists and objects; a definition that is inside of itself counts once."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root, self._known = root, dict[str, int]()

    def of(self, schema: dict[str, Any]) -> int:
        """Return the levels of *schema*."""
        if "$ref" in schema:
            pointer = schema["$ref"]
            if pointer not in self._known:
                self._known[pointer] = 0
                self._known[pointer] = self.of(target(self._root, pointer))
            return self._known[pointer]
        held = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
        own = int(bool(held) or "properties" in schema)
        return max(own + max(map(self.of, held), default=0), max(map(self.of, schema.get("anyOf", ())), default=0))
