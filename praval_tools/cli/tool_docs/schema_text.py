"""Describes JSON Schemas in words, and leaves out of them what is secret."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from praval_tools.cli.common import JsonObject
from praval_tools.schema.schema_tree import get_item_name, iter_schemas
from praval_tools.schema.secret_marks import has_secret_schema, marks_secret
from praval_tools.schema.secret_names import DEFAULT_SECRET_NAMES, SecretNames, is_amount
from praval_tools.tools.mark_schemas import build_mark_schemas
from praval_tools.tools.tool import AnyTool

SECRET_TEXT: Final = "[secret]"  # noqa: S105
"""What stands for a value under a key that names a secret."""

_VALUE_KEYWORDS: Final = ("default", "examples", "example", "const")
_ALTERNATIVES: Final = ("anyOf", "oneOf", "allOf")
_NAMED_SCHEMAS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_ITEM_LISTS: Final = ("prefixItems", "items")
_LOCAL_DEFINITIONS: Final = ("#/$defs/", "#/definitions/")
_NO_CONSTRAINTS: Final = frozenset(
    ("type", "title", "description", "default", "enum", "const", "items", "$ref", "properties", "required",
     "additionalProperties", "examples", "example", "$defs", "definitions", "$schema", "$comment", "prefixItems",
     *_ALTERNATIVES)
)  # fmt: skip
_MAX_NESTING: Final = 6


class SchemaRedactor:
    """
    Leaves out of JSON Schemas and values what is secret.

    Args:
        names: Names of keys whose values are secret, besides the usual ones.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names_secret = SecretNames((*DEFAULT_SECRET_NAMES, *names))

    def redact_arguments_schema(self, tool: AnyTool) -> JsonObject:
        """Return the JSON Schema of a tool's arguments without secrets, also those that only its hints mark."""
        schema = dict(tool.parameters)
        for marks in build_mark_schemas(tool.implementation):
            marked = {name for name, inner in marks.get("properties", {}).items() if _may_mark(inner)}
            properties = schema.get("properties", {})
            schema["properties"] = {
                name: {**inner, "writeOnly": True}
                if isinstance(inner, dict) and (name in marked or not marked)
                else inner
                for name, inner in properties.items()
            }
            if marked & properties.keys() or not marked:
                schema = {key: value for key, value in schema.items() if key not in _VALUE_KEYWORDS}
        return self.redact_schema(schema)

    def redact_schema(self, schema: JsonObject) -> JsonObject:
        """
        Return *schema* without values of what is secret: marked as `Secret` or as a password, or named like one.

        Defaults, examples and constants go; of what is marked, the possible values as well.
        """
        secret_definitions: set[str] = set()
        while True:
            definitions = set(self._iter_secret_definitions(schema, False, secret_definitions))
            if definitions <= secret_definitions:
                return self._redact_node(schema, False, secret_definitions)
            secret_definitions |= definitions

    def redact_value(self, value: object) -> object:
        """Return a JSON value with what stands under or beside names of secrets replaced, and texts that hold such."""
        if isinstance(value, Mapping):
            names = {key: self._names_secret.get_naming_key(str(key), value) for key in value}
            return {
                key: SECRET_TEXT if self._is_secret_key(names[key], item) else self.redact_value(item)
                for key, item in value.items()
            }
        if isinstance(value, str):
            return SECRET_TEXT if self._names_secret.holds_secret(value) else value
        return list(map(self.redact_value, value)) if isinstance(value, list | tuple) else value

    def _is_secret_key(self, key: str, value: object) -> bool:
        return self._names_secret(key) and not _is_amount(key, value)

    def _iter_secret_definitions(self, node: object, is_secret: bool, known: set[str]) -> Iterator[str]:
        """Yield the references to definitions inside of what is secret."""
        if isinstance(node, list):
            for item in node:
                yield from self._iter_secret_definitions(item, is_secret, known)
        if not isinstance(node, dict):
            return
        is_secret = is_secret or _is_marked(node)
        reference = node.get("$ref")
        if is_secret and isinstance(reference, str):
            yield reference
        for keyword, value in node.items():
            if keyword in _NAMED_SCHEMAS and isinstance(value, dict):
                for name, inner in value.items():
                    is_inner_secret = is_secret or self._is_secret_name(keyword, name, known)
                    yield from self._iter_secret_definitions(inner, is_inner_secret, known)
            elif keyword in _ITEM_LISTS and isinstance(value, list):
                for item in value:
                    is_item_secret = is_secret or self._names_secret(get_item_name(item))
                    yield from self._iter_secret_definitions(item, is_item_secret, known)
            elif keyword not in (*_VALUE_KEYWORDS, "enum"):
                yield from self._iter_secret_definitions(value, is_secret, known)

    def _is_secret_name(self, keyword: str, name: str, secret_definitions: set[str]) -> bool:
        if keyword in ("$defs", "definitions"):
            return any(f"{prefix}{name}" in secret_definitions for prefix in _LOCAL_DEFINITIONS)
        return keyword == "properties" and self._names_secret(name)

    def _redact_node(
        self, node: JsonObject, is_secret: bool, secret_definitions: set[str], name: str = ""
    ) -> JsonObject:  # fmt: skip
        """Return a copy of one schema; what is only named like a secret keeps its `enum`."""
        is_marked = _is_marked(node)
        made: JsonObject = {}
        for keyword, value in node.items():
            if keyword in (*_VALUE_KEYWORDS, "enum"):
                is_public = not is_marked and (not is_secret or keyword == "enum" or _is_amount(name, value))
                if is_public:
                    made[keyword] = self.redact_value(value)
            elif keyword in _NAMED_SCHEMAS and isinstance(value, dict):
                made[keyword] = {
                    key: self._redact_node(
                        inner, is_marked or is_secret or self._is_secret_name(keyword, key, secret_definitions),
                        secret_definitions, key,
                    ) if isinstance(inner, dict) else inner
                    for key, inner in value.items()
                }  # fmt: skip
            elif isinstance(value, dict):
                made[keyword] = self._redact_node(value, is_marked or is_secret, secret_definitions, name)
            elif isinstance(value, list):
                made[keyword] = [
                    self._redact_item(item, keyword, is_marked or is_secret, secret_definitions, name)
                    if isinstance(item, dict)
                    else item
                    for item in value
                ]
            else:
                made[keyword] = value
        return made

    def _redact_item(
        self, item: JsonObject, keyword: str, is_secret: bool, secret_definitions: set[str], name: str
    ) -> JsonObject:  # fmt: skip
        own_name = get_item_name(item) if keyword in _ITEM_LISTS else ""
        return self._redact_node(item, is_secret or self._names_secret(own_name), secret_definitions, own_name or name)


