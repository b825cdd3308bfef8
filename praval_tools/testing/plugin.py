"""
The pytest plugin: fixtures.

Imports nothing of the package before a fixture is used, so that it costs a test suite nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from praval_tools import ToolRegistry
    from praval_tools.testing.fixtures import AgentFactory
    from praval_tools.testing.models import FakeModel


@pytest.fixture
def tool_registry() -> Iterator[ToolRegistry]:
    """An empty registry of the test's own; the default registry as long as the test runs, closed after it."""
    fixtures: Any = import_module("praval_tools.testing.fixtures")
    with fixtures.isolated_registry() as registry:
        yield registry


@pytest.fixture
def agent_factory(tool_registry: ToolRegistry) -> AgentFactory:
    """A function that makes agents in the test's registry: `agent_factory("analyst", tools=["add"])`."""
    fixtures: Any = import_module("praval_tools.testing.fixtures")
    made: AgentFactory = fixtures.AgentFactory(tool_registry)
    return made


@pytest.fixture
def fake_model() -> Callable[..., FakeModel]:
    """A function that makes a model of scripted replies for `ToolLoop`: `fake_model(("add", {"x": 1}), "It is 1.")`."""
    models: Any = import_module("praval_tools.testing.models")
    made: Callable[..., FakeModel] = models.fake_model
    return made
