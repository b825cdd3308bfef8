"""
Tells whether the branches of a union differ in what stays of a value when the nulls of a strict mode are left out.

Where each property is required, a null stands for "use the default": with the nulls goes what such properties say.
"""

from __future__ import annotations

from collections.abc import Set
from itertools import combinations, product
from typing import Final

from praval_tools.schema.json_pointer import resolve_pointer
from praval_tools.schema.json_values import make_equality_key
from praval_tools.schema.schema_tree import JsonSchema

MAX_UNION_DEPTH: Final = 4
"""How deeply the branches of a union are compared, with each other or with a value."""

_MAX_REFERENCES: Final = 200
_MAX_COMPARISONS: Final = 20_000
_ALL_TYPES: Final = frozenset(("object", "array", "string", "integer", "number", "boolean", "null"))
_TYPES_OF_VALUES: Final = {
    bool: {"boolean"}, str: {"string"}, int: {"integer"}, float: {"integer", "number"}, type(None): {"null"},
}  # fmt: skip


def resolve_schema(root: JsonSchema, schema: object) -> object:
    """Return what *schema* refers to, or itself; None where that has no end, or is not there."""
    for _ in range(_MAX_REFERENCES):
        if not isinstance(schema, dict) or "$ref" not in schema:
            return schema
        schema = resolve_pointer(root, schema["$ref"])
    return None


def list_branches(root: JsonSchema, schema: object) -> list[object]:
    """Return what *schema* stands for: itself, or the branches of a union, and of unions in it; None is unknown."""
    branches, opened, stack = list[object](), set[int](), [schema]
    while stack:
        target = resolve_schema(root, stack.pop())
        members = target.get("anyOf", target.get("oneOf")) if isinstance(target, dict) else None
        if not members:
            branches.append(target)
        elif id(target) not in opened:
            opened.add(id(target))
            stack.extend(reversed(members))
    return branches or [None]


class UnionBranches:
    """
    The branches of unions in one schema, compared with each other.

    What is not decided within a bounded depth and number of comparisons does not count as distinct.

    Args:
        root: The tool's own schema, to which references lead.
    """

    def __init__(self, root: JsonSchema) -> None:
        self._root = root
        self._answers: dict[tuple[int, int, bool], bool] = {}
        self._comparison_count = 0

    def are_distinct(self, branches: list[object]) -> bool:
        """Tell whether any two branches that hold objects, or lists of them, differ in what stays."""
        return all(self._are_apart(first, second, 0) for first, second in combinations(branches, 2))

    def is_constant(self, schema: object) -> bool:
        """Tell whether all that a property takes is its default, other than null: so a model always writes it."""
        if not isinstance(schema, dict) or schema.get("default") is None:
            return False
        target = resolve_schema(self._root, schema)
        values = list_values(target) if isinstance(target, dict) else None
        return values is not None and {make_equality_key(schema["default"])} == set(map(make_equality_key, values))

    def _are_apart(self, first: object, second: object, level: int, *, as_values: bool = False) -> bool:
        """
        Tell whether no value of one schema fits the other once its nulls are left out.

        Args:
            first: The one.
            second: The other.
            level: How deep they are.
            as_values: No value at all may be one of both; else scalars may, and empty lists.
        """
        pairs = product(list_branches(self._root, first), list_branches(self._root, second))
        return all(self._are_branches_apart(one, other, level, as_values) for one, other in pairs)

    def _are_branches_apart(self, first: object, second: object, level: int, as_values: bool) -> bool:
        if first is second and isinstance(first, dict) and not as_values:  # the same class, whichever of them is taken
            return True
        self._comparison_count += 1
        if not isinstance(first, dict) or not isinstance(second, dict):
            return False
        if level > MAX_UNION_DEPTH or self._comparison_count > _MAX_COMPARISONS:
            return False
        key = (id(first), id(second), as_values)
        if key not in self._answers:
            self._answers[key] = False  # as long as it is not decided
            self._answers[key] = self._compare_branches(first, second, level + 1, as_values)
        return self._answers[key]

    def _compare_branches(self, first: JsonSchema, second: JsonSchema, level: int, as_values: bool) -> bool:
        values, others = list_values(first), list_values(second)
        if values is not None and others is not None:
            return not as_values or set(map(make_equality_key, values)).isdisjoint(map(make_equality_key, others))
        shared = _list_types(first) & _list_types(second)
        if as_values and shared - {"object"}:
            return False
        if "array" in shared and not self._are_apart(first.get("items"), second.get("items"), level):
            return False
        return "object" not in shared or self._are_objects_apart(first, second, level)

    def _are_objects_apart(self, first: JsonSchema, second: JsonSchema, level: int) -> bool:
        properties, others = first.get("properties", {}), second.get("properties", {})
        staying = self._list_staying_names(first) & self._list_staying_names(second)
        return (
            _requires_unknown(first, second)
            or _requires_unknown(second, first)
            or any(self._are_apart(properties[name], others[name], level, as_values=True) for name in sorted(staying))
        )

    def _list_staying_names(self, schema: JsonSchema) -> Set[str]:
        """Return the properties that each object has, its nulls left out."""
        properties, required = schema.get("properties", {}), schema.get("required", ())
        return {name for name, inner in properties.items() if name in required or self.is_constant(inner)}


def _requires_unknown(first: JsonSchema, second: JsonSchema) -> bool:
    """Tell whether *first* requires a property that *second* does not take."""
    is_closed = second.get("additionalProperties") is False
    return is_closed and any(name not in second.get("properties", {}) for name in first.get("required", ()))


def list_values(schema: JsonSchema) -> list[object] | None:
    """Return the values that an enum or a constant allows; None where there is neither."""
    values: list[object] = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else []
    return values or None


def _list_types(schema: JsonSchema) -> Set[str]:
    """Return the JSON types of *schema*, an integer being a number, too; all where it does not say."""
    values = list_values(schema)
    if values is not None:
        return {kind for value in values for kind in _TYPES_OF_VALUES.get(type(value), _ALL_TYPES)}
    kind = schema.get("type", [*_ALL_TYPES])
    kinds = {name for name in (kind if isinstance(kind, list) else [kind]) if isinstance(name, str)}
    return kinds | {"integer"} if "number" in kinds else kinds
