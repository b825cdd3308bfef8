"""A server made with the official SDK whose tool says in which trace it is called: `python mcp_trace_server.py`."""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

app = MCPServer("trace", version="1.0")


@app.tool(structured_output=False)
def show_trace(ctx: Context) -> str:
    """Return what the request says of its trace."""
    return str((ctx.request_context.meta or {}).get("traceparent", ""))


if __name__ == "__main__":
    app.run("stdio")
