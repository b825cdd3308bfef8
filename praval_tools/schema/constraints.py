"""
Reads what `Annotated` adds to a hint: a description, and constraints that JSON Schema can express.

Constraints are checked on the JSON value, before it becomes Python, exactly as a validator of the schema does.
Metadata is known by its class's module and attributes, so that annotated-types and pydantic need no import here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import cache
from typing import Any, Final

import msgspec

from praval_tools.names import format_count, get_class_name, shorten_repr, to_plain_scalar, to_plain_text
from praval_tools.schema.json_values import MAX_DIGITS, find_scalar_problem, is_multiple, to_canonical_json
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.type_handler import Mismatch

_NUMBER_KEYWORDS: Final = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_LENGTH_KEYWORDS: Final = {
    "min_length": {"string": "minLength", "array": "minItems", "object": "minProperties"},
    "max_length": {"string": "maxLength", "array": "maxItems", "object": "maxProperties"},
}
_CONSTRAINT_NAMES: Final = (*_NUMBER_KEYWORDS, "multiple_of", *_LENGTH_KEYWORDS, "pattern")
_IGNORED_METADATA: Final = frozenset({"Unit", "Strict", "AllowInfNan", "FieldInfo"})


class Constraints(msgspec.Struct, frozen=True):
    """
    What the metadata of one `Annotated` says.

    Args:
        values: Constraint by the name that annotated-types gives it.
        description: The first text in it.
        problems: What in it cannot be said in JSON Schema, or contradicts itself.
    """

    values: dict[str, Any]
    description: str
    problems: tuple[str, ...]

    def to_keywords(self, json_types: frozenset[str]) -> JsonSchema:
        """Return the JSON Schema keywords for values of the *json_types*."""
        keywords: JsonSchema = {}
        for name, value in self.values.items():
            if name in _LENGTH_KEYWORDS:
                keywords.update(
                    {_LENGTH_KEYWORDS[name][kind]: value for kind in sorted(json_types & _LENGTH_KEYWORDS[name].keys())}
                )
            else:
                keywords[_NUMBER_KEYWORDS.get(name, {"multiple_of": "multipleOf"}.get(name, name))] = value
        return keywords

    def find_misplaced(self, json_types: frozenset[str]) -> list[str]:
        """Return the names of the constraints that say nothing about values of the *json_types*."""
        return [name for name in self.values if not json_types & _get_constrained_types(name)]


def _get_constrained_types(name: str) -> frozenset[str]:
    if name in _LENGTH_KEYWORDS:
        return frozenset(_LENGTH_KEYWORDS[name])
    return frozenset({"string"}) if name == "pattern" else frozenset({"number", "integer"})


def read_constraints(metadata: Iterable[Any]) -> Constraints:
    """Return what *metadata* says; unknown metadata is ignored."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    description = ""
    for item in _flatten_metadata(metadata):
        text = item if type(item) is str else getattr(item, "documentation", None) or _get_pydantic_description(item)
        if isinstance(text, str):
            description = description or to_plain_text(text)
        if isinstance(item, re.Pattern):
            _add_constraint(values, "pattern", item, problems)
            continue
        if not _is_from_known_library(item):
            continue
        constraints = [(name, value) for name in _CONSTRAINT_NAMES if (value := getattr(item, name, None)) is not None]
        for name, value in constraints:
            if not (name == "min_length" and value == 0):
                _add_constraint(values, name, value, problems)
        if not constraints and get_class_name(type(item)) not in _IGNORED_METADATA and not text:
            problems.append(f"{item!r} has no JSON Schema form; check it in the function")
    return Constraints(values, description, (*problems, *_find_contradictions(values)))


def _flatten_metadata(metadata: Iterable[Any]) -> Iterator[Any]:
    for item in metadata:
        if _is_from_known_library(item) and getattr(item, "__is_annotated_types_grouped_metadata__", False):
            yield from _flatten_metadata(item)
        elif get_class_name(type(item)) == "FieldInfo" and _is_from_known_library(item):
            yield item
            yield from _flatten_metadata(item.metadata)
        else:
            yield item


def _is_from_known_library(item: Any) -> bool:
    return type(item).__module__.partition(".")[0] in ("annotated_types", "pydantic")


def _get_pydantic_description(item: Any) -> Any:
    is_field = get_class_name(type(item)) == "FieldInfo" and _is_from_known_library(item)
    return (item.description or "") if is_field else None


def _add_constraint(values: dict[str, Any], name: str, value: Any, problems: list[str]) -> None:
    """Add one constraint; of two bounds the tighter one counts."""
    try:
        value = _READERS[name](value)
    except (TypeError, ValueError) as error:
        problems.append(str(error))
        return
    if name not in values or values[name] == value:
        values[name] = value
    elif name in ("ge", "gt", "min_length"):
        values[name] = max(values[name], value)
    elif name in ("le", "lt", "max_length"):
        values[name] = min(values[name], value)
    else:
        problems.append(f"it has two different constraints of the kind {name}; keep one")


def _read_bound(value: Any) -> int | float:
    if isinstance(value, Decimal) and value.is_finite() and value.adjusted() < MAX_DIGITS:
        value = int(value) if value == value.to_integral_value() else float(value)
    plain = to_plain_scalar(value)
    if isinstance(plain, bool) or not isinstance(plain, int | float) or find_scalar_problem(plain):
        raise ValueError(
            f"a bound of {shorten_repr(value)} has no JSON Schema form; bounds are finite numbers of at most "
            f"{MAX_DIGITS} digits"
        )
    return plain


