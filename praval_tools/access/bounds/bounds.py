"""The bounds of a grant: compiles their JSON Schema, checks arguments of calls, merges it into schemas for models."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any, Final, Self

from attrs import field, frozen

from praval_tools.access.bounds.bound_schema import (
    ARGUMENTS_LABEL,
    BRANCH_KEYWORDS,
    describe_unknown_property,
    is_restrictive,
    iter_bound_problems,
    iter_digit_class_problems,
    lift_to_given_and_filled,
    make_strict,
)
from praval_tools.access.bounds.given_bounds import read_bounds
from praval_tools.access.bounds.known_schema import KnownSchema
from praval_tools.access.bounds.satisfiability import can_all_hold
from praval_tools.errors import GrantError
from praval_tools.forks import first_use_property
from praval_tools.names import get_class_name, has_type, shorten_repr
from praval_tools.schema.coercion import resolve_references
from praval_tools.schema.json_input import MalformedArgumentsError
from praval_tools.schema.json_values import MAX_DIGITS, to_canonical_json
from praval_tools.schema.keywords import FIRST_INEXACT_FLOAT
from praval_tools.schema.schema_tree import JsonSchema, SchemaPart, inline_references
from praval_tools.schema.text_formats import DECIMAL_PATTERN, DECIMAL_TEXT_SCHEMA
from praval_tools.schema.validator import compile_schema, describe_reason, iter_errors, list_plain_errors

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

_MAX_REASONS: Final = 20
_CONTEXT_KEYWORDS: Final = frozenset({"properties", "additionalProperties", "items"})
"""These mean something else beside another schema's keywords, so they are merged as a schema of their own."""


