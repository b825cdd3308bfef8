"""Whether a new definition of a tool can take the place of an old one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from praval_tools.schema.constraints import compile_cached_validator
from praval_tools.schema.json_values import to_canonical_json
from praval_tools.schema.schema_tree import JsonSchema

Compatibility = Literal["compatible", "breaking", "unknown"]
MaybeBool = bool | None
"""True, False, or None for what cannot be decided."""

_ALL_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})
_ANNOTATION_KEYWORDS: Final = frozenset(
    {"description", "title", "default", "examples", "$defs", "$schema", "$comment", "deprecated"}
)
_LOWER_LIMITS: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER_LIMITS: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_UNDERSTOOD_KEYWORDS: Final = frozenset(
    {"type", "enum", "const", "anyOf", "oneOf", "$ref", "properties", "required", "additionalProperties", "items"}
    | {"prefixItems", "uniqueItems", "multipleOf", "contentEncoding", *_LOWER_LIMITS, *_UPPER_LIMITS}
)


def compare(old: Any, new: Any) -> Compatibility:
    """
    Tell whether *new* can take the place of *old* for whoever calls it and reads its results.

    It can if it takes every argument that the old one took, and gives no result that the old one could not give.
    Descriptions do not count; a changed default is `unknown`, because it says nothing about what it changes.

    Args:
        old: A tool, what is compiled of one, or a dict with `parameters` and perhaps `result`.
        new: The same of the new one.
    """
    answers = [
        _schema_covers(_find_schema(new, "parameters"), _find_schema(old, "parameters")),
        _has_same_defaults(_find_schema(old, "parameters"), _find_schema(new, "parameters")),
        _compare_results(_find_schema(old, "result"), _find_schema(new, "result")),
    ]
    return {True: "compatible", False: "breaking", None: "unknown"}[_all_true(answers)]  # type: ignore[return-value]


def _find_schema(one: Any, part: str) -> Any:
    for name in (f"{part}_schema", part):
        found = one.get(name) if isinstance(one, Mapping) else getattr(one, name, None)
        if isinstance(found, Mapping):
            return found
    return None


def _compare_results(old: Any, new: Any) -> MaybeBool:
    if old is None:
        return True
    return None if new is None else _schema_covers(old, new)


def _has_same_defaults(old: JsonSchema, new: JsonSchema) -> MaybeBool:
    for name, before in ((old or {}).get("properties") or {}).items():
        after = ((new or {}).get("properties") or {}).get(name)
        if name in old.get("required", ()) or not isinstance(before, Mapping) or not isinstance(after, Mapping):
            continue
        if to_canonical_json([before.get("default")]) != to_canonical_json([after.get("default")]):
            return None
    return True


def _all_true(answers: Iterable[MaybeBool]) -> MaybeBool:
    known = list(answers)
    return False if False in known else None if None in known else True


def _any_true(answers: Iterable[MaybeBool]) -> MaybeBool:
    known = list(answers)
    return True if True in known else None if None in known else False


def _schema_covers(wide: Any, narrow: Any) -> MaybeBool:
    """Tell whether every value that *narrow* accepts is accepted by *wide*."""
    wide, narrow = wide or {}, narrow or {}
    return _SchemaComparer(wide.get("$defs", {}), narrow.get("$defs", {})).covers(wide, narrow)


def _drop_annotations(schema: Any) -> Any:
    return (
        {key: one for key, one in schema.items() if key not in _ANNOTATION_KEYWORDS}
        if isinstance(schema, Mapping)
        else schema
    )


def _get_types(schema: Mapping[str, Any]) -> frozenset[str]:
    named = schema.get("type", _ALL_TYPES)
    found = frozenset({named} if isinstance(named, str) else named)
    return found | {"integer"} if "number" in found else found


class _SchemaComparer(msgspec.Struct):
    """Compares schemas, each side with its own `$defs`; a pair inside itself counts as covered."""

    wide_defs: Mapping[str, Any]
    narrow_defs: Mapping[str, Any]
    visited_pairs: set[tuple[str, str]] = msgspec.field(default_factory=set)

    def covers(self, wide: Any, narrow: Any) -> MaybeBool:
        """Tell whether *wide* accepts whatever *narrow* accepts."""
        wide, narrow = _drop_annotations(wide), _drop_annotations(narrow)
        if wide in (True, {}) or narrow is False:
            return True
        if wide is False:
            return False
        narrow = {} if narrow is True else narrow
        if "$ref" in wide or "$ref" in narrow:
            return self._covers_references(wide, narrow)
        for key in ("anyOf", "oneOf"):
            if set(narrow) == {key}:
                return _all_true([self.covers(wide, one) for one in narrow[key]])
        if "enum" in narrow or "const" in narrow:
            return self._covers_values(wide, narrow.get("enum", [narrow.get("const")]))
        if set(wide) == {"anyOf"}:
            return self._covers_by_branches(wide["anyOf"], narrow)
        return self._covers_by_keywords(wide, narrow)

    def _covers_references(self, wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> MaybeBool:
        pair = (to_canonical_json(wide), to_canonical_json(narrow))
        if pair in self.visited_pairs:
            return True
        self.visited_pairs.add(pair)
        return self.covers(_follow_reference(wide, self.wide_defs), _follow_reference(narrow, self.narrow_defs))

    def _covers_values(self, wide: Mapping[str, Any], values: Iterable[Any]) -> MaybeBool:
        takes: Callable[[Any], bool] = compile_cached_validator(
            to_canonical_json({**wide, "$defs": self.wide_defs})
        ).is_valid
        return all(map(takes, values))

    def _covers_by_branches(self, wides: Iterable[Any], narrow: Mapping[str, Any]) -> MaybeBool:
        kinds = _get_types(narrow)
        each = (
            [{**narrow, "type": kind} for kind in sorted(kinds)] if len(kinds) > 1 and kinds != _ALL_TYPES else [narrow]
        )
        return _all_true([_any_true([self.covers(wide, one) for wide in wides]) for one in each])

    def _covers_by_keywords(self, wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> MaybeBool:
        if not _get_types(narrow) <= _get_types(wide):
            return False
        if "enum" in wide or "const" in wide:
            return False
        if "anyOf" in wide or "anyOf" in narrow or "oneOf" in wide or "oneOf" in narrow:
            return None if wide != narrow else True
        answers: list[MaybeBool] = [_covers_limits(wide, narrow)]
        for key in wide.keys() - _UNDERSTOOD_KEYWORDS:
            answers.append(
                True
                if wide[key] == narrow.get(key)
                else None
                if key in narrow
                else _compare_missing_keyword(key, narrow)
            )
        if "object" in _get_types(narrow):
            answers.append(self._covers_objects(wide, narrow))
        if "array" in _get_types(narrow):
            answers.append(self._covers_arrays(wide, narrow))
        return _all_true(answers)

    def _covers_objects(self, wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> MaybeBool:
        if not set(wide.get("required", ())) <= set(narrow.get("required", ())):
            return False
        ours, theirs = wide.get("properties", {}), narrow.get("properties", {})
        rest, their_rest = wide.get("additionalProperties", True), narrow.get("additionalProperties", True)
        return _all_true(
            [
                self.covers(rest, their_rest),
                *(self.covers(ours.get(name, rest), theirs.get(name, their_rest)) for name in {**ours, **theirs}),
            ]
        )

    def _covers_arrays(self, wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> MaybeBool:
        if wide.get("uniqueItems") and not narrow.get("uniqueItems"):
            return bool(narrow.get("maxItems", 2) < 2)
        ours, theirs = wide.get("prefixItems", []), narrow.get("prefixItems", [])
        rest, their_rest = wide.get("items", True), narrow.get("items", True)
        places = max(len(ours), len(theirs))
        most = narrow.get("maxItems", places + 1)
        pairs = [
            (ours[index] if index < len(ours) else rest, theirs[index] if index < len(theirs) else their_rest)
            for index in range(min(places, most))
        ]
        if most > places:
            pairs.append((rest, their_rest))
        return _all_true([self.covers(*pair) for pair in pairs])


def _follow_reference(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Any:
    if "$ref" not in schema:
        return schema
    target = _drop_annotations(defs.get(str(schema["$ref"]).removeprefix("#/$defs/"), {}))
    beside = {key: one for key, one in schema.items() if key != "$ref"}
    return {**target, **beside} if isinstance(target, Mapping) else target


def _compare_missing_keyword(key: str, narrow: Mapping[str, Any]) -> MaybeBool:
    """Answer for a keyword that only the wide one has: it refuses something, unless others imply it."""
    return None if narrow.keys() & {"pattern", "format"} or key not in ("pattern", "format") else False


def _covers_limits(wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> MaybeBool:
    for key in _LOWER_LIMITS:
        if key in wide and not _find_lower_limit(narrow, key) >= wide[key]:
            return False
    for key in _UPPER_LIMITS:
        if key in wide and not _find_upper_limit(narrow, key) <= wide[key]:
            return False
    step = wide.get("multipleOf")
    if step is None or step == narrow.get("multipleOf"):
        return True
    return None if "multipleOf" in narrow else False


def _find_lower_limit(narrow: Mapping[str, Any], key: str) -> float:
    """Return a bound below which *narrow* accepts nothing, as strict as *key* asks."""
    same = [key, "exclusiveMinimum"] if key == "minimum" else [key]
    floor = 0 if key.startswith("min") and key != "minimum" else float("-inf")
    if key == "minItems":
        floor = 0
    return functools.reduce(max, (narrow[one] for one in same if one in narrow), floor)


def _find_upper_limit(narrow: Mapping[str, Any], key: str) -> float:
    """Return a bound above which *narrow* accepts nothing, as strict as *key* asks."""
    same = [key, "exclusiveMaximum"] if key == "maximum" else [key]
    ceiling = float(len(narrow["prefixItems"])) if key == "maxItems" and narrow.get("items") is False else float("inf")
    return functools.reduce(min, (narrow[one] for one in same if one in narrow), ceiling)
