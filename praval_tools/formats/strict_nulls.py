"""Removes the nulls from arguments written in strict mode that mean "use the default"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from praval_tools.formats.union_branches import MAX_UNION_DEPTH, list_branches, list_values, resolve_schema
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.tools.compiled import Arguments

_MAX_DEPTH: Final = 200
_TYPES: Final[dict[object, tuple[type, ...]]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list,),
    "object": (dict,), "null": (type(None),),
}  # fmt: skip


def contains_null(value: object) -> bool:
    """Tell whether there is a null anywhere in a JSON value."""
    if isinstance(value, dict | list):
        return any(map(contains_null, value.values() if isinstance(value, dict) else value))
    return value is None


def drop_default_nulls(schema: JsonSchema, arguments: Arguments) -> Arguments:
    """
    Return *arguments* without the nulls that stand for a default: those of properties that may be left out.

    A null that a property takes and that has no default stays.

    Args:
        schema: The tool's own, as it was before the strict mode, also with the defaults that it does not show.
        arguments: What the model wrote.
    """
    kept = _NullDropper(schema).drop_nulls(schema, arguments, 0)
    return kept if isinstance(kept, dict) else arguments


class _NullDropper:
    def __init__(self, root: JsonSchema) -> None:
        self._root = root

    def drop_nulls(self, schema: object, value: Any, level: int) -> Any:
        schema = resolve_schema(self._root, schema)
        if not isinstance(schema, dict) or level > _MAX_DEPTH or not isinstance(value, dict | list):
            return value
        if branches := schema.get("anyOf", schema.get("oneOf")):
            return self.drop_nulls(self._choose_branch(branches, value), value, level + 1)
        if isinstance(value, list):
            return [self.drop_nulls(schema.get("items"), item, level + 1) for item in value]
        properties, required = schema.get("properties", {}), schema.get("required", ())
        kept = {}
        for name, item in value.items():
            inner = properties.get(name)
            is_optional_null = item is None and name not in required and isinstance(inner, dict)
            if not (is_optional_null and ("default" in inner or not self._fits(inner, None, 0))):
                kept[name] = self.drop_nulls(inner, item, level + 1)
        return kept

    def _choose_branch(self, branches: list[object], value: dict[str, Any] | list[Any]) -> object:
        """Return the branch of a union that describes *value*: the only one of its type, or the one that it fits."""
        kind = "array" if isinstance(value, list) else "object"
        suitable = [
            branch for one in branches for branch in list_branches(self._root, one)
            if isinstance(branch, dict) and kind in _list_kinds(branch)
        ]  # fmt: skip
        if len(suitable) == 1:
            return suitable[0]
        return next((branch for branch in suitable if self._fits(branch, value, 0)), None)

    def _fits(self, schema: object, value: object, level: int) -> bool:
        """Tell whether *value* has the types, names and choices of *schema*; a null may stand for a default in it."""
        return any(self._fits_branch(branch, value, level) for branch in list_branches(self._root, schema))

    def _fits_branch(self, schema: object, value: object, level: int) -> bool:
        if not isinstance(schema, dict) or level > MAX_UNION_DEPTH:
            return True
        if "enum" in schema or "const" in schema:
            return value in schema.get("enum", [schema.get("const")])
        if not any(_is_of_type(kind, value) for kind in _list_kinds(schema)):
            return False
        if isinstance(value, list):
            return all(self._fits(schema.get("items"), item, level + 1) for item in value)
        if not isinstance(value, dict):
            return True
        properties, required = schema.get("properties", {}), schema.get("required", ())
        if not properties.keys() >= value.keys() or any(name not in value for name in required):
            return False
        return all(
            (item is None and name not in required and not self._is_constant(properties[name]))
            or self._fits(properties[name], item, level + 1)
            for name, item in value.items()
        )

    def _is_constant(self, schema: object) -> bool:
        """Tell whether a property with a default takes one value alone, which is that default: null is not written."""
        target = resolve_schema(self._root, schema)
        values = list_values(target) if isinstance(target, dict) else None
        return isinstance(schema, dict) and "default" in schema and values is not None and len(values) == 1


def _list_kinds(schema: JsonSchema) -> Iterable[object]:
    kinds: object = schema.get("type", [*_TYPES])
    return kinds if isinstance(kinds, list) else [kinds]


def _is_of_type(kind: object, value: object) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES.get(kind, ()))
