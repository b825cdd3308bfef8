"""The operator's page of one journal, served on loopback in a thread, and clients that log in."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import httpx
from clocks import HandClock
from starlette.routing import Route

from praval_tools import ToolRegistry
from praval_tools.journal import open_journal
from praval_tools.journal.tokens import open_tokens
from praval_tools.web.activity.activity import Activity
from praval_tools.web.http_server import MAX_WAITING_CONNECTIONS, make_http_server
from praval_tools.web.server.app import build_app
from praval_tools.web.server.logins import Logins
from praval_tools.web.server.page import ViewPackage
from praval_tools.web.server.settings import PageSettings

HOSTILE = '"><script>alert(1)</script>\u202e=cmd|calc'


class PageClock(HandClock):
    """A clock that begins now, since what waits expires by the journal's own."""

    def __init__(self) -> None:
        self.moment = datetime.now(UTC)

    def go_on(self, span: timedelta) -> None:
        """Let time pass."""
        self.moment += span
        self.seconds += span.total_seconds()


class PageServer:
    """The page; a test moves its clock."""

    def __init__(
        self, journal: str | Path | ToolRegistry, more_views: tuple[ViewPackage, ...],
        max_waiting_connections: int = MAX_WAITING_CONNECTIONS, **settings: Any,
    ) -> None:  # fmt: skip
        registry = journal if isinstance(journal, ToolRegistry) else None
        self.clock = PageClock()
        self.journal = open_journal(registry.journal.name if registry and registry.journal else str(journal))
        self.tokens = open_tokens(self.journal, clock=self.clock)
        self.logins = Logins(tokens=self.tokens, clock=self.clock)
        self.activity = Activity(self.journal)
        self.activity.index.catch_up()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.settings = PageSettings(**{"port": self.port, **settings})
        self.url, self.origin = f"http://127.0.0.1:{self.port}", f"{self.settings.scheme}://127.0.0.1:{self.port}"
        app = build_app(
            self.activity, self.logins, registry=registry, settings=self.settings, clock=self.clock,
            more_views=more_views,
        )  # fmt: skip
        self.routes: list[Route] = app._app.routes  # type: ignore[attr-defined]
        self._server = make_http_server(
            app, max_waiting_connections=max_waiting_connections, grace_seconds=1, reads_proxy_headers=False,
            on_stop=self.activity.feed.close,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    def close(self) -> None:
        """Stop."""
        self._server.should_exit = True
        self._thread.join(30)
        self._socket.close()
        self.activity.close()
        self.journal.close()

    def count_connections(self) -> int:
        """Return how many connections are open."""
        return len(self._server.server_state.connections)

    def open_client(self) -> httpx.Client:
        """Return a browser without scripts that is not logged in."""
        headers = {"origin": self.origin, "accept": "text/html"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30)

    @contextmanager
    def log_in(self, name: str = "olga", role: str = "operator") -> Iterator[httpx.Client]:
        """Lend one that is."""
        with self.open_client() as client:
            answer = client.post("/login", data={"token": self.tokens.add(name, role=role)})
            assert 303 == answer.status_code
            yield client


@contextmanager
def serve_page(
    journal: str | Path | ToolRegistry, more_views: tuple[ViewPackage, ...] = (), **settings: Any
) -> Iterator[PageServer]:
    """Serve the page of a journal, or of a registry with one, until this ends."""
    server = PageServer(journal, more_views, **settings)
    try:
        yield server
    finally:
        server.close()


def read_form(text: str, action: str, number: int = 0) -> dict[str, str]:
    """Return the hidden fields of a form of a page, as a browser would send them."""
    form = re.findall(rf'<form[^>]*action="{action}".*?</form>', text, re.DOTALL)[number]
    fields = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', form)
    return {name: unescape(value) for name, value in fields}
