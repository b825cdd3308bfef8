"""An agent's tools as a provider gets them: written piece by piece, and kept as long as they say what is so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import msgspec

from praval_tools.access.queries import find_candidate_tools, list_permitting_resolutions
from praval_tools.access.records import Principal
from praval_tools.access.state import AccessState
from praval_tools.errors import UnknownFormatError
from praval_tools.lazy_import import load
from praval_tools.schema.encode import to_json_bytes
from praval_tools.tools.tool import Tool

if TYPE_CHECKING:
    from praval_tools.formats import Format
    from praval_tools.formats.strict import StrictCost

_MAX_CACHED_EXPORTS: Final = 64
"""How many lists are kept of one agent: each combination of format, mode and tags is one."""

ExportKey: TypeAlias = "tuple[str | Format, bool, frozenset[str] | None, frozenset[str] | None, bool]"
_ToolExport: TypeAlias = "tuple[bytes, StrictCost | None]"


def to_tag_set(tags: Iterable[str] | None) -> frozenset[str] | None:
    """Return tags as they are looked for; None stays."""
    return None if tags is None else frozenset((tags,) if isinstance(tags, str) else tags)


def has_matching_tags(tool: Tool[..., Any], tags: frozenset[str] | None, without: frozenset[str] | None) -> bool:
    """Tell whether a tool has one of *tags*, where they are given, and none of those that it is to be *without*."""
    mine = tool.metadata.tags
    return (tags is None or not tags.isdisjoint(mine)) and (not without or without.isdisjoint(mine))


class CachedExport(msgspec.Struct):
    """
    One list as it was written last.

    Args:
        state: When that was.
        lasting: Only another state can alter it.
        tools: What is in it, each with the bounds that were merged into its schema.
        text: The list as JSON.
    """

    state: AccessState
    lasting: bool
    tools: list[tuple[Tool[..., Any], tuple[Any, ...]]]
    text: bytes


class ToolExportCache:
    """Tools as JSON, each written once for a format and mode; shared by all agents of a registry."""

    def __init__(self) -> None:
        self._exports: WeakKeyDictionary[Tool[..., Any], dict[Any, _ToolExport]] = WeakKeyDictionary()

    def get_export(
        self, form: Format, tool: Tool[..., Any], bounds: tuple[Any, ...], *, strictly: bool, reason: bool
    ) -> _ToolExport:
        """Return a tool as JSON, and what it costs of the strict tools of a request."""
        if bounds:
            return _export_tool(form, tool, bounds, strictly=strictly, reason=reason)
        kept = self._exports.get(tool)
        if kept is None:
            kept = self._exports[tool] = {}
        key = (form, strictly, reason)
        piece = kept.get(key)
        if piece is None:
            piece = kept[key] = _export_tool(form, tool, (), strictly=strictly, reason=reason)
        return piece


def _export_tool(
    form: Format, tool: Tool[..., Any], bounds: tuple[Any, ...], *, strictly: bool, reason: bool
) -> _ToolExport:
    compiled = tool.implementation.compiled
    parameters = compiled.parameters_schema
    for one in bounds:
        parameters = one.merge_into_schema(parameters)
    formats: Any = load("praval_tools.formats")
    offer = formats.Offer(
        name=tool.name, description=tool.description, parameters=parameters, metadata=tool.metadata,
        result=compiled.result_schema,
    )  # fmt: skip
    made, cost = formats.offered(form, offer, strictly=strictly, reason=reason)
    try:
        return to_json_bytes(made), cost
    except UnicodeEncodeError:  # half of a surrogate pair somewhere in a schema
        return to_json_bytes(formats.response_fields.replace_surrogates_in_json(made)), cost


class AgentExporter:
    """
    The tools of one agent as providers get them, kept.

    A change of the registry that leaves the agent's tools as they are leaves the texts as they are.

    Args:
        pieces: Those of the registry.
        who: The agent.
        ledger: Tells what is so.
        now: Tells the time.
        more: Gives the formats that plugins bring.
    """

    def __init__(
        self, pieces: ToolExportCache, who: Principal, ledger: Any, now: Callable[[], datetime],
        more: Callable[[], Mapping[str, Format]],
    ) -> None:  # fmt: skip
        self._tool_exports, self._principal, self._access_store, self._now, self._get_plugin_formats = (
            pieces,
            who,
            ledger,
            now,
            more,
        )
        self._cache: dict[ExportKey, CachedExport] = {}

    def export_json(
        self, api_format: str | Format, strict: bool, tags: Iterable[str] | None, without: Iterable[str] | None,
        reason: bool,
    ) -> bytes:  # fmt: skip
        """Return the tools as JSON, sorted by name; the same bytes until one of them changes."""
        formats: Any = load("praval_tools.formats")
        if (more := self._get_plugin_formats()) and isinstance(api_format, str):
            api_format = formats.format_of(api_format, {**formats.FORMATS, **more})
        key = (
            api_format, strict, to_tag_set(tags), to_tag_set(without), reason,
        )  # fmt: skip
        try:
            shown = self._cache.get(key)
        except TypeError:
            raise UnknownFormatError(str(api_format), formats.FORMATS) from None
        state = self._access_store.get_current_state()
        if shown is not None and shown.state is state and shown.lasting:
            return shown.text
        return self._refresh_export(key, shown, state)

    def _refresh_export(self, key: ExportKey, known: CachedExport | None, state: AccessState) -> bytes:
        form: Format = load("praval_tools.formats").format_of(key[0])
        tools, lasting = _find_exportable_tools(state, self._principal, self._now(), key[2], key[3])
        if known is not None and _has_same_tools(known.tools, tools):
            self._cache[key] = CachedExport(state, lasting, known.tools, known.text)
            return known.text
        text = self._join_exports(form, tools, strictly=key[1], reason=key[4])
        if len(self._cache) >= _MAX_CACHED_EXPORTS:
            self._cache.clear()
        self._cache[key] = CachedExport(state, lasting, tools, text)
        return text

    def _join_exports(self, form: Format, tools: list[Any], *, strictly: bool, reason: bool) -> bytes:
        made, left = [], form.budget
        for tool, bounds in tools:
            piece, cost = self._tool_exports.get_export(form, tool, bounds, strictly=strictly, reason=reason)
            if cost is not None and left is not None:
                after = type(cost)(left.tools - cost.tools, left.optional - cost.optional, left.unions - cost.unions)
                if min(after.tools, after.optional, after.unions) < 0:
                    piece, _ = self._tool_exports.get_export(form, tool, bounds, strictly=False, reason=reason)
                else:
                    left = after
            made.append(piece)
        return b"[" + b",".join(made) + b"]"


def _has_same_tools(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(
        tool is known and len(bounds) == len(held) and all(map(_is_identical, bounds, held))
        for (tool, bounds), (known, held) in zip(one, other, strict=True)
    )


def _is_identical(one: Any, other: Any) -> bool:
    return one is other


def _find_exportable_tools(
    state: AccessState, who: Principal, now: datetime, tags: frozenset[str] | None, without: frozenset[str] | None
) -> tuple[list[tuple[Tool[..., Any], tuple[Any, ...]]], bool]:
    """Return the tools by name, with the bounds on all their calls, and whether only another state alters them."""
    found = []
    lasting = not any(_has_unresolved_hints(state.tools[name].tool) for name in find_candidate_tools(state, who))
    for verdict in list_permitting_resolutions(state, who, now):
        tool = verdict.record.tool  # type: ignore[union-attr]
        if not has_matching_tags(tool, tags, without):
            continue
        lasting = lasting and all(path.is_unconditional for path in verdict.paths)
        if tool.implementation.is_compilable:
            found.append((tool, tuple(verdict.paths[0].bounds) if len(verdict.paths) == 1 else ()))
    return sorted(found, key=lambda one: one[0].name), lasting


def _has_unresolved_hints(tool: Tool[..., Any]) -> bool:
    """Tell whether a hint of the tool leads nowhere yet; one day it may, and no state tells that day."""
    return tool.implementation.signature.unresolved and not tool.implementation.is_compilable
