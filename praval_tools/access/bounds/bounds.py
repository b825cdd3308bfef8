"""Bounds on the arguments of a grant: what a call under it may pass, and nothing around them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, Final, Self

from attrs import field, frozen

from praval_tools.access.bounds.bound_schema import (
    BRANCHES,
    CONDITIONS,
    BadBound,
    inlined,
    invalid,
    lifted,
    names,
    narrows,
    problems,
    property_of,
    strict,
)
from praval_tools.access.bounds.satisfiability import can_meet
from praval_tools.errors import GrantError
from praval_tools.names import near, shorten
from praval_tools.schema.json_input import BadArguments, check_values
from praval_tools.schema.json_values import canonical
from praval_tools.schema.validator import _is_huge, compiled, reason_of

_WHOLE: Final = "the arguments"
_MOST_REASONS: Final = 20
_BESIDE: Final = frozenset(
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

    source: str
    schemas: Mapping[str, Any] = field(eq=False, repr=False)
    whole: Any = field(eq=False, repr=False, default=None)

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
            raise GrantError(tool, [f"where: {shorten(where)} is no mapping from parameter to JSON Schema"])
        try:
            plain = copy.deepcopy(check_values(dict(where)))
        except BadArguments as bad:
            raise GrantError(tool, [f"where: {one.path}: {one.reason}" for one in bad.problems]) from None
        found = [f"where: {one}" for one in (*_wrong(plain, dict(parameters_schema)), *_digits(plain))]
        if found:
            raise GrantError(tool, found)
        if plain.get("type") == "object":
            made = cls(canonical(plain), {}, strict(inlined(plain, plain)))
        else:
            made = cls(canonical(plain), {name: strict(inlined(one, one)) for name, one in plain.items()})
        try:
            _ = made._validator if made.whole is not None else made._validators
        except ValueError as error:
            raise GrantError(tool, [f"where: it cannot be enforced: {shorten(str(error), 160)}"]) from None
        if not satisfiable([made], parameters_schema):
            raise GrantError(tool, ["where: no arguments meet these bounds"])
        return made

    @cached_property
    def _validators(self) -> dict[str, Any]:
        return {name: compiled(schema) for name, schema in self.schemas.items()}

    @cached_property
    def _validator(self) -> Any:
        return compiled(lifted(self.whole))

    def violations(self, given: Mapping[str, Any], filled: Mapping[str, Any]) -> tuple[str, ...]:
        """
        Return why the arguments are outside, each reason naming the argument; nothing where they are inside.

        Args:
            given: The arguments after repairs.
            filled: The same with the defaults of what was left out.
        """
        try:
            return tuple(dict.fromkeys(self._broken(given, filled)))
        except Exception as error:  # what cannot be checked is refused, and the reason says so
            return (f"the bounds cannot be checked ({type(error).__name__}: {shorten(str(error))})",)

    def _broken(self, given: Mapping[str, Any], filled: Mapping[str, Any]) -> Iterator[str]:
        for name, validator in self._validators.items():
            if name not in filled:
                yield f"{name} is left out, and has no default"
            else:
                for error in _errors(validator, filled[name]):
                    yield f"{_place([name, *_steps(error)])} {_said(error)}"
        if self.whole is None:
            return
        for error in _errors(self._validator, {"given": dict(given), "filled": dict(filled)}):
            missing = [error.kind.property] if error is not None and error.kind.name == "required" else []
            yield f"{_place([*_steps(error)[1:], *missing])} {'is left out' if missing else _said(error)}"

    def merged(self, parameters_schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the schema with the bounds in it, for models: what it accepts is what the grant admits."""
        made = copy.deepcopy(dict(parameters_schema))
        properties, other = made.setdefault("properties", {}), made.get("additionalProperties", True)
        defaults = {name: one["default"] for name, one in properties.items()
                    if isinstance(one, dict) and "default" in one}  # fmt: skip
        whole = self.whole if self.whole is not None else {"properties": self.schemas, "required": [*self.schemas]}
        whole = copy.deepcopy(_as_given(whole, defaults))
        whole.pop("type", None)
        bounds, needed = whole.pop("properties", {}), whole.pop("required", [])
        for name, bound in bounds.items():
            properties[name] = _both(properties.get(name, other), bound)
        if needed:
            made["required"] = list(dict.fromkeys([*(made.get("required") or ()), *needed]))
        if "additionalProperties" in whole:
            whole["properties"] = dict.fromkeys(bounds, True)
        if whole:
            made["allOf"] = [*made.get("allOf", ()), whole]
        return made


