"""Registries with real MCP servers, for the tests of the client side."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Unpack

from praval_tools import ToolCall, ToolRegistry, ToolResult
from praval_tools.integrations.mcp.client import McpSource
from praval_tools.registry.source_options import McpOptions

SUPPORT = Path(__file__).parent
OPERATOR = "ops"
"""The agent that owns the tools of the servers here."""


def official_command(notes: Path) -> list[str]:
    """Return the command of the server that is made with the official SDK."""
    return [sys.executable, str(SUPPORT / "mcp_official_server.py"), "stdio", str(notes)]


def plain_command(behaviour: str, notes: Path) -> list[str]:
    """Return the command of the server that breaks the rules."""
    return [sys.executable, str(SUPPORT / "mcp_plain_server.py"), behaviour, str(notes)]


@contextmanager
def serve_http(
    notes: Path, port: int = 0, script: str = "mcp_official_server.py", version: str = ""
) -> Iterator[tuple[str, Callable]]:
    """Run a server over HTTP, of an earlier version of the protocol if one is given; gives its URL, and a kill."""
    command = [sys.executable, str(SUPPORT / script), "http", str(notes), str(port), *filter(None, [version])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp", process.kill
        finally:
            process.kill()


def register_plain(registry: ToolRegistry, behaviour: str, notes: Path, **options: Unpack[McpOptions]) -> McpSource:
    """Register the server that breaks the rules, as `plain`."""
    options = {"namespace": "plain", "owned_by": OPERATOR, "connect_timeout": 20, **options}
    source = registry.register_mcp(plain_command(behaviour, notes), **options)
    assert isinstance(source, McpSource)
    return source


def call(registry: ToolRegistry, tool: str, **arguments: object) -> ToolResult:
    """Call a tool as its owner."""
    return registry.execute(ToolCall(None, tool, arguments, OPERATOR))


def read_notes(notes: Path) -> list[str]:
    """Return what a server wrote down of its effects, without its starts."""
    return [line for line in list_notes(notes) if not line.startswith("started")]


def list_notes(notes: Path) -> list[str]:
    """Return all that a server wrote down."""
    return notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []


def wait_until(holds: Callable[[], object], seconds: float = 30) -> None:
    """Wait until something holds that another process brings about; fail where it never does."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.01)
