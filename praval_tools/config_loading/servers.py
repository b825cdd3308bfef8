"""MCP servers of a configuration: the options by which each is registered, with the tools that are declared of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from attrs import frozen

from praval_tools.config.system import ServerConfig, ToolConfig
from praval_tools.config_loading.checks import METADATA_KEYS
from praval_tools.config_loading.declarations import Located
from praval_tools.registry.source_options import McpOptions


@frozen
class ServerDeclaration:
    """
    A server and what it provides; equal declarations need no new connection.

    Args:
        name: Its name here.
        entry: What is said of it.
        tools: The tools that are declared of it; None: those that it lists.
    """

    name: str
    entry: ServerConfig
    tools: tuple[ToolConfig, ...] | None

    @property
    def address(self) -> str | Sequence[str]:
        """Its URL, or its command."""
        return self.entry.url or self.entry.command or ""

    def build_options(self) -> McpOptions:
        """Return the options of `register_mcp`; without declared tools it is registered empty, to be connected."""
        entry = self.entry
        options: dict[str, object] = {
            "namespace": entry.namespace or self.name, "owned_by": entry.owned_by, "pin": entry.pin,
            "include": entry.include, "exclude": entry.exclude, "env": entry.env, "tools": [],
        }  # fmt: skip
        if entry.headers_env:
            options["headers_env"] = entry.headers_env
        if entry.auth is not None:
            options["bearer_env"] = entry.auth.token_env_var
        for name in ("timeout", "connect_timeout", "max_message_bytes", "max_tools"):
            if (value := getattr(entry, name)) is not None:
                options[name] = value
        if self.tools is not None:
            names = [tool.name for tool in self.tools]
            options |= {
                "tools": [_build_definition(tool) for tool in self.tools],
                "include": entry.include or names or [_NO_TOOL],
                "names": {name: name for name in names},
                "metadata": {tool.name: fields for tool in self.tools if (fields := _build_metadata(tool))},
            }
        return cast("McpOptions", options)

    def may_have(self, tool: str) -> bool:
        """Tell whether a tool of this name may come once the server is connected."""
        return self.tools is None and tool.startswith(f"{self.entry.namespace or self.name}-")


_NO_TOOL = ""
"""The name of no tool: a server of which nothing is declared provides nothing."""


def build_server(
    name: str, server: Located[ServerConfig], provided: Sequence[Located[ToolConfig]] | None
) -> ServerDeclaration:
    """Return the declaration of a server."""
    tools = None if provided is None else tuple(tool.value for tool in provided)
    return ServerDeclaration(name, server.value, tools)


def _build_definition(tool: ToolConfig) -> Mapping[str, object]:
    schema = tool.inputSchema if tool.inputSchema is not None else tool.parameters_schema
    return {"name": tool.name, "description": tool.description or "", "inputSchema": schema}


def _build_metadata(tool: ToolConfig) -> dict[str, object]:
    """Return what the configuration says of a tool itself; of its description the server has the last word."""
    values = {name: getattr(tool, name) for name in METADATA_KEYS if name != "description"}
    return {name: value for name, value in values.items() if value is not None}
