"""Compares two definitions of a tool: whether the new one can replace the old one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from praval_tools.misuse import explain_wrong_calls
from praval_tools.schema.constraints import compile_cached_validator
from praval_tools.schema.json_values import to_canonical_json

Compatibility = Literal["compatible", "breaking", "unknown"]
Answer: TypeAlias = bool | None
"""True, False, or None for what cannot be decided."""

Schema: TypeAlias = Mapping[str, Any]
SchemaOrBool: TypeAlias = Schema | bool

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


@explain_wrong_calls
def compare(old: object, new: object) -> Compatibility:
    """
    Tell whether *new* can replace *old* for whoever calls it and reads its results.

    It can if it takes every argument that the old one took, and gives no result that the old one could not give.
    Descriptions do not count; a changed default is `unknown`, because it says nothing about what it changes.

    Args:
        old: A tool, what is compiled of one, or a dict with `parameters` and perhaps `result`.
        new: The same of the new one.
    """
    old_parameters, new_parameters = _find_schema(old, "parameters") or {}, _find_schema(new, "parameters") or {}
    old_result, new_result = _find_schema(old, "result"), _find_schema(new, "result")
    result = None if new_result is None and old_result is not None else _covers(old_result or {}, new_result or {})
    answer = _all_true(
        [_covers(new_parameters, old_parameters), _has_same_defaults(old_parameters, new_parameters), result]
    )
    return "unknown" if answer is None else "compatible" if answer else "breaking"


def _find_schema(definition: object, part: str) -> Schema | None:
    for name in (f"{part}_schema", part):
        schema = definition.get(name) if isinstance(definition, Mapping) else getattr(definition, name, None)
        if isinstance(schema, Mapping):
            return schema
    return None


def _has_same_defaults(old: Schema, new: Schema) -> Answer:
    old_properties, new_properties = old.get("properties") or {}, new.get("properties") or {}
    for name, before in old_properties.items():
        after = new_properties.get(name)
        if name in old.get("required", ()) or not isinstance(before, Mapping) or not isinstance(after, Mapping):
            continue
        if to_canonical_json([before.get("default")]) != to_canonical_json([after.get("default")]):
            return None
    return True


def _all_true(answers: Iterable[Answer]) -> Answer:
    known = set(answers)
    return False if False in known else None if None in known else True


def _any_true(answers: Iterable[Answer]) -> Answer:
    known = set(answers)
    return True if True in known else None if None in known else False


def _covers(wide: Schema, narrow: Schema) -> Answer:
    """Tell whether every value that *narrow* accepts is accepted by *wide*."""
    return _SchemaComparer(wide.get("$defs", {}), narrow.get("$defs", {})).covers(wide, narrow)


def _drop_annotations(schema: SchemaOrBool) -> SchemaOrBool:
    if isinstance(schema, bool):
        return schema
    return {key: value for key, value in schema.items() if key not in _ANNOTATION_KEYWORDS}


def _get_types(schema: Schema) -> frozenset[str]:
    named = schema.get("type", _ALL_TYPES)
    types = frozenset({named} if isinstance(named, str) else named)
    return types | {"integer"} if "number" in types else types


class _SchemaComparer(msgspec.Struct):
    """Compares schemas, each side with its own `$defs`; a pair inside itself counts as covered."""

    wide_definitions: Schema
    narrow_definitions: Schema
    visited_pairs: set[tuple[str, str]] = msgspec.field(default_factory=set)

    def covers(self, wide: SchemaOrBool, narrow: SchemaOrBool) -> Answer:
        """Tell whether *wide* accepts whatever *narrow* accepts."""
        wide, narrow = _drop_annotations(wide), _drop_annotations(narrow)
        if wide is True or wide == {} or narrow is False:
            return True
        if isinstance(wide, bool):
            return False
        narrow = {} if isinstance(narrow, bool) else narrow
        if "$ref" in wide or "$ref" in narrow:
            return self._covers_references(wide, narrow)
        for key in ("anyOf", "oneOf"):
            if set(narrow) == {key}:
                return _all_true([self.covers(wide, branch) for branch in narrow[key]])
        if "enum" in narrow or "const" in narrow:
            return self._covers_values(wide, narrow.get("enum", [narrow.get("const")]))
        if set(wide) == {"anyOf"}:
            return self._covers_by_branches(wide["anyOf"], narrow)
        return self._covers_by_keywords(wide, narrow)

    def _covers_references(self, wide: Schema, narrow: Schema) -> Answer:
        pair = (to_canonical_json(wide), to_canonical_json(narrow))
        if pair in self.visited_pairs:
            return True
        self.visited_pairs.add(pair)
        return self.covers(
            _follow_reference(wide, self.wide_definitions), _follow_reference(narrow, self.narrow_definitions)
        )

    def _covers_values(self, wide: Schema, values: Iterable[object]) -> Answer:
        schema = to_canonical_json({**wide, "$defs": self.wide_definitions})
        is_valid: Callable[[object], bool] = compile_cached_validator(schema).is_valid
        return all(map(is_valid, values))

    def _covers_by_branches(self, branches: Iterable[SchemaOrBool], narrow: Schema) -> Answer:
        types = _get_types(narrow)
        parts = [narrow]
        if len(types) > 1 and types != _ALL_TYPES:
            parts = [{**narrow, "type": name} for name in sorted(types)]
        return _all_true([_any_true([self.covers(branch, part) for branch in branches]) for part in parts])

    def _covers_by_keywords(self, wide: Schema, narrow: Schema) -> Answer:
        types = _get_types(narrow)
        if not types <= _get_types(wide) or "enum" in wide or "const" in wide:
            return False
        if {"anyOf", "oneOf"} & {*wide, *narrow}:
            return True if wide == narrow else None
        answers = [_covers_limits(wide, narrow)]
        answers += [_covers_unknown_keyword(key, wide, narrow) for key in wide.keys() - _UNDERSTOOD_KEYWORDS]
        if "object" in types:
            answers.append(self._covers_objects(wide, narrow))
        if "array" in types:
            answers.append(self._covers_arrays(wide, narrow))
        return _all_true(answers)

    def _covers_objects(self, wide: Schema, narrow: Schema) -> Answer:
        if not set(wide.get("required", ())) <= set(narrow.get("required", ())):
            return False
        wide_parts, narrow_parts = wide.get("properties", {}), narrow.get("properties", {})
        wide_rest, narrow_rest = wide.get("additionalProperties", True), narrow.get("additionalProperties", True)
        pairs = [
            (wide_parts.get(name, wide_rest), narrow_parts.get(name, narrow_rest))
            for name in {**wide_parts, **narrow_parts}
        ]
        return _all_true([self.covers(*pair) for pair in [(wide_rest, narrow_rest), *pairs]])

    def _covers_arrays(self, wide: Schema, narrow: Schema) -> Answer:
        if wide.get("uniqueItems") and not narrow.get("uniqueItems"):
            return bool(narrow.get("maxItems", 2) < 2)
        length = max(len(wide.get("prefixItems", ())), len(narrow.get("prefixItems", ())))
        longest = narrow.get("maxItems", length + 1)
        indexes = range(min(longest, length + 1))  # the last one stands for all that follow
        return _all_true([self.covers(_get_item_schema(wide, at), _get_item_schema(narrow, at)) for at in indexes])


def _get_item_schema(schema: Schema, index: int) -> SchemaOrBool:
    items = schema.get("prefixItems", ())
    item: SchemaOrBool = items[index] if index < len(items) else schema.get("items", True)
    return item


def _follow_reference(schema: Schema, definitions: Schema) -> SchemaOrBool:
    if "$ref" not in schema:
        return schema
    target = _drop_annotations(definitions.get(str(schema["$ref"]).removeprefix("#/$defs/"), {}))
    siblings = {key: value for key, value in schema.items() if key != "$ref"}
    return target if isinstance(target, bool) else {**target, **siblings}


def _covers_unknown_keyword(key: str, wide: Schema, narrow: Schema) -> Answer:
    """Answer for a keyword that is not analysed: it restricts where only *wide* has it and nothing implies it."""
    if key in narrow:
        return True if wide[key] == narrow[key] else None
    return False if key in ("pattern", "format") and not narrow.keys() & {"pattern", "format"} else None


def _covers_limits(wide: Schema, narrow: Schema) -> Answer:
    lower = (_find_lower_limit(narrow, key) >= wide[key] for key in _LOWER_LIMITS if key in wide)
    upper = (_find_upper_limit(narrow, key) <= wide[key] for key in _UPPER_LIMITS if key in wide)
    if not all(lower) or not all(upper):
        return False
    step = wide.get("multipleOf")
    if step is None or step == narrow.get("multipleOf"):
        return True
    return None if "multipleOf" in narrow else False


def _find_lower_limit(narrow: Schema, key: str) -> float:
    """Return a bound below which *narrow* accepts nothing, as strict as *key* asks."""
    keys = ("minimum", "exclusiveMinimum") if key == "minimum" else (key,)
    floor = 0.0 if key in ("minLength", "minItems", "minProperties") else float("-inf")
    limits: list[float] = [narrow[name] for name in keys if name in narrow]
    return max([floor, *limits])


def _find_upper_limit(narrow: Schema, key: str) -> float:
    """Return a bound above which *narrow* accepts nothing, as strict as *key* asks."""
    keys = ("maximum", "exclusiveMaximum") if key == "maximum" else (key,)
    is_closed = key == "maxItems" and narrow.get("items") is False
    ceiling = float(len(narrow["prefixItems"])) if is_closed else float("inf")
    limits: list[float] = [narrow[name] for name in keys if name in narrow]
    return min([ceiling, *limits])
