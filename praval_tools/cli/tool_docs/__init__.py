"""The command `docs`: a reference of the tools in Markdown or HTML, and type stubs of the agents' toolsets."""
