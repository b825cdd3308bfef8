"""Checks arguments by their JSON Schema: valid or not, or every problem in words that a model can use."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from praval_tools.errors import Problem
from praval_tools.forks import first_use_property
from praval_tools.names import format_count, shorten_repr, suggest_names
from praval_tools.schema.coercion import Repair, Repairer, resolve_references
from praval_tools.schema.json_input import preview_json
from praval_tools.schema.json_pointer import format_json_path
from praval_tools.schema.keywords import REASONS, get_keywords
from praval_tools.schema.schema_tree import (
    JsonSchema,
    SchemaPart,
    has_early_draft,
    inline_references,
    iter_schemas,
    map_subschemas,
    refer_to,
)
from praval_tools.schema.secret_marks import has_secret_schema, marks_secret
from praval_tools.schema.time_formats import get_time_formats

if TYPE_CHECKING:
    import jsonschema_rs

_UNEVALUATED_KEYWORDS: Final = {"unevaluatedProperties", "unevaluatedItems"}
_SECOND_LOOK_KEYWORDS: Final = {"if", "contains", "dependentSchemas", "dependencies"}
_MAX_PROBLEMS: Final = 200
_MAX_TEXT: Final = 1 << 24
_ROOT_URI: Final = "urn:praval-tools:root"
_MAX_NODES: Final = 20_000
"""From this size on only the first problem is looked for: the validator makes all of them before it gives one."""


def refuse_retrieval(uri: str) -> NoReturn:
    """Stand in for a retriever: a reference outside the document is never fetched."""
    raise ValueError(f"the reference {shorten_repr(uri)} leads outside the schema and is not fetched")


def compile_schema(schema: SchemaPart, *, takes_iso_8601: bool = False) -> jsonschema_rs.Validator:
    """
    Return the validator of *schema*: formats are checked, nothing is fetched, patterns run in linear time.

    Args:
        schema: A JSON Schema.
        takes_iso_8601: Take times without an offset, and all durations, as ISO 8601 and pydantic do.
    """
    import jsonschema_rs

    keywords = get_keywords(schema)
    options: dict[str, Any] = {"validate_formats": True, "retriever": refuse_retrieval, "keywords": keywords}
    if takes_iso_8601:
        options["formats"] = get_time_formats(schema)
    try:
        return jsonschema_rs.validator_for(schema, pattern_options=jsonschema_rs.RegexOptions(), **options)
    except (jsonschema_rs.ValidationError, ValueError):  # a pattern with look-around needs the other engine
        limited = jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000)
        return jsonschema_rs.validator_for(schema, pattern_options=limited, **options)


def iter_errors(validator: jsonschema_rs.Validator, value: object) -> Iterator[jsonschema_rs.ValidationError]:
    """Yield the errors of *value*; only the first where the value is huge."""
    import jsonschema_rs

    if not _is_larger(value, _MAX_NODES, count_text=False):
        yield from validator.iter_errors(value)
        return
    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        yield error


def list_plain_errors(error: jsonschema_rs.ValidationError) -> list[jsonschema_rs.ValidationError]:
    """Return the errors of the one branch of a union that takes values of this type; without such a one, *error*."""
    branches = getattr(error.kind, "context", None)
    if branches is None:
        return [error]
    place = error.instance_path
    suitable = [
        errors
        for errors in branches
        if not any(inner.kind.name == "type" and inner.instance_path == place for inner in errors)
    ]
    if len(suitable) != 1:
        return [error]
    return [plain for inner in suitable[0] for plain in list_plain_errors(inner)] or [error]


class Validator:
    """
    Checks and repairs arguments by one JSON Schema; the compiled validator is made at first use.

    Args:
        schema: The schema of the arguments; it must not change afterwards.
        get_taken_names: Returns names that no argument beside the properties of the schema can have; it is called when
            there is such an argument.
    """

    def __init__(self, schema: JsonSchema, get_taken_names: Callable[[], frozenset[str]] = frozenset) -> None:
        self.schema, self._get_taken_names = schema, get_taken_names
        properties = schema.get("properties")
        self._properties = frozenset(properties if isinstance(properties, dict) else ())
        self._compiled: jsonschema_rs.Validator | None = None
        self._report: tuple[JsonSchema, jsonschema_rs.Validator] | None = None
        self._part_validators: dict[int, tuple[object, jsonschema_rs.Validator]] = {}

    def is_valid(self, arguments: dict[str, Any]) -> bool:
        """Tell whether the arguments are valid as they stand."""
        return self._get_validator().is_valid(arguments) and not self._find_taken_names(arguments)

    def _find_taken_names(self, arguments: dict[str, Any]) -> list[str]:
        if arguments.keys() <= self._properties:
            return []
        taken = self._get_taken_names()
        return [name for name in arguments if name in taken and name not in self._properties]

    def _get_validator(self) -> jsonschema_rs.Validator:
        if self._compiled is None:
            self._compiled = compile_schema(dict(self.schema), takes_iso_8601=True)
        return self._compiled

    def _get_report_validator(self) -> jsonschema_rs.Validator:
        """Return the validator that finds problems: it accepts the same, and reports each union as one problem."""
        if self._report is None:
            schema = _with_plain_unions(_with_plain_names(self._located_schema), _is_recursive(self.schema))
            if self._located_schema != self.schema:
                added = {key: value for key, value in self._root_definition.items() if key != "$schema"}
                schema |= {key: {**schema.get(key, {}), **value} for key, value in added.items()}
            self._report = schema, compile_schema(schema, takes_iso_8601=True)
        return self._report[1]

    @first_use_property
    def _has_costly_reports(self) -> bool:
        """
        Whether finding all problems may take exponential time.

        Unions cannot be plain beside unevaluated members, nor where a reference leads to any place; what holds for a
        member twice reports its problems twice.
        """
        parts = iter_schemas(self.schema)
        is_costly = any(_UNEVALUATED_KEYWORDS & part.keys() or _has_overlap(part) for part in parts)
        is_costly = is_costly or self._located_schema != self.schema
        return is_costly and _is_recursive(self.schema)

    @first_use_property
    def _located_schema(self) -> JsonSchema:
        """The schema, with references to other places than whole definitions leading into a copy of it."""
        located: JsonSchema = refer_to(self.schema, _ROOT_URI, also_definitions=False)
        return located

    def repair(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], tuple[Repair, ...]]:
        """Return the repaired arguments, and what was repaired; the given arguments are not changed."""
        repairer = Repairer(self.schema, self._is_part_valid)
        repaired = repairer.repair(self.schema, arguments)
        return repaired, tuple(repairer.repairs)

    def _is_part_valid(self, part: SchemaPart, value: object) -> bool:
        """Tell whether *value* is valid under a part of the schema."""
        return self._get_part_validator(part).is_valid(value)

    def _get_part_validator(self, part: SchemaPart) -> jsonschema_rs.Validator:
        """Return the validator of a part of the schema; each part is compiled once."""
        cached = self._part_validators.get(id(part))
        if cached is None:
            standalone = part
            if isinstance(part, Mapping):
                standalone = {**refer_to(part, _ROOT_URI, also_definitions=True), **self._root_definition}
            cached = self._part_validators[id(part)] = (part, compile_schema(standalone, takes_iso_8601=True))
        return cached[1]

    @property
    def _root_definition(self) -> JsonSchema:
        """The whole schema, to which the references of parts lead, where its draft of JSON Schema has definitions."""
        dialect = {key: self.schema[key] for key in ("$schema",) if key in self.schema}
        keyword = "definitions" if has_early_draft(self.schema) else "$defs"
        return {**dialect, keyword: {_ROOT_URI: {**self.schema, "$id": _ROOT_URI, "id": _ROOT_URI}}}

    def fill_defaults(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with the declared defaults of what was left out."""
        filled = dict(arguments)
        for name, part in (self.schema.get("properties") or {}).items():
            if name not in filled and isinstance(part, Mapping) and "default" in part:
                filled[name] = copy.deepcopy(part["default"])
        return filled

    def find_problems(self, arguments: dict[str, Any]) -> tuple[Problem, ...]:
        """Return every problem, sorted by parameter; at most 200, and only the first in huge arguments."""
        if self.is_valid(arguments):
            return ()
        if taken := self._find_taken_names(arguments):
            names = list(self.schema.get("properties") or ())
            rest = self.find_problems({name: arguments[name] for name in arguments if name not in taken})
            return (*(_describe_unknown_parameter([], name, arguments, names) for name in taken), *rest)
        if self._has_costly_reports or _is_larger(arguments, _MAX_TEXT, count_text=True):
            return self._find_rough_problems(arguments)
        errors = list(iter_errors(self._get_report_validator(), arguments))
        described = (problem for error in errors for problem in self._describe_error(error))
        problems = dict.fromkeys(islice(described, _MAX_PROBLEMS))
        if _is_larger(arguments, _MAX_NODES, count_text=False):
            return (*problems, Problem(path="$", reason="there may be more; this is the first"))
        unique = {(problem.path, problem.reason): problem for problem in reversed(problems)}
        ordered = sorted(unique.values(), key=lambda item: (self._get_position(item.path), item.path, item.reason))
        if (more := max(len(errors) - _MAX_PROBLEMS, int(next(described, None) is not None))) > 0:
            ordered.append(Problem(path="$", reason=f"and at least {format_count(more, 'more problem')}"))
        return tuple(ordered)

    def _find_rough_problems(self, arguments: dict[str, Any]) -> tuple[Problem, ...]:
        """Return which parameters are wrong, without the places inside: to report those would copy all the text."""
        known = self.schema.get("properties") or {}
        problems = [
            self._describe_missing([], name, []) for name in self.schema.get("required") or () if name not in arguments
        ]
        for name, value in arguments.items():
            if name not in known:
                problems.append(_describe_unknown_parameter([], name, {}, list(known)))
            elif not self._is_part_valid(known[name], value):
                wanted = _describe_schema(known[name])
                reason = "does not fit, or something in it"
                problems.append(
                    Problem(path=format_json_path([name]), reason=reason, given=_preview_value(value), wanted=wanted)
                )
        return tuple(problems) or (Problem(path="$", reason="does not fit as a whole"),)

    def _get_position(self, path: str) -> int:
        """Return the position in the schema of the parameter that *path* begins with."""
        names = list(self.schema.get("properties") or ())
        first = path[2:].split(".")[0].split("[")[0]
        return names.index(first) if first in names else len(names)

    def _describe_error(self, error: jsonschema_rs.ValidationError) -> list[Problem]:
        kind: Any = error.kind
        steps, schema_steps = list(error.instance_path), error.schema_path
        if kind.name == "required":
            return [self._describe_missing(steps, kind.property, schema_steps[:-1])]
        if kind.name in ("additionalProperties", "unevaluatedProperties"):
            known = self._get_schema_part(schema_steps[:-1])
            names = list((known.get("properties") or {}) if isinstance(known, Mapping) else ())
            return [_describe_unknown_parameter(steps, key, error.instance, names) for key in kind.unexpected[:50]]
        part = self._get_schema_part(schema_steps[:-1])
        union = _find_plain_union(part) if kind.name == "not" else None
        if union is not None and "propertyNames" in union:
            return self._describe_names(steps, cast("dict[str, object]", error.instance), union["propertyNames"])
        reason = describe_reason(error) if union is None else self._describe_union(union, error.instance)
        given = _preview_value(error.instance)
        wanted = "" if self._leads_into_secret(schema_steps) else self._describe(part if union is None else union)
        return [Problem(path=format_json_path(steps), reason=reason, given=given, wanted=wanted)]

    def _describe_union(self, union: JsonSchema, instance: object) -> str:
        """Say why a value fits no branch of a union; branches for a container are not looked into."""
        if isinstance(instance, dict | list):
            return REASONS[next(iter(union))]
        errors = self._get_part_validator(union).iter_errors(instance)
        reasons = (describe_reason(plain) for error in errors for plain in list_plain_errors(error))
        return ", and ".join(dict.fromkeys(reasons))

    def _leads_into_secret(self, schema_steps: list[str | int]) -> bool:
        """Tell whether the schema marks something as secret at these steps, or before them."""
        if not has_secret_schema(self.schema):
            return False
        parts = (self._get_schema_part(schema_steps[:end]) for end in range(1, len(schema_steps)))
        return any(isinstance(part, dict) and marks_secret(part) for part in parts)

    def _describe_names(self, steps: list[str | int], instance: Iterable[str], part: SchemaPart) -> list[Problem]:
        """Return the problems with the keys of an object."""
        refused = (key for key in instance if not self._is_part_valid(part, key))
        wanted, reason = _describe_schema(part) or "another name", "has a name that is not allowed"
        return [
            Problem(path=format_json_path([*steps, key]), reason=reason, given=_preview_value(key), wanted=wanted)
            for key in islice(refused, _MAX_PROBLEMS + 1)
        ]

    def _describe_missing(self, steps: list[str | int], name: str, schema_steps: list[str | int]) -> Problem:
        wanted = self._describe_wanted([*schema_steps, "properties", name])
        return Problem(path=format_json_path([*steps, name]), reason="is missing", wanted=wanted)

    def _describe_wanted(self, schema_steps: Iterable[str | int]) -> str:
        return self._describe(self._get_schema_part(schema_steps))

    def _describe(self, part: object) -> str:
        """Say in a few words what *part* wants, and what the references in its branches lead to."""
        branches = {key: part[key] for key in ("anyOf", "oneOf") if key in part} if isinstance(part, dict) else {}
        for key, options in branches.items():
            if isinstance(options, list):
                branches[key] = [resolve_references(self.schema, option) or option for option in options]
        return _describe_schema({**part, **branches} if isinstance(part, dict) else part)

    def _get_schema_part(self, schema_steps: Iterable[str | int]) -> Any:
        """Return the part of the schema at these steps, through references; None where there is none."""
        root: JsonSchema = self.schema if self._report is None else self._report[0]
        part: Any = root
        for step in schema_steps:
            if step == "$ref" and isinstance(part, Mapping):
                part = resolve_references(root, part)
            elif isinstance(part, Mapping):
                part = part.get(step)
            elif isinstance(part, list) and isinstance(step, int) and step < len(part):
                part = part[step]
            else:
                return None
        return part


