"""The gate: what a plugin brings becomes tools of the operator's making, or the plugin is kept out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import field, frozen
from msgspec.structs import replace

from praval_tools.config.plugins import PluginTable
from praval_tools.errors import InvalidNameError, PluginError
from praval_tools.names import (
    check_tool_name,
    find_similar_names,
    get_collision_keys,
    is_valid_agent_name,
    shorten_repr,
)
from praval_tools.plugins.discovery import InstalledPlugin
from praval_tools.plugins.staging import get_plugin_principal
from praval_tools.tools.from_object import make_tools_from_object
from praval_tools.tools.implementation import ToolImplementation
from praval_tools.tools.metadata import ToolMetadata
from praval_tools.tools.source import Source, SourceKind
from praval_tools.tools.stamping import with_checked_metadata
from praval_tools.tools.tool import AsyncTool, Tool

MAX_TOOLS: Final = 10_000
"""How many tools one plugin may bring; whoever brings more brings them for ever."""

AnyTool = Tool[..., Any]


@frozen(kw_only=True)
class Admission:
    """
    What came through the gate.

    Args:
        tools: As they are to be registered.
        withheld: What the operator does not allow, by the plugin's names.
        wishes: What is asked for and not granted.
        renamed: The name that each allowed tool has now, by the plugin's.
    """

    tools: tuple[AnyTool, ...] = ()
    withheld: tuple[str, ...] = ()
    wishes: tuple[str, ...] = ()
    registered_names: Mapping[str, str] = field(factory=dict)


def extract_tools(found: InstalledPlugin, brought: object) -> Iterator[AnyTool]:
    """
    Yield the tools in what a hook returned: tools, functions, objects and classes.

    Raises:
        PluginError: It is nothing of that kind, or there is no end to it.
    """
    if brought is None:
        return
    if isinstance(brought, str | bytes | Mapping) or not isinstance(brought, Iterable):
        closing: Callable[[], object] | None = getattr(brought, "close", None)
        if callable(closing) and hasattr(brought, "__await__"):
            closing()
        text = f"it returned {_describe_value(brought)}, not a list of tools, functions or objects"
        raise PluginError(str(found), "praval_tools_register_tools", text)
    for number, one in enumerate(brought):
        if number >= MAX_TOOLS:
            raise PluginError(str(found), "praval_tools_register_tools", f"it brings more than {MAX_TOOLS:,} tools")
        yield from _convert_to_tools(found, one)


def _convert_to_tools(found: InstalledPlugin, one: object) -> list[AnyTool]:
    if isinstance(one, Tool):
        return [one]
    if one is None or isinstance(one, str | bytes | int | float | list | tuple | set | Mapping):
        text = f"it brings {_describe_value(one)} as a tool; bring Tools, functions with hints, or objects with public methods"
        raise PluginError(str(found), "praval_tools_register_tools", text)
    if isinstance(one, type) or not callable(one):
        return make_tools_from_object(one, True, set(), set(), True, {})
    return [Tool.from_function(one)]


def _describe_value(one: object) -> str:
    return (
        f"{type(one).__name__} {shorten_repr(one)}" if isinstance(one, str | int | float) else f"a {type(one).__name__}"
    )


def admit_tools(
    found: InstalledPlugin, brought: Iterable[AnyTool], table: PluginTable, kind: SourceKind = "plugin"
) -> Admission:
    """
    Return what the operator lets in of the tools that a plugin brings, with its provenance, and in its name.

    Raises:
        PluginError: Two of its tools have one name, or the operator's table names one that it does not bring.
    """
    tools = tuple({id(one): one for one in brought}.values())
    for one in tools:
        _check_plain_tool(found, one)
    names = [one.name for one in tools]
    for listed, key in ((table.allow or (), "allow"), (table.shared, "shared")):
        for name in listed:
            if name not in names:
                match = find_similar_names(name, names)
                hint = f"; did you mean {match[0]!r}?" if match else ""
                raise PluginError(str(found), "configuration", f"{key} names {name!r}, which it does not bring{hint}")
    let_in = set(names) if table.allow is None else set(table.allow)
    allowed = [one for one in tools if one.name in let_in]
    made = [_admit_tool(found, one, table, kind) for one in allowed]
    _check_name_clashes(found, made)
    return Admission(
        tools=tuple(made),
        withheld=tuple(name for name in names if name not in let_in),
        wishes=() if table.trust else tuple(wish for one in allowed for wish in _list_wishes(one, table)),
        registered_names={one.name: new.name for one, new in zip(allowed, made, strict=True)},
    )


def _check_plain_tool(found: InstalledPlugin, tool: AnyTool) -> None:
    """Refuse a tool of a class of its own, and parts of one: it could answer otherwise once it has passed."""
    problem = ""
    if type(tool) not in (Tool, AsyncTool):
        problem = "it brings a tool of a class of its own; bring plain Tools, made with @tool or Tool(…)"
    elif type(tool.metadata) is not ToolMetadata or type(tool.implementation) is not ToolImplementation:
        problem = "it brings a tool whose metadata or definition are of a class of their own; leave them as they are"
    elif type(tool.metadata.category) is not str:
        problem = f"the category of its tool {shorten_repr(tool.name)} is no plain text"
    elif type(tool.metadata.source) not in (Source, type(None)):
        problem = f"the source of its tool {shorten_repr(tool.name)} is none"
    try:
        if not problem:
            check_tool_name(tool.name)
    except InvalidNameError as error:
        problem = str(error)
    if problem:
        raise PluginError(str(found), "tools", problem)


def _admit_tool(found: InstalledPlugin, tool: AnyTool, table: PluginTable, kind: SourceKind) -> AnyTool:
    """Return the tool with its provenance, its owner and its sharing as the operator has it."""
    meta = tool.metadata
    wished = meta.owned_by if table.trust and meta.owned_by is not None and is_valid_agent_name(meta.owned_by) else None
    owner = table.owned_by or wished or get_plugin_principal(found)
    source = replace(
        meta.source or Source(), kind=kind, distribution=found.distribution, version=found.version,
        trusted=table.trust,
    )  # fmt: skip
    shared = tool.name in table.shared or (table.trust and meta.shared)
    made = with_checked_metadata(tool, owned_by=owner, shared=shared, source=source)
    return made if table.namespace is None else made.with_namespace(table.namespace, force=True)


def _list_wishes(tool: AnyTool, table: PluginTable) -> Iterator[str]:
    meta = tool.metadata
    if meta.owned_by is not None and meta.owned_by != table.owned_by:
        yield f"{tool.name}: owned by {meta.owned_by!r}"
    if meta.shared and tool.name not in table.shared:
        yield f"{tool.name}: shared"
    if meta.category != "general":
        yield f"{tool.name}: category {meta.category!r}"


def _check_name_clashes(found: InstalledPlugin, tools: Iterable[AnyTool]) -> None:
    known = dict[str, AnyTool]()
    for tool in tools:
        for key in get_collision_keys(tool.name):
            other = known.setdefault(key, tool)
            if other is not tool:
                text = f"it brings two tools of one name, {other.name!r} and {tool.name!r}; rename one"
                raise PluginError(str(found), "tools", text)
