"""Decides what a tool keeps of what was changed at run time of the one whose place it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from praval_tools.access.events import StoredChange
from praval_tools.access.records import ToolRecord
from praval_tools.access.state import get_declarer, get_tool_origin
from praval_tools.persistent_map import PersistentMap as Map
from praval_tools.tools.tool import AnyTool

_INHERITED_FIELDS: Final = frozenset(("owned_by", "shared", "private"))

_FIELDS_BY_KIND: Final[Mapping[str, str]] = {"owner": "owned_by", "shared": "shared"}
"""What the journal's changes of each kind change."""


def make_successor(old: ToolRecord, tool: AnyTool, *, redeclares: bool, is_other_version: bool) -> ToolRecord:
    """
    Return the record of *tool* in the place of *old*, without what the operator configured of it.

    Args:
        old: The record of the tool that was there.
        tool: The new one, as it is declared.
        redeclares: Its owner and flags count, save what was changed at run time.
        is_other_version: What was given of *old* is not for it: sharing ends, and a transfer if the origins differ.
    """
    before, replaced = old.tool.metadata, old.tool.implementation
    if get_declarer(tool) != get_declarer(old.tool):  # nothing of the one counts for the other
        return replace(
            old, tool=tool, past_owners=(), previous_implementation=None, declared_metadata=tool.metadata,
            changed_fields=frozenset(),
        )  # fmt: skip
    ended = set[str]()
    if is_other_version and before.shared:
        ended.add("shared")
    if is_other_version and get_tool_origin(tool) != get_tool_origin(old.tool):
        ended.add("owned_by")
    kept = (old.changed_fields if redeclares else _INHERITED_FIELDS) - ended
    return replace(
        old,
        tool=tool.with_metadata(**{name: getattr(before, name) for name in kept}),
        previous_implementation=None if replaced is tool.implementation else replaced,
        declared_metadata=tool.metadata,
        changed_fields=old.changed_fields - ended,
    )


def make_first_record(tool: AnyTool, seq: int, withdrawn: ToolRecord | None) -> ToolRecord:
    """Return the record of a tool whose name is free; if *withdrawn* had it before, what was shared of that ends."""
    if withdrawn is None:
        return ToolRecord(tool, seq, declared_metadata=tool.metadata)
    record = make_successor(withdrawn, tool, redeclares=True, is_other_version=True)
    return replace(record, seq=seq, overrides=(), previous_implementation=None)


def with_change(record: ToolRecord, field: str) -> ToolRecord:
    """Return *record*, with *field* changed at run time: what declares the tool again does not set it any more."""
    return replace(record, changed_fields=record.changed_fields | {field})


def without_own_record(withdrawn: Map[str, ToolRecord], tool: AnyTool) -> Map[str, ToolRecord]:
    """Return *withdrawn* without the record of *tool*; that of a tool which other code declared stays."""
    record = withdrawn.get(tool.name)
    is_own = record is not None and get_declarer(record.tool) == get_declarer(tool)
    return withdrawn.discard(tool.name) if is_own else withdrawn


def without_ended_change(tools: Map[str, ToolRecord], ended: StoredChange) -> Map[str, ToolRecord]:
    """Return *tools*; what *ended*, which the journal does not hold any more, changed counts as unchanged."""
    record, field = tools.get(ended.tool), _FIELDS_BY_KIND.get(ended.kind)
    if record is None or field is None or get_tool_origin(record.tool) != ended.source:
        return tools
    return tools.set(ended.tool, replace(record, changed_fields=record.changed_fields - {field}))