def _has_overlap(part: JsonSchema) -> bool:
    """Tell whether several schemas in *part* may hold for one member of a value."""
    patterns = part.get("patternProperties") or ()
    return len(patterns) + ("properties" in part) > 1 if patterns else not part.keys().isdisjoint(_SECOND_LOOK_KEYWORDS)


def _is_recursive(schema: JsonSchema) -> bool:
    return inline_references(schema, schema) is True


def _with_plain_names(schema: SchemaPart) -> SchemaPart:
    """
    Return a schema that accepts the same, and reports all wrong keys of an object as one problem.

    The validator makes an error for each of them, each with a copy of the whole object.
    """
    if not isinstance(schema, dict):
        return schema
    plain = map_subschemas(schema, _with_plain_names)
    if "propertyNames" in plain:
        del plain["propertyNames"]
        names = {"not": {"not": {"propertyNames": schema["propertyNames"]}}}
        plain["allOf"] = [*plain.get("allOf", ()), names]
    return plain


def _with_plain_unions(schema: Any, is_recursive: bool) -> Any:
    """
    Return a schema that accepts the same, and reports a union that does not fit without the reasons of its branches.

    Nobody reads those, and the validator collects them at every level anew: twice as many for each level, or more.
    """
    if not isinstance(schema, dict) or any(_UNEVALUATED_KEYWORDS & part.keys() for part in iter_schemas(schema)):
        return schema
    plain = map_subschemas(schema, lambda part: _with_plain_unions(part, is_recursive))
    unions = [
        {"not": {"not": {keyword: schema[keyword]}}}
        for keyword in ("anyOf", "oneOf", "allOf")
        if isinstance(plain.get(keyword), list) and (keyword != "allOf" or (is_recursive and len(schema["allOf"]) > 1))
    ]
    for union in unions:
        del plain[next(iter(union["not"]["not"]))]
    return {**plain, "allOf": [*plain.get("allOf", ()), *unions]} if unions else plain


