"""The client side: the tools of MCP servers in a registry."""
