"""
Hypothesis strategies: arguments that a tool accepts.

Values are drawn from the tool's JSON Schema, piece by piece so that nearly all fit at the first try,
and each is checked by the tool's own binding before it is handed out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import timedelta, timezone
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from praval_tools.errors import ToolArgumentsError
from praval_tools.schema.json_pointer import resolve_pointer
from praval_tools.schema.json_values import to_equality_text
from praval_tools.schema.text_formats import DECIMAL_TEXT_SCHEMA
from praval_tools.tools.tool import Tool

Schema = dict[str, Any]
ValueStrategy = SearchStrategy[Any]

_MAX_SIZE = 5
_ANNOTATIONS = {"description", "title", "default", "examples", "$defs", "$schema", "deprecated", "$comment"}


def arguments_for(tool: Tool[..., Any]) -> SearchStrategy[dict[str, Any]]:
    """
    Return a strategy of arguments, as JSON values, that *tool* accepts as they are, without a repair.

    Left-out parameters that have defaults are among them. Feed them to `registry.execute` or to a toolset's `call`.
    """
    schema = tool.parameters
    return _StrategyBuilder(schema).build(schema).filter(lambda arguments: _is_accepted(tool, arguments))


def _is_accepted(tool: Tool[..., Any], arguments: dict[str, Any]) -> bool:
    try:
        tool.implementation.bind(arguments, strict=True)
    except ToolArgumentsError:
        return False
    return True


class _StrategyBuilder:
    """Draws from one schema; knows its definitions, and draws each of them by one shared, lazy strategy."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._strategies: dict[str, ValueStrategy] = {}

    def build(self, schema: Schema | bool) -> ValueStrategy:
        """Return a strategy of the values that fit *schema*."""
        if schema is False:
            return st.nothing()
        if schema is True or not schema.keys() - _ANNOTATIONS:
            return _ANY_VALUE
        if "$ref" in schema:
            return self._build_reference(schema["$ref"])
        if "const" in schema:
            return st.just(schema["const"])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        for union in ("anyOf", "oneOf"):
            if union in schema:
                if _is_bounded_decimal(schema[union]):
                    numbers = self.build(schema[union][1])
                    return numbers | numbers.map(repr)
                beside = {key: value for key, value in schema.items() if key != union}
                return st.one_of(*(self.build(_overlay_schema(beside, option)) for option in schema[union]))
        if "allOf" in schema:
            merged = {key: value for key, value in schema.items() if key != "allOf"}
            for part in schema["allOf"]:
                merged = _overlay_schema(merged, part)
            return self.build(merged)
        return self._build_typed(schema)

    def _build_typed(self, schema: Schema) -> ValueStrategy:
        kinds = schema.get("type", list(_TYPE_STRATEGIES))
        if isinstance(kinds, list):
            return st.one_of(*(self._build_typed({**schema, "type": kind}) for kind in kinds))
        if kinds == "array":
            return self._build_array(schema)
        if kinds == "object":
            return self._build_object(schema)
        return _TYPE_STRATEGIES[kinds](schema)

    def _build_reference(self, pointer: str) -> ValueStrategy:
        if pointer not in self._strategies:
            self._strategies[pointer] = st.deferred(lambda: self.build(resolve_pointer(self._root, pointer)))
        return self._strategies[pointer]

    def _build_array(self, schema: Schema) -> ValueStrategy:
        prefix = [self.build(item) for item in schema.get("prefixItems", ())]
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        items = schema.get("items", True)
        if prefix and items is False:
            return st.tuples(*prefix).map(list)
        room = most if most is not None else least + _MAX_SIZE
        rest = st.lists(
            st.nothing() if items is False else self.build(items),
            min_size=max(0, least - len(prefix)),
            max_size=max(0, min(room, least + _MAX_SIZE) - len(prefix)) if items is not False else 0,
            unique_by=to_equality_text if schema.get("uniqueItems") else None,
        )
        return st.builds(lambda first, more: [*first, *more], st.tuples(*prefix), rest)

    def _build_object(self, schema: Schema) -> ValueStrategy:
        properties: dict[str, Any] = schema.get("properties", {})
        required = set(schema.get("required", ()))
        extra = schema.get("additionalProperties", True)
        fixed = st.fixed_dictionaries(
            {name: self.build(properties.get(name, True)) for name in properties if name in required}
            | {name: self.build(extra) for name in sorted(required - properties.keys())},
            optional={name: self.build(value) for name, value in properties.items() if name not in required},
        )
        if extra is False or (extra is True and properties):
            return fixed
        least = max(0, schema.get("minProperties", 0) - len(required))
        most = min(schema.get("maxProperties", least + _MAX_SIZE), least + _MAX_SIZE)
        names = self.build({"type": "string", **schema.get("propertyNames", {})}).filter(
            lambda name: isinstance(name, str) and name not in properties
        )
        more = st.dictionaries(names, self.build(extra), min_size=least, max_size=max(least, most))
        return st.builds(lambda first, others: {**others, **first}, fixed, more)