@frozen
class Bounds:
    """
    Bounds that hold: checked when made, compared by what they say.

    Either one schema for each bounded parameter, which then has to be there, or one for all arguments, which sees the
    defaults, too; only `enum` and `const` of all arguments compare what was given. A named property has to be there,
    unless a `required` beside it says otherwise. A `pattern` is searched for, as in the standard: write `^…$` for all
    of a text.

    Args:
        canonical_text: What they say, as JSON text.
        arguments_schema: The strict schema of all arguments, defaults filled in.
        parameter_names: The bounded parameters; None where the bounds are about all arguments.
    """

    canonical_text: str
    _arguments_schema: JsonSchema = field(eq=False, repr=False)
    parameter_names: frozenset[str] | None = field(eq=False, repr=False, default=None)

    @classmethod
    def compile(cls, where: Mapping[str, Any], parameters_schema: Mapping[str, Any], tool: str) -> Self:
        """
        Return the bounds that *where* says, for a tool of this schema.

        Args:
            where: Parameter to JSON Schema; or a JSON Schema of all arguments, marked by its `"type": "object"`.
            parameters_schema: The JSON Schema of the tool's arguments.
            tool: For messages.

        Raises:
            GrantError: With every reason why they cannot be enforced, or nothing could meet them.
        """
        if not has_type(where, Mapping):
            raise GrantError(tool, [f"where: {shorten_repr(where)} is not a mapping from parameter to JSON Schema"])
        try:
            plain = read_bounds(where)
        except MalformedArgumentsError as error:
            raise GrantError(tool, [f"where: {item.path}: {item.reason}" for item in error.problems]) from None
        parameter_names = None if plain.get("type") == "object" else frozenset(plain)
        schema = plain if parameter_names is None else {"properties": plain}
        known = KnownSchema.from_parameters(parameters_schema)
        if problems := [*_iter_problems(plain, known), *iter_digit_class_problems(schema)]:
            raise GrantError(tool, [f"where: {problem}" for problem in problems])
        bounds = cls(to_canonical_json(plain), make_strict(schema), parameter_names)
        if not is_satisfiable([bounds], parameters_schema):
            raise GrantError(tool, ["where: no arguments meet these bounds"])
        return bounds

    @property
    def arguments_schema(self) -> JsonSchema:
        """The strict schema of all arguments, defaults filled in; a copy, since it decides."""
        return copy.deepcopy(self._arguments_schema)

    @first_use_property
    def _validator(self) -> Validator:
        return compile_schema(_make_limits_exact(lift_to_given_and_filled(self._arguments_schema)))

    def find_violations(self, given: Mapping[str, Any], filled: Mapping[str, Any]) -> tuple[str, ...]:
        """
        Return why the arguments are outside, each reason naming the argument; nothing where they are inside.

        Args:
            given: The arguments after repairs.
            filled: The same with the defaults of what was left out.
        """
        value: dict[str, dict[str, object]] = {"given": dict(given), "filled": dict(filled)}
        if self.parameter_names is not None:
            bounded = {name: filled[name] for name in sorted(self.parameter_names) if name in filled}
            value = {"given": {}, "filled": bounded}
        try:
            for item in value["filled"].values():  # the validator need not look at the keys of an object
                if isinstance(item, dict) and not all(isinstance(key, str) for key in item):
                    raise TypeError("an object has a key that is not text")
            if self._validator.is_valid(value):
                return ()
            return _list_reasons(self._validator, value)
        except Exception as error:  # what cannot be checked is refused, and the reason says so
            return (f"the bounds cannot be checked ({get_class_name(type(error))}: {shorten_repr(str(error))})",)

    def is_satisfiable_with(self, others: Sequence[Bounds], parameters_schema: Mapping[str, Any]) -> bool:
        """Return False only where no arguments can meet these bounds, those of *others* and the schema together."""
        return is_satisfiable([self, *others], parameters_schema)

    def merge_into_schema(self, parameters_schema: Mapping[str, Any]) -> JsonSchema:
        """Return the schema with the bounds in it, for models: what it accepts is what the grant admits."""
        merged = copy.deepcopy(dict(parameters_schema))
        properties, other = merged.setdefault("properties", {}), merged.get("additionalProperties", True)
        root = dict(parameters_schema)
        defaults = {
            name: _to_judged_value(schema, schema["default"], root)
            for name, schema in properties.items()
            if isinstance(schema, dict) and "default" in schema
        }
        rest = copy.deepcopy(_to_given_schema(self._arguments_schema, defaults))
        rest.pop("type", None)
        bounds, required = rest.pop("properties", {}), rest.pop("required", [])
        for name, bound in bounds.items():
            properties[name] = _combine_schemas(properties.get(name, other), bound)
        if required:
            merged["required"] = list(dict.fromkeys([*(merged.get("required") or ()), *required]))
        if "additionalProperties" in rest:
            rest["properties"] = dict.fromkeys(bounds, True)
        if rest:
            merged["allOf"] = [*merged.get("allOf", ()), rest]
        return merged


def _make_limits_exact(schema: Any) -> Any:
    """
    Return *schema* with whole numbers as integers: the validator compares a `Decimal` with 5, but not with 5.0.

    Floats that may have the text of another whole number stay as they are, as their text counts for a `Decimal`.
    """
    if isinstance(schema, dict):
        return {key: _make_limits_exact(value) for key, value in schema.items()}
    if isinstance(schema, list):
        return list(map(_make_limits_exact, schema))
    is_whole = isinstance(schema, float) and abs(schema) < FIRST_INEXACT_FLOAT and schema.is_integer()
    return int(schema) if is_whole else schema


# ── whether bounds can be made ───────────────────────────────────────────────────────────────────


def _inline_parameters(parameters_schema: Mapping[str, Any]) -> JsonSchema:
    """Return the schema of a tool's arguments without references; recursive parameters may be anything."""
    root = dict(parameters_schema)
    if isinstance(inlined := inline_references(root, root), dict):
        return inlined
    properties = root.get("properties") or {}
    return {**root, "properties": {name: inline_references(schema, root) for name, schema in properties.items()}}


