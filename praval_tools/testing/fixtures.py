"""What the fixtures of the pytest plugin hand out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from praval_tools import Agent, Tool, ToolRegistry, use_registry


@contextmanager
def isolated_registry(name: str = "test") -> Iterator[ToolRegistry]:
    """Make a registry that is the default one inside, and closed after."""
    registry = ToolRegistry(name=name)
    with registry, use_registry(registry):
        yield registry


class AgentFactory:
    """
    Makes agents in one registry; without a name: `agent_1`, `agent_2` …

    Args:
        registry: Where they are declared.
    """

    def __init__(self, registry: ToolRegistry) -> None:
        self.registry = registry
        self._name_numbers = count(1)

    def __call__(
        self,
        name: str | None = None,
        *,
        tools: Iterable[str | Tool[..., Any] | Callable[..., Any]] = (),
        tool_categories: Iterable[str] = (),
        auto_discover_tools: bool = True,
    ) -> Agent:
        """Declare an agent and return it."""
        return Agent(
            name or f"agent_{next(self._name_numbers)}",
            tools=list(tools),
            tool_categories=list(tool_categories),
            auto_discover_tools=auto_discover_tools,
            registry=self.registry,
        )
