"""A server for the views of access, of a program with a few agents and tools, or of a journal alone."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from html import unescape
from importlib.resources import files
from pathlib import Path

import httpx
import uvicorn
from activity_rig import PlainHost
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from praval_tools import Agent, ToolCall, ToolRegistry
from praval_tools.journal import open_journal
from praval_tools.web.access.access import AccessReader
from praval_tools.web.access.routes import build_routes
from praval_tools.web.activity.activity import Activity
from praval_tools.web.activity.routes import build_routes as build_activity_routes

HOSTILE = '"><img src=x onerror=alert(1)><script>alert(1)</script>\u202e'
HOSTILE_AGENT = '"><img src=x onerror=alert(1)>'


def fill_registry(registry: ToolRegistry) -> None:
    """Declare four agents and six tools, of every rule, and hostile texts."""
    for name, categories in (("analyst", ["finance"]), ("clerk", []), ("intern", []), (HOSTILE_AGENT, [])):
        Agent(name, registry=registry, tool_categories=categories)

    @registry.tool("csv_parse", owned_by="analyst", tags=["files"])
    def csv_parse(path: str) -> str:
        """Parse a file."""
        return path

    @registry.tool("pay", owned_by="clerk", category="finance", risk_level="high")
    def pay(to: str, amount: int) -> str:
        """Pay an amount."""
        return f"{amount} to {to}"

    @registry.tool("clock", shared=True)
    def clock() -> str:
        """Tell the time."""
        return "noon"

    @registry.tool("secret_plan", owned_by="clerk", private=True)
    def secret_plan() -> str:
        """Return the plan."""
        return "none"

    @registry.tool("hostile", owned_by=HOSTILE_AGENT, description=HOSTILE, category=HOSTILE, tags=[HOSTILE])
    def hostile() -> str:
        return HOSTILE

    @registry.tool("long_text", owned_by="clerk", description="x" * 1_000_000)
    def long_text() -> str:
        return ""


def fill_grants(registry: ToolRegistry) -> None:
    """Make grants of every state, a block, an earlier owner, and some calls."""
    registry.grant("pay", "intern", max_calls=2, reason="two", where={"amount": {"maximum": 100}})
    registry.grant("secret_plan", "intern", reason="unused")
    registry.grant("csv_parse", "intern", expires=timedelta(hours=1), reason="soon")
    registry.grant("csv_parse", "clerk", max_calls=1, reason="once")
    registry.revoke(registry.grant("csv_parse", HOSTILE_AGENT, reason=f"gone {HOSTILE_AGENT}"), reason="over")
    registry.transfer_ownership("clock", "clerk")
    registry.transfer_ownership("clock", "analyst")
    registry.block("long_text", "intern", reason="it is long")
    for number in range(3):
        registry.execute(ToolCall(f"c{number}", "pay", {"to": "bob", "amount": number}, "clerk"))
    registry.execute(ToolCall("c4", "pay", {"to": "bob", "amount": 1}, "intern"))
    registry.execute(ToolCall("c5", "csv_parse", {"path": "x"}, "clerk"))
    registry.execute(ToolCall("c6", "secret_plan", {}, "analyst"))


def fill_many(registry: ToolRegistry, agents: int, tools: int) -> None:
    """Declare many agents and tools."""

    def work(path: str, rows: int = 10) -> str:
        """Do a part of the work."""
        return path * rows

    for number in range(agents):
        Agent(f"agent-{number:04}", registry=registry, tool_categories=[f"category-{number % 40}"])
    with registry.change():
        for number in range(tools):
            registry.tool(
                f"team{number % 100}.tool_{number:05}", owned_by=f"agent-{number % agents:04}",
                shared=number % 500 == 0, category=f"category-{number % 400}", tags=[f"tag-{number % 50}"],
            )(work)  # fmt: skip


class AccessServer:
    """The views, served on loopback in a thread."""

    def __init__(self, journal: str | Path, registry: ToolRegistry | None) -> None:
        self.journal, self.host = open_journal(journal), PlainHost()
        self.activity = Activity(self.journal)
        self.activity.index.catch_up()
        self.activity.start()
        self.registry = registry
        routes = [*build_routes(AccessReader(self.activity, registry), self.host)]
        app = Starlette(routes=[*routes, *build_activity_routes(self.activity, self.host)])
        app.add_route("/style.css", show_style)
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    def open_client(self, user: str = "olga") -> httpx.Client:
        """Return a browser's cookies and no more."""
        return httpx.Client(base_url=self.url, cookies={"user": user}, timeout=60)

    def close(self) -> None:
        """Stop."""
        self._server.should_exit = True
        self._thread.join(30)
        self._socket.close()
        self.activity.close()
        self.journal.close()


async def show_style(request: Request) -> Response:
    """Return the style sheets of reports and of the views."""
    sheets = (("praval_tools.report", "style.css"), ("praval_tools.web.access", "access.css"))
    text = "\n".join((files(package) / name).read_text("utf-8") for package, name in sheets)
    return Response(f"{text}\nmain {{ max-width: 90rem; padding-top: 0; }}", media_type="text/css")


@contextmanager
def serve_access(journal: str | Path, registry: ToolRegistry | None = None) -> Iterator[AccessServer]:
    """Serve the views until this ends."""
    server = AccessServer(journal, registry)
    try:
        yield server
    finally:
        server.close()


def read_form(text: str, change: str, number: int = 0) -> dict[str, str]:
    """Return the hidden fields of the form of a page that does *change*."""
    forms = [
        form for form in re.findall(r"<form.*?</form>", text, re.DOTALL) if f'name="change" value="{change}"' in form
    ]
    fields = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', forms[number]))
    return {name: unescape(value) for name, value in fields.items()}


if __name__ == "__main__":
    with ToolRegistry(journal=sys.argv[1]) as registry:
        if sys.argv[2] == "typical":
            fill_registry(registry)
            fill_grants(registry)
        elif sys.argv[2] == "huge":
            fill_many(registry, 1_000, 10_000)
        with serve_access(sys.argv[1], registry) as server:
            print(server.url, flush=True)
            threading.Event().wait()
