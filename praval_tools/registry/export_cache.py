"""Exports an agent's tools as JSON in a provider's format, cached until one of the tools changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict
from weakref import WeakKeyDictionary

import msgspec

from praval_tools.access.queries import find_candidate_tools, list_permitting_resolutions
from praval_tools.access.records import Principal
from praval_tools.access.rules import AccessResolution, resolve_access
from praval_tools.access.state import AccessState
from praval_tools.execution.runtime import Runtime
from praval_tools.lazy_import import load
from praval_tools.names import has_type, to_plain_text
from praval_tools.schema.encode import to_json_bytes
from praval_tools.schema.json_values import replace_surrogates_in_json
from praval_tools.tools.tool import AnyTool
from praval_tools.values.builtin_iteration import iterate_without_overrides

if TYPE_CHECKING:
    from praval_tools.access.bounds.bounds import Bounds
    from praval_tools.formats import Format
    from praval_tools.formats.format import WireObject
    from praval_tools.formats.strict import StrictCost

_MAX_CACHED_EXPORTS: Final = 64
"""Most lists of one agent: one per combination of format, mode and tags."""

_ToolWithBounds: TypeAlias = "tuple[AnyTool, tuple[Bounds, ...]]"
_ToolExport: TypeAlias = "tuple[bytes, StrictCost | None]"


def to_tag_set(tags: Iterable[str] | None) -> frozenset[str] | None:
    """Return tags as `has_matching_tags` takes them; None stays."""
    if tags is None:
        return None
    return frozenset(map(to_plain_text, (tags,) if has_type(tags, str) else iterate_without_overrides(tags)))


def has_matching_tags(tool: AnyTool, tags: frozenset[str] | None, excluded: frozenset[str] | None) -> bool:
    """Tell whether a tool has one of *tags*, unless they are None, and none of the *excluded* ones."""
    own = tool.metadata.all_tags
    return (tags is None or not tags.isdisjoint(own)) and (not excluded or excluded.isdisjoint(own))


class ExportOptions(TypedDict, total=False):
    """The options of `schemas` and `schemas_json`; `Toolset.schemas` says what they mean."""

    strict: bool
    tags: Iterable[str] | None
    exclude_tags: Iterable[str] | None
    think_augment: bool


class _ExportKey(msgspec.Struct, frozen=True):
    api_format: str | int  # a name, or the id of a format: its class may compare itself by code of its own
    strict: bool
    tags: frozenset[str] | None
    excluded_tags: frozenset[str] | None
    reason: bool


class _CachedExport(msgspec.Struct):
    """
    A list as it was exported last.

    Args:
        state: The state at that time.
        is_lasting: Whether only another state can alter the list.
        tools: The tools in it, each with the bounds that were merged into its schema.
        text: The list as JSON.
        form: The format, which keeps its id.
    """

    state: AccessState
    is_lasting: bool
    tools: list[_ToolWithBounds]
    text: bytes
    form: Format


_ToolExportKey = tuple[int, bool, bool]
"""The id of a format, which is kept beside the export, and its mode."""


class ToolExportCache:
    """Tools as JSON, each exported once per format and mode; shared by all agents of a registry."""

    def __init__(self) -> None:
        self._exports: WeakKeyDictionary[AnyTool, dict[_ToolExportKey, tuple[_ToolExport, Format]]] = (
            WeakKeyDictionary()
        )

    def get_export(
        self, form: Format, tool: AnyTool, bounds: tuple[Bounds, ...], *, strict: bool, reason: bool
    ) -> _ToolExport:
        """Return a tool as JSON, and what it takes of the strict tools that a request may have."""
        if bounds:
            return _export_tool(form, tool, bounds, strict=strict, reason=reason)
        exports = self._exports.get(tool)
        if exports is None:
            exports = self._exports[tool] = {}
        key = (id(form), strict, reason)
        export = exports.get(key)
        if export is None:
            export = exports[key] = _export_tool(form, tool, (), strict=strict, reason=reason), form
        return export[0]


def _export_tool(form: Format, tool: AnyTool, bounds: tuple[Bounds, ...], *, strict: bool, reason: bool) -> _ToolExport:
    compiled = tool.implementation.compiled
    parameters = compiled.parameters_schema
    for bound in bounds:
        parameters = bound.merge_into_schema(parameters)
    formats = load("praval_tools.formats")
    offer = formats.Offer(
        name=tool.name,
        description=tool.description,
        parameters=parameters,
        metadata=tool.metadata,
        result=compiled.result_schema,
    )
    schema, cost = formats.offered(form, offer, strictly=strict, reason=reason)
    try:
        return to_json_bytes(schema), cost
    except UnicodeEncodeError:  # half of a surrogate pair somewhere in a schema
        return to_json_bytes(replace_surrogates_in_json(schema)), cost


class AgentExporter:
    """
    The tools of one agent as providers get them.

    A change of the registry that leaves the agent's tools as they are leaves the texts as they are.

    Args:
        tool_exports: Those of the registry.
        runtime: The registry's.
        principal: The agent.
    """

    def __init__(self, tool_exports: ToolExportCache, runtime: Runtime, principal: Principal) -> None:
        self._tool_exports, self._runtime, self._principal = tool_exports, runtime, principal
        self._cache: dict[_ExportKey, _CachedExport] = {}

    def export_json(
        self,
        api_format: str | Format,
        strict: bool,
        tags: Iterable[str] | None,
        excluded_tags: Iterable[str] | None,
        reason: bool,
    ) -> bytes:
        """Return the tools as JSON, sorted by name; the same bytes until one of them changes."""
        form = to_plain_text(api_format) if has_type(api_format, str) else api_format
        if (plugin_formats := self._runtime.hooks.formats) and isinstance(form, str):
            formats = load("praval_tools.formats")
            form = formats.format_of(form, {**formats.FORMATS, **plugin_formats})
        name = form if isinstance(form, str) else id(form)
        key = _ExportKey(name, bool(strict), to_tag_set(tags), to_tag_set(excluded_tags), bool(reason))
        cached = self._cache.get(key)
        state = self._runtime.access_store.get_fresh_state()
        if cached is not None and cached.state is state and cached.is_lasting:
            return cached.text
        return self._refresh_export(key, load("praval_tools.formats").format_of(form), cached, state)

    def export_selection(self, form: Format, names: Iterable[str], *, strict: bool, reason: bool) -> dict[str, bytes]:
        """Return, as JSON and in that order, those of the tools *names* that the agent may call now."""
        state, now = self._runtime.access_store.get_fresh_state(), self._runtime.clock.now()
        resolutions = (resolve_access(state, self._principal, name, now) for name in names)
        tools = [tool for tool in map(_find_exportable_tool, resolutions) if tool is not None]
        exports = self._export_tools(form, tools, strict=strict, reason=reason)
        return {tool.name: export for (tool, _), export in zip(tools, exports, strict=True)}

    def _refresh_export(
        self, key: _ExportKey, form: Format, cached: _CachedExport | None, state: AccessState
    ) -> bytes:
        tools, is_lasting = self._find_exportable_tools(key, state)
        if cached is not None and _has_same_tools(cached.tools, tools):
            tools, text = cached.tools, cached.text
        else:
            text = b"[" + b",".join(self._export_tools(form, tools, strict=key.strict, reason=key.reason)) + b"]"
            if len(self._cache) >= _MAX_CACHED_EXPORTS:
                self._cache.clear()
        self._cache[key] = _CachedExport(state, is_lasting, tools, text, form)
        return text

    def _find_exportable_tools(self, key: _ExportKey, state: AccessState) -> tuple[list[_ToolWithBounds], bool]:
        """Return the tools by name, with the bounds on all their calls, and whether only another state alters them."""
        candidates = (state.tools[name].tool for name in find_candidate_tools(state, self._principal))
        is_lasting = not any(_has_unresolved_hints(tool) for tool in candidates)
        exportable: list[_ToolWithBounds] = []
        for resolution in list_permitting_resolutions(state, self._principal, self._runtime.clock.now()):
            tool, paths = resolution.record.tool, resolution.paths  # type: ignore[union-attr]
            if not has_matching_tags(tool, key.tags, key.excluded_tags):
                continue
            is_lasting = is_lasting and all(path.is_unconditional for path in paths)
            if (tool_with_bounds := _find_exportable_tool(resolution)) is not None:
                exportable.append(tool_with_bounds)
        return sorted(exportable, key=lambda item: item[0].name), is_lasting

    def _export_tools(
        self, form: Format, tools: Iterable[_ToolWithBounds], *, strict: bool, reason: bool
    ) -> list[bytes]:
        exports, budget = [], form.budget
        for tool, bounds in tools:
            export, cost = self._tool_exports.get_export(form, tool, bounds, strict=strict, reason=reason)
            if cost is not None and budget is not None:
                rest = type(cost)(
                    budget.tools - cost.tools, budget.optional - cost.optional, budget.unions - cost.unions
                )
                if min(rest.tools, rest.optional, rest.unions) < 0:
                    export, _ = self._tool_exports.get_export(form, tool, bounds, strict=False, reason=reason)
                else:
                    budget = rest
            exports.append(export)
        return exports


def _find_exportable_tool(resolution: AccessResolution) -> _ToolWithBounds | None:
    """Return the tool that a resolution permits to call, with the bounds on all its calls; None: nothing to export."""
    record, paths = resolution.record, resolution.paths
    if resolution.refusal is not None or record is None or not record.tool.implementation.is_compilable:
        return None
    return record.tool, tuple(paths[0].bounds) if len(paths) == 1 else ()


def _has_same_tools(first: list[_ToolWithBounds], second: list[_ToolWithBounds]) -> bool:
    """Tell whether two lists hold the very same tools and bounds."""
    return [_get_identities(*item) for item in first] == [_get_identities(*item) for item in second]


def _get_identities(tool: AnyTool, bounds: tuple[Any, ...]) -> list[int]:
    return [id(tool), *map(id, bounds)]


def _has_unresolved_hints(tool: AnyTool) -> bool:
    """Tell whether a type hint of the tool is unresolved: it may be resolved later, without a change of the state."""
    return tool.implementation.has_unresolved_hints


def decode_exports(text: bytes) -> list[WireObject]:
    """Return what a JSON array of exports says, as objects that may be changed."""
    try:
        return msgspec.json.decode(text)  # type: ignore[no-any-return]
    except msgspec.DecodeError:  # a default that needs more than 64 bits
        import json

        return json.loads(text)  # type: ignore[no-any-return]
