"""Checks the tools that a plugin brings, and gives them the names, owners and sharing that the operator allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from praval_tools.config.plugins import PluginTable
from praval_tools.names import (
    get_collision_keys,
    is_valid_agent_name,
    shorten_repr,
    suggest_names,
)
from praval_tools.plugins.discovery import InstalledPlugin
from praval_tools.tools.from_object import make_tools_from_object
from praval_tools.tools.plain_tool import find_class_problem
from praval_tools.tools.source import Source, SourceKind
from praval_tools.tools.tool import AnyTool, Tool, with_checked_metadata

MAX_TOOLS: Final = 10_000
"""How many tools one plugin may bring: a hook may yield tools without end."""

REGISTER_TOOLS_HOOK: Final = "praval_tools_register_tools"


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """
    The tools of a plugin that may be registered.

    Args:
        tools: The tools as they are to be registered.
        withheld: The tools that the operator does not allow, by the plugin's names.
        requests: What is requested and not granted.
        registered_names: The name of each allowed tool in the registry, by the plugin's name.
    """

    tools: tuple[AnyTool, ...] = ()
    withheld: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    registered_names: Mapping[str, str] = {}


def extract_tools(plugin: InstalledPlugin, value: object) -> Iterator[AnyTool]:
    """
    Yield the tools in what a hook returned: tools, functions, objects and classes.

    Raises:
        PluginError: It is nothing of that kind, or there are too many.
    """
    if value is None:
        return
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        if hasattr(value, "__await__") and callable(close := getattr(value, "close", None)):
            close()
        text = f"it returned {_describe_value(value)}, not a list of tools, functions or objects"
        raise plugin.make_error(REGISTER_TOOLS_HOOK, text)
    for number, item in enumerate(value):
        if number >= MAX_TOOLS:
            raise plugin.make_error(REGISTER_TOOLS_HOOK, f"it brings more than {MAX_TOOLS:,} tools")
        yield from _convert_to_tools(plugin, item)


def _convert_to_tools(plugin: InstalledPlugin, item: object) -> list[AnyTool]:
    if isinstance(item, Tool):
        return [item]
    if item is None or isinstance(item, str | bytes | int | float | list | tuple | set | Mapping):
        hint = "bring Tools, functions with hints, or objects with public methods"
        raise plugin.make_error(REGISTER_TOOLS_HOOK, f"it brings {_describe_value(item)} as a tool; {hint}")
    if isinstance(item, type) or not callable(item):
        return make_tools_from_object(item, True, set(), set(), True, {})
    return [Tool.from_function(item)]


def _describe_value(value: object) -> str:
    kind = type(value).__name__
    return f"{kind} {shorten_repr(value)}" if isinstance(value, str | int | float) else f"a {kind}"


def admit_tools(
    plugin: InstalledPlugin, tools: Iterable[AnyTool], table: PluginTable, kind: SourceKind = "plugin"
) -> Admission:
    """
    Return what the operator allows of the tools that a plugin brings, with their provenance.

    Raises:
        PluginError: Two of its tools have one name, or the operator's table names one that it does not bring.
    """
    unique_tools = tuple({id(tool): tool for tool in tools}.values())
    for tool in unique_tools:
        _check_plain_tool(plugin, tool)
    names = [tool.name for tool in unique_tools]
    for key, listed in (("allow", table.allow or ()), ("shared", table.shared)):
        for name in listed:
            if name not in names:
                hint = suggest_names(name, names, "; did you mean ")
                raise plugin.make_error("configuration", f"{key} names {name!r}, which it does not bring{hint}")
    allowed_names = set(names) if table.allow is None else set(table.allow)
    allowed = [tool for tool in unique_tools if tool.name in allowed_names]
    admitted = tuple(_admit_tool(plugin, tool, table, kind) for tool in allowed)
    _check_name_clashes(plugin, admitted)
    return Admission(
        tools=admitted,
        withheld=tuple(name for name in names if name not in allowed_names),
        requests=() if table.trust else tuple(request for tool in allowed for request in _list_requests(tool, table)),
        registered_names={tool.name: new.name for tool, new in zip(allowed, admitted, strict=True)},
    )


def _check_plain_tool(plugin: InstalledPlugin, tool: AnyTool) -> None:
    """Refuse a tool of a class of its own, and parts of one: it could answer differently once it is admitted."""
    if problem := find_class_problem(tool):
        raise plugin.make_error("tools", f"it brings {problem}")


def _admit_tool(plugin: InstalledPlugin, tool: AnyTool, table: PluginTable, kind: SourceKind) -> AnyTool:
    """Return the tool with its provenance, and the owner and sharing that the operator allows."""
    metadata = tool.metadata
    requested = metadata.owned_by if table.trust else None
    if requested is not None and not is_valid_agent_name(requested):
        requested = None
    source = metadata.source or Source()
    admitted = with_checked_metadata(
        tool,
        owned_by=table.owned_by or requested or plugin.principal,
        shared=tool.name in table.shared or (table.trust and metadata.shared),
        source=msgspec.structs.replace(
            source, kind=kind, distribution=plugin.distribution, version=plugin.version, trusted=table.trust
        ),
    )
    return admitted if table.namespace is None else admitted.with_namespace(table.namespace, force=True)


def _list_requests(tool: AnyTool, table: PluginTable) -> Iterator[str]:
    metadata = tool.metadata
    if metadata.owned_by is not None and metadata.owned_by != table.owned_by:
        yield f"{tool.name}: owned by {metadata.owned_by!r}"
    if metadata.shared and tool.name not in table.shared:
        yield f"{tool.name}: shared"
    if metadata.category != "general":
        yield f"{tool.name}: category {metadata.category!r}"


def _check_name_clashes(plugin: InstalledPlugin, tools: Iterable[AnyTool]) -> None:
    known = dict[str, AnyTool]()
    for tool in tools:
        for key in get_collision_keys(tool.name):
            other = known.setdefault(key, tool)
            if other is not tool:
                text = f"it brings two tools of one name, {other.name!r} and {tool.name!r}; rename one"
                raise plugin.make_error("tools", text)
