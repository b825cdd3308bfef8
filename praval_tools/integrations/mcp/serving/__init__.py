"""The MCP server: serves an agent's tools to MCP clients."""
