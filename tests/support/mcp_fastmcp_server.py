"""A server made with FastMCP: `python mcp_fastmcp_server.py stdio|http NOTES [PORT]`."""

from __future__ import annotations

import socket
import sys

import uvicorn
from fastmcp import Context, FastMCP
from fastmcp.utilities.types import Image

app = FastMCP("fast")


@app.tool
def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


@app.tool
def draw() -> Image:
    """Draw."""
    return Image(data=b"\x89PNG, nearly", format="png")


@app.tool
def fail() -> str:
    """Fail."""
    raise ValueError("nothing left")


@app.tool
async def climb(steps: int, ctx: Context) -> str:
    """Report each step."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps)
    return "up"


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        app.run(show_banner=False)
    else:
        listener = socket.create_server(("127.0.0.1", int(sys.argv[3])))
        print(listener.getsockname()[1], flush=True)
        uvicorn.Server(uvicorn.Config(app.http_app(), log_level="critical")).run(sockets=[listener])
