"""What the tests of the MCP server share: a registry of two agents, and clients of the SDK in both eras."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypedDict

import mcp_types as types
from mcp import Client

from praval_tools import Agent, Content, ToolContext, ToolRegistry

ERAS = ["auto", "legacy"]
"""The modes of the SDK's client: the modern, stateless protocol, and the handshake."""

PIXEL = b"\x89PNG\r\n\x1a\n"


class Rate(TypedDict):
    """An exchange rate."""

    pair: str
    rate: float


def build_registry(**options: Any) -> ToolRegistry:
    """Return a registry: the analyst has tools of all kinds, the clerk one of its own."""
    registry = ToolRegistry(name="bank", **options)
    Agent("analyst", registry=registry)
    Agent("clerk", registry=registry)

    @registry.tool("bank.rate", owned_by="analyst", category="prices", title="Exchange rate", read_only=True)
    def rate(pair: str) -> Rate:
        """Return a rate."""
        return {"pair": pair, "rate": 1.25}

    @registry.tool("add", owned_by="analyst")
    async def add(x: int, y: int = 1) -> int:
        """Add."""
        await asyncio.sleep(0)
        return x + y

    @registry.tool("fail", owned_by="analyst", risk_level="high")
    def fail() -> str:
        """Fail."""
        raise ValueError("the books are closed")

    @registry.tool("chart", owned_by="analyst")
    def chart() -> list[Content | str]:
        """Draw."""
        return ["a chart", Content.image(PIXEL, "image/png")]

    @registry.tool("lies", owned_by="analyst")
    def lies() -> dict[str, int]:
        """Return something else than is declared."""
        return {"a": "b"}  # type: ignore[dict-item]

    @registry.tool("copy", owned_by="analyst")
    def copy(files: int, context: ToolContext) -> int:
        """Report while it works, in a thread."""
        for number in range(1, files + 1):
            context.progress(number, files, f"file {number}")
            context.log(f"copied {number}", "debug" if number == 1 else "warning")
        return files

    @registry.tool("secret_report", owned_by="clerk")
    def secret_report() -> str:
        """Belong to the clerk."""
        return "secret"

    return registry


def run(main: Callable[[], Coroutine[Any, Any, None]], *, seconds: float = 60) -> None:
    """Run an async test, for a minute at most, or as long as it may take."""
    asyncio.run(asyncio.wait_for(main(), seconds))


async def list_names(client: Client) -> list[str]:
    """Return the names of the tools that a client is offered now."""
    return [tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools]


def get_text(result: types.CallToolResult) -> str:
    """Return the text of a result."""
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def wait_until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    """Return once *condition* holds, within half a minute."""
    async with asyncio.timeout(30):
        while True:
            answer = condition()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(0.01)


def in_thread(function: Callable[[], object]) -> None:
    """Run *function* in another thread, to its end."""
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()
