"""One of the MCP servers of the Agentic-AI seed, over HTTP: `python seed_servers.py NAME PORT NOTES`."""

from __future__ import annotations

import sys

import uvicorn
from mcp.server import MCPServer
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

TOKEN = "the-token-of-the-seed"


def note(text: str) -> None:
    """Write what was done into the file of notes."""
    with open(sys.argv[3], "a", encoding="utf-8") as notes:
        notes.write(f"{text}\n")


def make_server(name: str) -> MCPServer:
    """Return the server of this name, with the tool that the seed's `config.yml` declares of it."""
    app = MCPServer(name)
    if name == "code_execution_server":

        @app.tool(structured_output=False)
        def execute_python_code(code: str, timeout_seconds: int = 10) -> str:
            """Run the code, of which nothing but the length matters here."""
            note(f"execute {code}")
            return f"ran {len(code)} characters"
    else:

        @app.tool(structured_output=False)
        def perform_web_search(query: str) -> str:
            """Search."""
            note(f"search {query}")
            return f"pages about {query}"

    return app


def with_token(app: ASGIApp) -> ASGIApp:
    """Refuse requests without the token."""

    async def check(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and Request(scope).headers.get("authorization") != f"Bearer {TOKEN}":
            await PlainTextResponse("no token", 401)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return check


def main() -> None:
    """Serve at the root of a port."""
    name, port = sys.argv[1], int(sys.argv[2])
    app: ASGIApp = make_server(name).streamable_http_app(streamable_http_path="/")
    app = with_token(app) if name == "code_execution_server" else app
    server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", port, log_level="error"))
    print("ready", flush=True)
    server.run()


if __name__ == "__main__":
    main()
