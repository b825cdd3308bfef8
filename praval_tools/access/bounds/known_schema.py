"""What a tool's schema says of a bounded value, and of the members of it that a bound names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from attrs import frozen

from praval_tools.access.bounds.satisfiability import (
    find_property_schema,
    get_possible_types,
    list_or_empty,
    list_property_names,
)
from praval_tools.schema.schema_tree import JsonSchema, SchemaPart, inline_references
from praval_tools.schema.text_formats import DECIMAL_TEXT_SCHEMA


@frozen
class KnownSchema:
    """
    The schema of a bounded value; references are followed as far as a bound goes, so that it may be recursive.

    Args:
        part: The schema, with references only in those of its members; True where nothing is known.
        root: The schema in which they lead somewhere.
        is_whole: It is that of all arguments.
    """

    part: SchemaPart
    root: JsonSchema
    is_whole: bool = False

    @classmethod
    def from_parameters(cls, parameters_schema: Mapping[str, object]) -> Self:
        """Return the schema of all arguments of a tool."""
        root = dict(parameters_schema)
        part = inline_references(root, root, deep=False)
        named = part if isinstance(part, dict) else root
        return cls({"additionalProperties": False, **named, "type": "object"}, root, is_whole=True)

    @property
    def types(self) -> frozenset[str]:
        """The JSON types that the value may have."""
        return get_possible_types(self.part)

    @property
    def property_names(self) -> list[str]:
        """The properties that are named in it."""
        return list_property_names(self.part)

    def find_property(self, name: str) -> KnownSchema | None:
        """Return the schema of a property; None where there can be no such property."""
        part = find_property_schema(self.part, name)
        if part is True:
            part = self._get_other_part(self._get_only_branch("object"), name)
        return None if part is None else self._enter(part)

    def get_items(self) -> KnownSchema:
        """Return the schema of each item of a list, a union where items differ."""
        part = self._get_only_branch("array")
        parts = [*list_or_empty(part.get("prefixItems")), part.get("items", True)]
        return self._enter(True if True in parts else {"anyOf": parts})

    def get_item(self, index: int) -> KnownSchema:
        """Return the schema of the item at *index* of a list."""
        part = self._get_only_branch("array")
        first = list_or_empty(part.get("prefixItems"))
        return self._enter(first[index] if index < len(first) else part.get("items", True))

    def get_other_members(self) -> KnownSchema:
        """Return the schema of each member of an object that names no property."""
        branch = self._get_only_branch("object")
        return self._enter(True if "properties" in branch else self._get_other_part(branch))

    def is_decimal_text(self) -> bool:
        """Tell whether texts stand for a `Decimal`, which bounds see as a number."""
        branches = self._list_branches()
        texts = [branch for branch in branches if "string" in get_possible_types(branch)]
        is_no_other_text = bool(texts) and all(text == DECIMAL_TEXT_SCHEMA for text in texts)
        return is_no_other_text and any(get_possible_types(branch) == {"number"} for branch in branches)

    @staticmethod
    def _get_other_part(branch: JsonSchema, name: str = "") -> SchemaPart:
        """Return the schema of a member of an object that is not named in it; True where nothing is known."""
        other: SchemaPart = branch.get("additionalProperties", True)
        is_known = isinstance(other, dict) and "patternProperties" not in branch
        return other if is_known and name not in (branch.get("properties") or {}) else True

    def _enter(self, part: SchemaPart) -> KnownSchema:
        return KnownSchema(inline_references(part, self.root, deep=False), self.root)

    def _get_only_branch(self, kind: str) -> JsonSchema:
        """Return the one branch of a union that takes values of this type; empty where there are several."""
        branches = [branch for branch in self._list_branches() if kind in get_possible_types(branch)]
        return branches[0] if len(branches) == 1 and isinstance(branches[0], dict) else {}

    def _list_branches(self) -> list[SchemaPart]:
        branches, pending = list[SchemaPart](), [self.part]
        while pending:
            part = pending.pop()
            inner = part.get("anyOf") if isinstance(part, dict) else None
            if isinstance(inner, list):
                pending.extend(reversed(inner))
            else:
                branches.append(part)
        return branches
