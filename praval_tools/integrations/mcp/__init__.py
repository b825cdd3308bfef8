"""Model Context Protocol: serves an agent's tools to MCP clients, and registers tools of MCP servers; extra `mcp`."""

from praval_tools.errors import MissingExtraError

try:
    import mcp  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "mcp":
        raise
    raise MissingExtraError("praval_tools.integrations.mcp", "mcp") from error

from praval_tools.integrations.mcp.client.source import McpSource
from praval_tools.integrations.mcp.serving.http import http_app
from praval_tools.integrations.mcp.serving.server import server
from praval_tools.journal.tokens import AgentToken, Tokens, open_tokens

__all__ = ["AgentToken", "McpSource", "Tokens", "http_app", "open_tokens", "server"]
