"""Writes JSON Schemas as Python types for a stub; objects become classes of keys, `TypedDict`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from praval_tools.cli.common import JsonObject
from praval_tools.cli.tool_stubs.type_text import ANY, is_plain_name, make_unique_name, to_class_name
from praval_tools.schema.json_pointer import resolve_pointer

_SCALARS: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_NAMES_IN_TYPES: Final = frozenset((*_SCALARS.values(), "list", "dict", "typing"))
_MAX_NESTING: Final = 30


class SchemaWriter:
    """
    Writes the schemas of one tool.

    Args:
        root: The schema that references point into.
        name: The name of the tool's class, with which those of its objects begin.
        definitions: The text of each class so far, by its name; more are added.
    """

    def __init__(self, root: JsonObject, name: str, definitions: dict[str, str]) -> None:
        self._root, self._name, self._definitions = root, name, definitions
        self._by_reference: dict[str, str] = {}

    def write(self, schema: object, place: str, nesting: int = 0) -> str:
        """Return the type of values that fit *schema*; *place* says of which, for the names of classes."""
        if not isinstance(schema, dict) or nesting > _MAX_NESTING:
            return ANY
        for keyword in ("enum", "const"):
            if keyword in schema:
                return _write_choices(schema["enum"] if keyword == "enum" else [schema["const"]])
        if isinstance(reference := schema.get("$ref"), str):
            return self._write_reference(reference, nesting)
        for keyword in ("anyOf", "oneOf"):
            if isinstance(arms := schema.get(keyword), list) and arms:
                return _join([self.write(arm, place, nesting + 1) for arm in arms])
        if isinstance(arms := schema.get("allOf"), list):
            return self.write(arms[0], place, nesting + 1) if len(arms) == 1 else ANY
        kind = schema.get("type")
        if isinstance(kind, list):
            return _join([self.write({**schema, "type": name}, place, nesting + 1) for name in kind])
        return self._write_kind(kind, schema, place, nesting)

    def _write_kind(self, kind: object, schema: JsonObject, place: str, nesting: int) -> str:
        if isinstance(kind, str) and kind in _SCALARS:
            return _SCALARS[kind]
        if kind == "array":
            return f"list[{self.write(schema.get('items'), f'{place}_item', nesting + 1)}]"
        if kind == "object" or (kind is None and "properties" in schema):
            return self._write_object(schema, place, nesting)
        return ANY

    def _write_object(self, schema: JsonObject, place: str, nesting: int, name: str = "") -> str:
        properties, more = schema.get("properties"), schema.get("additionalProperties", False)
        if not isinstance(properties, dict) or not properties or more not in (False, None):
            inner = more if isinstance(more, dict) and not properties else None
            return f"dict[str, {self.write(inner, f'{place}_value', nesting + 1)}]"
        name = name or self._reserve_name(place)
        required = schema.get("required") or ()
        keys = {
            key: (self.write(inner, f"{place}_{key}", nesting + 1), key in required)
            for key, inner in properties.items()
        }
        self._definitions[name] = _write_typed_dict(name, keys)
        return name

    def _reserve_name(self, place: str) -> str:
        name = make_unique_name(f"{self._name}{to_class_name(f'x_{place}')[1:]}", self._definitions)
        self._definitions[name] = ""
        return name

    def _write_reference(self, reference: str, nesting: int) -> str:
        if (known := self._by_reference.get(reference)) is not None:
            return known
        target = resolve_pointer(self._root, reference)
        place = reference.rpartition("/")[2]
        if isinstance(target, dict) and target.get("properties") and not target.get("additionalProperties"):
            name = self._by_reference[reference] = self._reserve_name(place)  # it may refer to itself
            return self._write_object(target, place, nesting + 1, name)
        self._by_reference[reference] = ANY  # an array that contains itself has no other name
        text = self._by_reference[reference] = self.write(target, place, nesting + 1)
        return text


def _join(types: list[str]) -> str:
    return ANY if ANY in types or not types else " | ".join(dict.fromkeys(types))


def _write_choices(values: object) -> str:
    if not isinstance(values, list) or not values:
        return ANY
    if all(value is None or isinstance(value, str | bool | int) for value in values):
        return f"typing.Literal[{', '.join(dict.fromkeys(map(ascii, values)))}]"
    return ANY


def _write_typed_dict(name: str, keys: Mapping[str, tuple[str, bool]]) -> str:
    """Return the definition of a `TypedDict`; as a call where a key cannot be an attribute, or hides a type."""
    fields = {key: kind if required else f"typing.NotRequired[{kind}]" for key, (kind, required) in keys.items()}
    if all(is_plain_name(key) and key[0] != "_" and key not in _NAMES_IN_TYPES for key in keys):
        lines = [f"    {key}: {kind}" for key, kind in fields.items()]
        return "\n".join([f"class {name}(typing.TypedDict):", *lines])
    lines = [f"        {ascii(key)}: {kind}," for key, kind in fields.items()]
    return "\n".join([f"{name} = typing.TypedDict(", f"    {name!r},", "    {", *lines, "    },", ")"])