def _read_step(value: Any) -> int | float:
    if (step := _read_bound(value)) <= 0:
        raise ValueError(f"MultipleOf({shorten_repr(value)}) has no JSON Schema form; it must be greater than 0")
    return step


def _read_length(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"a length of {shorten_repr(value)} makes no sense; lengths are integers from 0 to 2**63 - 1")
    return value


def _read_pattern(value: Any) -> str:
    if isinstance(value, re.Pattern):
        if value.flags & ~re.UNICODE or not isinstance(value.pattern, str):
            raise ValueError(f"the flags of {value!r} have no JSON Schema form; write them into the pattern")
        value = value.pattern
    try:
        compile_cached_validator(to_canonical_json({"pattern": value}))
    except ValueError as error:
        raise ValueError(f"the pattern {value!r} is not a regular expression of JSON Schema: {error}") from None
    return to_plain_text(value)


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(_NUMBER_KEYWORDS, _read_bound),
    "multiple_of": _read_step,
    **dict.fromkeys(_LENGTH_KEYWORDS, _read_length),
    "pattern": _read_pattern,
}


def _find_contradictions(values: dict[str, Any]) -> Iterator[str]:
    low, above = values.get("ge", -math.inf), values.get("gt", -math.inf)
    high, below = values.get("le", math.inf), values.get("lt", math.inf)
    if low > high or above >= high or low >= below or above >= below:
        yield "its bounds exclude every number"
    if values.get("min_length", 0) > values.get("max_length", math.inf):
        yield "its least length is greater than its greatest"


@cache
def compile_cached_validator(schema_text: str) -> Any:
    """Return a validator of the schema that *schema_text* is; for patterns, which Python would read differently."""
    import json

    import jsonschema_rs

    return jsonschema_rs.validator_for(json.loads(schema_text), validate_formats=True)


def make_checker(keywords: JsonSchema) -> Callable[[Any], None]:
    """Return a function that raises `Mismatch` for a JSON value which breaks one of *keywords*."""
    checks = [_make_keyword_check(name, limit) for name, limit in keywords.items()]

    def check(value: Any) -> None:
        for keyword_check in checks:
            keyword_check(value)

    return check


def _make_keyword_check(name: str, limit: Any) -> Callable[[Any], None]:
    if name == "pattern":
        kinds: tuple[type, ...] = (str,)
        holds: Callable[[Any], bool] = compile_cached_validator(to_canonical_json({name: limit})).is_valid
        reason = f"does not match {limit}"
    else:
        kinds, holds, reason = _COMPARISONS[name](limit)

    def check(value: Any) -> None:
        if type(value) in kinds and not holds(value):
            raise Mismatch(reason)

    return check


def make_decimal_checker(keywords: JsonSchema) -> Callable[[Decimal], None]:
    """Return a function that raises `Mismatch` for a `Decimal` which breaks one of *keywords*: nothing is rounded."""
    checks = [_COMPARISONS[name](_to_exact_limit(limit)) for name, limit in keywords.items()]

    def check(value: Decimal) -> None:
        for _, holds, reason in checks:
            if not holds(value):
                raise Mismatch(reason)

    return check


def _to_exact_limit(limit: float) -> float | Decimal:
    """Return the number that the text of a limit says, not the binary fraction next to it."""
    return Decimal(repr(limit)) if isinstance(limit, float) else limit


def _describe_lack(limit: int, noun: str) -> str:
    return f"has fewer than {format_count(limit, noun)}"


def _describe_excess(limit: int, noun: str) -> str:
    return f"has more than {format_count(limit, noun)}"


_NUMBER_TYPES: Final = (int, float)
_Comparison = tuple[tuple[type, ...], Callable[[Any], bool], str]
_COMPARISONS: Final[dict[str, Callable[[Any], _Comparison]]] = {
    "minimum": lambda limit: (_NUMBER_TYPES, lambda value: bool(value >= limit), f"is less than {limit}"),
    "exclusiveMinimum": lambda limit: (_NUMBER_TYPES, lambda value: bool(value > limit), f"is not over {limit}"),
    "maximum": lambda limit: (_NUMBER_TYPES, lambda value: bool(value <= limit), f"is greater than {limit}"),
    "exclusiveMaximum": lambda limit: (_NUMBER_TYPES, lambda value: bool(value < limit), f"is not under {limit}"),
    "multipleOf": lambda step: (_NUMBER_TYPES, lambda value: is_multiple(value, step), f"breaks multipleOf {step}"),
    "minLength": lambda limit: ((str,), lambda value: len(value) >= limit, f"is shorter than {limit}"),
    "maxLength": lambda limit: ((str,), lambda value: len(value) <= limit, f"is longer than {limit}"),
    "minItems": lambda limit: ((list,), lambda value: len(value) >= limit, _describe_lack(limit, "item")),
    "maxItems": lambda limit: ((list,), lambda value: len(value) <= limit, _describe_excess(limit, "item")),
    "minProperties": lambda limit: ((dict,), lambda value: len(value) >= limit, _describe_lack(limit, "key")),
    "maxProperties": lambda limit: ((dict,), lambda value: len(value) <= limit, _describe_excess(limit, "key")),
}
