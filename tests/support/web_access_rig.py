"""A server for the views of access, of a program with a few agents and tools, or of a journal alone."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from html import unescape
from pathlib import Path

import httpx
from activity_rig import Server
from mcp_client_rig import wait_until
from starlette.routing import Route

from praval_tools import Agent, ToolCall, ToolRegistry
from praval_tools.web.access.access import AccessReader
from praval_tools.web.access.routes import build_routes

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


class AccessServer(Server):
    """The views of access beside those of one journal."""

    style_sheets = (*Server.style_sheets, ("praval_tools.web.access", "access.css"))

    def __init__(self, journal: str | Path, registry: ToolRegistry | None) -> None:
        self.registry = registry
        super().__init__(journal)

    def list_routes(self) -> list[Route]:
        return [*build_routes(AccessReader(self.activity, self.registry), self.host), *super().list_routes()]

    def open_client(self, user: str = "olga") -> httpx.Client:
        """Return a browser's cookies and no more."""
        return httpx.Client(base_url=self.url, cookies={"user": user}, timeout=60)


@contextmanager
def serve_access(journal: str | Path, registry: ToolRegistry | None = None) -> Iterator[AccessServer]:
    """Serve the views until this ends."""
    server = AccessServer(journal, registry)
    try:
        yield server
    finally:
        server.close()


def read_advice(client: httpx.Client, days: int = 7) -> str:
    """Return the page of advice once it is made: asked for again as long as it says so, as a browser does."""
    pages = list[httpx.Response]()

    def is_made() -> bool:
        pages.append(client.get(f"/advice?days={days}"))
        return "refresh" not in pages[-1].headers

    wait_until(is_made, 60)
    assert 200 == pages[-1].status_code
    return pages[-1].text


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
