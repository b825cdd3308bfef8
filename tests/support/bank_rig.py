"""A registry of a bank, for those who try to get round its rules."""

from __future__ import annotations

from typing import Any

import pytest

from praval_tools import Outcome, ToolCall, ToolRegistry


@pytest.fixture(name="registry")
def bank_registry() -> ToolRegistry:
    """A registry with a tool that only its owner may share."""
    registry = ToolRegistry()

    @registry.tool("victim", owned_by="bank")
    def victim(x: int = 5000) -> int:
        """Belong to the bank."""
        return x

    return registry


def get_outcome(registry: ToolRegistry, name: str, agent: str = "mal", **arguments: Any) -> Outcome:
    """Run a call and return its outcome."""
    return registry.execute(ToolCall("1", name, arguments, agent)).outcome
