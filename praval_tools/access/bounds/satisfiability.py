"""Decides whether any JSON value can meet several JSON Schemas at once; says no only where that is certain."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from praval_tools.schema.json_values import to_fraction
from praval_tools.schema.schema_tree import JsonSchema, SchemaPart
from praval_tools.schema.validator import compile_schema

if TYPE_CHECKING:
    from fractions import Fraction

_ALL_TYPES: Final = frozenset({"null", "boolean", "number", "string", "array", "object"})
_TYPE_NAMES: Final[Mapping[type, str]] = {
    type(None): "null", bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object",
}  # fmt: skip
_SIZE_LIMITS: Final = {
    "array": ("minItems", "maxItems"),
    "string": ("minLength", "maxLength"),
    "object": ("minProperties", "maxProperties"),
}


# ── what a schema says ───────────────────────────────────────────────────────────────────────────


def list_or_empty(value: object) -> list[Any]:
    """Return *value* if it is a list; a keyword of an invalid schema may hold anything."""
    return value if isinstance(value, list) else []


def _list_branches(schema: JsonSchema) -> list[Any]:
    """Return the schemas of which a value may follow one; the schema itself where it has no branches."""
    branches = [branch for keyword in ("anyOf", "oneOf") for branch in list_or_empty(schema.get(keyword))]
    return [
        inner
        for branch in branches
        for inner in (_list_branches(branch) if isinstance(branch, dict) else [branch])
    ] or [schema]  # fmt: skip


def get_possible_types(schema: object) -> frozenset[str]:
    """Return the JSON types that values of *schema* may have, `integer` as `number`; all where it does not say."""
    if not isinstance(schema, dict):
        return frozenset() if schema is False else _ALL_TYPES
    types, branches = _ALL_TYPES, _list_branches(schema)
    if branches != [schema]:
        types = frozenset[str]().union(*map(get_possible_types, branches))
    for part in list_or_empty(schema.get("allOf")):
        types &= get_possible_types(part)
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        types &= frozenset("number" if name == "integer" else name for name in names)
    if "const" in schema or isinstance(schema.get("enum"), list):
        values = [schema["const"]] if "const" in schema else schema["enum"]
        types &= frozenset(_TYPE_NAMES.get(type(value), "number") for value in values)
    return types


def find_property_schema(schema: SchemaPart, name: str) -> SchemaPart | None:
    """
    Look up what *schema* says about the property *name*.

    Returns:
        Its schema, a union where branches differ; True where it may be anything; None where there can be no such
        property.
    """
    if not isinstance(schema, dict):
        return True
    open_parts, found = [], list[SchemaPart]()
    for part in [*_list_branches(schema), *list_or_empty(schema.get("allOf"))]:
        if isinstance(part, dict) and "object" in get_possible_types(part):
            properties = part.get("properties")
            if isinstance(properties, dict) and name in properties:
                if properties[name] not in found:
                    found.append(properties[name])
                continue
            open_parts.append(part.get("additionalProperties", True) is not False or "patternProperties" in part)
    if found:
        return found[0] if len(found) == 1 else {"anyOf": found}
    return True if any(open_parts) or not open_parts else None


def list_property_names(schema: SchemaPart) -> list[str]:
    """Return the properties that *schema* names."""
    if not isinstance(schema, dict):
        return []
    parts = [schema, *_list_branches(schema), *list_or_empty(schema.get("allOf"))]
    return list(
        dict.fromkeys(name for part in parts if isinstance(part, dict) for name in part.get("properties") or ())
    )


# ── whether schemas can hold together ────────────────────────────────────────────────────────────


def can_all_hold(schemas: Sequence[SchemaPart]) -> bool:
    """Return False only where no JSON value is valid under all *schemas*, which have no references."""
    conjuncts = list(_iter_conjuncts(schemas))
    parts = [part for part in conjuncts if isinstance(part, dict)]
    if False in conjuncts or any(part.get("not") in (True, {}) for part in parts):
        return False
    required = {name for part in parts for name in list_or_empty(part.get("required"))}
    if any(_refuses_names(part.get("not"), required) for part in parts):
        return False
    if not all(_has_possible_branch(part["anyOf"], conjuncts) for part in parts if list_or_empty(part.get("anyOf"))):
        return False
    for part in parts:
        if "const" in part or isinstance(part.get("enum"), list):
            candidates = [part["const"]] if "const" in part else part["enum"]
            checks = list(map(_build_check, schemas))  # once: each holds as many values as there are candidates
            return any(all(check(value) for check in checks) for value in candidates)
    types = _ALL_TYPES.intersection(*map(get_possible_types, parts))
    return any(_has_value_of_type(name, parts) for name in types)


def _refuses_names(refused: object, required: set[str]) -> bool:
    """Tell whether what a `not` refuses is that properties are there which are *required*."""
    names = refused.get("required") if isinstance(refused, dict) and refused.keys() <= {"required", "type"} else None
    return isinstance(names, list) and required.issuperset(names) and get_possible_types(refused) >= {"object"}


def _has_possible_branch(branches: list[SchemaPart], conjuncts: list[SchemaPart]) -> bool:
    """Return False only where no branch can hold together with what the *conjuncts* demand beside their branches."""
    rest = [
        {key: value for key, value in part.items() if key not in ("anyOf", "oneOf", "allOf")}
        if isinstance(part, dict) else part
        for part in conjuncts
    ]  # fmt: skip
    return any(can_all_hold([branch, *rest]) for branch in branches)


def _iter_conjuncts(schemas: Iterable[SchemaPart]) -> Iterator[SchemaPart]:
    """Yield the schemas and what they demand by `allOf`; branches of which one is chosen are left alone."""
    for schema in schemas:
        yield schema
        if isinstance(schema, dict):
            yield from _iter_conjuncts(list_or_empty(schema.get("allOf")))


def _build_check(schema: SchemaPart) -> Callable[[object], bool]:
    """Return what tells whether a value may be valid."""
    try:
        validator = compile_schema(schema, takes_iso_8601=True)
    except ValueError:
        return lambda value: True

    def is_valid(value: object) -> bool:
        try:
            return validator.is_valid(value)
        except ValueError:
            return True

    return is_valid


def _has_value_of_type(type_name: str, parts: list[JsonSchema]) -> bool:
    """Tell whether some value of this type may meet the simple limits."""
    if type_name == "number":
        return _has_number(parts)
    if type_name in _SIZE_LIMITS:
        least, most = _SIZE_LIMITS[type_name]
        if max((part.get(least, 0) for part in parts), default=0) > min(
            (part.get(most, math.inf) for part in parts), default=math.inf
        ):
            return False
    return type_name != "object" or all(map(can_all_hold, _iter_required_property_schemas(parts)))


def _iter_required_property_schemas(parts: list[JsonSchema]) -> Iterator[list[SchemaPart]]:
    """Yield what has to hold together for each required property; not where a default, which may break it, counts."""
    for name in dict.fromkeys(name for part in parts for name in part.get("required") or ()):
        schemas: list[SchemaPart] = []
        for part in parts:
            if name in (part.get("properties") or {}):
                schemas.append(part["properties"][name])
            elif part.get("additionalProperties") is False and "patternProperties" not in part:
                schemas.append(False)
        if not any(isinstance(schema, dict) and "default" in schema for schema in schemas):
            yield schemas


def _has_number(parts: list[JsonSchema]) -> bool:
    low = max((part["minimum"] for part in parts if "minimum" in part), default=-math.inf)
    above = max((part["exclusiveMinimum"] for part in parts if "exclusiveMinimum" in part), default=-math.inf)
    high = min((part["maximum"] for part in parts if "maximum" in part), default=math.inf)
    below = min((part["exclusiveMaximum"] for part in parts if "exclusiveMaximum" in part), default=math.inf)
    if low > high or above >= high or low >= below or above >= below:
        return False
    steps = [to_fraction(part["multipleOf"]) for part in parts if "multipleOf" in part]
    steps += [to_fraction(1)] if any(part.get("type") == "integer" for part in parts) else []
    if max(low, above) == -math.inf or min(high, below) == math.inf:
        return True
    return all(_has_multiple_in_range(step, low, above, high, below) for step in steps)


def _has_multiple_in_range(step: Fraction, low: float, above: float, high: float, below: float) -> bool:
    """Tell whether a multiple of *step* is at least *low*, over *above*, at most *high* and under *below*."""
    least = max(to_fraction(limit) / step for limit in (low, above) if limit != -math.inf)
    first = math.ceil(least) * step
    if above != -math.inf and first == to_fraction(above):
        first += step
    return (high == math.inf or first <= to_fraction(high)) and (below == math.inf or first < to_fraction(below))
