"""What the tests of hooks share: the registry that a plugin `acme` meets, and what the plugin notes."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from praval_tools import ToolCall, ToolRegistry

HEAD = "from praval_tools import hookimpl, tool, Tool, Allow, Ask, Deny\nlog = []\n"


TRUSTED = {"plugins": {"acme": {"trust": True}}}


@pytest.fixture
def registry() -> ToolRegistry:
    """A registry with a tool of the user's, shared."""
    made = ToolRegistry()

    @made.tool("add", shared=True)
    def add(x: int, y: int = 1) -> int:
        """Add."""
        return x + y

    @made.tool("wire", shared=True, requires_approval=True)
    def wire(amount: int) -> int:
        """Wire."""
        return amount

    return made


def call(registry: ToolRegistry, name: str = "add", **arguments: Any) -> Any:
    """Run a call of ann's and return the result."""
    return registry.execute(ToolCall("c1", name, arguments or {"x": 1}, "ann"))


def log() -> list[Any]:
    """Return what the plugin noted."""
    return sys.modules["acme"].log
