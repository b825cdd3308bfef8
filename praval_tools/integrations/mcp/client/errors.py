"""The errors of MCP servers and of their tools."""

from __future__ import annotations

from typing import ClassVar

from praval_tools.errors import RetryableToolError, ToolError


class McpServerError(ToolError, ConnectionError):
    """An MCP server cannot be reached, or does not speak the protocol; `server` names it, `problem` says why."""

    code: ClassVar[str] = "mcp-server"

    def __init__(self, server: str, problem: str) -> None:
        super().__init__(server, problem)
        self.server, self.problem = server, problem

    def __str__(self) -> str:
        return f"MCP server {self.server!r}: {self.problem}"


class McpNotSentError(McpServerError, RetryableToolError):
    """Nothing was sent to the server, so the call may be made again."""

    code: ClassVar[str] = "mcp-not-sent"


class McpToolError(ToolError):
    """The server answered that the tool failed, or with a result that cannot be used; the text is the server's."""

    code: ClassVar[str] = "mcp-tool"
