# Tests of: integrations/server, integrations/list_notifier, integrations/http
"""Every version of the protocol that the SDK speaks: lists, calls, and how soon a client hears of changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client
from mcp_http_rig import connect, serve
from mcp_rig import get_text, list_names, run, wait_until
from mcp_types import ToolListChangedNotification
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from plugin_rig import Site, loaded, site, write_tool
from starlette.types import ASGIApp, Receive, Scope, Send

from praval_tools import Agent, ToolRegistry
from praval_tools.integrations.mcp import http_app, server

__all__ = ["site"]

STREAM_VERSIONS = HANDSHAKE_PROTOCOL_VERSIONS[1:]
"""Those in which a client over HTTP hears of changes on a stream that it opens by GET."""

SECONDS = 1.0
"""How soon a client hears of a change."""


class RequestLog:
    """
    ASGI middleware that keeps the method and the version of each request.

    Args:
        app: The application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app, self.requests = app, list[tuple[str, str]]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            self.requests.append((scope["method"], headers.get(b"mcp-protocol-version", b"").decode()))
        await self._app(scope, receive, send)


@pytest.fixture
def registry() -> ToolRegistry:
    """Has a reader with one tool, who asks for another that a plugin will bring."""
    registry = ToolRegistry()
    Agent("reader", tools=["read", "one"], registry=registry)
    registry.tool("read", owned_by="editor")(read)
    registry.tool("write", owned_by="editor")(write)
    return registry


def read(page: int) -> str:
    """Read a page."""
    return f"page {page}"


def write(page: int) -> str:
    """Write a page."""
    return f"wrote {page}"


@pytest.fixture(params=[*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A version of the protocol; in a handshake the SDK's client asks for it, as clients of its time do."""
    if request.param in HANDSHAKE_PROTOCOL_VERSIONS:
        monkeypatch.setattr("mcp.client.session.LATEST_HANDSHAKE_VERSION", request.param)
    return str(request.param)


class ChangeListener:
    """
    Keeps the moments at which a client of *version* was notified that its list has changed.

    Args:
        version: Of the protocol.
    """

    def __init__(self, version: str) -> None:
        self._version, self._moments = version, list[float]()

    @asynccontextmanager
    async def connect(self, registry: ToolRegistry, *, by_http: bool) -> AsyncIterator[Client]:
        """Connect a client of the reader that listens."""
        mode = "legacy" if self._version in HANDSHAKE_PROTOCOL_VERSIONS else self._version
        if by_http:
            log = RequestLog(http_app(registry, agent="reader"))
            with serve(log) as port:
                async with connect(port, None, mode, message_handler=self._take) as client, self._subscribe(client):
                    if self._version in STREAM_VERSIONS:
                        await wait_until(lambda: ("GET", self._version) in log.requests)
                    yield client
            return
        served = server(registry, agent="reader")
        async with Client(served, mode=mode, message_handler=self._take) as client, self._subscribe(client):
            yield client

    async def _take(self, message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._moments.append(time.monotonic())

    @asynccontextmanager
    async def _subscribe(self, client: Client) -> AsyncIterator[None]:
        """Subscribe, where the version has subscriptions; in the others notifications come unasked."""
        if self._version in HANDSHAKE_PROTOCOL_VERSIONS:
            await client.list_tools()
            yield
            return
        async with client.listen(tools_list_changed=True) as events:

            async def take_all() -> None:
                async for _ in events:
                    self._moments.append(time.monotonic())

            listening = asyncio.create_task(take_all())
            yield
            listening.cancel()

    async def measure(self, change: Callable[[], object]) -> float:
        """Make a change, and return after how many seconds the client was notified of it."""
        count = len(self._moments)
        change()
        began = time.monotonic()
        await wait_until(lambda: len(self._moments) > count)
        return self._moments[count] - began


@pytest.mark.parametrize("by_http", [False, True], ids=["in the program", "http"])
class TestVersions:
    def test_are_served(self, version: str, registry: ToolRegistry, by_http: bool) -> None:
        """A client agrees on its version, sees its agent's tools, calls one, and is refused another."""

        async def main() -> None:
            async with ChangeListener(version).connect(registry, by_http=by_http) as client:
                assert version == client.protocol_version
                assert ["read"] == await list_names(client)
                assert "page 3" == get_text(await client.call_tool("read", {"page": 3}))
                assert (await client.call_tool("write", {"page": 3})).is_error

        run(main)

    def test_hear_of_changes_within_a_second(
        self, version: str, registry: ToolRegistry, by_http: bool, site: Site
    ) -> None:
        """A grant, a revocation and a plugin that is loaded reach a client within a second, over HTTP by its stream."""
        site.install("acme", write_tool("one"))

        async def main() -> None:
            listener, seconds = ChangeListener(version), dict[str, float]()
            async with listener.connect(registry, by_http=by_http) as client:
                seconds["grant"] = await listener.measure(lambda: registry.grant("write", "reader"))
                assert ["read", "write"] == await list_names(client)
                seconds["revocation"] = await listener.measure(
                    lambda: registry.remove_tool_from_agent("write", "reader")
                )
                assert ["read"] == await list_names(client)
                seconds["plugin"] = await listener.measure(lambda: loaded(registry))
                assert ["one", "read"] == await list_names(client)
            assert {} == {change: passed for change, passed in seconds.items() if passed > SECONDS}

        run(main)
