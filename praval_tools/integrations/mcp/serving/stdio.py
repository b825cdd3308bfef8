"""Serves one MCP client over stdin and stdout, to which nothing else can write meanwhile."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
from attrs import frozen
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

from praval_tools.integrations.mcp.serving.list_notifier import ToolListNotifier


@frozen
class ProtocolPipes:
    """
    The descriptors on which the protocol is spoken.

    Args:
        source: What the client sends.
        target: What it gets.
    """

    source: int
    target: int


@contextmanager
def reserve_standard_streams() -> Iterator[ProtocolPipes]:
    """
    Keep stdin and stdout for the protocol, from now on: whatever else writes to stdout writes to stderr.

    It is done with the descriptors, so it holds for child processes, for C code, and while modules are imported.
    """
    wire = ProtocolPipes(os.dup(0), os.dup(1))
    null = os.open(os.devnull, os.O_RDONLY)
    sys.stdout.flush()
    try:
        os.dup2(null, 0)
        os.dup2(2, 1)
        yield wire
    finally:
        sys.stdout.flush()
        os.dup2(wire.source, 0)
        os.dup2(wire.target, 1)
        for descriptor in (null, wire.source, wire.target):
            os.close(descriptor)


async def serve_stdio(served: Server[ToolListNotifier], wire: ProtocolPipes) -> None:
    """Serve one client until it closes its side."""
    source = io.TextIOWrapper(os.fdopen(wire.source, "rb", closefd=False), encoding="utf-8", errors="replace")
    target = io.TextIOWrapper(os.fdopen(wire.target, "wb", closefd=False), encoding="utf-8", newline="\n")
    async with stdio_server(anyio.wrap_file(source), anyio.wrap_file(target)) as (read, write):
        await served.run(read, write, served.create_initialization_options())
