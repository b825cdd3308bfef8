"""Bounds on the arguments of a grant: what a call under it may pass, and nothing around them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, Final, Self

from attrs import field, frozen

from praval_tools.access.bounds.bound_schema import (
    BRANCH_KEYWORDS,
    CONDITION_KEYWORDS,
    InvalidBoundError,
    describe_schema_errors,
    find_property_schema,
    inline_references,
    is_restrictive,
    iter_bound_problems,
    lift_to_given_and_filled,
    list_property_names,
    make_strict,
)
from praval_tools.access.bounds.satisfiability import can_all_hold
from praval_tools.errors import GrantError
from praval_tools.names import find_similar_names, shorten_repr
from praval_tools.schema.json_input import MalformedArgumentsError, normalize_json
from praval_tools.schema.json_values import to_canonical_json
from praval_tools.schema.validator import _is_huge, compile_schema, describe_reason

_ARGUMENTS_LABEL: Final = "the arguments"
_MAX_REASONS: Final = 20
_CONTEXT_KEYWORDS: Final = frozenset(
    {"properties", "patternProperties", "additionalProperties", "items", "prefixItems", "contains", "minContains",
     "maxContains", "if", "then", "else", "$ref"}
)  # fmt: skip
"""These mean something else beside another schema's keywords, so they are merged as a schema of their own."""


