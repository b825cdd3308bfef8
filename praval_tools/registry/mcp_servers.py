"""Connects MCP servers to a registry; the MCP client is imported only then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from praval_tools.access.commands import require_operator
from praval_tools.execution.context import resolve_actor
from praval_tools.execution.protocols import ToolSource
from praval_tools.execution.runtime import Runtime
from praval_tools.tools.source import Source

if TYPE_CHECKING:
    from praval_tools.registry.source_options import McpOptions

McpConnector: TypeAlias = "Callable[[object, str | Sequence[str], McpOptions, Source], ToolSource]"
_connectors: Final[dict[str, McpConnector]] = {}


def set_mcp_connector(connect: McpConnector) -> None:
    """Have *connect* called by `register_mcp`; it imports the SDK of the protocol, which needs an extra."""
    _connectors["mcp"] = connect


def connect_mcp(
    registry: object, runtime: Runtime, server: str | Sequence[str], options: McpOptions
) -> ToolSource:
    """
    Connect a server for *registry*; only the operator starts programs.

    Raises:
        McpServerError: It cannot be reached, or does not speak the protocol; nothing is registered then.
        ToolUsageError: An option makes no sense, or a `change()` is open here.
    """
    require_operator(resolve_actor(None, "register an MCP server"), "register an MCP server")
    runtime.access_store.refuse_calls()
    return _connectors["mcp"](registry, server, options, Source())


def make_mcp_source(registry: object, server: str | Sequence[str], options: McpOptions, place: Source) -> ToolSource:
    """Register a server that *place* declares, as a part of a larger change: nothing is connected."""
    return _connectors["mcp"](registry, server, options, place)
