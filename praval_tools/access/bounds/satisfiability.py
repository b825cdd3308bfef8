"""Whether anything can meet several schemas at once: no only where that is certain."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from praval_tools.access.bounds.bound_schema import ALL_TYPES, get_possible_types
from praval_tools.schema.validator import compile_schema

if TYPE_CHECKING:
    from fractions import Fraction

_SIZE_LIMITS: Final = (
    ("array", "minItems", "maxItems"),
    ("string", "minLength", "maxLength"),
    ("object", "minProperties", "maxProperties"),
)


def can_all_hold(schemas: Sequence[Any]) -> bool:
    """Return False only where no JSON value is valid under all *schemas*, which have no references."""
    parts = list(_iter_conjuncts(schemas))
    if any(part is False or (isinstance(part, dict) and part.get("not") in (True, {})) for part in parts):
        return False
    flat = [part for part in parts if isinstance(part, dict)]
    for part in flat:
        if "const" in part or isinstance(part.get("enum"), list):
            candidates = [part["const"]] if "const" in part else part["enum"]
            return any(all(_is_valid(one, value) for one in schemas) for value in candidates)
    kinds = ALL_TYPES
    for part in flat:
        kinds &= get_possible_types(part)
    return any(_has_value_of_type(kind, flat) for kind in kinds)


def _iter_conjuncts(schemas: Iterable[Any]) -> Iterable[Any]:
    """Yield the schemas and what they demand by `allOf`; branches that may be chosen are left alone."""
    for one in schemas:
        yield one
        if isinstance(one, dict) and isinstance(one.get("allOf"), list):
            yield from _iter_conjuncts(one["allOf"])


def _is_valid(schema: Any, value: Any) -> bool:
    try:
        return bool(compile_schema(schema).is_valid(value))
    except ValueError:
        return True


def _has_value_of_type(kind: str, parts: list[dict[str, Any]]) -> bool:
    """Tell whether some value of this type may meet the simple limits."""
    if kind == "number":
        return _has_number(parts)
    for of, least, most in _SIZE_LIMITS:
        if kind == of:
            low = max((part[least] for part in parts if least in part), default=0)
            high = min((part[most] for part in parts if most in part), default=math.inf)
            if low > high:
                return False
    if kind == "object":
        return all(can_all_hold(together) for together in _iter_required_property_schemas(parts))
    return True


def _iter_required_property_schemas(parts: list[dict[str, Any]]) -> Iterable[list[Any]]:
    """Yield what has to hold together for each property that is required."""
    names = {name for part in parts for name in part.get("required") or ()}
    for name in sorted(names):
        found = [part["properties"][name] for part in parts if name in (part.get("properties") or {})]
        for part in parts:
            closed = part.get("additionalProperties") is False and "patternProperties" not in part
            if closed and name not in (part.get("properties") or {}):
                found.append(False)
        values = [{"const": one["default"]} for one in found if isinstance(one, dict) and "default" in one]
        if found and not (values and _can_default_hold(found, values)):
            yield found


def _can_default_hold(found: list[Any], values: list[Any]) -> bool:
    """Tell whether a default may stand there: it is not judged by its own schema."""
    others = [one for one in found if not (isinstance(one, dict) and "default" in one)]
    return any(can_all_hold([*others, value]) for value in values)


def _has_number(parts: list[dict[str, Any]]) -> bool:
    low, low_open, high, high_open = -math.inf, False, math.inf, False
    whole = False
    for part in parts:
        whole = whole or part.get("type") == "integer"
        for keyword, open_ in (("minimum", False), ("exclusiveMinimum", True)):
            if keyword in part and (part[keyword], open_) > (low, low_open):
                low, low_open = part[keyword], open_
        for keyword, open_ in (("maximum", False), ("exclusiveMaximum", True)):
            if keyword in part and (part[keyword], not open_) < (high, not high_open):
                high, high_open = part[keyword], open_
    if low > high or (low == high and (low_open or high_open)):
        return False
    steps = [_to_fraction(part["multipleOf"]) for part in parts if "multipleOf" in part]
    steps += [_to_fraction(1)] if whole else []
    if low == -math.inf or high == math.inf:
        return True
    return all(
        _has_multiple_in_range(step, _to_fraction(low), low_open, _to_fraction(high), high_open) for step in steps
    )


def _to_fraction(number: float) -> Fraction:
    """Return the number that the text of *number* says."""
    from fractions import Fraction

    return Fraction(number) if isinstance(number, int) else Fraction(str(number))


def _has_multiple_in_range(step: Fraction, low: Fraction, low_open: bool, high: Fraction, high_open: bool) -> bool:
    """Tell whether a multiple of *step* lies in the range."""
    first = math.ceil(low / step)
    if low_open and first * step == low:
        first += 1
    return first * step < high or (first * step == high and not high_open)
