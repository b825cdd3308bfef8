"""Arguments judged by their JSON Schema: one verdict, or every problem in words that a model can act on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final

from praval_tools.errors import Problem
from praval_tools.names import find_similar_names, shorten_repr
from praval_tools.schema.coercion import Repair, Repairer, SchemaPart
from praval_tools.schema.json_input import format_json_path, preview_json

_MAX_PROBLEMS: Final = 200
_MAX_TEXT: Final = 1 << 24
_MAX_NODES: Final = 20_000
"""From this size on only the first problem is looked for: the validator makes all of them before it gives one."""


def refuse_retrieval(uri: str) -> Any:
    """Stand in for a retriever: a reference outside of the document is never fetched."""
    raise ValueError(f"the reference {shorten_repr(uri)} leads outside of the schema and is not fetched")


def compile_schema(schema: Any) -> Any:
    """Return the validator of *schema*: formats are checked, nothing is fetched, patterns run in linear time."""
    import jsonschema_rs

    options: dict[str, Any] = {"validate_formats": True, "retriever": refuse_retrieval}
    try:
        return jsonschema_rs.validator_for(schema, pattern_options=jsonschema_rs.RegexOptions(), **options)
    except (jsonschema_rs.ValidationError, ValueError):  # a pattern with look-around needs the other engine
        limited = jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000)
        return jsonschema_rs.validator_for(schema, pattern_options=limited, **options)


class Validator:
    """
    Judges and mends arguments by one JSON Schema; the compiled validator is made at first use.

    Args:
        schema: The schema of the arguments; it must not change afterwards.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        self._cached_validator: Any = None
        self._part_validators: dict[int, tuple[Any, Any]] = {}

    def is_valid(self, arguments: dict[str, Any]) -> bool:
        """Tell whether the arguments are valid as they stand."""
        return bool(self._schema_validator.is_valid(arguments))

    @property
    def _schema_validator(self) -> Any:
        if self._cached_validator is None:
            self._cached_validator = compile_schema(dict(self.schema))
        return self._cached_validator

    def repair(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], tuple[Repair, ...]]:
        """Return the arguments as they become under the coercion table, and what was mended; the input stays."""
        repairer = Repairer(self.schema, self._is_part_valid)
        mended = repairer.repair(self.schema, arguments)
        return mended, tuple(repairer.repairs)

    def _is_part_valid(self, part: SchemaPart, value: Any) -> bool:
        """Tell whether *value* is valid under a part of the schema; each part is compiled once."""
        kept = self._part_validators.get(id(part))
        if kept is None:
            alone = part
            if isinstance(part, Mapping):
                shared = {key: self.schema[key] for key in ("$defs", "definitions", "$schema") if key in self.schema}
                alone = {**{key: one for key, one in part.items() if key != "$schema"}, **shared}
            kept = self._part_validators[id(part)] = (part, compile_schema(alone))
        return bool(kept[1].is_valid(value))

    def fill_defaults(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with the declared defaults of what was left out."""
        made = dict(arguments)
        for name, part in (self.schema.get("properties") or {}).items():
            if name not in made and isinstance(part, Mapping) and "default" in part:
                made[name] = copy.deepcopy(part["default"])
        return made

    def find_problems(self, arguments: dict[str, Any]) -> tuple[Problem, ...]:
        """Return every problem, in the order of the places; at most 200, the first alone in huge arguments."""
        whole = self._schema_validator
        if whole.is_valid(arguments):
            return ()
        if _count_characters(arguments) > _MAX_TEXT:
            return self._find_rough_problems(arguments)
        if _is_huge(arguments):
            return (
                *self._find_first_problem(whole, arguments),
                Problem(path="$", reason="there may be more; this is the first"),
            )
        found: dict[tuple[str, str], Problem] = {}
        errors = list(whole.iter_errors(arguments))
        for error in errors[:_MAX_PROBLEMS]:
            for problem in self._describe_error(error):
                found.setdefault((problem.path, problem.reason), problem)
        ordered = sorted(found.values(), key=lambda one: (self._get_parameter_position(one.path), one.path, one.reason))
        if len(errors) > _MAX_PROBLEMS:
            ordered.append(Problem(path="$", reason=f"and {len(errors) - _MAX_PROBLEMS} more problems"))
        return tuple(ordered)

    def _find_rough_problems(self, arguments: dict[str, Any]) -> tuple[Problem, ...]:
        """Return which parameters are wrong, without the places in them: telling those would copy all the text."""
        known = self.schema.get("properties") or {}
        found = [Problem(path=format_json_path([name]), reason="is missing", wanted=self._describe_wanted(["properties", name]))
                 for name in self.schema.get("required") or () if name not in arguments]  # fmt: skip
        for name, value in arguments.items():
            if name not in known:
                found.append(self._describe_unknown_parameter([], name, {}, list(known)))
            elif not self._is_part_valid(known[name], value):
                found.append(Problem(path=format_json_path([name]), reason="does not fit, or something in it",
                                     given=_preview_given(value), wanted=self._describe_wanted(["properties", name])))  # fmt: skip
        return tuple(found) or (Problem(path="$", reason="does not fit as a whole"),)

    def _find_first_problem(self, whole: Any, arguments: dict[str, Any]) -> tuple[Problem, ...]:
        import jsonschema_rs

        try:
            whole.validate(arguments)
        except jsonschema_rs.ValidationError as error:
            return tuple(self._describe_error(error))
        return ()

    def _get_parameter_position(self, path: str) -> int:
        """Return where the parameter of *path* stands in the schema."""
        names = list(self.schema.get("properties") or ())
        first = path[2:].split(".")[0].split("[")[0]
        return names.index(first) if first in names else len(names)

    def _describe_error(self, error: Any) -> list[Problem]:
        kind, steps = error.kind, list(error.instance_path)
        path, given = format_json_path(steps), _preview_given(error.instance)
        name = kind.name
        if name == "required":
            return [Problem(path=format_json_path([*steps, kind.property]), reason="is missing",
                            wanted=self._describe_wanted([*error.schema_path[:-1], "properties", kind.property]))]  # fmt: skip
        if name == "propertyNames":
            key, at = str(kind.error.instance), list(error.schema_path).index("propertyNames")
            wanted = self._describe_wanted(error.schema_path[: at + 1]) or "another name"
            place = format_json_path([*steps, key])
            return [
                Problem(path=place, reason="has a name that is not allowed", given=_preview_given(key), wanted=wanted)
            ]
        if name in ("additionalProperties", "unevaluatedProperties"):
            known = self._get_schema_part(error.schema_path[:-1])
            names = list((known.get("properties") or {}) if isinstance(known, Mapping) else ())
            return [self._describe_unknown_parameter(steps, one, error.instance, names) for one in kind.unexpected[:50]]
        wanted = self._describe_wanted(error.schema_path[:-1])
        return [Problem(path=path, reason=describe_reason(kind, error), given=given, wanted=wanted)]

    def _describe_unknown_parameter(self, steps: list[str | int], key: str, inside: Any, names: list[str]) -> Problem:
        match = find_similar_names(key, names)
        hint = f"; did you mean {' or '.join(map(repr, match))}?" if match else ""
        value = inside.get(key) if isinstance(inside, dict) else None
        wanted = "" if match else f"only {', '.join(map(repr, names[:10])) or 'nothing'}"
        reason = f"unknown parameter {shorten_repr(key, 64)}{hint}"
        return Problem(path=format_json_path([*steps, key]), reason=reason, given=_preview_given(value), wanted=wanted)

    def _get_schema_part(self, steps: list[Any]) -> Any:
        """Return the part of the schema at *steps*, through references."""
        here: Any = self.schema
        for step in steps:
            if step == "$ref" and isinstance(here, Mapping):
                here = Repairer(self.schema, self._is_part_valid).resolve_references(here)
            elif isinstance(here, Mapping):
                here = here.get(step)
            elif isinstance(here, list) and isinstance(step, int) and step < len(here):
                here = here[step]
            else:
                return None
        return here

    def _describe_wanted(self, steps: list[Any]) -> str:
        return _describe_schema(self._get_schema_part(steps))


def _count_characters(value: Any) -> int:
    """Return how many characters of text there are; counts no further than what is much."""
    count, stack = 0, [value]
    while stack and count <= _MAX_TEXT:
        here = stack.pop()
        if isinstance(here, str):
            count += len(here)
        elif isinstance(here, dict | list):
            count += len(here)
            stack.extend(here.values() if isinstance(here, dict) else here)
    return count


def _is_huge(value: Any) -> bool:
    """Tell whether there are more nodes than can be reported on; looks at no more than that."""
    count, stack = 0, [value]
    while stack and count <= _MAX_NODES:
        here = stack.pop()
        if isinstance(here, dict | list):
            count += len(here)
            if count <= _MAX_NODES:
                stack.extend(here.values() if isinstance(here, dict) else here)
    return count > _MAX_NODES


def _preview_given(value: Any) -> str:
    if isinstance(value, str | list | dict) and len(value) > 200:
        value = value[:200] if isinstance(value, str | list) else f"an object of {len(value)} members"
    return preview_json(value)


def describe_reason(kind: Any, error: Any) -> str:
    """Say in a few words what is wrong with a value."""
    simple: dict[str, Callable[[], str]] = {
        "type": lambda: "is not " + " or ".join(_add_article(one) for one in kind.types),
        "enum": lambda: "is none of the allowed values",
        "const": lambda: "is not the one allowed value",
        "anyOf": lambda: "fits none of the allowed forms",
        "oneOf": lambda: "fits none, or more than one, of the allowed forms",
        "maximum": lambda: f"is larger than {kind.limit}",
        "minimum": lambda: f"is smaller than {kind.limit}",
        "exclusiveMaximum": lambda: f"is not smaller than {kind.limit}",
        "exclusiveMinimum": lambda: f"is not larger than {kind.limit}",
        "maxLength": lambda: f"is longer than {kind.limit} characters",
        "minLength": lambda: f"is shorter than {kind.limit} characters",
        "maxItems": lambda: f"has more than {kind.limit} items",
        "minItems": lambda: f"has fewer than {kind.limit} items",
        "uniqueItems": lambda: "has equal items",
        "pattern": lambda: "does not have the right form",
        "format": lambda: f"is not in the form {kind.format}",
    }
    return simple[kind.name]() if kind.name in simple else shorten_text(str(error.message))


def _add_article(kind: str) -> str:
    return {"null": "null"}.get(kind, f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}")


def shorten_text(text: str, limit: int = 160) -> str:
    """Return *text* cut to *limit* characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _describe_schema(part: Any) -> str:
    """Say in a few words what *part* of a schema wants."""
    if not isinstance(part, Mapping):
        return ""
    if "const" in part:
        return _preview_given(part["const"])
    if isinstance(part.get("enum"), list):
        return "one of " + shorten_text(", ".join(map(_preview_given, part["enum"])), 120)
    branches = part.get("anyOf") or part.get("oneOf")
    if isinstance(branches, list):
        return shorten_text(" or ".join(filter(None, map(_describe_schema, branches))), 160)
    kind = part.get("type")
    text = " or ".join(kind) if isinstance(kind, list) else str(kind or "")
    limits = (("minimum", "from {}"), ("maximum", "to {}"), ("exclusiveMinimum", "above {}"),
              ("exclusiveMaximum", "below {}"), ("pattern", "like {}"), ("format", "in the form {}"),
              ("minLength", "of at least {} characters"), ("maxLength", "of at most {} characters"))  # fmt: skip
    more = [said.format(shorten_text(str(part[key]), 60)) for key, said in limits if key in part]
    return " ".join([text, *more]).strip()
