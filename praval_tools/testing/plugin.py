"""
The pytest plugin: fixtures.

Imports nothing of the package before a fixture is used, so that it costs a test suite nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from praval_tools import ToolRegistry
    from praval_tools.testing.fixtures import AgentFactory
    from praval_tools.testing.models import FakeModel


@pytest.fixture
def tool_registry() -> Iterator[ToolRegistry]:
    """An empty registry of the test's own; the default registry as long as the test runs, closed after it."""
    from praval_tools.testing.fixtures import isolated_registry

    with isolated_registry() as registry:
        yield registry


@pytest.fixture
def agent_factory(tool_registry: ToolRegistry) -> AgentFactory:
    """A function that makes agents in the test's registry: `agent_factory("analyst", tools=["add"])`."""
    from praval_tools.testing.fixtures import AgentFactory

    return AgentFactory(tool_registry)


@pytest.fixture
def fake_model() -> Callable[..., FakeModel]:
    """A function that makes a model of scripted replies for `ToolLoop`: `fake_model(("add", {"x": 1}), "It is 1.")`."""
    from praval_tools.testing.models import fake_model

    return fake_model
