"""Builds JSON Schema (2020-12) from type hints, by the type table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from praval_tools.lazy_regex import LazyRegex
from praval_tools.schema.decode_hooks import DecodeHooks
from praval_tools.schema.encode import Encoder
from praval_tools.schema.hidden_values import hide_values_of_secrets
from praval_tools.schema.hint_keys import make_hint_key
from praval_tools.schema.json_values import replace_surrogates_in_json
from praval_tools.schema.marked_values import has_marked_values
from praval_tools.schema.schema_tree import JsonSchema, map_subschemas
from praval_tools.schema.secret_marks import contains_secret_mark
from praval_tools.schema.signature import Signature
from praval_tools.schema.type_hints import NOTHING, Hint
from praval_tools.schema.type_lookup import get_type_handler

_REFERENCE_PREFIX: Final = "#/$defs/"
_INVALID_NAME_PART: Final = LazyRegex(r"[^A-Za-z0-9_.-]+")


class JsonSchemaBuilder:
    """
    Builds schemas and collects the definitions that they refer to.

    A class that occurs once and not inside itself is written in place; any other goes to `$defs`.

    Args:
        encoder: Writes defaults.
        decoder: Checks them.
        describes_results: Of pydantic models, describe what they write instead of what they take.
        describes_all_members: Describe what a tool does not take, too: fields that a constructor does not take, marked
            members that a pydantic model leaves out of its schema, and other keys of a TypedDict that has a hint for
            them. One whose type has no schema gets one that takes anything.
        hides_values: Leave out defaults and examples of secrets. False: everything that has a default in the code has
            one in the schema, null where it has no JSON form there, or is made by code.
    """

    def __init__(
        self, encoder: Encoder, decoder: DecodeHooks, *,
        describes_results: bool = False, describes_all_members: bool = False, hides_values: bool = True,
    ) -> None:  # fmt: skip
        self._encoder, self._decoder = encoder, decoder
        self.describes_results, self.describes_all_members = describes_results, describes_all_members
        self.hides_values = hides_values
        self._names_by_key: dict[Any, str] = {}
        self._definitions: dict[str, JsonSchema] = {}
        self._use_counts: dict[str, int] = {}
        self._names_in_progress: list[str] = []
        self._recursive_names: set[str] = set()

    def build(self, hint: Hint) -> JsonSchema:
        """Return the schema of *hint*."""
        try:
            return get_type_handler(hint).build_schema(hint, self)
        except RecursionError:
            raise  # else each part of a hint without end would be tried
        except Exception:  # the seam to hints of fields that a class makes itself, which no tool could take
            if not self.describes_all_members:
                raise
            return {"writeOnly": True} if contains_secret_mark(hint) else {}

    def build_reference(self, hint: Hint, name: str, build: Callable[[], JsonSchema]) -> JsonSchema:
        """Return a reference to the schema of *hint*, which *build* makes at the first reference."""
        key = make_hint_key(hint) if type(hint) is not tuple else hint
        if key not in self._names_by_key:
            name = self._names_by_key[key] = self._make_unique_name(
                _INVALID_NAME_PART.sub("_", name).strip("_") or "Type"
            )
            self._use_counts[name] = 0
            self._names_in_progress.append(name)
            try:
                self._definitions[name] = build()
            finally:
                self._names_in_progress.pop()
                if name not in self._definitions:  # the next reference fails as this one does
                    del self._names_by_key[key]
        name = self._names_by_key[key]
        self._use_counts[name] += 1
        if name in self._names_in_progress or type(hint) is tuple:
            self._recursive_names.add(name)
        return {"$ref": _REFERENCE_PREFIX + name}

    def replace_definition(self, hint: Hint, schema: JsonSchema) -> None:
        """Replace the schema that was made for *hint*, for schemas that refer to each other."""
        self._definitions[self._names_by_key[hint]] = schema

    def add_default(self, hint: Hint, value: object, into: JsonSchema) -> None:
        """Put *value* into the schema as its default, if it has a JSON form there and is not secret."""
        if not self.hides_values:
            into["default"] = None
        elif (value is not None and contains_secret_mark(hint)) or has_marked_values(value):
            return
        if value is NOTHING:
            return
        try:
            encoded = self._encoder.get_hook(hint)(value)
            self._decoder.get_hook(hint)(encoded, None)
        except Exception:  # the seam to serializers of the program's classes: it has no JSON form, or is not taken
            return
        into["default"] = encoded

    def finish(self, schema: JsonSchema) -> JsonSchema:
        """Return *schema* with definitions used once in place, the others under `$defs`, and no values of secrets."""
        shared_names = {
            name for name in self._definitions if name in self._recursive_names or self._use_counts[name] > 1
        }
        inlined: JsonSchema = self._inline_single_uses(schema, shared_names)
        defs = {
            name: self._inline_single_uses(self._definitions[name], shared_names)
            for name in self._definitions
            if name in shared_names
        }
        whole = {**inlined, "$defs": dict(sorted(defs.items()))} if defs else inlined
        finished: JsonSchema = replace_surrogates_in_json(whole)  # of descriptions: other text is refused as a type
        return hide_values_of_secrets(finished) if self.hides_values else finished

    def _inline_single_uses(self, node: object, shared_names: set[str]) -> Any:
        if not isinstance(node, dict):
            return node
        reference = node.get("$ref")
        name = reference.removeprefix(_REFERENCE_PREFIX) if isinstance(reference, str) else ""
        if name in self._definitions and name not in shared_names:
            rest = {key: value for key, value in node.items() if key != "$ref"}
            return {**self._inline_single_uses(self._definitions[name], shared_names), **rest}
        return map_subschemas(node, lambda inner: self._inline_single_uses(inner, shared_names))

    def _make_unique_name(self, name: str) -> str:
        used_names, number, base_name = set(self._names_by_key.values()), 2, name
        while name in used_names:
            name, number = f"{base_name}_{number}", number + 1
        return name


def build_parameters_schema(
    builder: JsonSchemaBuilder, signature: Signature, descriptions: Mapping[str, str]
) -> JsonSchema:
    """Return the schema of the arguments of a function, an object."""
    properties: JsonSchema = {}
    required: list[str] = []
    parameters_schema: JsonSchema = {"type": "object", "properties": properties}
    extra: Any = False
    for parameter in signature.parameters:
        if parameter.kind == "extra":
            extra = builder.build(parameter.hint) or True
        elif parameter.kind == "normal":
            properties[parameter.name] = schema = builder.build(parameter.hint)
            if parameter.name in descriptions:
                schema.setdefault("description", descriptions[parameter.name])
            if parameter.default is NOTHING:
                required.append(parameter.name)
            else:
                builder.add_default(parameter.hint, parameter.default, schema)
    if required:
        parameters_schema["required"] = required
    parameters_schema["additionalProperties"] = extra
    if extra is not False and signature.bound_names:
        parameters_schema["propertyNames"] = {"not": {"enum": list(signature.bound_names)}}
    return builder.finish(parameters_schema)
