"""The pytest plugin: the fixtures `tool_registry`, `agent_factory` and `fake_model`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

import pytest

from praval_tools import testing as helpers
from praval_tools.registry.agents import Agent
from praval_tools.registry.default import use_registry
from praval_tools.registry.registry import ToolRegistry

if TYPE_CHECKING:
    from praval_tools.registry.agents import AgentTool
    from praval_tools.testing.models import FakeModel


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
        tools: Iterable[AgentTool] = (),
        tool_categories: Iterable[str] = (),
        auto_discover_tools: bool = True,
    ) -> Agent:
        """Declare an agent and return it."""
        name = name or f"agent_{next(self._name_numbers)}"
        return Agent(name, list(tools), list(tool_categories), auto_discover_tools, self.registry)


@pytest.fixture
def tool_registry() -> Iterator[ToolRegistry]:
    """An empty registry of the test's own; the default registry as long as the test runs, closed after it."""
    with isolated_registry() as registry:
        yield registry


@pytest.fixture
def agent_factory(tool_registry: ToolRegistry) -> AgentFactory:
    """A function that makes agents in the test's registry: `agent_factory("analyst", tools=["add"])`."""
    return AgentFactory(tool_registry)


@pytest.fixture
def fake_model() -> Callable[..., FakeModel]:
    """A function that makes a model of scripted replies for `ToolLoop`: `fake_model(("add", {"x": 1}), "It is 1.")`."""
    return helpers.fake_model