def satisfiable(bounds: Sequence[Bounds], parameters_schema: Mapping[str, Any]) -> bool:
    """Return False only where no arguments can meet all *bounds* and the schema together."""
    properties = parameters_schema.get("properties") or {}
    wholes = [one.whole for one in bounds if one.whole is not None]
    values = [part for one in wholes for part in _values(one)]
    if not can_meet([_without_values(one) for one in wholes]) or (
        values and not can_meet([*values, dict(parameters_schema)])
    ):
        return False
    named = [*(one.schemas for one in bounds), *(one.get("required", ()) for one in wholes)]
    for name in dict.fromkeys(name for several in named for name in several):
        together = [one.schemas[name] for one in bounds if name in one.schemas]
        together += [one["properties"][name] for one in wholes if name in one.get("properties", {})]
        open_ = "patternProperties" in parameters_schema or parameters_schema.get("additionalProperties", True)
        known = properties.get(name, open_)
        if isinstance(known, Mapping) and "default" in known and can_meet([*together, {"const": known["default"]}]):
            continue  # a default is not judged by the schema
        try:
            together.append(inlined(known, parameters_schema))
        except BadBound:
            pass  # the schema refers to itself: the bounds alone are looked at
        if not can_meet(together):
            return False
    return True


def _values(whole: Any) -> Iterator[dict[str, Any]]:
    """Yield what compares the arguments as given: `enum` and `const`, also by way of `allOf`."""
    if isinstance(whole, dict):
        yield from ({key: whole[key]} for key in ("enum", "const") if key in whole)
        for one in whole.get("allOf", ()):
            yield from _values(one)


def _without_values(whole: Any) -> Any:
    """Leave out what compares the arguments as given, which need not have the properties that defaults fill in."""
    if not isinstance(whole, dict):
        return whole
    made = {key: value for key, value in whole.items() if key not in ("enum", "const")}
    if "allOf" in made:
        made["allOf"] = [_without_values(one) for one in made["allOf"]]
    return made


def _as_given(whole: Any, defaults: Mapping[str, Any]) -> Any:
    """
    Return the schema of filled-in arguments as one of those that a caller gives.

    What has a default may be left out, exactly where that default is allowed.
    """
    if not isinstance(whole, dict):
        return whole
    made = dict(whole)
    for keyword in BRANCHES:
        if keyword in made:
            made[keyword] = [_as_given(one, defaults) for one in made[keyword]]
    for keyword in ("not", *CONDITIONS):
        if keyword in made:
            made[keyword] = _as_given(made[keyword], defaults)
    judging = ("properties", "patternProperties", "additionalProperties", "propertyNames")
    judge = compiled({key: whole[key] for key in judging if key in whole})
    needed = [name for name in whole.get("required", ()) if name not in defaults]
    needed += [name for name, value in defaults.items() if not judge.is_valid({name: value})]
    made.pop("required", None)
    return {**made, "required": needed} if needed else made


