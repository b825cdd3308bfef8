"""Leaves out the defaults and examples of secrets in JSON Schemas, and keys inside of secrets in paths of errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from enum import IntEnum
from typing import Final

from praval_tools.schema.schema_tree import (
    JsonSchema,
    SchemaPart,
    SchemaPath,
    get_item_name,
    iter_located_schemas,
    iter_schemas,
    map_subschemas,
)
from praval_tools.schema.secret_marks import has_secret_schema, marks_secret
from praval_tools.schema.secret_names import DEFAULT_SECRET_NAMES, SecretNames, is_amount, tells_secret
from praval_tools.schema.type_handler import Mismatch, Unencodable

_VALUE_KEYWORDS: Final = ("default", "examples", "example")
_DEFINITIONS: Final = ("$defs", "definitions")
_ITEM_LISTS: Final = ("prefixItems", "items")
_secret_names: Final = SecretNames(DEFAULT_SECRET_NAMES)


class _Secrecy(IntEnum):
    NONE = 0
    NAMED = 1
    MARKED = 2


def hide_values_of_secrets(schema: JsonSchema) -> JsonSchema:
    """
    Return *schema* without defaults and examples of what is marked as secret or named like it, inside and around it.

    Of what is named like a secret, amounts, true, false and empty values stay: they tell nothing.

    Args:
        schema: A whole schema, whose references lead to its own definitions.
    """
    parts = list(iter_schemas(schema))
    has_values = any(keyword in part for part in parts for keyword in _VALUE_KEYWORDS)
    hidden = _ValueHider(schema, parts).hide(schema) if has_values else schema
    assert isinstance(hidden, dict)
    return hidden


def list_places_of_values(schema: JsonSchema) -> set[SchemaPath]:
    """Return where *schema* has defaults and examples other than null."""
    return {
        (*path, keyword)
        for path, part in iter_located_schemas(schema)
        for keyword in _VALUE_KEYWORDS
        if part.get(keyword) is not None
    }


def blank_values(schema: SchemaPart) -> SchemaPart:
    """Return *schema* with null in place of each default and example: it says that there is one, not what it is."""
    if isinstance(schema, bool):
        return schema
    copied = map_subschemas(schema, blank_values)
    return {keyword: None if keyword in _VALUE_KEYWORDS else value for keyword, value in copied.items()}


def holds_named_secret(name: str, value: object, siblings: Mapping[str, object]) -> bool:
    """Tell whether a JSON value is a secret by its *name*, by that which a sibling gives it, or by anything in it."""
    return is_named_secret(_secret_names.get_naming_key(name, siblings), value) or _secret_names.holds_secret(value)


def is_named_secret(name: str, value: object) -> bool:
    """Tell whether a value, JSON or not, is a secret by its *name*: neither empty, true or false, nor an amount."""
    return _secret_names.is_secret_member(name, value)


class _ValueHider:
    def __init__(self, schema: JsonSchema, parts: Iterable[JsonSchema]) -> None:
        self._definitions: dict[str, JsonSchema] = {
            f"#/{keyword}/{name}": part
            for keyword in _DEFINITIONS
            for name, part in _list_members(schema, keyword)
            if isinstance(part, dict)
        }
        self._marking = self._find_marking_definitions()
        self._secrecy_of_definitions = dict.fromkeys(self._definitions, _Secrecy.NONE)
        for part in parts:
            if marks_secret(part):
                self._raise_secrecy([part], _Secrecy.MARKED)
            properties = [(name, inner) for _, name, inner in _list_properties(part)]
            named = [inner for name, inner in (*properties, *_list_named_items(part)) if _secret_names(name)]
            self._raise_secrecy(named, _Secrecy.NAMED)

    def _find_marking_definitions(self) -> Set[str]:
        """Return the references to definitions with a secret that no key of a value names, or that refer to one."""
        marking = {reference for reference, part in self._definitions.items() if _has_hidden_place(part)}
        references = {reference: set(_iter_references(part)) for reference, part in self._definitions.items()}
        while more := {name for name, used in references.items() if name not in marking and used & marking}:
            marking |= more
        return marking

    def _raise_secrecy(self, parts: list[SchemaPart], secrecy: _Secrecy) -> None:
        """Remember that what *parts* refer to is inside of a secret."""
        while parts:
            for reference in _iter_references(parts.pop()):
                if self._secrecy_of_definitions.get(reference, secrecy) < secrecy:
                    self._secrecy_of_definitions[reference] = secrecy
                    parts.append(self._definitions[reference])

    def hide(self, part: SchemaPart, secrecy: _Secrecy = _Secrecy.NONE, name: str = "") -> SchemaPart:
        """Return a copy of *part*, which has *name* and is as secret as *secrecy* says, or as its own mark does."""
        if not isinstance(part, dict):
            return part
        secrecy = _Secrecy.MARKED if marks_secret(part) else secrecy
        is_around = any(keyword in part for keyword in _VALUE_KEYWORDS) and self._contains_marks(part)
        rest = {
            keyword: value
            for keyword, value in part.items()
            if keyword not in _VALUE_KEYWORDS or not _is_hidden(keyword, value, secrecy, name, is_around=is_around)
        }  # fmt: skip
        lists = {keyword: rest[keyword] for keyword in _ITEM_LISTS if isinstance(rest.get(keyword), list)}
        changed = map_subschemas(
            {keyword: value for keyword, value in rest.items() if keyword not in ("properties", *_DEFINITIONS, *lists)},
            lambda inner: self.hide(inner, secrecy, name),
        )
        if isinstance(rest.get("properties"), dict):
            changed["properties"] = {
                key: self._hide_member(inner, secrecy, own_name) for key, own_name, inner in _list_properties(rest)
            }
        for keyword, items in lists.items():
            changed[keyword] = [self._hide_member(item, secrecy, get_item_name(item) or name) for item in items]
        for keyword in _DEFINITIONS:
            if isinstance(rest.get(keyword), dict):
                changed[keyword] = {
                    key: self.hide(inner, self._secrecy_of_definitions.get(f"#/{keyword}/{key}", secrecy))
                    for key, inner in _list_members(rest, keyword)
                }
        return {keyword: changed.get(keyword, value) for keyword, value in rest.items()}

    def _hide_member(self, member: SchemaPart, secrecy: _Secrecy, name: str) -> SchemaPart:
        return self.hide(member, max(secrecy, _Secrecy(_secret_names(name))), name)

    def _contains_marks(self, part: JsonSchema) -> bool:
        return _has_hidden_place(part) or not self._marking.isdisjoint(_iter_references(part))


def _list_members(part: JsonSchema, keyword: str) -> list[tuple[str, SchemaPart]]:
    members = part.get(keyword)
    return list(members.items()) if isinstance(members, dict) else []


def _list_properties(part: JsonSchema) -> list[tuple[str, str, SchemaPart]]:
    """Return the members of an object by their keys, with what names them: a `value` may be that of a `Cookie`."""
    members = _list_members(part, "properties")
    return [(key, _find_pair_name(members) if key == "value" else key, inner) for key, inner in members]


def _find_pair_name(members: list[tuple[str, SchemaPart]]) -> str:
    """Return the name of a secret that the schemas beside `value` show; `value` itself where they show none."""
    pairs = ({key: text} for key, inner in members if isinstance(inner, dict) for text in _list_values(inner))
    names = (_secret_names.get_naming_key("value", pair) for pair in pairs)
    return next((name for name in names if name != "value"), "value")


def _list_values(part: JsonSchema) -> list[object]:
    """Return the values that a schema shows: its default, its examples, and the only value that it allows."""
    examples, allowed = part.get("examples"), part.get("enum")
    values = [part.get("const"), part.get("default"), part.get("example")]
    values += examples if isinstance(examples, list) else []
    return values + (allowed if isinstance(allowed, list) and len(allowed) == 1 else [])


def _list_named_items(part: JsonSchema) -> list[tuple[str, SchemaPart]]:
    """Return the schemas of the single places of an array, with the names of these."""
    lists = [part[keyword] for keyword in _ITEM_LISTS if isinstance(part.get(keyword), list)]
    return [(get_item_name(item), item) for items in lists for item in items]


def _has_hidden_place(schema: JsonSchema) -> bool:
    """Tell whether *schema* marks anything as secret, or names a place of an array so: no key of a value says it."""
    places = (place for part in iter_schemas(schema) for place in _list_named_items(part))
    is_named = any(_secret_names(name) and _takes_secret(name, item) for name, item in places)
    return is_named or has_secret_schema(schema)


def _takes_secret(name: str, item: SchemaPart) -> bool:
    """Tell whether a value of *item*, which is named like a secret, may be one."""
    kind = item.get("type") if isinstance(item, dict) else None
    return not (kind == "boolean" or (kind in ("integer", "number") and is_amount(name)))


def _iter_references(part: object) -> Iterator[str]:
    return (inner["$ref"] for inner in iter_schemas(part) if isinstance(inner.get("$ref"), str))


def _is_hidden(keyword: str, value: object, secrecy: _Secrecy, name: str, *, is_around: bool) -> bool:
    """Tell whether a default or examples are left out."""
    values = value if keyword == "examples" and isinstance(value, list) else [value]
    if secrecy is _Secrecy.MARKED:
        return any(item is not None for item in values)
    if (is_around and any(values)) or any(map(_secret_names.holds_secret, values)):
        return True
    return secrecy is _Secrecy.NAMED and any(tells_secret(name, item) for item in values)


def prepend_written_step(error: Unencodable, step: str) -> Mismatch:
    """Return *error* with a path that starts at *step*; keys inside of what that names as a secret are not in it."""
    if _secret_names(step):
        error.steps.clear()
    return error.prepend_step(step)
