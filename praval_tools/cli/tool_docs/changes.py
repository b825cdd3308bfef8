"""The index of a build, kept beside its pages: what the next build compares the tools with, to say what changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec

from praval_tools.cli.common import CommandError
from praval_tools.cli.tool_docs.reference import ToolDescription, ToolReference
from praval_tools.schema.json_values import to_canonical_json

INDEX_FILE: Final = "tool-docs.json"
INDEX_VERSION: Final = 1
_MAX_NAMED_CALLERS: Final = 200
"""Of a tool that more agents may call, the index has a digest of who they are, and not their names."""

DocFormat = Literal["md", "html"]


class IndexedParameter(msgspec.Struct, frozen=True):
    """What the index keeps of a parameter: type, presence and constraints in words, a digest of its description."""

    summary: str
    description: str


class IndexedTool(msgspec.Struct, frozen=True):
    """What the index keeps of a tool: short values as they are, longer ones as digests."""

    owner: str | None
    category: str
    description: str
    facts: dict[str, str]
    parameters: dict[str, IndexedParameter]
    schemas: str
    callers: dict[str, str]
    disabled: str = ""


class ToolChange(msgspec.Struct, frozen=True):
    """What a build found of one tool."""

    tool: str
    kind: Literal["added", "changed", "removed"]
    details: tuple[str, ...] = ()


class BuildIndex(msgspec.Struct, frozen=True):
    """
    The index of a build.

    Args:
        version: Of the layout of the index.
        format: Of the pages.
        files: The files that the build wrote, without the index.
        tools: The tools at that build.
        changes: What the last build that found a difference changed; None: none did yet.
    """

    version: int
    format: DocFormat
    files: tuple[str, ...]
    tools: dict[str, IndexedTool]
    changes: tuple[ToolChange, ...] | None = None

    def to_text(self) -> str:
        """Return the index as JSON, sorted, so that it can be committed."""
        return json.dumps(msgspec.to_builtins(self), indent=1, sort_keys=True) + "\n"


def parse_index(text: str, place: str) -> BuildIndex:
    """
    Return the index that a build wrote.

    Raises:
        CommandError: It is none.
    """
    try:
        index = msgspec.convert(json.loads(text), BuildIndex)
    except (ValueError, RecursionError) as error:
        raise CommandError(
            f"{place} is not an index of docs build ({error}). Restore it, or delete it to begin anew."
        ) from error
    if index.version != INDEX_VERSION:
        raise CommandError(f"{place} is of version {index.version}; this praval-tools knows version {INDEX_VERSION}.")
    return index


def index_tools(reference: ToolReference) -> dict[str, IndexedTool]:
    """Return what the index keeps of each tool."""
    return {tool.name: _index_tool(tool) for tool in reference.tools}


def _index_tool(tool: ToolDescription) -> IndexedTool:
    callers = tool.callers
    if len(callers) > _MAX_NAMED_CALLERS:
        callers = {"": f"{len(callers):,} agents {_digest(callers)}"}
    return IndexedTool(
        owner=tool.owner,
        category=tool.category,
        description=_digest(tool.description),
        facts=tool.facts,
        parameters={row.name: IndexedParameter(row.summary, _digest(row.description)) for row in tool.parameters},
        schemas=_digest([tool.parameters_schema, tool.result_schema]),
        callers=callers,
        disabled=tool.disabled,
    )


def _digest(value: object) -> str:
    return hashlib.sha256(to_canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def find_changes(
    last: BuildIndex | None, tools: dict[str, IndexedTool]
) -> tuple[ToolChange, ...] | None:  # fmt: skip
    """
    Return what changed since the last build that found a difference, for the build of *tools*.

    A build that finds none keeps what the one before it found, so that it writes the same bytes again.
    """
    if last is None:
        return None
    return tuple(compare_tools(last.tools, tools)) or last.changes


def compare_tools(before: dict[str, IndexedTool], after: dict[str, IndexedTool]) -> Iterator[ToolChange]:
    """Yield what is different, sorted by the names of the tools."""
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is None:
            yield ToolChange(name, "added")
        elif new is None:
            yield ToolChange(name, "removed", () if old.owner is None else (f"it was owned by {old.owner}",))
        elif old != new:
            yield ToolChange(name, "changed", tuple(_iter_details(old, new)))


def _iter_details(old: IndexedTool, new: IndexedTool) -> Iterator[str]:
    if old.owner != new.owner:
        yield f"owner: {old.owner or 'nobody'} → {new.owner or 'nobody'}"
    if old.category != new.category:
        yield f"category: {old.category} → {new.category}"
    if old.description != new.description:
        yield "another description"
    yield from _iter_parameter_details(old.parameters, new.parameters)
    if old.schemas != new.schemas and old.parameters == new.parameters:
        yield "another JSON Schema"
    for name in sorted(old.facts.keys() | new.facts.keys()):
        before, after = old.facts.get(name, "not given"), new.facts.get(name, "not given")
        if before != after:
            yield f"{name}: {before} → {after}"
    if old.disabled != new.disabled:
        yield new.disabled or "enabled"
    yield from _iter_caller_details(old.callers, new.callers)


def _iter_parameter_details(
    old: dict[str, IndexedParameter], new: dict[str, IndexedParameter]
) -> Iterator[str]:  # fmt: skip
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if before is None and after is not None:
            yield f"new parameter {name}: {after.summary}"
        elif before is not None and after is None:
            yield f"no parameter {name} any more"
        elif before is not None and after is not None and before.summary != after.summary:
            yield f"parameter {name}: {before.summary} → {after.summary}"
        elif before != after:
            yield f"parameter {name}: another description"


def _iter_caller_details(old: dict[str, str], new: dict[str, str]) -> Iterator[str]:
    if old != new and ("" in old or "" in new):
        yield f"who may call it: {_count_callers(old)} → {_count_callers(new)}"
        return
    for agent in sorted(old.keys() | new.keys()):
        before, after = old.get(agent), new.get(agent)
        if before is None:
            yield f"{agent} may call it: {after}"
        elif after is None:
            yield f"{agent} may not call it any more"
        elif before != after:
            yield f"{agent} may call it: {before} → {after}"


def _count_callers(callers: dict[str, str]) -> str:
    return callers[""] if "" in callers else f"{len(callers):,} agents"


def describe_changes(changes: Sequence[ToolChange]) -> Iterator[str]:
    """Yield a line for each change."""
    for change in changes:
        yield f"{change.tool}: {'; '.join((change.kind, *change.details))}"