def _find_plain_union(part: object) -> JsonSchema | None:
    """Return the keyword of which a plain form was made, with its value; None where *part* is something else."""
    match part:
        case {"not": {"not": {"anyOf": _} | {"oneOf": _} | {"allOf": _} | {"propertyNames": _} as plain}}:
            return cast("JsonSchema", plain) if len(plain) == 1 else None
    return None


def _describe_unknown_parameter(steps: Sequence[str | int], key: str, parent: object, names: list[str]) -> Problem:
    suggestion = suggest_names(key, names, "; did you mean ")
    value = parent.get(key) if isinstance(parent, dict) else None
    wanted = "" if suggestion else f"only {', '.join(map(repr, names[:10])) or 'nothing'}"
    reason = f"unknown parameter {shorten_repr(key, 64)}{suggestion}"
    return Problem(path=format_json_path([*steps, key]), reason=reason, given=_preview_value(value), wanted=wanted)


def _is_larger(value: object, limit: int, *, count_text: bool) -> bool:
    """Tell whether *value* has more than *limit* members, and characters if they count; counts no further than that."""
    count, stack = 0, [value]
    while stack and count <= limit:
        item = stack.pop()
        if isinstance(item, str):
            count += len(item) if count_text else 0
        elif isinstance(item, dict | list):
            count += len(item)
            if count <= limit:
                stack.extend(item.values() if isinstance(item, dict) else item)
    return count > limit