def _iter_problems(where: JsonSchema, known: KnownSchema) -> Iterator[str]:
    if where.get("type") == "object":
        yield from _iter_part_problems(where, known, ARGUMENTS_LABEL)
    elif not where:
        yield "it is empty and narrows nothing; leave it out"
    else:
        for name, bound in where.items():
            if (known_parameter := known.find_property(name)) is None:
                yield describe_unknown_property(known, name)
            else:
                yield from _iter_part_problems(bound, known_parameter, name)


def _iter_part_problems(bound: object, known: KnownSchema, place: str) -> Iterator[str]:
    problems = list(iter_bound_problems(bound, known, place))
    yield from problems
    if known.is_whole and isinstance(bound, dict):  # its type only marks it as the schema of all arguments
        bound = {key: value for key, value in bound.items() if key != "type"}
    if not problems and not is_restrictive(bound):
        yield f"{place}: {shorten_repr(bound)} narrows nothing"


def is_satisfiable(bounds: Sequence[Bounds], parameters_schema: Mapping[str, Any]) -> bool:
    """Return False only where no arguments can meet all *bounds* and the schema together."""
    schemas = [bound.arguments_schema for bound in bounds]
    values = [constraint for schema in schemas for constraint in _iter_value_constraints(schema)]
    if values and not can_all_hold([*values, dict(parameters_schema)]):
        return False
    if not can_all_hold([_drop_value_constraints(schema) for schema in schemas]):
        return False
    known = _inline_parameters(parameters_schema)
    if not can_all_hold([*map(_drop_value_constraints, schemas), _describe_filled_arguments(known)]):
        return False
    other: SchemaPart = "patternProperties" in known or known.get("additionalProperties", True)
    for name in dict.fromkeys(name for schema in schemas for name in schema.get("required", ())):
        parts = [schema["properties"][name] for schema in schemas if name in schema.get("properties", {})]
        known_parameter: SchemaPart = (known.get("properties") or {}).get(name, other)
        known_schema = known_parameter if isinstance(known_parameter, dict) else {}
        if "default" in known_schema and can_all_hold([*parts, {"const": known_schema["default"]}]):
            continue  # a default is not judged by the tool's schema
        if not can_all_hold([*parts, known_parameter]):
            return False
    return True


def _describe_filled_arguments(known: JsonSchema) -> JsonSchema:
    """Return what is certain of arguments with the defaults filled in: which names they have, and how many."""
    properties, names = known.get("properties") or {}, list(known.get("required") or ())
    names += [
        name
        for name, schema in properties.items()
        if name not in names and isinstance(schema, dict) and "default" in schema
    ]
    is_closed = known.get("additionalProperties") is False and "patternProperties" not in known
    most = {"maxProperties": len(properties)} if is_closed else {}
    return {"type": "object", "required": names, "minProperties": len(names), **most}


def _iter_value_constraints(schema: SchemaPart) -> Iterator[JsonSchema]:
    """Yield what compares the arguments as given: `enum` and `const`, also by way of `allOf`."""
    if isinstance(schema, dict):
        for keyword in ("enum", "const"):
            if keyword in schema:
                yield {keyword: schema[keyword]}
        for part in schema.get("allOf", ()):
            yield from _iter_value_constraints(part)


def _drop_value_constraints(schema: Any) -> Any:
    """Leave out what compares the arguments as given, which need not have the properties that defaults fill in."""
    if not isinstance(schema, dict):
        return schema
    rest = {key: value for key, value in schema.items() if key not in ("enum", "const")}
    parts = {key: list(map(_drop_value_constraints, rest[key])) for key in ("allOf", "anyOf") if key in rest}
    return {**rest, **parts}


# ── the schema that a model is shown ─────────────────────────────────────────────────────────────


