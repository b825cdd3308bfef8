# Tests of: cli/mcp_serve, cli/tokens
"""`praval-tools mcp serve --http` as a process, beside the commands that change what it serves."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_http_rig import RawClient, connect, request
from mcp_rig import list_names, run, wait_until
from mcp_types import ToolListChangedNotification

ROOT = Path(__file__).parents[3]
APP = '''
from praval_tools import Agent, ToolRegistry

registry = ToolRegistry(name="bank", journal="praval_tools.db")
Agent("analyst", registry=registry)

@registry.tool("rate", owned_by="analyst")
def rate() -> float:
    """Return a rate."""
    return 1.25

@registry.tool("wire", owned_by="treasurer")
def wire() -> str:
    """Send money."""
    return "sent"
'''


class Shell:
    """Runs commands in a folder, each as a process."""

    def __init__(self, folder: Path) -> None:
        self._options: dict[str, Any] = {
            "cwd": folder, "env": {**os.environ, "PYTHONPATH": str(ROOT), "PRAVAL_TOOLS_PLUGINS": ""}, "text": True,
        }  # fmt: skip
        self._command = [sys.executable, "-m", "praval_tools", "--app", "bank:registry"]

    def run(self, *arguments: str) -> str:
        """Run a command to its end; returns what it prints."""
        done = subprocess.run([*self._command, *arguments], capture_output=True, check=True, **self._options)
        return done.stdout

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen([*self._command, *arguments], stderr=subprocess.PIPE, **self._options)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A shell in the folder of the bank."""
    (tmp_path / "bank.py").write_text(APP, encoding="utf-8")
    return Shell(tmp_path)


@contextmanager
def serve_bank(shell: Shell, *options: str, address: str = "127.0.0.1") -> Iterator[int]:
    """Serve the bank from its folder; gives the port. At the end the server is interrupted, and ends."""
    with shell.start("mcp", "serve", "--http", "--port", "0", *options) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(rf"http://{re.escape(address)}:(\d+)/mcp", line):
                break
        assert found is not None
        yield int(found[1])
        process.send_signal(signal.SIGINT)
        process.stderr.read()
        assert 130 == process.wait(30)


@pytest.fixture
def port(shell: Shell) -> Iterator[int]:
    """The port of a server that runs in the bank's folder."""
    with serve_bank(shell) as port:
        yield port


class TestHttpProcess:
    def test_listens_elsewhere_with_tokens_and_a_name(self, shell: Shell) -> None:
        """At another address a client with a token reaches it by the name that is allowed, and by no other."""
        options = ["--host", "0.0.0.0", "--allow-host", "tools.example.com"]
        with serve_bank(shell, *options, address="0.0.0.0") as port:
            raw = RawClient(port, shell.run("tokens", "add", "analyst").strip())

            assert raw.initialize(Host="tools.example.com")
            assert 421 == raw.post(request("tools/list"), Host="evil.example.com").status_code

    def test_follows_what_other_processes_change(self, shell: Shell, port: int) -> None:
        """Tokens, grants and revocations made by other commands count for clients that are connected."""

        async def main() -> None:
            heard: list[Any] = []

            async def on_message(message: Any) -> None:
                heard.append(message)

            token = shell.run("tokens", "add", "analyst").strip()
            async with connect(port, token, "legacy", message_handler=on_message) as client:
                assert ["rate"] == await list_names(client)
                shell.run("assign", "wire", "analyst")
                await wait_until(lambda: any(isinstance(one, ToolListChangedNotification) for one in heard))
                assert ["rate", "wire"] == await list_names(client)
            shell.run("tokens", "revoke", shell.run("tokens", "list").splitlines()[1].split()[0])
            assert 401 == RawClient(port, token).post(request("tools/list")).status_code

        run(main)
