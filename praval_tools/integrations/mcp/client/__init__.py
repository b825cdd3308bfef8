"""The MCP client: registers the tools of MCP servers in a registry, and calls them."""

from praval_tools.integrations.mcp.client.errors import McpNotSentError, McpServerError, McpToolError
from praval_tools.integrations.mcp.client.source import McpSource, register_mcp

__all__ = ["McpNotSentError", "McpServerError", "McpSource", "McpToolError", "register_mcp"]
