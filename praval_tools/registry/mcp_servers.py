"""Connects MCP servers to a registry and refreshes their tools; the MCP client is imported only then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypedDict

from praval_tools.access.commands import require_operator
from praval_tools.execution.context import resolve_actor
from praval_tools.execution.protocols import ToolSource
from praval_tools.execution.runtime import Runtime
from praval_tools.names import HasName

if TYPE_CHECKING:
    from praval_tools.tools.metadata import ToolFields


class McpOptions(TypedDict, total=False):
    """
    The keywords of `register_mcp`.

    Args:
        owned_by: The agent that is accountable for the tools, and may call and lend them; none by default.
        namespace: The prefix of their names; made of the command or URL by default.
        include: Only these tools, by their names there.
        exclude: Not these.
        names: The names here of tools that are not to have the prefix, by their names there.
        metadata: Fields of `ToolMetadata` for tools, by their names there; instead of what is known of the server.
        headers_env: For a URL: HTTP headers, each with the name of the variable that holds its whole value.
        bearer_env: For a URL: the name of the variable that holds its bearer token.
        env: For a command: names of variables that its process gets, besides a few such as `PATH` and `HOME`.
        timeout: Seconds that a call may take; the registry's by default.
        pin: Hold back a tool whose definition changes until `accept`: True, or the fingerprint of each tool by name.
        tools: Definitions as `tools/list` gives them: these are registered at once, and the server is connected at the
            first call.
        connect_timeout: Seconds until the server must have listed its tools.
        max_message_bytes: How long one of its messages may be.
        max_tools: How many tools are taken.
    """

    owned_by: str | HasName | None
    namespace: str | None
    include: Iterable[str]
    exclude: Iterable[str]
    names: Mapping[str, str]
    metadata: Mapping[str, ToolFields]
    headers_env: Mapping[str, str] | None
    bearer_env: str | None
    env: Iterable[str]
    timeout: float | None
    pin: bool | Mapping[str, str]
    tools: Iterable[Mapping[str, object]] | None
    connect_timeout: float
    max_message_bytes: int
    max_tools: int


McpConnector = Callable[[object, str | Sequence[str], McpOptions], ToolSource]
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
    return _connectors["mcp"](registry, server, options)


def make_mcp_source(registry: object, server: str | Sequence[str], options: McpOptions) -> ToolSource:
    """Register a server as a part of a larger change, with declared tools: nothing is connected."""
    return _connectors["mcp"](registry, server, options)


def refresh_sources(runtime: Runtime) -> None:
    """
    List the tools of every source again, and take over what changed.

    Raises:
        ExceptionGroup: Some could not be reached; the others were refreshed.
    """
    require_operator(resolve_actor(None, "refresh the sources of tools"), "refresh the sources of tools")
    runtime.access_store.refuse_calls()
    errors = list[Exception]()
    for source in list(runtime.sources.values()):
        try:
            source.refresh()
        except ConnectionError as error:
            errors.append(error)
    if errors:
        raise ExceptionGroup(f"{len(errors)} of {len(runtime.sources)} sources could not be refreshed", errors)
