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
    ToolContext,
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


class Bank:
    """What tools of a bank need."""

    balance: int = 0


class OpenBank(Bank):
    """A bank that is open."""


@registry.tool
def pay(context: ToolContext[Bank], amount: int) -> str:
    """Pay."""
    assert_type(context.deps, Bank)
    return str(context.deps.balance - amount)


@registry.tool
async def pay_later(context: ToolContext[Bank | None], amount: int) -> str:
    """Pay."""
    assert_type(context.deps, Bank | None)
    return str(amount)


@registry.tool
def look(context: ToolContext, amount: int) -> str:
    """Look."""
    assert_type(context, ToolContext[object])
    return describe(context)


def describe(context: ToolContext) -> str:
    """Say whose call it is."""
    return str(context.agent)


def use_bank(toolset: Toolset[Bank]) -> None:
    """Toolsets with deps know whose tools fit."""
    assert_type(toolset[pay](amount=3), str)
    assert_type(toolset[look](amount=3), str)
    assert_type(toolset[plain](x=3), float)
    assert_type(toolset.call("pay", amount=3), Any)


async def pay_async() -> None:
    """Await it."""
    assert_type(await registry.toolset("ann", deps=Bank())[pay_later](amount=3), str)


use_bank(registry.toolset("ann", deps=Bank()))
use_bank(registry.toolset("ann", deps=OpenBank()))
assert_type(registry.toolset("ann", deps=Bank()), Toolset[Bank])
assert_type(registry.toolset("ann"), Toolset)
assert_type(registry.toolset("ann")[look](3), str)
assert_type(pay(ToolContext(deps=Bank()), 3), str)
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
