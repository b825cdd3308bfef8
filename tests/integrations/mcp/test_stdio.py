# Tests of: integrations/stdio, cli/mcp, cli/mcp_serve
"""`praval-tools mcp serve` by stdio: a real process, the SDK's client, and nothing but the protocol on stdout."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_rig import ERAS, get_text, list_names, run

from praval_tools.journal import open_journal

ROOT = Path(__file__).parents[3]
APP = '''
import os, subprocess, sys, threading
print("imported")
os.write(1, b"raw\\n")
subprocess.run(["echo", "a child"])

from praval_tools import Agent, ToolContext, ToolRegistry

registry = ToolRegistry(name="noisy")
Agent("analyst", registry=registry)

@registry.tool("shout", owned_by="analyst")
def shout(text: str) -> str:
    """Print in every way there is."""
    print(text)
    sys.stdout.write(text); sys.stdout.flush()
    sys.__stdout__.write(text); sys.__stdout__.flush()
    os.write(1, text.encode())
    subprocess.run(["echo", text])
    return text.upper()

@registry.tool("read", owned_by="analyst")
def read() -> str:
    """Read from stdin, on which the client speaks."""
    return sys.stdin.read() + os.read(0, 10).decode()

@registry.tool("hang", owned_by="analyst")
def hang(context: ToolContext) -> None:
    """Never end, whatever anybody says."""
    context.log("hanging")
    while True:
        threading.Event().wait(1)

@registry.tool("ahang", owned_by="analyst")
async def ahang(context: ToolContext) -> None:
    """Never end, and ignore being cancelled."""
    import asyncio
    context.log("hanging")
    while True:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            pass
'''


@pytest.fixture
def command(tmp_path: Path) -> dict[str, Any]:
    """How the server is started, for `Popen` and for the SDK."""
    (tmp_path / "noisy.py").write_text(APP, encoding="utf-8")
    arguments = ["-m", "praval_tools", "--app", "noisy:registry", "mcp", "serve", "--agent", "analyst"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PRAVAL_TOOLS_PLUGINS": ""}
    return {"command": sys.executable, "args": arguments, "env": env, "cwd": str(tmp_path)}


def start(command: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start a server whose stdin and stdout are pipes."""
    return subprocess.Popen(
        [command["command"], *command["args"]], env=command["env"], cwd=command["cwd"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def send(process: subprocess.Popen[bytes], *messages: object) -> None:
    """Write messages, or bytes as they are, each on a line."""
    assert process.stdin is not None
    for message in messages:
        process.stdin.write((message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n")
    process.stdin.flush()


def read_message(process: subprocess.Popen[bytes]) -> Any:
    """Read a message, which every line is."""
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def ask(number: int, method: str, **params: Any) -> dict[str, Any]:
    """Return a request."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


HANDSHAKE = (
    ask(0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "raw", "version": "1"}),
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
)


def close_and_measure(command: dict[str, Any], tool: str | None) -> float:
    """Close the client's side while *tool* runs; return after how many seconds the server has ended."""
    with start(command) as process:
        send(process, *HANDSHAKE)
        read_message(process)
        if tool is not None:
            send(process, ask(1, "tools/call", name=tool, arguments={}))
            assert "notifications/message" == read_message(process)["method"]
        assert process.stdin is not None
        process.stdin.close()
        closed = time.monotonic()

        assert 0 == process.wait(20)
        return time.monotonic() - closed


class TestProcess:
    @pytest.mark.parametrize("era", ERAS)
    def test_serves_a_client(self, era: str, command: dict[str, Any]) -> None:
        """The SDK's client lists and calls over the pipes of a real process, whatever tools print and read."""

        async def main() -> None:
            with open(os.devnull, "w") as errors:
                transport = stdio_client(StdioServerParameters(**command), errlog=errors)
                async with Client(transport, mode=era) as client:
                    assert ["ahang", "hang", "read", "shout"] == await list_names(client)
                    for text in ("hello", "{}", "\n\n"):
                        assert text.upper() == get_text(await client.call_tool("shout", {"text": text}))
                    assert "" == get_text(await client.call_tool("read", {}))

        run(main)

    def test_writes_nothing_but_messages(self, command: dict[str, Any]) -> None:
        """Every line of stdout is a message, from the import of the app to the end."""
        with start(command) as process:
            send(process, *HANDSHAKE, ask(1, "tools/call", name="shout", arguments={"text": "hello"}))
            numbers = [read_message(process)["id"] for _ in range(2)]
            out, _ = process.communicate()

        assert ([0, 1], b"", 0) == (numbers, out, process.returncode)

    def test_records_the_calls_in_the_journal_that_is_named(self, command: dict[str, Any]) -> None:
        """`--journal` names the record of all calls, and is made where there is none."""
        command["args"] += ["--journal", "calls.db"]
        with start(command) as process:
            send(process, *HANDSHAKE, ask(1, "tools/call", name="shout", arguments={"text": "hello"}))
            while read_message(process)["id"] != 1:
                pass
            process.communicate()

        journal = open_journal(Path(command["cwd"]) / "calls.db")
        assert [("analyst", "shout")] == list({(entry.event.agent, entry.event.tool_name) for entry in journal.read()})
        journal.close()

    @pytest.mark.parametrize("tool", [None, "hang", "ahang"])
    def test_ends_when_stdin_is_closed(self, tool: str | None, command: dict[str, Any]) -> None:
        """A server whose client is gone ends within two seconds, also where a tool never does."""
        assert any(close_and_measure(command, tool) < 2 for _ in range(3))  # the machine may have other work

    def test_survives_what_is_not_the_protocol(self, command: dict[str, Any]) -> None:
        """Lines that are no messages are skipped or answered with an error, and the next request is served."""
        with start(command) as process:
            send(process, *HANDSHAKE)
            read_message(process)
            send(
                process, b"{", b"", b"null", b"[]", b"\xff\xfe", b"[" * 100_000, b"x" * 5_000_000, b'{"jsonrpc":"2.0"}'
            )
            send(process, ask(7, "tools/call", name="shout", arguments={"text": "hello"}))
            while (message := read_message(process)).get("id") != 7:
                assert "error" in message
            process.communicate()

        assert "HELLO" == message["result"]["content"][0]["text"]

    def test_a_line_without_end_is_not_kept(self, command: dict[str, Any]) -> None:
        """A message that is too long takes no memory, is answered with an error, and costs no other."""
        with start(command) as process:
            send(process, *HANDSHAKE)
            read_message(process)
            for _ in range(2):
                for _ in range(60):
                    assert process.stdin is not None
                    process.stdin.write(b"x" * 1_048_576)
                send(process, b"")
                assert "16,777,216 bytes" in read_message(process)["error"]["message"]
            status = Path(f"/proc/{process.pid}/status")
            peak = int(re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())[0]) if status.exists() else 0
            send(process, ask(7, "tools/call", name="shout", arguments={"text": "hello"}))
            while (message := read_message(process)).get("id") != 7:
                pass
            process.communicate()

        assert "HELLO" == message["result"]["content"][0]["text"]
        assert peak < 180_000

    @pytest.mark.parametrize(("agent", "note"), [("analyst", ""), ("anylst", "no agent 'anylst' is declared")])
    def test_notes_an_agent_that_nobody_knows(self, agent: str, note: str, command: dict[str, Any]) -> None:
        """A mistyped name, which would have no tools, is noted on stderr; a name that has tools is not."""
        arguments = [*command["args"][:-1], agent]
        done = subprocess.run(
            [command["command"], *arguments], env=command["env"], cwd=command["cwd"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip

        assert (0, "") == (done.returncode, done.stdout)
        assert (note in done.stderr) and bool(note) is ("Did you mean 'analyst'?" in done.stderr)

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            (["--app", "nowhere:registry", "mcp", "serve", "--agent", "analyst"], b"No module 'nowhere'"),
            (["--app", "noisy:registry", "mcp", "serve"], b"Name the agent: --agent AGENT"),
        ],
    )
    def test_says_on_stderr_why_it_cannot_serve(
        self, arguments: list[str], problem: bytes, command: dict[str, Any]
    ) -> None:
        """A wrong command is one line on stderr and a code, and stdout stays empty."""
        done = subprocess.run(
            [sys.executable, "-m", "praval_tools", *arguments], env=command["env"], cwd=command["cwd"],
            stdin=subprocess.DEVNULL, capture_output=True,
        )  # fmt: skip

        assert (2, b"") == (done.returncode, done.stdout)
        assert problem in done.stderr
