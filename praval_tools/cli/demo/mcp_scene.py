"""The scene `demo mcp`: a real MCP client works as one agent, is refused, is granted a call, and loses its token."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from attrs import define
from rich.console import Console

from praval_tools import Agent, ToolRegistry
from praval_tools.cli.common import CommandError, JsonObject, sanitize_text
from praval_tools.integrations.mcp import Tokens, http_app, open_tokens
from praval_tools.journal.events import AgentToolResult, CallRefused
from praval_tools.web.http_server import make_http_server

_ANALYST: Final = "analyst"
_CLIENT_MODULE: Final = "praval_tools.demo.mcp_client"
_TOKEN_VARIABLE: Final = "PRAVAL_TOOLS_DEMO_TOKEN"  # noqa: S105
_END_SECONDS: Final = 30.0


def play_mcp_scene(console: Console) -> None:
    """Serve a registry over HTTP on the loopback, let the client run, and act as the operator meanwhile."""

    def show(who: str, text: str) -> None:
        console.print(f"{who:>9}  {sanitize_text(text)}", highlight=False, markup=False, soft_wrap=True)

    with TemporaryDirectory() as folder, closing(build_registry(Path(folder) / "journal.db")) as registry:
        operator = _Operator(registry, open_tokens(registry.journal), show)
        token = operator.tokens.add(_ANALYST)
        with _serve_registry(registry, operator.tokens) as url, _start_client(url, token) as client:
            show("operator", f"serves {url}; a token stands for {_ANALYST!r}")
            for line in client.stdout or ():
                operator.follow(json.loads(line), client)
            if client.wait(_END_SECONDS):
                raise CommandError(f"The MCP client ended with exit code {client.returncode}.")
        show("journal", "has every call")
        for event in registry.journal.events() if registry.journal is not None else ():
            if isinstance(event, AgentToolResult | CallRefused):
                show("", f"{event.agent} {event.tool_name} {event.outcome}")


def build_registry(journal: Path) -> ToolRegistry:
    """Return a registry with two agents, and two tools of one of them, the first of which is shared."""
    registry = ToolRegistry(name="newsroom", journal=journal)
    Agent("editor", registry=registry)
    Agent(_ANALYST, registry=registry)

    @registry.tool("count_delays", owned_by="editor", shared=True, read_only=True)
    def count_delays(airline: str) -> int:
        """Count the delayed flights of an airline."""
        return 21 * len(airline)

    @registry.tool("publish", owned_by="editor")
    def publish(headline: str) -> str:
        """Publish a headline."""
        return f"published: {headline}"

    return registry


@define
class _Operator:
    """
    Watches the client, and does once what an operator would: grants a call, and revokes the token at the end.

    Args:
        registry: Where the tools are.
        tokens: The tokens that it has given.
        show: Prints who does what.
        has_granted: Whether it has granted the call already.
    """

    registry: ToolRegistry
    tokens: Tokens
    show: Callable[[str, str], None]
    has_granted: bool = False

    def follow(self, seen: JsonObject, client: subprocess.Popen[str]) -> None:
        """Show what the client saw, and answer it."""
        self.show("client", _describe_event(seen))
        if seen["event"] == "call" and seen["is_error"]:
            self.show("operator", f"asks why: {self.registry.explain(_ANALYST, seen['tool']).reason}")
            if not self.has_granted:
                self.has_granted = True
                self.show("operator", "grants one call")
                self.registry.grant(seen["tool"], _ANALYST, max_calls=1)
        elif seen["event"] == "end" and client.stdin is not None:
            self.show("operator", "revokes the token")
            self.tokens.revoke(self.tokens.list()[0].id)
            client.stdin.write("\n")
            client.stdin.flush()


def _describe_event(seen: JsonObject) -> str:
    """Return what the client saw, in words."""
    match seen["event"]:
        case "list":
            return f"sees the tools {', '.join(seen['tools'])}"
        case "call":
            return f"calls {seen['tool']}: {seen['text']}"
        case "end":
            return "has done its work"
    return f"asks once more: HTTP {seen['status']}"


@contextmanager
def _serve_registry(registry: ToolRegistry, tokens: Tokens) -> Iterator[str]:
    """Serve in a thread, at a free port of the loopback; gives the URL."""
    server, listener = make_http_server(http_app(registry, tokens=tokens)), socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@contextmanager
def _start_client(url: str, token: str) -> Iterator[subprocess.Popen[str]]:
    """Start the client in a process of its own."""
    command, environment = [sys.executable, "-m", _CLIENT_MODULE, url], os.environ | {_TOKEN_VARIABLE: token}
    with subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as client:
        try:
            yield client
        finally:
            client.kill()