def _is_bounded_decimal(options: list[Schema | bool]) -> bool:
    """Tell whether *options* are the text and the number of a Decimal with bounds, which count for the text, too."""
    return len(options) == 2 and options[0] == DECIMAL_TEXT_SCHEMA and options[1] != {"type": "number"}


def _overlay_schema(first: Schema, second: Schema | bool) -> Any:
    return second if isinstance(second, bool) or not first.keys() - _ANNOTATIONS else {**first, **second}


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────


def _build_integers(schema: Schema) -> ValueStrategy:
    step = schema.get("multipleOf", 1)
    low, high = _get_limits(schema)
    if step == 1:
        return st.integers(None if low is None else math.ceil(low), None if high is None else math.floor(high)).filter(
            lambda value: _is_inside_limits(schema, value)
        )
    return _build_multiples(schema, Fraction(Fraction(str(step)).numerator)).map(int)


def _build_numbers(schema: Schema) -> ValueStrategy:
    if "multipleOf" in schema:
        step = Fraction(str(schema["multipleOf"]))
        return _build_multiples(schema, step).map(lambda value: int(value) if value.denominator == 1 else float(value))
    low, high = _get_limits(schema)
    first, last = (None if limit is None else float(limit) for limit in (low, high))
    floats = st.floats(first, last, allow_nan=False, allow_infinity=False)
    return st.one_of(floats.filter(lambda value: _is_inside_limits(schema, value)), _build_bounded_integers(schema))


def _build_bounded_integers(schema: Schema) -> ValueStrategy:
    low, high = _get_limits(schema)
    first = math.ceil(low) if low is not None else None
    last = math.floor(high) if high is not None else None
    if first is not None and last is not None and first > last:
        return st.nothing()
    if not any(_is_inside_limits(schema, value) for value in (first, last) if value is not None) and None not in (
        first,
        last,
    ):
        return st.nothing() if (last or 0) - (first or 0) < 2 else st.integers((first or 0) + 1, (last or 0) - 1)
    return st.integers(first, last).filter(lambda value: _is_inside_limits(schema, value))


def _build_multiples(schema: Schema, step: Fraction) -> SearchStrategy[Fraction]:
    low, high = _get_limits(schema)
    first = None if low is None else math.ceil(Fraction(low) / step)
    last = None if high is None else math.floor(Fraction(high) / step)
    factors = st.integers(first, last)
    return factors.map(lambda factor: factor * step).filter(lambda value: _is_inside_limits(schema, value))


def _get_limits(schema: Schema) -> tuple[Any, Any]:
    lows = [schema[key] for key in ("minimum", "exclusiveMinimum") if key in schema]
    highs = [schema[key] for key in ("maximum", "exclusiveMaximum") if key in schema]
    return max(lows, default=None), min(highs, default=None)


def _is_inside_limits(schema: Schema, value: Any) -> bool:
    return not (
        ("exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"])
        or ("exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"])
    )


# ── text ─────────────────────────────────────────────────────────────────────────────────────────


def _build_strings(schema: Schema) -> ValueStrategy:
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    pattern = schema.get("pattern")
    if (formatted := _FORMAT_STRATEGIES.get(schema.get("format", ""))) is not None:
        texts = formatted()
        return texts if pattern is None else texts.filter(lambda text: re.search(pattern, text) is not None)
    if pattern is None:
        return st.text(min_size=least, max_size=most)
    matching = st.from_regex(_to_python_pattern(pattern))
    return matching.filter(lambda text: least <= len(text) <= (math.inf if most is None else most))


def _to_python_pattern(pattern: str) -> str:
    """Return the pattern as Python reads it: there, `$` would match before a line break at the end, too."""
    if pattern.endswith("$") and not pattern.endswith("\\$"):
        pattern = f"{pattern[:-1]}\\Z"
    return pattern


def _build_timezones() -> SearchStrategy[timezone]:
    return st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


_FORMAT_STRATEGIES: dict[str, Callable[[], ValueStrategy]] = {
    "date": lambda: st.dates().map(lambda day: day.isoformat()),
    "date-time": lambda: st.datetimes(timezones=_build_timezones()).map(lambda moment: moment.isoformat()),
    "time": lambda: st.times(timezones=_build_timezones()).map(lambda moment: moment.isoformat()),
    "uuid": lambda: st.uuids().map(str),
    "email": st.emails,
    "ipv4": lambda: st.ip_addresses(v=4).map(str),
    "ipv6": lambda: st.ip_addresses(v=6).map(str),
}

_TYPE_STRATEGIES: dict[str, Callable[[Schema], ValueStrategy]] = {
    "null": lambda schema: st.none(),
    "boolean": lambda schema: st.booleans(),
    "integer": _build_integers,
    "number": _build_numbers,
    "string": _build_strings,
    "array": lambda schema: st.nothing(),
    "object": lambda schema: st.nothing(),
}

_ANY_VALUE: ValueStrategy = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
