"""
What a call and a listing over MCP cost, beside the SDK's bare server and FastMCP's, each in a process of its own.

One client of the SDK drives all of them, in turns, one request at a time; each round gives a ratio to the bare one.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from _measure import Figure, quartiles

_SERVERS: Final = Path(__file__).with_name("_mcp_servers.py")
_ARGUMENTS: Final = {"x": 1.5, "y": 2.5}
_TITLES: Final = {
    "ours": "praval_tools", "ours-memory": "praval_tools, audited in memory",
    "ours-sqlite": "praval_tools, audited in SQLite", "fastmcp": "FastMCP",
    "bare-sqlite": "the bare server with two durable rows a call",
}  # fmt: skip


def serving(quick: bool) -> Iterator[Figure]:
    """Yield the time of a call and of a listing against the bare server's, over stdio and HTTP."""
    if find_spec("mcp") is None:
        return
    kinds = ["bare", *(kind for kind in _TITLES if kind != "fastmcp" or find_spec("fastmcp"))]
    for transport in ("stdio", "http"):
        with tempfile.TemporaryDirectory() as folder:
            calls, lists = asyncio.run(_measure(kinds, transport, folder, quick))
        yield from _compare(f"mcp:{transport}:call", calls)
        yield from _compare(f"mcp:{transport}:list", lists)


def _compare(key: str, seconds: dict[str, list[float]]) -> Iterator[Figure]:
    bare = seconds["bare"]
    yield Figure(f"{key}:bare:ms", statistics.median(bare) * 1000, "ms", note="mcp")
    for kind, times in seconds.items():
        if kind != "bare":
            ratios = [mine / other for mine, other in zip(times, bare, strict=True)]
            yield Figure(f"{key}:{kind}", statistics.median(ratios), "x", *quartiles(ratios), note=_TITLES[kind])


async def _measure(
    kinds: list[str], transport: str, folder: str, quick: bool
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return the seconds of a call and of a listing in each round, by the kind of server."""
    calls: dict[str, list[float]] = {kind: [] for kind in kinds}
    lists: dict[str, list[float]] = {kind: [] for kind in kinds}
    async with AsyncExitStack() as stack:
        clients = {kind: await stack.enter_async_context(_connect(kind, transport, folder)) for kind in kinds}
        for client in clients.values():
            await _time_calls(client, 10)
            await _time_listing(client)
        for _ in range(5 if quick else 15):
            for kind in random.sample(kinds, len(kinds)):
                calls[kind].append(await _time_calls(clients[kind], 20))
        for _ in range(2 if quick else 9):
            for kind in random.sample(kinds, len(kinds)):
                lists[kind].append(await _time_listing(clients[kind]))
    return calls, lists


async def _time_calls(client: Any, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        result = await client.session.call_tool("add", _ARGUMENTS)
        assert not result.is_error, result
    return (time.perf_counter() - start) / count


async def _time_listing(client: Any) -> float:
    gc.collect()  # a collection in the client, which keeps all the lists, takes longer than the listing
    gc.disable()
    try:
        start = time.perf_counter()
        await client.session.list_tools()
        return time.perf_counter() - start
    finally:
        gc.enable()


@asynccontextmanager
async def _connect(kind: str, transport: str, folder: str) -> AsyncIterator[Any]:
    """Start a server and connect to it."""
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    if transport == "stdio":
        arguments, environment = [str(_SERVERS), kind, transport], dict(os.environ)
        command = StdioServerParameters(command=sys.executable, args=arguments, cwd=folder, env=environment)
        async with Client(stdio_client(command)) as client:
            yield client
        return
    with subprocess.Popen(
        [sys.executable, str(_SERVERS), kind, transport], cwd=folder, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            async with Client(process.stdout.readline().strip()) as client:
                yield client
        finally:
            process.terminate()
