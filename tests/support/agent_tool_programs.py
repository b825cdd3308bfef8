"""Tools and objects that several tests of agents use."""

from __future__ import annotations

from typing import Any

from praval_tools import ToolRegistry, current_agent, errors, tool

REGISTRY = ToolRegistry(name="running")


def add(x: float, y: float = 1) -> float:
    """Add two numbers."""
    return x + y


async def later(x: float) -> float:
    """Give it back, awaited."""
    return x


def stock(registry: ToolRegistry, owner: str = "ann", **more: Any) -> None:
    """Declare `add` and `later` for *owner*."""
    for function in (add, later):
        tool(owned_by=owner, registry=registry, **more)(function)


def me() -> str | None:
    """Return who is running, None for the host program."""
    try:
        return current_agent().name
    except errors.ToolUsageError:
        return None
