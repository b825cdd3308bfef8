"""What a type checker knows of decorated tools, agents and toolsets; checked by mypy --strict, never run."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, assert_type

from praval_tools import (
    Agent,
    AsyncTool,
    BoundTool,
    Decision,
    Grant,
    Tool,
    ToolCall,
    ToolRegistry,
    ToolResult,
    Toolset,
    agent,
    tool,
)

registry = ToolRegistry()


@tool
def plain(x: float, y: float = 1.0) -> float:
    """Add."""
    return x + y


@tool("named", owned_by="calculator", registry=registry)
def named(text: str) -> int:
    """Count."""
    return len(text)


@tool(shared=True)
async def later(n: int) -> list[str]:
    """Wait."""
    return [""] * n


@agent("calculator", tools=["named", plain], tool_categories=["math"])
def calculator(question: str, tools: Toolset) -> str:
    """Answer."""
    return question


@registry.tool
def counted(x: int) -> int:
    """Count."""
    return x


@registry.tool("fetched", category="web", timeout=3)
async def fetched(url: str) -> bytes:
    """Fetch."""
    return url.encode()


@calculator.tool("owned", risk_level="high")
def owned(q: int) -> bool:
    """Ask."""
    return bool(q)


assert_type(counted(3), int)
assert_type(owned(3), bool)


async def fetch() -> None:
    """Await it."""
    assert_type(await fetched("x"), bytes)


assert_type(list(calculator.tools.values()), list[BoundTool[..., Any]])
assert_type(plain(1.0, y=2.0), float)
assert_type(named("a"), int)
assert_type(calculator, Agent)
assert_type(calculator.tools, Toolset)
assert_type(calculator.tools[named](text="a"), int)
assert_type(calculator.tools[plain](1.0, y=2.0), float)
assert_type(calculator.tools["named"], BoundTool[..., Any])
assert_type(calculator.execute(ToolCall("1", "named", {})), ToolResult)
assert_type(calculator.explain("named"), Decision)
assert_type(calculator.list_tools(), list[str])
assert_type(registry.grant("named", "ann"), Grant)
assert_type(registry.assign_tool_to_agent("named", "ann"), bool)
assert_type(registry.get_tools_for_agent("ann"), list[Tool[..., Any]])
assert_type(registry.explain("ann", "named"), Decision)
assert_type(named.function("a"), int)


async def main() -> None:
    """Await."""
    assert_type(await later(3), list[str])
    coroutine: Coroutine[Any, Any, list[str]] = later(3)
    await coroutine
    assert_type(await calculator.tools[later](n=3), list[str])
    known: AsyncTool[[int], list[str]] = later
    assert_type(await registry.aexecute(ToolCall("1", "later", {"n": 3}, "calculator")), ToolResult)
    assert known is later
