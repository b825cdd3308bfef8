"""
Mending arguments that a model almost got right: from JSON to JSON, along the schema.

Only where the schema names the type: a number or boolean spelled as text, a list or object spelled as JSON text,
null where leaving out was meant. What is valid as it stands is never touched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from praval_tools.lazy_regex import LazyRegex
from praval_tools.schema.json_input import MalformedArgumentsError, format_json_path, parse_json, preview_json
from praval_tools.schema.json_pointer import resolve_pointer

_NUMBER: Final = LazyRegex(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_MAX_DIGITS: Final = 400
_UNION_BUDGET: Final = 20_000
"""How many places inside unions are looked at; beyond it values stay as they are."""

JsonPath = tuple[str | int, ...]
SchemaPart = Mapping[str, Any] | bool


class Repair(msgspec.Struct, frozen=True):
    """
    One thing that was mended in the arguments.

    Args:
        path: JSON path of the place.
        given: What was given there, as JSON text, shortened.
        became: What it became; `left out` where it was dropped.
        reason: Why.
    """

    path: str
    given: str
    became: str
    reason: str


class Repairer:
    """Mends one set of arguments; *fits* tells whether a value is valid under a part of the schema."""

    def __init__(self, root: Mapping[str, Any], fits: Callable[[SchemaPart, Any], bool]) -> None:
        self._root, self._is_part_valid = root, fits
        self._budget = _UNION_BUDGET
        self.repairs: list[Repair] = []

    def repair(self, schema: SchemaPart, value: Any, path: JsonPath = ()) -> Any:
        """Return *value*, or what it becomes under *schema*; the given value is not changed."""
        part = self.resolve_references(schema)
        if part is None or "enum" in part or "const" in part:
            return value
        branches = part.get("anyOf") or part.get("oneOf")
        if isinstance(branches, list):
            return self._repair_union(part, branches, value, path)
        for more in part.get("allOf") or ():
            value = self.repair(more, value, path)
        kinds = _get_json_types(part)
        if isinstance(value, str) and kinds and "string" not in kinds:
            value = self._repair_text(kinds, value, path)
        if isinstance(value, dict):
            return self._repair_object(part, value, path)
        return self._repair_list(part, value, path) if isinstance(value, list) else value

    def resolve_references(self, schema: SchemaPart) -> Mapping[str, Any] | None:
        """Follow references inside of the document, as far as they lead anywhere."""
        for _ in range(32):
            if not isinstance(schema, Mapping):
                return None
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return schema
            schema = resolve_pointer(self._root, reference)
        return None

    def _repair_union(self, part: Mapping[str, Any], branches: list[Any], value: Any, path: JsonPath) -> Any:
        """Take the branch under which the fewest repairs make the value valid; what fits as it stands stays."""
        if not isinstance(value, str | dict | list) or self._budget <= 0 or self._is_part_valid(part, value):
            return value
        before, best, made = len(self.repairs), list[Repair](), value
        for branch in branches:
            self._budget -= 1
            mended = self.repair(branch, value, path)
            repairs = self.repairs[before:]
            del self.repairs[before:]
            if repairs and (not best or len(repairs) < len(best)) and self._is_part_valid(part, mended):
                best, made = repairs, mended
        self.repairs += best
        return made

    def _repair_text(self, kinds: frozenset[str], value: str, path: JsonPath) -> Any:
        mended = _parse_scalar_text(kinds, value)
        if mended is value and kinds & {"array", "object"} and value.lstrip()[:1] in ("[", "{"):
            try:
                found = parse_json(value)
            except MalformedArgumentsError:
                return value
            if (isinstance(found, list) and "array" in kinds) or (isinstance(found, dict) and "object" in kinds):
                mended = found
        if mended is not value:
            self._add_repair(path, value, preview_json(mended), "was spelled as text")
        return mended

    def _repair_object(self, part: Mapping[str, Any], value: dict[str, Any], path: JsonPath) -> dict[str, Any]:
        properties, required = part.get("properties") or {}, part.get("required") or ()
        made = value
        for key, item in value.items():
            below = properties.get(key)
            if below is None:
                below = _get_additional_schema(part, key)
            elif item is None and key not in required and not self._is_part_valid(below, None):
                made = dict(made) if made is value else made
                del made[key]
                self._add_repair((*path, key), None, "left out", "null where it has a default")
                continue
            if below is None or (type(item) in (int, float, bool) or item is None):
                continue
            mended = self.repair(below, item, (*path, key))
            if mended is not item:
                made = dict(made) if made is value else made
                made[key] = mended
        return made

    def _repair_list(self, part: Mapping[str, Any], value: list[Any], path: JsonPath) -> list[Any]:
        first, rest = part.get("prefixItems") or (), part.get("items")
        made = value
        for index, item in enumerate(value):
            below = first[index] if index < len(first) else rest
            if below is None or type(item) in (int, float, bool) or item is None:
                continue
            mended = self.repair(below, item, (*path, index))
            if mended is not item:
                made = list(made) if made is value else made
                made[index] = mended
        return made

    def _add_repair(self, path: JsonPath, given: Any, became: str, reason: str) -> None:
        self.repairs.append(Repair(format_json_path(path), preview_json(given), became, reason))


def _get_json_types(part: Mapping[str, Any]) -> frozenset[str]:
    kind = part.get("type")
    if isinstance(kind, str):
        return frozenset((kind,))
    return frozenset(kind) if isinstance(kind, list) else frozenset()


def _parse_scalar_text(kinds: frozenset[str], text: str) -> Any:
    if kinds & {"integer", "number"} and len(text) <= _MAX_DIGITS and (spelled := _NUMBER.fullmatch(text)):
        if spelled[2] is None and spelled[3] is None:
            return int(text)
        number = float(text)
        if math.isfinite(number) and ("number" in kinds or number.is_integer()):
            return number if "number" in kinds else int(number)
    if "boolean" in kinds and text in ("true", "false"):
        return text == "true"
    return text


def _get_additional_schema(part: Mapping[str, Any], key: str) -> SchemaPart | None:
    """Return the schema of a property that is not named; patterns are left to the validator."""
    more = part.get("additionalProperties")
    return more if isinstance(more, Mapping) and not part.get("patternProperties") else None
