# Tests of: cli/mcp_serve, web/http_server
"""What the pages on MCP say outside of their examples: configurations of clients and proxies, which are used here."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tls_proxy import NAME, run_caddy_like_proxy, run_nginx, run_nginx_like_proxy

pytest.importorskip("mcp")

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_rig import ERAS, list_names, run

from praval_tools.integrations.mcp.serving.http import MAX_BODY_BYTES

ROOT = Path(__file__).parents[2]
SERVE, PROXY = (ROOT / "docs" / "how-to" / f"mcp-{name}.md" for name in ("serve", "proxy"))
SUPPORT = ROOT / "tests" / "support"
HOME = "/home/ann/bank"
TOOLS = ["rate", "report"]


def read_blocks(page: Path, kind: str) -> list[str]:
    """Return the fenced blocks of a kind, in order."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def list_servers() -> list[dict[str, Any]]:
    """Return the servers that the configurations of clients name."""
    configurations = map(json.loads, read_blocks(SERVE, "json"))
    return [one for each in configurations for one in (each.get("mcpServers") or each["servers"]).values()]


STDIO = [server for server in list_servers() if "command" in server]
HTTP = [server for server in list_servers() if "url" in server]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Ann's folder with the module of the page, and an environment that has the command."""
    folder = tmp_path / HOME.removeprefix("/")
    program = folder / ".venv" / "bin" / "praval-tools"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m praval_tools "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    (module,) = re.findall(r'^```python title="bank.py"\n(.*?)^```$', SERVE.read_text("utf-8"), re.M | re.S)
    (folder / "bank.py").write_text(module, encoding="utf-8")
    return folder


class TestDesktopClients:
    def test_are_several(self) -> None:
        """The page has configurations for stdio and for HTTP, each in the words of its program."""
        assert (3, 1) == (len(STDIO), len(HTTP))
        for server in STDIO:
            assert {"command", "args", "env"} <= server.keys() <= {"command", "args", "env", "type"}

    @pytest.mark.parametrize("era", ERAS)
    @pytest.mark.parametrize("number", range(3))
    def test_start_the_server(self, number: int, era: str, home: Path, tmp_path: Path) -> None:
        """The command, arguments and environment of each configuration start a server, from any folder."""
        text = json.dumps(STDIO[number]).replace(HOME, str(home))
        server = json.loads(text)

        async def main() -> None:
            parameters = StdioServerParameters(
                command=server["command"], args=server["args"], env=server["env"], cwd=str(tmp_path)
            )
            with open(os.devnull, "w") as errors:
                async with Client(stdio_client(parameters, errlog=errors), mode=era) as client:
                    assert TOOLS == await list_names(client)
                    assert not (await client.call_tool("rate", {"pair": "EURUSD"})).is_error

        run(main)
        journals = [str(file) for file in home.glob("*.db")]
        assert journals == [word for word in server["args"] if word.endswith(".db")]

    @pytest.mark.parametrize("number", range(3))
    def test_are_programs_in_typescript(self, number: int, home: Path, tmp_path: Path) -> None:
        """The SDK that desktop programs are made with starts the server, too, and gets results and refusals."""
        suite = ROOT / ".conformance" / "0.1.16"
        if not (suite / "complete").exists():
            pytest.skip("the SDK for TypeScript comes with the conformance suite: make conformance")
        server = json.dumps(STDIO[number]).replace(HOME, str(home))
        node, sdk = suite / "node_modules" / ".bin" / "node", suite / "node_modules" / "@modelcontextprotocol" / "sdk"
        command = [str(node), str(SUPPORT / "mcp_typescript_client.mjs"), str(sdk), server]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)

        assert "" == done.stderr
        assert [TOOLS, {"EURUSD": 1.25}, True] == json.loads(done.stdout)

    def test_reach_the_server_by_http(self, home: Path) -> None:
        """The address and the header of the configuration reach the server that the page starts, with its token."""
        (server,) = HTTP
        command = next(line for block in read_blocks(SERVE, "sh") for line in block.splitlines() if "--http" in line)
        (add,) = [block for block in read_blocks(SERVE, "sh") if "tokens add" in block]
        with start_http(command, home) as port:
            token = run_command(add, home)
            url = server["url"].replace(":8765/", f":{port}/")
            headers = {name: value.replace("${input:bank-token}", token) for name, value in server["headers"].items()}

            async def main() -> None:
                async with httpx2.AsyncClient(headers=headers) as http:
                    async with Client(streamable_http_client(url, http_client=http)) as client:
                        assert TOOLS == await list_names(client)

            run(main)


