"""Praval agents that chat in each of Praval's ways, and a journaled registry with tools for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from praval_rig import praval

from praval_tools import ToolRegistry
from praval_tools.journal.events import AgentToolResult, CallRefused

HOME = Path(__file__).parent
"""Where the programs of the tests are."""


@pytest.fixture
def registry() -> Iterator[ToolRegistry]:
    """A journaled registry with tools of several owners."""
    with ToolRegistry(name="main", journal="memory") as made:

        @made.tool("count", owned_by="analyst")
        def count(text: str, most: int = 100) -> int:
            """Count letters."""
            return min(len(text), most)

        @made.tool("lend", owned_by="librarian")
        def lend(book: str) -> str:
            """Lend a book."""
            return f"lent {book}"

        @made.tool("wire", owned_by="treasurer")
        def wire(amount: float) -> str:
            """Send money."""
            raise AssertionError(f"sent {amount}")

        @made.tool("later", owned_by="analyst")
        async def later(days: int) -> dict[str, int]:
            """Wait."""
            await asyncio.sleep(0)
            return {"days": days}

        yield made


def analyst(**options: Any) -> Any:
    """Return a decorated Praval agent whose model is `script`."""

    @praval.agent("analyst", provider="script", **options)
    def work(spore: Any) -> Any:
        """Work."""
        return {"said": praval.chat("go")}

    return work


def copied() -> Any:
    """Return a function of its own."""

    def work(x: int) -> int:
        """Work."""
        return x

    return work


def ended(registry: ToolRegistry) -> list[tuple[str | None, str, str]]:
    """Return agent, tool and outcome of every call that the journal holds."""
    assert registry.journal is not None
    return [
        (one.agent, one.tool_name, str(one.outcome))
        for one in registry.journal.events()
        if isinstance(one, AgentToolResult | CallRefused)
    ]


def chat(agent: Any, way: str = "chat") -> str:
    """Let an agent chat in one of Praval's ways, and return what its model says in the end."""
    inner = agent._praval_agent
    if way == "chat":
        return str(inner.chat("go"))
    if way == "generate":
        return str(inner.generate("go").content)
    if way == "agenerate":
        return str(asyncio.run(inner.agenerate("go")).content)
    if way == "stream":
        return str([one for one in inner.stream("go") if one.type == "final"][0].response.content)
    if way == "astream":

        async def gather() -> list[Any]:
            return [one async for one in inner.astream("go")]

        return str(asyncio.run(gather())[-1].response.content)
    if way == "chat in a loop":

        async def inside() -> str:
            return str(inner.chat("go"))

        return asyncio.run(inside())

    @praval.agent(f"{inner.name}-caller", provider="script", auto_broadcast=False)
    async def handler(spore: Any) -> None:
        """Chat."""

    async def achat() -> str:
        from praval import decorators

        decorators._agent_context.agent = inner
        return str(await decorators.achat("go"))

    assert way == "achat"
    return asyncio.run(achat())


WAYS = ["chat", "generate", "agenerate", "stream", "astream", "achat", "chat in a loop"]


def formatted(provider: Any, entries: list[Any], request: Any) -> Iterator[dict[str, Any]]:
    """Yield the names and schemas that each formatter of a provider makes of entries and specs."""

    def read(one: Any) -> tuple[str, Any]:
        one = one.get("function", one) if isinstance(one, dict) else one
        schema = one.get("parameters") or one.get("input_schema") or one.get("parametersJsonSchema")
        return one["name"], schema or {"properties": one.get("parameter_definitions") or {}}

    for name in (
        "_format_tools_for_openai", "_format_tools_for_anthropic", "_format_tools_for_cohere", "_format_tools",
        "_format_tool_specs_for_openai", "_format_tool_specs_for_responses", "_format_tool_specs_for_anthropic",
        "_format_tool_specs_for_cohere",
    ):  # fmt: skip
        made: Callable[..., Any] | None = getattr(provider, name, None)
        if made is not None:
            yield dict(read(one) for one in made(request.tools if "specs" in name else entries))
