"""The methods of a registry for sources of tools beside code: MCP servers and OpenAPI documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from praval_tools.access.commands import require_operator
from praval_tools.execution.context import resolve_actor
from praval_tools.execution.protocols import ToolSource
from praval_tools.execution.runtime import Runtime
from praval_tools.misuse import explain_misuse_and_take_plain_arguments
from praval_tools.names import format_count
from praval_tools.registry.mcp_servers import connect_mcp
from praval_tools.registry.openapi_services import OpenApiSpec, register_service

if TYPE_CHECKING:
    from praval_tools.registry.source_options import McpOptions, OpenApiOptions


@explain_misuse_and_take_plain_arguments
class ConnectedToSources:
    """What a registry can do with sources of tools; only the operator does it."""

    __slots__ = ()
    _runtime: Runtime

    def register_mcp(self, server: str | Sequence[str], **options: Unpack[McpOptions]) -> ToolSource:
        """Register the tools of an MCP server, a command or a URL, granted to nobody; see `McpOptions`."""
        return connect_mcp(self, self._runtime, server, options)

    def register_openapi(self, spec: OpenApiSpec, **options: Unpack[OpenApiOptions]) -> ToolSource:
        """Register the operations of an OpenAPI document, a mapping, path or URL; see `OpenApiOptions`."""
        return register_service(self, self._runtime, spec, options)

    def refresh(self) -> None:
        """
        Ask MCP servers for their tools, read OpenAPI documents and configurations again, and take over what changed.

        Raises:
            ExceptionGroup: Some could not be reached or are wrong; the others were refreshed.
        """
        require_operator(resolve_actor(None, "refresh the sources of tools"), "refresh the sources of tools")
        self._runtime.access_store.refuse_calls()
        errors, sources = list[Exception](), list(self._runtime.sources.values())
        for source in sources:
            try:
                source.refresh()
            except (ConnectionError, ValueError) as error:
                errors.append(error)
        if errors:
            count = format_count(len(sources), "source")
            raise ExceptionGroup(f"{len(errors)} of {count} could not be refreshed", errors)