def marks_secrets(tool: AnyTool) -> bool:
    """Tell whether an argument of a tool, or a part of one, is marked as secret; one that is unreadable counts."""
    implementation = tool.implementation
    if not implementation.is_compilable or build_mark_schemas(implementation):
        return True
    return has_secret_schema(implementation.compiled.parameters_schema)


def _may_mark(schema: JsonObject) -> bool:
    """Tell whether the schema of a parameter marks anything; where a reference leads, nobody looks."""
    return has_secret_schema(schema) or any("$ref" in part for part in iter_schemas(schema))


def _is_marked(schema: object) -> bool:
    if not isinstance(schema, dict):
        return False
    arms = [arm for keyword in _ALTERNATIVES for arm in _to_list(schema.get(keyword))]
    return marks_secret(schema) or any(map(_is_marked, arms))


def _to_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _is_amount(name: str, value: object) -> bool:
    """Tell whether *value* is a number of something, as of `max_tokens`; or nothing at all."""
    return value is None or (isinstance(value, int | float) and is_amount(name))


def to_json_text(value: object, *, indent: int | None = None) -> str:
    """Return *value* as JSON for people: characters beyond ASCII as they are."""
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


def describe_type(schema: object, nesting: int = 0) -> str:
    """Return the type of a value that fits *schema*: `integer`, `array of string`, `string or null`."""
    if not isinstance(schema, dict) or nesting > _MAX_NESTING:
        return "any"
    if "enum" in schema and isinstance(schema["enum"], list):
        return "one of " + ", ".join(map(to_json_text, schema["enum"]))
    if "const" in schema:
        return to_json_text(schema["const"])
    for keyword in _ALTERNATIVES:
        if arms := _to_list(schema.get(keyword)):
            word = " and " if keyword == "allOf" else " or "
            return word.join(dict.fromkeys(describe_type(arm, nesting + 1) for arm in arms))
    if isinstance(reference := schema.get("$ref"), str):
        return reference.rpartition("/")[2] or "any"
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(describe_type({**schema, "type": name}, nesting + 1) for name in kind)
    if kind == "array" and isinstance(schema.get("items"), dict):
        return f"array of {describe_type(schema['items'], nesting + 1)}"
    return str(kind or "any")


def describe_constraints(schema: object) -> list[str]:
    """Return what else must hold of a value that fits *schema*: `minimum 1`, `maxLength 20`; `secret` of a secret."""
    if not isinstance(schema, dict):
        return []
    texts = ["secret"] if _is_marked(schema) else []
    arms = [arm for keyword in ("anyOf", "oneOf") for arm in _to_list(schema.get(keyword))]
    for arm in (schema, *(arm for arm in arms if isinstance(arm, dict))):
        texts += [
            f"{keyword} {value if isinstance(value, str) else to_json_text(value)}"
            for keyword, value in arm.items()
            if keyword not in _NO_CONSTRAINTS and keyword not in ("writeOnly", "readOnly")
        ]
    return list(dict.fromkeys(texts))
