"""
Keeps which members of unions a value was written by, where its JSON does not say so.

Under `Approved | Rejected`, two classes with the same fields, JSON alone would always be read back as the first of
them; under `date | str`, a text that looks like a date as one. So results are kept with the names of these members.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

import msgspec

from praval_tools.schema.coercion import resolve_references
from praval_tools.schema.schema_tree import JsonSchema, SchemaPart, iter_schemas
from praval_tools.schema.type_handler import Mismatch

T = TypeVar("T")

NOT_READ_BACK: Final = ("",)
"""Kept instead of names where JSON would be read back as another value: no union has this member, so it stays JSON."""

_ALL_TYPES: Final = frozenset({"string", "number", "boolean", "null", "array", "object"})
_PLAIN_NUMBERS: Final = ({"type": "integer"}, {"type": "number"})


class WrittenByMember(msgspec.Struct, frozen=True, eq=False):
    """The JSON of a value under a union, with the name of the member that wrote it."""

    member: str
    json: object


class _ReadMembers(threading.local):
    names: Iterator[str] | None = None


_read_members: Final = _ReadMembers()


def list_union_members(marked: object, *, of_objects: bool = False) -> list[str]:
    """Return the names of the members in JSON that was written with them, in its order; maybe those of objects only."""
    return list(_iter_union_members(marked, of_objects))


def _iter_union_members(marked: object, of_objects: bool) -> Iterator[str]:
    if isinstance(marked, WrittenByMember):
        if not of_objects or isinstance(marked.json, dict):
            yield marked.member
        yield from _iter_union_members(marked.json, of_objects)
    elif isinstance(marked, dict | list):
        for part in marked.values() if isinstance(marked, dict) else marked:
            yield from _iter_union_members(part, of_objects)


def remove_union_members(marked: object) -> object:
    """Return JSON that was written with the names of members without them."""
    if isinstance(marked, WrittenByMember):
        return remove_union_members(marked.json)
    if isinstance(marked, list):
        return list(map(remove_union_members, marked))
    return {key: remove_union_members(part) for key, part in marked.items()} if isinstance(marked, dict) else marked


def decode_with_members(decode: Callable[[object], T], json: object, names: Iterable[str]) -> T:
    """
    Return what *decode* makes of *json*, each union in it read by the next member of *names*.

    Raises:
        Mismatch: There are more unions than names, or fewer, or one has no such member.
    """
    outer, _read_members.names = _read_members.names, iter(names)
    try:
        value = decode(json)
        if next(_read_members.names, None) is not None:
            raise Mismatch("was written by other types")
    finally:
        _read_members.names = outer
    return value


def take_union_member() -> str | None:
    """Return the name of the member that reads the next union, empty after the last; None where none was kept."""
    return None if _read_members.names is None else next(_read_members.names, "")


# ── whether the JSON says it ─────────────────────────────────────────────────────────────────────


def has_ambiguous_union(schema: JsonSchema | None, root: JsonSchema | None) -> bool:
    """Tell whether *schema*, a part of *root*, has a union with two members that write the same JSON type."""
    unions = (part["anyOf"] for part in iter_schemas(schema) if "anyOf" in part)
    return root is not None and any(_is_ambiguous(branches, root) for branches in unions)


def _is_ambiguous(branches: list[SchemaPart], root: JsonSchema) -> bool:
    if all(number in branches for number in _PLAIN_NUMBERS):  # a number is read back as the one that it was
        branches = [branch for branch in branches if branch != _PLAIN_NUMBERS[0]]
    kinds = [kind for branch in branches for kind in _list_json_types(branch, root, ())]
    return len(set(kinds)) < len(kinds)


def _list_json_types(schema: SchemaPart, root: JsonSchema, outer: tuple[int, ...]) -> frozenset[str]:
    """Return the JSON types that *schema* allows: all where it does not say."""
    part = resolve_references(root, schema)
    if part is None or id(part) in outer:
        return _ALL_TYPES
    if isinstance(kind := part.get("type"), str):
        return frozenset({"number" if kind == "integer" else kind})
    if "anyOf" in part:
        return frozenset().union(*(_list_json_types(branch, root, (*outer, id(part))) for branch in part["anyOf"]))
    return _ALL_TYPES
