"""
One MCP server with `add` and 999 tools beside it, on stdio or HTTP: ours, the bare SDK's, or FastMCP's.

Started as `python _mcp_servers.py KIND TRANSPORT`; over HTTP it prints its URL.
"""

from __future__ import annotations

import socket
import sqlite3
import sys
from collections.abc import Callable
from typing import Any, Final

TOOLS: Final = 1_000
_SCHEMA: Final = {
    "type": "object",
    "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
    "required": ["x", "y"],
    "additionalProperties": False,
}
_RESULT_SCHEMA: Final = {"type": "object", "properties": {"result": {"type": "number"}}, "required": ["result"]}


def _names() -> list[str]:
    return ["add", *(f"add_{number}" for number in range(1, TOOLS))]


def add(x: float, y: float) -> float:
    """Add two numbers."""
    return x + y


async def add_async(x: float, y: float) -> float:
    """Add two numbers."""
    return x + y


def _bare(note: Callable[[str], object] = str) -> Any:
    """The SDK's low-level server with the same tools: it checks nothing, and gives *note* each call and each result."""
    from mcp import types
    from mcp.server.lowlevel import Server

    shared = {"description": "Add two numbers.", "input_schema": _SCHEMA, "output_schema": _RESULT_SCHEMA}

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name=name, title=name, **shared) for name in _names()])

    async def call_tool(context: Any, params: Any) -> types.CallToolResult:
        note(str(params.arguments))
        value = await add_async(**params.arguments)
        note(str(value))
        return types.CallToolResult(content=[types.TextContent(text=str(value))], structured_content={"result": value})

    return Server("bare", on_list_tools=list_tools, on_call_tool=call_tool, get_tool_input_schema=lambda name: _SCHEMA)


def _bare_sqlite() -> Any:
    """The same, and each note is a durable row of its own: what an audit in SQLite costs at least."""
    database = sqlite3.connect("bare.db", isolation_level=None)
    for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE notes (note TEXT)"):
        database.execute(statement)
    return _bare(lambda note: database.execute("INSERT INTO notes VALUES (?)", (note,)))


def _ours(journal: str | None) -> Any:
    from praval_tools import ToolRegistry
    from praval_tools.integrations.mcp import server

    registry = ToolRegistry(name="bench", journal=journal)
    for name in _names():
        registry.tool(name, owned_by="worker")(add_async)
    return server(registry, agent="worker")


def _fastmcp() -> Any:
    from fastmcp import FastMCP

    served = FastMCP("fast")
    for name in _names():
        served.tool(add_async, name=name)
    return served


_KINDS: Final[dict[str, Callable[[], Any]]] = {
    "bare": _bare,
    "bare-sqlite": _bare_sqlite,
    "ours": lambda: _ours(None),
    "ours-memory": lambda: _ours("memory"),
    "ours-sqlite": lambda: _ours("bench.db"),
    "fastmcp": _fastmcp,
}


def _serve_stdio(served: Any) -> None:
    import anyio
    from mcp.server.stdio import stdio_server

    async def run() -> None:
        async with stdio_server() as (reading, writing):
            await served.run(reading, writing, served.create_initialization_options())

    anyio.run(run)


def _serve_http(served: Any, app: Any) -> None:
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else each answer is 40 ms late
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])


def main() -> None:
    """Serve as the command line says."""
    kind, transport = sys.argv[1:]
    served = _KINDS[kind]()
    if kind == "fastmcp" and transport == "stdio":
        served.run(show_banner=False)
    elif kind == "fastmcp":
        _serve_http(served, served.http_app())
    elif transport == "stdio":
        _serve_stdio(served)
    else:
        _serve_http(served, served.streamable_http_app())


if __name__ == "__main__":
    main()