def _wrong(where: dict[str, Any], parameters: dict[str, Any]) -> Iterator[str]:
    try:
        known = inlined(parameters, parameters)
    except BadBound:
        known = dict(parameters)  # it refers to itself: what is inside is not looked at
    known = {"additionalProperties": False, **known, "type": "object"}
    if where.get("type") == "object":
        yield from _schema_problems(where, known, _WHOLE)
        return
    if not where:
        yield "it is empty and narrows nothing; leave it out"
    for name, bound in where.items():
        if name not in names(known) and not known["additionalProperties"]:
            match = near(name, names(known))
            hint = f"; did you mean {' or '.join(map(repr, match))}?" if match else ""
            yield f"{shorten(name)} is no parameter{hint}"
            continue
        yield from _schema_problems(bound, property_of(known, name), name)


def _schema_problems(bound: Any, spoken_of: Any, place: str) -> Iterator[str]:
    said = invalid(bound) if isinstance(bound, dict) else ""
    if said:
        yield f"{place}: {said}"
    try:
        plain = inlined(bound, bound) if isinstance(bound, dict) else bound
    except (BadBound, TypeError) as bad:
        if not said:
            yield f"{place}: {bad}"
        return
    yield from problems(plain, spoken_of, place)
    if not said and _idle(plain, place == _WHOLE):
        yield f"{place}: {shorten(bound)} narrows nothing"


def _idle(bound: Any, whole: bool) -> bool:
    if whole:  # its type is how it was known
        bound = {key: one for key, one in bound.items() if key != "type"}
    return (isinstance(bound, dict) or bound is True) and not narrows(bound)


def _digits(where: Any) -> list[str]:
    """Refuse a digit class that admits the digits of every script, as it does beside a look-around."""
    patterns = list(_patterns(where))
    if all(map(_linear, patterns)):
        return []
    wide = [one for one in patterns if "\\d" in one or "\\D" in one]
    return [f"beside a look-around, \\d in {shorten(one)} means digits of all scripts; write [0-9]" for one in wide]


def _patterns(here: Any) -> Iterator[str]:
    inner = list(here.values()) if isinstance(here, dict) else here if isinstance(here, list) else []
    if isinstance(here, dict):
        if isinstance(here.get("pattern"), str):
            yield here["pattern"]
        if isinstance(here.get("patternProperties"), dict):
            yield from here["patternProperties"]
    for one in inner:
        yield from _patterns(one)


def _linear(pattern: str) -> bool:
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions())
    except (jsonschema_rs.ValidationError, ValueError):
        return False
    return True


def _both(part: Any, bound: Any) -> Any:
    if bound is True or part is True:
        return part if bound is True else bound
    if not isinstance(part, dict) or not isinstance(bound, dict):
        return {"allOf": [part, bound]}
    bound = {key: one for key, one in bound.items() if key != "type" or part.get("type") not in _same(one)}
    if not bound:
        return part
    if not part.keys() & bound.keys() and "$ref" not in part and not _BESIDE & bound.keys():
        return {**part, **bound}
    return {**part, "allOf": [*part.get("allOf", ()), bound]}


def _same(kind: Any) -> list[str]:
    """Return the types under which a bound's type says nothing new."""
    named = kind if isinstance(kind, list) else [kind]
    return [*named, "integer"] if "number" in named else list(named)


def _errors(validator: Any, value: Any) -> Iterator[Any]:
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
        found = list(islice(validator.iter_errors(value), _MOST_REASONS))
    yield from found or [None]  # a refusal needs a reason, or it would count as none


def _steps(error: Any) -> list[Any]:
    return [] if error is None else list(error.instance_path)


def _place(steps: Sequence[Any]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return shorten(text.lstrip("."), 120).strip("'") or _WHOLE


def _said(error: Any) -> str:
    if error is None:
        return "is outside of the bounds"
    wanted = getattr(error.kind, "expected_value", None)
    if error.kind.name == "const":
        return f"is not {shorten(wanted)}"
    if error.kind.name == "enum":
        return f"is none of {shorten(getattr(error.kind, 'options', ''))}"
    return reason_of(error.kind, error)
