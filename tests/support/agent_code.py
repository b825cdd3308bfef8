"""Runs code as that of an agent, for tests of what such code may do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from praval_tools import ToolCall, ToolRegistry


def run_as(registry: ToolRegistry, agent: str, work: Callable[[], object]) -> Any:
    """Run *work* as code of *agent*; return the exception that it raised, or None."""
    raised: list[Exception] = []
    name = f"work-{len(registry)}-{agent}"

    @registry.tool(name, owned_by=agent)
    def attempt() -> None:
        """Try."""
        try:
            work()
        except Exception as error:
            raised.append(error)

    assert registry.execute(ToolCall(None, name, {}, agent)).success
    return raised[0] if raised else None
