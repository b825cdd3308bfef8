"""Whether a new definition of a tool can take the place of an old one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from praval_tools.schema.constraints import validator
from praval_tools.schema.json_values import canonical
from praval_tools.schema.type_handler import JsonSchema

Verdict = Literal["compatible", "breaking", "unknown"]
Answer = bool | None
"""True, False, or None for what cannot be decided."""

_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})
_NOTES: Final = frozenset({"description", "title", "default", "examples", "$defs", "$schema", "$comment", "deprecated"})
_LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_DECIDED: Final = frozenset(
    {"type", "enum", "const", "anyOf", "oneOf", "$ref", "properties", "required", "additionalProperties", "items"}
    | {"prefixItems", "uniqueItems", "multipleOf", "contentEncoding", *_LOWER, *_UPPER}
)


def compare(old: Any, new: Any) -> Verdict:
    """
    Tell whether *new* can take the place of *old* for whoever calls it and reads its results.

    It can if it takes every argument that the old one took, and gives no result that the old one could not give.
    Descriptions do not count; a changed default is `unknown`, because it says nothing about what it changes.

    Args:
        old: A tool, what is compiled of one, or a dict with `parameters` and perhaps `result`.
        new: The same of the new one.
    """
    answers = [
        _covers(_schema(new, "parameters"), _schema(old, "parameters")),
        _same_defaults(_schema(old, "parameters"), _schema(new, "parameters")),
        _results(_schema(old, "result"), _schema(new, "result")),
    ]
    return {True: "compatible", False: "breaking", None: "unknown"}[_all(answers)]  # type: ignore[return-value]


def _schema(one: Any, part: str) -> Any:
    for name in (f"{part}_schema", part):
        found = one.get(name) if isinstance(one, Mapping) else getattr(one, name, None)
        if isinstance(found, Mapping):
            return found
    return None


def _results(old: Any, new: Any) -> Answer:
    if old is None:
        return True
    return None if new is None else _covers(old, new)


def _same_defaults(old: JsonSchema, new: JsonSchema) -> Answer:
    for name, before in ((old or {}).get("properties") or {}).items():
        after = ((new or {}).get("properties") or {}).get(name)
        if name in old.get("required", ()) or not isinstance(before, Mapping) or not isinstance(after, Mapping):
            continue
        if canonical([before.get("default")]) != canonical([after.get("default")]):
            return None
    return True


def _all(answers: Iterable[Answer]) -> Answer:
    known = list(answers)
    return False if False in known else None if None in known else True


def _any(answers: Iterable[Answer]) -> Answer:
    known = list(answers)
    return True if True in known else None if None in known else False


def _covers(wide: Any, narrow: Any) -> Answer:
    """Tell whether every value that *narrow* accepts is accepted by *wide*."""
    wide, narrow = wide or {}, narrow or {}
    return _Cover(wide.get("$defs", {}), narrow.get("$defs", {})).covers(wide, narrow)


def _plain(schema: Any) -> Any:
    return {key: one for key, one in schema.items() if key not in _NOTES} if isinstance(schema, Mapping) else schema


def _types(schema: Mapping[str, Any]) -> frozenset[str]:
    named = schema.get("type", _TYPES)
    found = frozenset({named} if isinstance(named, str) else named)
    return found | {"integer"} if "number" in found else found


class _Cover(msgspec.Struct):
    """Compares schemas, each side with its own `$defs`; a pair inside itself counts as covered."""

    wide_defs: Mapping[str, Any]
    narrow_defs: Mapping[str, Any]
    met: set[tuple[str, str]] = msgspec.field(default_factory=set)

    def covers(self, wide: Any, narrow: Any) -> Answer:
        """Tell whether *wide* accepts whatever *narrow* accepts."""
        wide, narrow = _plain(wide), _plain(narrow)
        if wide in (True, {}) or narrow is False:
            return True
        if wide is False:
            return False
        narrow = {} if narrow is True else narrow
        if "$ref" in wide or "$ref" in narrow:
            return self._referred(wide, narrow)
        for key in ("anyOf", "oneOf"):
            if set(narrow) == {key}:
                return _all([self.covers(wide, one) for one in narrow[key]])
        if "enum" in narrow or "const" in narrow:
            return self._listed(wide, narrow.get("enum", [narrow.get("const")]))
        if set(wide) == {"anyOf"}:
            return self._in_one_of(wide["anyOf"], narrow)
        return self._by_keywords(wide, narrow)

    def _referred(self, wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> Answer:
        pair = (canonical(wide), canonical(narrow))
        if pair in self.met:
            return True
        self.met.add(pair)
        return self.covers(_followed(wide, self.wide_defs), _followed(narrow, self.narrow_defs))

    def _listed(self, wide: Mapping[str, Any], values: Iterable[Any]) -> Answer:
        takes: Callable[[Any], bool] = validator(canonical({**wide, "$defs": self.wide_defs})).is_valid
        return all(map(takes, values))

    def _in_one_of(self, wides: Iterable[Any], narrow: Mapping[str, Any]) -> Answer:
        kinds = _types(narrow)
        each = [{**narrow, "type": kind} for kind in sorted(kinds)] if len(kinds) > 1 and kinds != _TYPES else [narrow]
        return _all([_any([self.covers(wide, one) for wide in wides]) for one in each])

    def _by_keywords(self, wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> Answer:
        if not _types(narrow) <= _types(wide):
            return False
        if "enum" in wide or "const" in wide:
            return False
        if "anyOf" in wide or "anyOf" in narrow or "oneOf" in wide or "oneOf" in narrow:
            return None if wide != narrow else True
        answers: list[Answer] = [_bounds(wide, narrow)]
        for key in wide.keys() - _DECIDED:
            answers.append(True if wide[key] == narrow.get(key) else None if key in narrow else _lost(key, narrow))
        if "object" in _types(narrow):
            answers.append(self._objects(wide, narrow))
        if "array" in _types(narrow):
            answers.append(self._arrays(wide, narrow))
        return _all(answers)

    def _objects(self, wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> Answer:
        if not set(wide.get("required", ())) <= set(narrow.get("required", ())):
            return False
        ours, theirs = wide.get("properties", {}), narrow.get("properties", {})
        rest, their_rest = wide.get("additionalProperties", True), narrow.get("additionalProperties", True)
        return _all(
            [
                self.covers(rest, their_rest),
                *(self.covers(ours.get(name, rest), theirs.get(name, their_rest)) for name in {**ours, **theirs}),
            ]
        )

    def _arrays(self, wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> Answer:
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
        return _all([self.covers(*pair) for pair in pairs])


def _followed(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Any:
    if "$ref" not in schema:
        return schema
    target = _plain(defs.get(str(schema["$ref"]).removeprefix("#/$defs/"), {}))
    beside = {key: one for key, one in schema.items() if key != "$ref"}
    return {**target, **beside} if isinstance(target, Mapping) else target


def _lost(key: str, narrow: Mapping[str, Any]) -> Answer:
    """Answer for a keyword that only the wide one has: it refuses something, unless others imply it."""
    return None if narrow.keys() & {"pattern", "format"} or key not in ("pattern", "format") else False


def _bounds(wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> Answer:
    for key in _LOWER:
        if key in wide and not _least(narrow, key) >= wide[key]:
            return False
    for key in _UPPER:
        if key in wide and not _most(narrow, key) <= wide[key]:
            return False
    step = wide.get("multipleOf")
    if step is None or step == narrow.get("multipleOf"):
        return True
    return None if "multipleOf" in narrow else False


def _least(narrow: Mapping[str, Any], key: str) -> float:
    """Return a bound below which *narrow* accepts nothing, as strict as *key* asks."""
    same = [key, "exclusiveMinimum"] if key == "minimum" else [key]
    floor = 0 if key.startswith("min") and key != "minimum" else float("-inf")
    if key == "minItems":
        floor = 0
    return functools.reduce(max, (narrow[one] for one in same if one in narrow), floor)


def _most(narrow: Mapping[str, Any], key: str) -> float:
    """Return a bound above which *narrow* accepts nothing, as strict as *key* asks."""
    same = [key, "exclusiveMaximum"] if key == "maximum" else [key]
    ceiling = float(len(narrow["prefixItems"])) if key == "maxItems" and narrow.get("items") is False else float("inf")
    return functools.reduce(min, (narrow[one] for one in same if one in narrow), ceiling)