def run_command(command: str, folder: Path) -> str:
    """Run a command of a page in the folder; returns what it prints."""
    words = [sys.executable, "-m", "praval_tools", *shlex.split(command)[1:]]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@contextmanager
def start_http(command: str, folder: Path) -> Iterator[int]:
    """Start the server by the command of a page, at a free port; gives the port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "praval_tools", *shlex.split(command.replace("8765", str(port)))[1:]]
    with subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert any(f":{port}/mcp" in line for line in process.stderr)
            yield port
        finally:
            process.terminate()
            process.stderr.read()


@pytest.fixture(params=["caddy", "nginx", "the real nginx"])
def proxy(request: pytest.FixtureRequest, home: Path, tmp_path: Path) -> Iterator[tuple[str, ssl.SSLContext, str]]:
    """The URL of the page's server behind a proxy that is set up as on the page, its certificate, and a token."""
    caddy, nginx = read_blocks(PROXY, "ini")
    (command,) = read_blocks(PROXY, "sh")
    with start_http(command, home) as port:
        place: AbstractContextManager[tuple[int, Path]]
        if request.param == "caddy":
            place = run_caddy_like_proxy(port, caddy, tmp_path)
        elif request.param == "nginx":
            place = run_nginx_like_proxy(port, nginx, tmp_path)
        elif (program := shutil.which("nginx")) is not None:
            place = run_nginx(program, port, nginx, tmp_path)
        else:
            pytest.skip("nginx is not installed")
        with place as (own_port, certificate):
            context = ssl.create_default_context(cafile=str(certificate))
            yield f"https://localhost:{own_port}/mcp", context, run_command("praval-tools tokens add analyst", home)


@asynccontextmanager
async def connect(url: str, context: ssl.SSLContext, token: str, era: str) -> AsyncIterator[Client]:
    """Connect a client that calls the proxy by its name."""
    headers = {"Host": NAME, "Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, verify=context, timeout=30) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=era) as client:
            yield client


class TestProxies:
    def test_snippets_agree_with_the_server(self) -> None:
        """Port, path, name and size of bodies are those of the server and of its command on the page."""
        caddy, nginx = read_blocks(PROXY, "ini")
        (command,) = read_blocks(PROXY, "sh")

        assert f"--allow-host {NAME}" in command and "--port 8765" in command
        assert "reverse_proxy 127.0.0.1:8765 {" in caddy and f"server_name {NAME};" in nginx
        assert "location /mcp {" in nginx and "proxy_pass http://127.0.0.1:8765;" in nginx
        assert MAX_BODY_BYTES == int(re.findall(r"client_max_body_size (\d+)m;", nginx)[0]) * 1024 * 1024

    @pytest.mark.parametrize("era", ERAS)
    def test_pass_everything_on(self, era: str, proxy: tuple[str, ssl.SSLContext, str]) -> None:
        """Behind a proxy a client lists, calls, and gets progress; a foreign name, and no token, are refused."""
        url, context, token = proxy

        async def main() -> None:
            heard, has_heard_all = list[float](), asyncio.Event()

            async def on_progress(done: float, total: float | None, message: str | None) -> None:
                heard.append(done)
                if len(heard) == 3:
                    has_heard_all.set()

            async with connect(url, context, token, era) as client:
                assert TOOLS == await list_names(client)
                await client.call_tool("report", {"pages": 3}, progress_callback=on_progress)
                await asyncio.wait_for(has_heard_all.wait(), 30)  # the client's tasks may run after the answer
            assert [1, 2, 3] == heard

        run(main)
        assert 401 == httpx2.post(url, headers={"Host": NAME}, verify=context, json={}).status_code

    def test_pass_changes_on_at_once(self, proxy: tuple[str, ssl.SSLContext, str], home: Path) -> None:
        """A client hears within two seconds of what an operator's command changes: the stream is not buffered."""
        url, context, token = proxy

        async def main() -> None:
            async with connect(url, context, token, "auto") as client:
                async with client.listen(tools_list_changed=True) as events:
                    await asyncio.to_thread(
                        run_command, "praval-tools --app bank:registry assign wire_money analyst", home
                    )
                    began = time.monotonic()
                    await anext(aiter(events))
                    assert time.monotonic() - began < 2
                    assert [*TOOLS, "wire_money"] == await list_names(client)

        run(main)
