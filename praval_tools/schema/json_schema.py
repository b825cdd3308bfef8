"""JSON Schema 2020-12 from hints: one walk over the table of types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import NOTHING

from praval_tools.lazy_regex import LazyRegex
from praval_tools.schema.decode import Decoder
from praval_tools.schema.encode import Encoder
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.signature import Signature
from praval_tools.schema.type_handler import Mismatch
from praval_tools.schema.type_hints import Hint, make_hint_key
from praval_tools.schema.type_lookup import get_type_handler

_REFERENCE_PREFIX: Final = "#/$defs/"
_INVALID_NAME_PART: Final = LazyRegex(r"[^A-Za-z0-9_.-]+")


class JsonSchemaBuilder:
    """
    Writes schemas and collects what they refer to.

    A class that occurs once and not inside itself is written in place; any other goes to `$defs`.
    """

    def __init__(self, encoder: Encoder, structurer: Decoder) -> None:
        self._encoder, self._decoder = encoder, structurer
        self._names_by_key: dict[Any, str] = {}
        self._definitions: dict[str, JsonSchema] = {}
        self._use_counts: dict[str, int] = {}
        self._names_in_progress: list[str] = []
        self._recursive_names: set[str] = set()

    def build(self, hint: Hint) -> JsonSchema:
        """Return the schema of *hint*."""
        return get_type_handler(hint).build_schema(hint, self)

    def build_reference(self, hint: Hint, name: str, build: Callable[[], JsonSchema]) -> JsonSchema:
        """Return a reference to the schema that *build* makes once for *hint*."""
        key = make_hint_key(hint) if type(hint) is not tuple else hint
        if key not in self._names_by_key:
            name = self._names_by_key[key] = self._make_unique_name(
                _INVALID_NAME_PART.sub("_", name).strip("_") or "Type"
            )
            self._use_counts[name] = 0
            self._names_in_progress.append(name)
            self._definitions[name] = build()
            self._names_in_progress.pop()
        name = self._names_by_key[key]
        self._use_counts[name] += 1
        if name in self._names_in_progress or type(hint) is tuple:
            self._recursive_names.add(name)
        return {"$ref": _REFERENCE_PREFIX + name}

    def replace_definition(self, hint: Hint, schema: JsonSchema) -> None:
        """Replace the schema that was made for *hint*, for schemas that refer to each other."""
        self._definitions[self._names_by_key[hint]] = schema

    def add_default(self, hint: Hint, value: object, into: JsonSchema) -> None:
        """Put *value* into the schema as its default, if it has a JSON form there and is no secret."""
        if value is NOTHING or (value is not None and _is_secret_schema(into)):
            return
        try:
            plain = self._encoder.get_hook(hint)(value)
            self._decoder.get_hook(hint)(plain, None)
        except (Mismatch, RecursionError):
            return
        into["default"] = plain

    def finish(self, schema: JsonSchema) -> JsonSchema:
        """Return *schema* with single uses written in place and the rest under `$defs`."""
        kept = {name for name in self._definitions if name in self._recursive_names or self._use_counts[name] > 1}
        made: JsonSchema = self._inline_single_uses(schema, kept)
        defs = {
            name: self._inline_single_uses(self._definitions[name], kept) for name in self._definitions if name in kept
        }
        return {**made, "$defs": dict(sorted(defs.items()))} if defs else made

    def _inline_single_uses(self, node: object, kept: set[str]) -> Any:
        if isinstance(node, list):
            return [self._inline_single_uses(one, kept) for one in node]
        if not isinstance(node, dict):
            return node
        reference = node.get("$ref")
        name = reference.removeprefix(_REFERENCE_PREFIX) if isinstance(reference, str) else ""
        if name in self._definitions and name not in kept:
            rest = {key: one for key, one in node.items() if key != "$ref"}
            return {**self._inline_single_uses(self._definitions[name], kept), **rest}
        return {
            key: one if key in ("default", "enum") else self._inline_single_uses(one, kept) for key, one in node.items()
        }

    def _make_unique_name(self, name: str) -> str:
        taken, number, wanted = set(self._names_by_key.values()), 2, name
        while name in taken:
            name, number = f"{wanted}_{number}", number + 1
        return name


def _is_secret_schema(schema: JsonSchema) -> bool:
    return schema.get("writeOnly") is True or any(map(_is_secret_schema, schema.get("anyOf", ())))


def build_parameters_schema(
    walk: JsonSchemaBuilder, signature: Signature, descriptions: Mapping[str, str]
) -> JsonSchema:
    """Return the schema of the arguments of a function, an object."""
    properties: JsonSchema = {}
    required: list[str] = []
    made: JsonSchema = {"type": "object", "properties": properties}
    extra: Any = False
    for one in signature.parameters:
        if one.kind == "extra":
            extra = walk.build(one.hint) or True
        elif one.kind == "normal":
            properties[one.name] = schema = walk.build(one.hint)
            if one.name in descriptions:
                schema.setdefault("description", descriptions[one.name])
            if one.default is NOTHING:
                required.append(one.name)
            else:
                walk.add_default(one.hint, one.default, schema)
    if required:
        made["required"] = required
    made["additionalProperties"] = extra
    if extra is not False and signature.bound_names:
        made["propertyNames"] = {"not": {"enum": list(signature.bound_names)}}
    return walk.finish(made)
