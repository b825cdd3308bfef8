"""The server side: an agent's toolset for MCP clients."""