def _preview_value(value: object) -> str:
    if isinstance(value, str | list | dict) and len(value) > 200:
        value = value[:200] if isinstance(value, str | list) else f"an object of {len(value)} members"
    return preview_json(value)


_COUNT_REASONS: Final = {
    "maxLength": ("is longer than", "character"),
    "minLength": ("is shorter than", "character"),
    "maxItems": ("has more than", "item"),
    "minItems": ("has fewer than", "item"),
    "maxProperties": ("has more than", "key"),
    "minProperties": ("has fewer than", "key"),
}
"""JSON Schema keyword → how a value breaks it, and what it counts."""


def describe_reason(error: jsonschema_rs.ValidationError) -> str:
    """Say in a few words what is wrong with a value, and nothing of the value, which may be secret."""
    kind: Any = error.kind
    if hasattr(kind, "message"):  # of a keyword of this module
        return shorten_text(kind.message)
    if kind.name == "type":
        return "is not " + " or ".join(map(_add_article, kind.types))
    if kind.name in _COUNT_REASONS:
        words, noun = _COUNT_REASONS[kind.name]
        return f"{words} {format_count(kind.limit, noun)}"
    return REASONS.get(kind.name, "does not fit {0.name!r}").format(kind)


def _add_article(kind: str) -> str:
    return "null" if kind == "null" else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def shorten_text(text: str, limit: int = 160) -> str:
    """Return *text* cut to *limit* characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


_LIMIT_TEXTS: Final = {
    "minimum": "from {}",
    "maximum": "to {}",
    "exclusiveMinimum": "above {}",
    "exclusiveMaximum": "below {}",
    "pattern": "like {}",
    "format": "in the form {}",
    "minLength": "of at least {}",
    "maxLength": "of at most {}",
}


def _describe_schema(part: object) -> str:
    """Say in a few words what *part* of a schema wants."""
    if not isinstance(part, Mapping):
        return ""
    is_secret = has_secret_schema(dict(part))
    if "const" in part and not is_secret:
        return _preview_value(part["const"])
    if isinstance(part.get("enum"), list) and not is_secret:
        return "one of " + shorten_text(", ".join(map(_preview_value, part["enum"])), 120)
    branches = part.get("anyOf") or part.get("oneOf")
    if isinstance(branches, list):
        return shorten_text(" or ".join(filter(None, map(_describe_schema, branches))), 160)
    kind = part.get("type")
    text = " or ".join(kind) if isinstance(kind, list) else str(kind or "")
    limits = [template.format(_describe_limit(key, part[key])) for key, template in _LIMIT_TEXTS.items() if key in part]
    return " ".join([text, *limits]).strip()


def _describe_limit(keyword: str, limit: object) -> str:
    if keyword in _COUNT_REASONS and isinstance(limit, int):
        return format_count(limit, _COUNT_REASONS[keyword][1])
    return shorten_text(str(limit), 60)
