"""The tool `pay` of the agent `bank`, and the cases of the access rules: set-up, who asks, outcome, rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from praval_tools import (
    Agent,
    Tool,
    ToolCall,
    ToolRegistry,
)  # fmt: skip

Setup = Callable[[ToolRegistry], object]


def pay(amount: int, to: str = "shop") -> str:
    """Pay an amount."""
    return f"{amount} to {to}"


def outcome(registry: ToolRegistry, agent: Any, **arguments: Any) -> str:
    """Return how a call of `pay` ends."""
    call = ToolCall("c1", "pay", arguments or {"amount": 5})
    return str(registry.toolset(agent).execute(call).outcome)


def declare(registry: ToolRegistry, name: str, **said: Any) -> Agent:
    """Declare an agent whose function does what it is given."""
    return Agent(name, registry=registry, function=lambda work: work(), **said)


def private(registry: ToolRegistry) -> None:
    """Put a private `pay` in the place of the open one."""
    registry.unregister_tool("pay")
    registry.register_tool(Tool.from_function(pay, owned_by="bank", category="money", private=True))
    registry.share_tool("pay")


def closed(registry: ToolRegistry, name: str, **said: Any) -> Agent:
    """Declare an agent without `auto_discover_tools`."""
    return declare(registry, name, auto_discover_tools=False, **said)


OPENED: dict[str, tuple[Setup, str, str]] = {
    # what was done → who asks, rule
    "4 the owner": (lambda r: None, "bank", "owner"),
    "4 before 5": (lambda r: declare(r, "bank", tools=["pay"]), "bank", "owner"),
    "4 a private tool": (private, "bank", "owner"),
    "5 listed": (lambda r: declare(r, "ann", tools=["pay"]), "ann", "listed"),
    "5 listed, without auto_discover_tools": (lambda r: closed(r, "ann", tools=["pay"]), "ann", "listed"),
    "6 shared": (lambda r: r.share_tool("pay"), "ann", "shared"),
    "7 the category is requested": (lambda r: closed(r, "ann", tool_categories=["money"]), "ann", "category"),
    "8 granted": (lambda r: r.assign_tool_to_agent("pay", "ann"), "ann", "granted"),
    "8 a private tool": (lambda r: [private(r), r.grant("pay", "ann")], "ann", "granted"),
}


FORBIDDEN: dict[str, tuple[Setup, str, str]] = {
    "3 a block beats ownership": (lambda r: r.block("pay", "bank"), "bank", "blocked"),
    "3 a block beats a grant": (lambda r: [r.grant("pay", "ann"), r.block("pay", "ann")], "ann", "blocked"),
    "4 not without auto_discover_tools": (lambda r: closed(r, "bank"), "bank", "no-way"),
    "5 not a private tool": (lambda r: [private(r), declare(r, "ann", tools=["pay"])], "ann", "no-way"),
    "6 not without auto_discover_tools": (lambda r: [r.share_tool("pay"), closed(r, "ann")], "ann", "no-way"),
    "6 not a private tool": (private, "ann", "no-way"),
    "7 not a private tool": (lambda r: [private(r), declare(r, "ann", tool_categories=["money"])], "ann", "no-way"),
    "7 general reaches no owned tool": (
        lambda r: [r.configure("pay", category="general"), declare(r, "ann", tool_categories=["general"])],
        "ann", "no-way",
    ),
    "9 otherwise": (lambda r: None, "ann", "no-way"),
    "9 a category that nobody requested": (lambda r: declare(r, "ann"), "ann", "no-way"),
    "9 removed from the owner": (lambda r: r.remove_tool_from_agent("pay", "bank"), "bank", "no-way"),
    "9 retired": (lambda r: r.retire_agent("bank"), "bank", "retired"),
}  # fmt: skip


OTHERS: dict[str, tuple[Setup, str, str, str]] = {
    "1 no such tool": (lambda r: r.unregister_tool("pay"), "bank", "unknown", "unknown"),
    "2 the tool is disabled": (lambda r: r.disable(tool="pay"), "bank", "disabled", "disabled"),
    "2 its category is disabled": (lambda r: r.disable(category="money"), "bank", "disabled", "disabled"),
    "2 its tag is disabled": (lambda r: r.disable(tag="risky"), "bank", "disabled", "disabled"),
    "2 before 3": (lambda r: [r.block("pay", "bank"), r.disable("pay")], "bank", "disabled", "disabled"),
}


TABLE = {
    **OTHERS,
    **{case: (setup, who, "allowed", rule) for case, (setup, who, rule) in OPENED.items()},
    **{case: (setup, who, "forbidden", rule) for case, (setup, who, rule) in FORBIDDEN.items()},
}