@frozen
class Bounds:
    """
    Bounds that hold: checked when made, compared by what they say.

    Either one schema for each bounded parameter, which then has to be there,
    or one for the arguments as a whole, which sees the defaults too; only `enum` and `const` of the whole
    compare what was given. A property that is named has to be there, unless a `required` beside it says otherwise.
    A `pattern` is searched for, as the standard has it: write `^…$` for all of a text.
    """

    canonical_text: str
    parameter_schemas: Mapping[str, Any] = field(eq=False, repr=False)
    arguments_schema: Any = field(eq=False, repr=False, default=None)

    @classmethod
    def compile(cls, where: Mapping[str, Any], parameters_schema: Mapping[str, Any], tool: str) -> Self:
        """
        Return the bounds that *where* says, for a tool of this schema.

        Args:
            where: Parameter to JSON Schema; or a JSON Schema of all arguments, known by its `"type": "object"`.
            parameters_schema: The JSON Schema of the tool's arguments.
            tool: For messages.

        Raises:
            GrantError: With every reason why they cannot be enforced, or nothing could meet them.
        """
        if not isinstance(where, Mapping):
            raise GrantError(tool, [f"where: {shorten_repr(where)} is no mapping from parameter to JSON Schema"])
        try:
            plain = copy.deepcopy(normalize_json(dict(where)))
        except MalformedArgumentsError as bad:
            raise GrantError(tool, [f"where: {one.path}: {one.reason}" for one in bad.problems]) from None
        found = [
            f"where: {one}"
            for one in (*_iter_problems(plain, dict(parameters_schema)), *_find_unicode_digit_classes(plain))
        ]
        if found:
            raise GrantError(tool, found)
        if plain.get("type") == "object":
            made = cls(to_canonical_json(plain), {}, make_strict(inline_references(plain, plain)))
        else:
            made = cls(
                to_canonical_json(plain),
                {name: make_strict(inline_references(one, one)) for name, one in plain.items()},
            )
        try:
            _ = made._arguments_validator if made.arguments_schema is not None else made._parameter_validators
        except ValueError as error:
            raise GrantError(tool, [f"where: it cannot be enforced: {shorten_repr(str(error), 160)}"]) from None
        if not is_satisfiable([made], parameters_schema):
            raise GrantError(tool, ["where: no arguments meet these bounds"])
        return made

    @cached_property
    def _parameter_validators(self) -> dict[str, Any]:
        return {name: compile_schema(schema) for name, schema in self.parameter_schemas.items()}

    @cached_property
    def _arguments_validator(self) -> Any:
        return compile_schema(lift_to_given_and_filled(self.arguments_schema))

    def find_violations(self, given: Mapping[str, Any], filled: Mapping[str, Any]) -> tuple[str, ...]:
        """
        Return why the arguments are outside, each reason naming the argument; nothing where they are inside.

        Args:
            given: The arguments after repairs.
            filled: The same with the defaults of what was left out.
        """
        try:
            return tuple(dict.fromkeys(self._iter_violations(given, filled)))
        except Exception as error:  # what cannot be checked is refused, and the reason says so
            return (f"the bounds cannot be checked ({type(error).__name__}: {shorten_repr(str(error))})",)

    def _iter_violations(self, given: Mapping[str, Any], filled: Mapping[str, Any]) -> Iterator[str]:
        for name, validator in self._parameter_validators.items():
            if name not in filled:
                yield f"{name} is left out, and has no default"
            else:
                for error in _iter_errors(validator, filled[name]):
                    yield f"{_format_path([name, *_get_error_path(error)])} {_describe_error(error)}"
        if self.arguments_schema is None:
            return
        for error in _iter_errors(self._arguments_validator, {"given": dict(given), "filled": dict(filled)}):
            missing = [error.kind.property] if error is not None and error.kind.name == "required" else []
            yield f"{_format_path([*_get_error_path(error)[1:], *missing])} {'is left out' if missing else _describe_error(error)}"

    def is_satisfiable_with(self, others: Sequence[Bounds], parameters_schema: Mapping[str, Any]) -> bool:
        """Return False only where no arguments can meet these bounds, those of *others* and the schema together."""
        return is_satisfiable([self, *others], parameters_schema)

    def merge_into_schema(self, parameters_schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the schema with the bounds in it, for models: what it accepts is what the grant admits."""
        made = copy.deepcopy(dict(parameters_schema))
        properties, other = made.setdefault("properties", {}), made.get("additionalProperties", True)
        defaults = {name: one["default"] for name, one in properties.items()
                    if isinstance(one, dict) and "default" in one}  # fmt: skip
        whole = (
            self.arguments_schema
            if self.arguments_schema is not None
            else {"properties": self.parameter_schemas, "required": [*self.parameter_schemas]}
        )
        whole = copy.deepcopy(_to_given_schema(whole, defaults))
        whole.pop("type", None)
        bounds, needed = whole.pop("properties", {}), whole.pop("required", [])
        for name, bound in bounds.items():
            properties[name] = _combine_schemas(properties.get(name, other), bound)
        if needed:
            made["required"] = list(dict.fromkeys([*(made.get("required") or ()), *needed]))
        if "additionalProperties" in whole:
            whole["properties"] = dict.fromkeys(bounds, True)
        if whole:
            made["allOf"] = [*made.get("allOf", ()), whole]
        return made


def is_satisfiable(bounds: Sequence[Bounds], parameters_schema: Mapping[str, Any]) -> bool:
    """Return False only where no arguments can meet all *bounds* and the schema together."""
    properties = parameters_schema.get("properties") or {}
    wholes = [one.arguments_schema for one in bounds if one.arguments_schema is not None]
    values = [part for one in wholes for part in _iter_value_constraints(one)]
    if not can_all_hold([_drop_value_constraints(one) for one in wholes]) or (
        values and not can_all_hold([*values, dict(parameters_schema)])
    ):
        return False
    named = [*(one.parameter_schemas for one in bounds), *(one.get("required", ()) for one in wholes)]
    for name in dict.fromkeys(name for several in named for name in several):
        together = [one.parameter_schemas[name] for one in bounds if name in one.parameter_schemas]
        together += [one["properties"][name] for one in wholes if name in one.get("properties", {})]
        open_ = "patternProperties" in parameters_schema or parameters_schema.get("additionalProperties", True)
        known = properties.get(name, open_)
        if isinstance(known, Mapping) and "default" in known and can_all_hold([*together, {"const": known["default"]}]):
            continue  # a default is not judged by the schema
        try:
            together.append(inline_references(known, parameters_schema))
        except InvalidBoundError:
            pass  # the schema refers to itself: the bounds alone are looked at
        if not can_all_hold(together):
            return False
    return True


def _iter_value_constraints(whole: Any) -> Iterator[dict[str, Any]]:
    """Yield what compares the arguments as given: `enum` and `const`, also by way of `allOf`."""
    if isinstance(whole, dict):
        yield from ({key: whole[key]} for key in ("enum", "const") if key in whole)
        for one in whole.get("allOf", ()):
            yield from _iter_value_constraints(one)


def _drop_value_constraints(whole: Any) -> Any:
    """Leave out what compares the arguments as given, which need not have the properties that defaults fill in."""
    if not isinstance(whole, dict):
        return whole
    made = {key: value for key, value in whole.items() if key not in ("enum", "const")}
    if "allOf" in made:
        made["allOf"] = [_drop_value_constraints(one) for one in made["allOf"]]
    return made


def _to_given_schema(whole: Any, defaults: Mapping[str, Any]) -> Any:
    """
    Return the schema of filled-in arguments as one of those that a caller gives.

    What has a default may be left out, exactly where that default is allowed.
    """
    if not isinstance(whole, dict):
        return whole
    made = dict(whole)
    for keyword in BRANCH_KEYWORDS:
        if keyword in made:
            made[keyword] = [_to_given_schema(one, defaults) for one in made[keyword]]
    for keyword in ("not", *CONDITION_KEYWORDS):
        if keyword in made:
            made[keyword] = _to_given_schema(made[keyword], defaults)
    judging = ("properties", "patternProperties", "additionalProperties", "propertyNames")
    judge = compile_schema({key: whole[key] for key in judging if key in whole})
    needed = [name for name in whole.get("required", ()) if name not in defaults]
    needed += [name for name, value in defaults.items() if not judge.is_valid({name: value})]
    made.pop("required", None)
    return {**made, "required": needed} if needed else made


def _iter_problems(where: dict[str, Any], parameters: dict[str, Any]) -> Iterator[str]:
    try:
        known = inline_references(parameters, parameters)
    except InvalidBoundError:
        known = dict(parameters)  # it refers to itself: what is inside is not looked at
    known = {"additionalProperties": False, **known, "type": "object"}
    if where.get("type") == "object":
        yield from _iter_schema_problems(where, known, _ARGUMENTS_LABEL)
        return
    if not where:
        yield "it is empty and narrows nothing; leave it out"
    for name, bound in where.items():
        if name not in list_property_names(known) and not known["additionalProperties"]:
            match = find_similar_names(name, list_property_names(known))
            hint = f"; did you mean {' or '.join(map(repr, match))}?" if match else ""
            yield f"{shorten_repr(name)} is no parameter{hint}"
            continue
        yield from _iter_schema_problems(bound, find_property_schema(known, name), name)


def _iter_schema_problems(bound: Any, spoken_of: Any, place: str) -> Iterator[str]:
    said = describe_schema_errors(bound) if isinstance(bound, dict) else ""
    if said:
        yield f"{place}: {said}"
    try:
        plain = inline_references(bound, bound) if isinstance(bound, dict) else bound
    except (InvalidBoundError, TypeError) as bad:
        if not said:
            yield f"{place}: {bad}"
        return
    yield from iter_bound_problems(plain, spoken_of, place)
    if not said and _is_ineffective(plain, place == _ARGUMENTS_LABEL):
        yield f"{place}: {shorten_repr(bound)} narrows nothing"


def _is_ineffective(bound: Any, whole: bool) -> bool:
    if whole:  # its type is how it was known
        bound = {key: one for key, one in bound.items() if key != "type"}
    return (isinstance(bound, dict) or bound is True) and not is_restrictive(bound)


def _find_unicode_digit_classes(where: Any) -> list[str]:
    """Refuse a digit class that admits the digits of every script, as it does beside a look-around."""
    patterns = list(_iter_patterns(where))
    if all(map(_is_linear_regex, patterns)):
        return []
    wide = [one for one in patterns if "\\d" in one or "\\D" in one]
    return [
        f"beside a look-around, \\d in {shorten_repr(one)} means digits of all scripts; write [0-9]" for one in wide
    ]


def _iter_patterns(here: Any) -> Iterator[str]:
    inner = list(here.values()) if isinstance(here, dict) else here if isinstance(here, list) else []
    if isinstance(here, dict):
        if isinstance(here.get("pattern"), str):
            yield here["pattern"]
        if isinstance(here.get("patternProperties"), dict):
            yield from here["patternProperties"]
    for one in inner:
        yield from _iter_patterns(one)


def _is_linear_regex(pattern: str) -> bool:
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions())
    except (jsonschema_rs.ValidationError, ValueError):
        return False
    return True


def _combine_schemas(part: Any, bound: Any) -> Any:
    if bound is True or part is True:
        return part if bound is True else bound
    if not isinstance(part, dict) or not isinstance(bound, dict):
        return {"allOf": [part, bound]}
    bound = {
        key: one for key, one in bound.items() if key != "type" or part.get("type") not in _list_implied_types(one)
    }
    if not bound:
        return part
    if not part.keys() & bound.keys() and "$ref" not in part and not _CONTEXT_KEYWORDS & bound.keys():
        return {**part, **bound}
    return {**part, "allOf": [*part.get("allOf", ()), bound]}


def _list_implied_types(kind: Any) -> list[str]:
    """Return the types under which a bound's type says nothing new."""
    named = kind if isinstance(kind, list) else [kind]
    return [*named, "integer"] if "number" in named else list(named)


def _iter_errors(validator: Any, value: Any) -> Iterator[Any]:
    """Yield what is wrong, the first alone in huge values; None where that cannot be said."""
    if validator.is_valid(value):
        return
    found: list[Any] = []
    if _is_huge(value):
        try:
            validator.validate(value)
        except ValueError as first:
            found = [first] if hasattr(first, "kind") else []
    else:
        found = list(islice(validator.iter_errors(value), _MAX_REASONS))
    yield from found or [None]  # a refusal needs a reason, or it would count as none


def _get_error_path(error: Any) -> list[Any]:
    return [] if error is None else list(error.instance_path)


def _format_path(steps: Sequence[Any]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return shorten_repr(text.lstrip("."), 120).strip("'") or _ARGUMENTS_LABEL


def _describe_error(error: Any) -> str:
    if error is None:
        return "is outside of the bounds"
    wanted = getattr(error.kind, "expected_value", None)
    if error.kind.name == "const":
        return f"is not {shorten_repr(wanted)}"
    if error.kind.name == "enum":
        return f"is none of {shorten_repr(getattr(error.kind, 'options', ''))}"
    return describe_reason(error.kind, error)
