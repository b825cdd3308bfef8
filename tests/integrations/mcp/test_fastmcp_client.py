# Tests of: integrations/server, integrations/http, integrations/stdio
"""FastMCP's client, which is not the SDK's: an agent's tools over stdio and HTTP, its refusals and its changes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_http_rig import serve
from mcp_rig import build_registry, run, wait_until

from praval_tools.integrations.mcp import http_app, open_tokens

fastmcp = pytest.importorskip("fastmcp")
transports = pytest.importorskip("fastmcp.client.transports")

SUPPORT, ROOT = Path(__file__).parents[2] / "support", Path(__file__).parents[3]
APP = """
import threading, time
from pathlib import Path
from mcp_rig import build_registry

registry = build_registry()

def wait_for_grant():
    while not Path("grant").exists():
        time.sleep(0.01)
    registry.grant("secret_report", "analyst")

threading.Thread(target=wait_for_grant, daemon=True).start()
"""

Connect = Callable[..., AbstractAsyncContextManager[Any]]


@asynccontextmanager
async def connect_by_stdio(folder: Path, **options: Any) -> AsyncIterator[tuple[Any, Callable[[], None]]]:
    """Connect a client to a process of its own; gives what grants the analyst one more tool."""
    (folder / "bank.py").write_text(APP, encoding="utf-8")
    transport = transports.StdioTransport(
        command=sys.executable,
        args=["-m", "praval_tools", "--app", "bank:registry", "mcp", "serve", "--agent", "analyst"],
        env={**os.environ, "PYTHONPATH": f"{SUPPORT}{os.pathsep}{ROOT}", "PRAVAL_TOOLS_PLUGINS": ""}, cwd=str(folder),
        keep_alive=False, log_file=folder / "errors",
    )  # fmt: skip
    async with fastmcp.Client(transport, **options) as client:
        yield client, (folder / "grant").touch


@asynccontextmanager
async def connect_by_http(folder: Path, **options: Any) -> AsyncIterator[tuple[Any, Callable[[], None]]]:
    """Connect a client with a bearer token; gives what grants the analyst one more tool."""
    registry, tokens = build_registry(), open_tokens(None, file=folder / "tokens")
    with serve(http_app(registry, tokens=tokens)) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        async with fastmcp.Client(url, auth=tokens.add("analyst"), **options) as client:
            yield client, lambda: registry.grant("secret_report", "analyst")


@pytest.mark.parametrize("connect", [connect_by_stdio, connect_by_http], ids=["stdio", "http"])
class TestFastMcpClient:
    def test_lists_and_calls(self, connect: Connect, tmp_path: Path) -> None:
        """It sees its agent's tools, gets values, media and progress, and is refused what is not its agent's."""

        async def main() -> None:
            heard: list[float] = []

            async def on_progress(done: float, total: float | None, message: str | None) -> None:
                heard.append(done)

            async with connect(tmp_path) as (client, _):
                names = [tool.name for tool in await client.list_tools()]
                assert ["add", "bank.rate", "chart", "copy", "fail", "lies"] == sorted(names)
                assert {"result": 3} == (await client.call_tool("add", {"x": 2})).structured_content
                assert 2 == len((await client.call_tool("chart", {})).content)
                await client.call_tool("copy", {"files": 3}, progress_handler=on_progress)
                for name in ("fail", "secret_report"):
                    assert (await client.call_tool(name, {}, raise_on_error=False)).is_error
            assert [1, 2, 3] == heard

        run(main)

    def test_sees_a_grant(self, connect: Connect, tmp_path: Path) -> None:
        """A tool that is granted while it is connected is on its next list, and runs."""

        async def main() -> None:
            async with connect(tmp_path) as (client, grant):
                grant()

                async def has_tool() -> bool:
                    return "secret_report" in [tool.name for tool in await client.list_tools()]

                await wait_until(has_tool)
                assert {"result": "secret"} == (await client.call_tool("secret_report", {})).structured_content

        run(main)

    def test_gives_a_call_up(self, connect: Connect, tmp_path: Path) -> None:
        """A call that it gives up costs neither the connection nor the next call."""

        async def main() -> None:
            async with connect(tmp_path) as (client, _):
                call = asyncio.create_task(client.call_tool("copy", {"files": 1_000}))
                await asyncio.sleep(0.05)
                call.cancel()
                assert {"result": 3} == (await client.call_tool("add", {"x": 2})).structured_content

        run(main)
