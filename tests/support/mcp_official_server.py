"""
A server made with the official SDK, as its users write them: `python mcp_official_server.py stdio|http NOTES`.

What its tools do outside, they write into the file NOTES, a line each. Over HTTP it says its port on standard output.
"""

from __future__ import annotations

import base64
import socket
import sys

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)

PICTURE = b"\x89PNG, nearly"
app = MCPServer("official", version="3.2.1")


def note(text: str) -> None:
    """Write a line into the file of notes."""
    with open(sys.argv[2], "a", encoding="utf-8") as notes:
        notes.write(f"{text}\n")


@app.tool(annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, destructive_hint=False))
def lookup(city: str, days: int = 1) -> dict[str, object]:
    """Look the weather up."""
    note(f"lookup {city}")
    return {"city": city, "days": days}


@app.tool(title="Pay an invoice", annotations=ToolAnnotations(destructive_hint=True, read_only_hint=False))
def pay(invoice: int) -> str:
    """Pay."""
    note(f"pay {invoice}")
    return f"paid {invoice}"


@app.tool(structured_output=False)
def say(text: str) -> str:
    """Say it again."""
    return text


@app.tool()
def fail(reason: str) -> CallToolResult:
    """Fail."""
    return CallToolResult(content=[TextContent(type="text", text=reason)], is_error=True)


@app.tool()
def draw() -> CallToolResult:
    """Draw."""
    data = base64.b64encode(PICTURE).decode()
    resource = TextResourceContents(uri="file:///a.txt", text="inside", mime_type="text/plain")
    return CallToolResult(
        content=[
            TextContent(type="text", text="a picture:"),
            ImageContent(type="image", data=data, mime_type="image/png"),
            AudioContent(type="audio", data=data, mime_type="audio/wav"),
            EmbeddedResource(type="resource", resource=resource),
            ResourceLink(type="resource_link", uri="file:///b.txt", name="b"),
        ]
    )


@app.tool(structured_output=False)
async def climb(steps: int, ctx: Context) -> str:
    """Report each step."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return "up"


@app.tool(structured_output=False)
async def wait(name: str) -> str:
    """Wait until it is cancelled."""
    note(f"began {name}")
    try:
        await anyio.sleep(300)
    except anyio.get_cancelled_exc_class():
        note(f"cancelled {name}")
        raise
    return "over"


@app.tool(structured_output=False)
async def teach(name: str, description: str, ctx: Context) -> str:
    """Add a tool, or give it another description."""

    def taught(x: int) -> str:
        return f"{name} {x}"

    if name in {tool.name for tool in await app.list_tools()}:
        app.remove_tool(name)
    app.add_tool(taught, name=name, description=description)
    await ctx.notify_tools_changed()
    return "taught"


@app.tool(structured_output=False)
async def forget(name: str, ctx: Context) -> str:
    """Drop a tool."""
    app.remove_tool(name)
    await ctx.notify_tools_changed()
    return "forgotten"


@app.tool(structured_output=False)
def show_headers(ctx: Context) -> str:
    """Return the headers of the request."""
    return str(dict(ctx.headers or {}))


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        app.run("stdio")
    else:
        listener = socket.create_server(("127.0.0.1", int(sys.argv[3]) if len(sys.argv) > 3 else 0))
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(app.streamable_http_app(), log_level="critical", timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listener])