def _to_given_schema(schema: Any, defaults: Mapping[str, Any]) -> Any:
    """
    Return the schema of filled-in arguments as a schema of those that a caller gives.

    A parameter with a default may be left out, exactly where that default is allowed.
    """
    if not isinstance(schema, dict):
        return schema
    given = {key: value for key, value in schema.items() if key != "required"}
    for keyword in BRANCH_KEYWORDS:
        if keyword in given:
            given[keyword] = [_to_given_schema(branch, defaults) for branch in given[keyword]]
    if "not" in given:
        given["not"] = _to_given_schema(given["not"], defaults)
    validator = compile_schema({key: schema[key] for key in ("properties", "additionalProperties") if key in schema})
    required = [name for name in schema.get("required", ()) if name not in defaults]
    required += [name for name, value in defaults.items() if not validator.is_valid({name: value})]
    return {**given, "required": required} if required else given


def _to_judged_value(schema: object, value: object, root: JsonSchema) -> object:
    """Return *value*, JSON under a part of the schema *root*, as bounds see it: a `Decimal` as a number."""
    branches = list(_iter_resolved_branches(schema, root))
    if isinstance(value, str):
        is_decimal = DECIMAL_TEXT_SCHEMA in branches and re.fullmatch(DECIMAL_PATTERN, value)
        return Decimal(value) if is_decimal else value
    if isinstance(value, list):
        known = next((branch for branch in branches if branch.get("type") == "array"), {})
        schemas = chain(known.get("prefixItems", ()), repeat(known.get("items")))
        return [_to_judged_value(part, item, root) for part, item in zip(schemas, value, strict=False)]
    if isinstance(value, dict):
        known = next((branch for branch in branches if branch.get("type") == "object"), {})
        members, other = known.get("properties", {}), known.get("additionalProperties")
        return {name: _to_judged_value(members.get(name, other), item, root) for name, item in value.items()}
    return value


def _iter_resolved_branches(schema: object, root: JsonSchema) -> Iterator[JsonSchema]:
    if (part := resolve_references(root, schema)) is not None:
        yield part
        for branch in part.get("anyOf", ()):
            yield from _iter_resolved_branches(branch, root)


def _combine_schemas(part: Any, bound: Any) -> Any:
    if bound is True or part is True:
        return part if bound is True else bound
    if not isinstance(part, dict) or not isinstance(bound, dict):
        return {"allOf": [part, bound]}
    types = bound.get("type")
    types = list(types) if isinstance(types, list) else [types]
    if part.get("type") in [*types, *(["integer"] if "number" in types else [])]:  # the bound's type says nothing new
        bound = {key: value for key, value in bound.items() if key != "type"}
    if not part.keys() & bound.keys() and "$ref" not in part and not _CONTEXT_KEYWORDS & bound.keys():
        return {**part, **bound}
    return {**part, "allOf": [*part.get("allOf", ()), bound]}


# ── the reasons of a refusal ─────────────────────────────────────────────────────────────────────


def _list_reasons(validator: Validator, value: object) -> tuple[str, ...]:
    """Return why *value* is outside, some reasons where there are very many."""
    errors = (plain for error in iter_errors(validator, value) for plain in list_plain_errors(error))
    try:
        reasons = dict.fromkeys(map(_describe_error, islice(errors, _MAX_REASONS)))
    except ValueError:  # the validator compares a Decimal of any size, and shows none of so many digits
        return (f"a number of more than {MAX_DIGITS} digits is outside the bounds",)
    return tuple(reasons) or ("the arguments are outside the bounds",)


def _describe_error(error: ValidationError) -> str:
    steps, kind = error.instance_path[1:], error.kind
    if kind.name == "required":
        label = _format_path([*steps, getattr(kind, "property", "")])
        return f"{label} is left out" + ("" if steps else ", and has no default")
    if hasattr(kind, "expected_value"):
        return f"{_format_path(steps)} is not {shorten_repr(kind.expected_value)}"
    if hasattr(kind, "options"):
        return f"{_format_path(steps)} is none of {shorten_repr(kind.options)}"
    if kind.name == "pattern":
        return f"{_format_path(steps)} does not match {shorten_repr(getattr(kind, 'pattern', ''))}"
    return f"{_format_path(steps)} {describe_reason(error)}"


def _format_path(steps: Sequence[str | int]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return shorten_repr(text.lstrip("."), 120).strip("'") or ARGUMENTS_LABEL
