"""What declares tools in a registry."""

from __future__ import annotations

import pytest

from praval_tools import Tool, ToolRegistry, ToolUsageError
from praval_tools.access.store import StateStore
from praval_tools.clock import SystemClock
from praval_tools.registry.catalogue import ToolCatalogue


def say_hello() -> str:
    """Say hello."""
    return "hello"


class TestRegister:
    def test_a_second_tool_is_refused(self) -> None:
        """Nothing that is given is dropped in silence: two tools in one call are an error, and neither is there."""
        registry = ToolRegistry(name="r")

        with pytest.raises(ToolUsageError, match="one tool"):
            registry.register(Tool("a", fn=say_hello), Tool("b", fn=say_hello))  # type: ignore[arg-type]

        assert [] == list(registry)


def test_a_catalogue_alone_cannot_be_made() -> None:
    """It lacks what makes a registry of its own class; `ToolRegistry` has that."""
    with pytest.raises(TypeError, match="abstract"):
        ToolCatalogue(StateStore("bare"), SystemClock())  # type: ignore[abstract]
