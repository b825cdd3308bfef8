"""
Repairs arguments that a model almost got right, along their JSON Schema: `"3"` becomes 3.

Only where the schema names the type: a number or boolean written as text, a list or object written as JSON text,
null where leaving out was meant. What is valid as it stands is never changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Final, TypeVar

import msgspec

from praval_tools.lazy_regex import LazyRegex
from praval_tools.schema.json_input import MalformedArgumentsError, parse_json, preview_json
from praval_tools.schema.json_pointer import format_json_path, resolve_pointer
from praval_tools.schema.schema_tree import JsonSchema, SchemaPart

_NUMBER: Final = LazyRegex(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,9})?")
_MAX_DIGITS: Final = 400
_UNION_BUDGET: Final = 20_000
"""How many branches of unions are tried; beyond it values stay as they are."""

LEFT_OUT: Final = "left out"
"""What a null became that stood for a default."""

JsonPath = tuple[str | int, ...]
_ContainerT = TypeVar("_ContainerT", dict[str, Any], list[Any])


class Repair(msgspec.Struct, frozen=True):
    """
    One thing that was repaired in the arguments.

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


def resolve_references(root: JsonSchema, schema: object) -> JsonSchema | None:
    """Return *schema* or what its reference leads to inside *root*; None where there is no such schema."""
    for _ in range(32):
        if not isinstance(schema, dict):
            return None
        if not isinstance(reference := schema.get("$ref"), str):
            return schema
        schema = resolve_pointer(root, reference)
    return None


