"""The command group `mcp`, with `serve`: an agent's tools for MCP clients."""

from __future__ import annotations

import click

from praval_tools.cli.common import CommandGroup
from praval_tools.cli.mcp_serve import serve_command


@click.group("mcp", cls=CommandGroup)
def mcp_command() -> None:
    """Serve an agent's tools by the Model Context Protocol."""


mcp_command.add_command(serve_command)
