"""
A server made with the official SDK, as its users write them: `python mcp_official_server.py stdio|http NOTES`.

What its tools do outside, they write into the file NOTES, a line each. Over HTTP it says its port on standard output;
`http NOTES PORT VERSION` speaks an earlier version of the protocol, by the handshake, and no other.
"""

from __future__ import annotations

import base64
import json
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
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
async def tell(texts: list[str], ctx: Context) -> str:
    """Write each text as a warning, and last a debug message."""
    for level, text in [*(("warning", text) for text in texts), ("debug", "over")]:
        await ctx.log(level, {"said": text} if text == "object" else text)
        await anyio.sleep(0.05)
    return "written"


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


async def announce(ctx: Context) -> None:
    """Say that the tools have changed: to those who subscribed, and to a client of an earlier version."""
    await ctx.notify_tools_changed()
    if len(sys.argv) > 4:
        await ctx.session.send_tool_list_changed()


@app.tool(structured_output=False)
async def teach(name: str, description: str, ctx: Context) -> str:
    """Add a tool, or give it another description."""

    def taught(x: int) -> str:
        return f"{name} {x}"

    if name in {tool.name for tool in await app.list_tools()}:
        app.remove_tool(name)
    app.add_tool(taught, name=name, description=description)
    await announce(ctx)
    return "taught"


@app.tool(structured_output=False)
async def forget(name: str, ctx: Context) -> str:
    """Drop a tool."""
    app.remove_tool(name)
    await announce(ctx)
    return "forgotten"


@app.tool(structured_output=False)
def show_headers(ctx: Context) -> str:
    """Return the headers of the request."""
    return str(dict(ctx.headers or {}))


class Earlier:
    """
    ASGI middleware that makes a server one of an earlier version: it answers no discovery, and shakes hands on that.

    Args:
        app: The application.
        version: Of the protocol.
    """

    def __init__(self, app: ASGIApp, version: str) -> None:
        self._app, self._version = app, version

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        message = json.loads(body)
        if message["method"] == "server/discover":
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b"Bad Request: Missing session ID"})
            return
        if message["method"] == "initialize":
            message["params"]["protocolVersion"] = self._version
        parts: list[Message] = [{"type": "http.request", "body": json.dumps(message).encode()}]
        headers = [(name, value) for name, value in scope["headers"] if name != b"content-length"]

        async def receive_changed() -> Message:
            return parts.pop() if parts else await receive()

        await self._app({**scope, "headers": headers}, receive_changed, send)


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        app.run("stdio")
    else:
        listener = socket.create_server(("127.0.0.1", int(sys.argv[3]) if len(sys.argv) > 3 else 0))
        print(listener.getsockname()[1], flush=True)
        served: ASGIApp = app.streamable_http_app()
        served = Earlier(served, sys.argv[4]) if len(sys.argv) > 4 else served
        config = uvicorn.Config(served, log_level="critical", timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listener])
