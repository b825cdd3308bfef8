"""Removes the nulls from arguments written in strict mode that mean "use the default"."""

from __future__ import annotations

from typing import Any, Final

from praval_tools.schema.json_pointer import resolve_pointer
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.tools.compiled import Arguments

_MAX_DEPTH: Final = 200
_MAX_UNION_DEPTH: Final = 6
"""How deeply the branches of a union are compared with a value: what tells them apart is near the top."""
_TYPES: Final[dict[object, tuple[type, ...]]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list,), "object": (dict,)
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

    def _resolve(self, schema: object) -> object:
        for _ in range(_MAX_DEPTH):
            if not isinstance(schema, dict) or "$ref" not in schema:
                return schema
            schema = resolve_pointer(self._root, schema["$ref"])
        return None

    def drop_nulls(self, schema: object, value: Any, level: int) -> Any:
        schema = self._resolve(schema)
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
            if not (is_optional_null and ("default" in inner or not self._allows_null(inner, 0))):
                kept[name] = self.drop_nulls(inner, item, level + 1)
        return kept

    def _allows_null(self, schema: object, level: int) -> bool:
        schema = self._resolve(schema)
        if not isinstance(schema, dict) or level > _MAX_DEPTH:
            return True
        if branches := schema.get("anyOf", schema.get("oneOf")):
            return any(self._allows_null(branch, level + 1) for branch in branches)
        if "enum" in schema or "const" in schema:
            return None in schema.get("enum", [schema.get("const")])
        kind = schema.get("type")
        return kind is None or kind == "null" or (isinstance(kind, list) and "null" in kind)

    def _choose_branch(self, branches: list[object], value: dict[str, Any] | list[Any]) -> object:
        """Return the branch of a union that describes *value*: by all its names, and the types of its members."""
        suitable = [branch for branch in branches if self._is_branch_for(branch, value, 0)]
        return next((branch for branch in suitable if self._has_types_of(branch, value, 0)), next(iter(suitable), None))

    def _has_types_of(self, schema: object, value: object, level: int) -> bool:
        """Tell whether *value*, its members and theirs have the types of *schema*; a null may stand for a default."""
        schema = self._resolve(schema)
        if not isinstance(schema, dict) or value is None or level > _MAX_UNION_DEPTH:
            return True
        if branches := schema.get("anyOf", schema.get("oneOf")):
            return any(self._has_types_of(branch, value, level + 1) for branch in branches)
        kinds = schema.get("type", list(_TYPES))
        if not any(_is_of_type(kind, value) for kind in (kinds if isinstance(kinds, list) else [kinds])):
            return False
        if isinstance(value, list):
            return all(self._has_types_of(schema.get("items"), item, level + 1) for item in value)
        if not isinstance(value, dict):
            return True
        properties, required = schema.get("properties", {}), schema.get("required", ())
        if properties.keys() != value.keys():  # in strict mode all are written
            return False
        return all(
            self._has_types_of(properties[name], item, level + 1)
            and not (item is None and name in required and not self._allows_null(properties[name], 0))
            for name, item in value.items()
        )

    def _is_branch_for(self, schema: object, value: dict[str, Any] | list[Any], level: int) -> bool:
        """Tell whether a branch of a union describes *value*: its type, its names, what distinguishes it."""
        schema = self._resolve(schema)
        if not isinstance(schema, dict) or level > _MAX_UNION_DEPTH:
            return False
        if branches := schema.get("anyOf", schema.get("oneOf")):
            return any(self._is_branch_for(branch, value, level + 1) for branch in branches)
        kind = schema.get("type")
        if ("array" if isinstance(value, list) else "object") not in (kind if isinstance(kind, list) else [kind]):
            return False
        if isinstance(value, list):
            items = schema.get("items")
            nested = [item for item in value if items and isinstance(item, dict | list)]
            return all(self._is_branch_for(items, item, level + 1) for item in nested)
        properties = schema.get("properties", {})
        if not properties.keys() >= value.keys() or any(name not in value for name in schema.get("required", ())):
            return False
        return all(
            _is_allowed_choice(properties[name], item)
            for name, item in value.items()
            if isinstance(properties[name], dict) and item is not None
        )


def _is_of_type(kind: object, value: object) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES.get(kind, ()))


def _is_allowed_choice(schema: JsonSchema, value: object) -> bool:
    if "enum" in schema:
        return value in schema["enum"]
    return "const" not in schema or bool(schema["const"] == value)
