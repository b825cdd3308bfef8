"""A real HTTP server of MCP on the loopback, in a thread, and clients that speak to it with and without the SDK."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from typing import Any

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.types import ASGIApp

from praval_tools.web.http_server import make_http_server

HANDSHAKE = "2025-11-25"


@contextmanager
def serve(application: ASGIApp, host: str = "127.0.0.1", **options: int) -> Iterator[int]:
    """Serve an application at a free port of the loopback; gives the port."""
    server, listener = make_http_server(application, **options), socket.create_server((host, 0), backlog=2048)  # type: ignore[arg-type]
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()
    assert not thread.is_alive()


@asynccontextmanager
async def connect(port: int, token: str | None, era: str = "auto", **options: Any) -> AsyncIterator[Client]:
    """Connect a client of the SDK with a bearer token."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx2.AsyncClient(headers=headers, timeout=60, limits=limits) as http:
        transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http)
        async with Client(transport, mode=era, **options) as client:
            yield client


class RawClient:
    """
    Sends single requests, as no SDK would.

    Args:
        port: Of the server.
        token: The bearer token.
    """

    def __init__(self, port: int, token: str | None = None) -> None:
        self.url = f"http://127.0.0.1:{port}/mcp"
        self.headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        if token is not None:
            self.headers["Authorization"] = f"Bearer {token}"

    def post(self, body: Any, **headers: str) -> httpx2.Response:
        """Post a message; headers are named with underscores."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx2.post(self.url, content=content, headers={**self.headers, **more}, timeout=60)

    def initialize(self, capabilities: dict[str, Any] | None = None, **headers: str) -> str:
        """Shake hands; returns the id of the session."""
        facts = {"protocolVersion": HANDSHAKE, "clientInfo": {"name": "raw", "version": "1"}}
        response = self.post(request("initialize", **facts, capabilities=capabilities or {}), **headers)
        assert 200 == response.status_code, response.text
        session = response.headers["mcp-session-id"]
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, mcp_session_id=session)
        return session

    def call(self, session: str, name: str, arguments: dict[str, Any]) -> httpx2.Response:
        """Call a tool in a session."""
        return self.post(
            request("tools/call", name=name, arguments=arguments),
            mcp_session_id=session,
            mcp_protocol_version=HANDSHAKE,
        )


class AsyncRawClient:
    """
    A session of the handshake era with no more than what a session needs, so that many fit into one process.

    Args:
        http: Sends the requests.
        port: Of the server.
        token: The bearer token.
    """

    def __init__(self, http: httpx2.AsyncClient, port: int, token: str) -> None:
        self._http, self._raw = http, RawClient(port, token)
        self._numbers = count(1)

    async def initialize(self) -> None:
        """Shake hands."""
        client_info = {"name": "raw", "version": "1"}
        response = await self._post("initialize", protocolVersion=HANDSHAKE, capabilities={}, clientInfo=client_info)
        self._raw.headers |= {"Mcp-Session-Id": response.headers["mcp-session-id"], "Mcp-Protocol-Version": HANDSHAKE}
        body = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await self._http.post(self._raw.url, content=body, headers=self._raw.headers)

    async def call(self, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        """Call a tool."""
        response = await self._post("tools/call", name=name, arguments=arguments)
        assert 200 == response.status_code, response.text
        (data,) = [line for line in response.text.splitlines() if line.startswith("data: {")]
        return types.CallToolResult.model_validate(json.loads(data.removeprefix("data: "))["result"])

    async def _post(self, method: str, **params: Any) -> httpx2.Response:
        body = json.dumps({**request(method, **params), "id": next(self._numbers)})
        return await self._http.post(self._raw.url, content=body, headers=self._raw.headers)


def request(method: str, **params: Any) -> dict[str, Any]:
    """Return a request of JSON-RPC."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def read_all(connection: socket.socket) -> bytes:
    """Return what a server sends until it closes the connection; half a minute at most."""
    connection.settimeout(30)
    data = b""
    while piece := connection.recv(65536):
        data += piece
    return data
