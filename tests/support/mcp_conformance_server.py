"""Serves the tools of the conformance suite over HTTP on a free port of loopback, and prints the URL."""

from __future__ import annotations

import socket

import uvicorn
from mcp_conformance_tools import AGENT, build_registry

from praval_tools.integrations.mcp import http_app


def main() -> None:
    """Serve until the process is ended."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    print(f"http://127.0.0.1:{port}/mcp", flush=True)
    app = http_app(build_registry(), agent=AGENT, elicit_approvals=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()
