"""Mistakes that a type checker finds; each line that is wrong says by which code."""

from __future__ import annotations

from praval_tools import Agent, ToolCall, ToolContext, ToolRegistry, Toolset, tool

registry = ToolRegistry()


@tool
def add(x: float, y: float = 1.0) -> float:
    """Add."""
    return x + y


@tool(registry=registry)
async def later(n: int) -> str:
    """Wait."""
    return "" * n


ann = Agent("ann", registry=registry)
add("1")  # E: arg-type
add(1.0, z=2.0)  # E: call-arg
wrong: str = add(1.0)  # E: assignment
ann.tools[add](x="1")  # E: arg-type
ann.tools[add](q=1.0)  # E: call-arg
text: str = later(3)  # E: assignment
ann.execute("add")  # E: arg-type
registry.assign_tool_to_agent("add")  # E: call-arg
registry.assign_tool_to_agent("add", "ann", max_calls="three")  # E: arg-type
registry.grant("add", "ann", expire=3)  # E: call-arg
registry.register_tool(lambda: None)  # E: arg-type
ann.delegate("sub", mode="inner")  # E: arg-type
ann.tools["add"] = add  # E: index


@registry.tool("counted")
def counted(x: int) -> int:
    """Count."""
    return x


counted("3")  # E: arg-type
tool("other", onwed_by="ann")  # E: call-overload
tool("other", risk_level="crticial")  # E: call-overload
registry.tool("other", timeot=3)  # E: call-overload
registry.configure("add", timeot=3)  # E: call-arg
registry.configure("add", risk_level="hihg")  # E: arg-type
ToolRegistry(engine="bogus")  # E: arg-type
ToolCall("1", 3)  # E: arg-type
add.name = "other"  # E: misc


class Bank:
    """What tools of a bank need."""


class Shop:
    """What tools of a shop need."""


@registry.tool
def pay(context: ToolContext[Bank], amount: int) -> str:
    """Pay."""
    return str(context.deps.missing)  # E: attr-defined


@registry.tool
def look(context: ToolContext) -> str:
    """Look."""
    return str(context.deps.missing)  # E: attr-defined


def use_bank(toolset: Toolset[Bank]) -> None:
    """Use one."""


registry.toolset("ann", deps=Bank())[pay](amount="3")  # E: arg-type
registry.toolset("ann", deps=Shop())[pay](amount=3)  # E: call-arg
registry.toolset("ann")[pay](amount=3)  # E: call-arg
use_bank(registry.toolset("ann", deps=Shop()))  # E: arg-type
use_bank(registry.toolset("ann"))  # E: arg-type
pay(ToolContext(deps=Shop()), 3)  # E: arg-type