class Repairer:
    """
    Repairs one set of arguments.

    Args:
        root: The schema of the arguments.
        is_part_valid: Tells whether a value is valid under a part of the schema.
    """

    def __init__(self, root: JsonSchema, is_part_valid: Callable[[SchemaPart, object], bool]) -> None:
        self._root, self._is_part_valid = root, is_part_valid
        self._budget = _UNION_BUDGET
        self._outcomes: dict[tuple[int, JsonPath], tuple[object, Any, list[Repair]]] = {}
        self.repairs: list[Repair] = []

    def repair(self, schema: SchemaPart, value: Any, path: JsonPath = ()) -> Any:
        """
        Return *value*, or what it becomes under *schema*; the given value is not changed.

        Each value is repaired once under each schema: the branches around it would otherwise have it repaired again.
        """
        part = resolve_references(self._root, schema)
        if part is None or "enum" in part or "const" in part or not isinstance(value, str | dict | list):
            return value
        key = id(part), path
        if key not in self._outcomes or self._outcomes[key][0] is not value:
            start = len(self.repairs)
            repaired = self._repair(part, value, path)
            self._outcomes[key] = value, repaired, self.repairs[start:]
            return repaired
        _, repaired, repairs = self._outcomes[key]
        self.repairs += repairs
        return repaired

    def _repair(self, part: JsonSchema, value: Any, path: JsonPath) -> Any:
        branches = part.get("anyOf") or part.get("oneOf")
        if isinstance(branches, list):
            return self._repair_union(part, branches, value, path)
        for conjunct in part.get("allOf") or ():
            value = self.repair(conjunct, value, path)
        kinds = _get_json_types(part)
        if isinstance(value, str) and kinds and "string" not in kinds:
            value = self._repair_text(kinds, value, path)
        if isinstance(value, dict):
            return self._repair_object(part, value, path)
        return self._repair_list(part, value, path) if isinstance(value, list) else value

    def _repair_union(self, part: JsonSchema, branches: list[SchemaPart], value: Any, path: JsonPath) -> Any:
        """
        Take the branch under which the fewest repairs make the value valid; a valid value stays.

        So does a value from which a null would be left out for one branch, and which would then be read as another
        that does not take it as it was given.
        """
        if self._budget <= 0 or self._is_part_valid(part, value):
            return value
        start, best_repairs, best_value = len(self.repairs), list[Repair](), value
        others = []
        for branch in branches:
            self._budget -= 1
            repaired = self.repair(branch, value, path)
            repairs = self.repairs[start:]
            del self.repairs[start:]
            if not (repairs and self._is_part_valid(part, repaired) and self._is_part_valid(branch, repaired)):
                others.append(branch)
            elif not best_repairs or len(repairs) < len(best_repairs):
                best_repairs, best_value = repairs, repaired
        has_left_out = any(repair.became == LEFT_OUT for repair in best_repairs)
        if has_left_out and any(self._is_part_valid(branch, best_value) for branch in others):
            return value
        self.repairs += best_repairs
        return best_value

    def _repair_text(self, kinds: frozenset[str], value: str, path: JsonPath) -> Any:
        repaired = _parse_scalar_text(kinds, value)
        if repaired is value and kinds & {"array", "object"} and value.lstrip()[:1] in ("[", "{"):
            try:
                parsed = parse_json(value)
            except MalformedArgumentsError:
                return value
            if (isinstance(parsed, list) and "array" in kinds) or (isinstance(parsed, dict) and "object" in kinds):
                repaired = parsed
        if repaired is not value:
            self._add_repair(path, value, preview_json(repaired), "was spelled as text")
        return repaired

    def _repair_object(self, part: JsonSchema, value: dict[str, Any], path: JsonPath) -> dict[str, Any]:
        properties, required = part.get("properties") or {}, part.get("required") or ()
        additional = part.get("additionalProperties") if not part.get("patternProperties") else None
        kept, members = value, list[tuple[str, SchemaPart | None]]()
        for key, item in value.items():
            schema = properties.get(key)
            if schema is not None and item is None and key not in required and not self._is_part_valid(schema, None):
                kept = dict(kept) if kept is value else kept
                del kept[key]
                self._add_repair((*path, key), None, LEFT_OUT, "null where it has a default")
            else:
                members.append((key, additional if schema is None and isinstance(additional, dict) else schema))
        return self._repair_members(kept, members, path)

    def _repair_list(self, part: JsonSchema, value: list[Any], path: JsonPath) -> list[Any]:
        prefix, rest = part.get("prefixItems") or (), part.get("items")
        members = ((index, prefix[index] if index < len(prefix) else rest) for index in range(len(value)))
        return self._repair_members(value, members, path)

    def _repair_members(
        self, container: _ContainerT, members: Iterable[tuple[Any, SchemaPart | None]], path: JsonPath
    ) -> _ContainerT:
        """Return *container* with the repaired members in a copy; itself where nothing changes."""
        repaired = container
        for step, schema in members:
            item = container[step]
            if schema is None or item is None or type(item) in (int, float, bool):
                continue
            new_item = self.repair(schema, item, (*path, step))
            if new_item is not item:
                repaired = container.copy() if repaired is container else repaired
                repaired[step] = new_item
        return repaired

    def _add_repair(self, path: JsonPath, given: object, became: str, reason: str) -> None:
        self.repairs.append(Repair(format_json_path(path), preview_json(given), became, reason))


def _get_json_types(part: JsonSchema) -> frozenset[str]:
    kind = part.get("type")
    return frozenset((kind,)) if isinstance(kind, str) else frozenset(kind) if isinstance(kind, list) else frozenset()


def _parse_scalar_text(kinds: frozenset[str], text: str) -> Any:
    if kinds & {"integer", "number"} and len(text) <= _MAX_DIGITS and (match := _NUMBER.fullmatch(text)):
        if match[2] is None and match[3] is None:
            return int(text)
        number, exact = float(text), Decimal(text)
        if "number" in kinds and math.isfinite(number) and (number or not exact):
            return number
        if "number" not in kinds and math.isfinite(number) and exact == exact.to_integral_value():
            return int(exact)
    if "boolean" in kinds and text in ("true", "false"):
        return text == "true"
    return text
