"""Praval's real agents with models that follow a script, for the tests of the integration."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

praval: Any = pytest.importorskip("praval", reason="needs praval: pip install 'praval-tools[praval]'")

from praval.core import tool_registry as praval_registry  # noqa: E402
from praval.core.reef import get_reef, reset_reef  # noqa: E402
from praval.core.registry import reset_registry  # noqa: E402
from praval.mcp import MCPClient, MCPServerConfig  # noqa: E402
from praval.models import ModelResponse, ProviderCapabilities, ToolCall  # noqa: E402
from praval.providers.registry import get_provider_registry, reset_provider_registry  # noqa: E402

from praval_tools import reset_tool_registry  # noqa: E402
from praval_tools.integrations.praval import uninstall  # noqa: E402

__all__ = [
    "MCPClient", "MCPServerConfig", "Model", "clean", "fresh", "get_reef", "praval", "praval_registry", "scripted",
]  # fmt: skip

Step = str | list[tuple[str, Any]] | Callable[[], Any]
"""What a model does in one round: a text ends the chat, pairs are calls, a function is done and says what follows."""


class Model:
    """
    A provider of Praval's that follows a script and remembers what it was offered and output.

    Args:
        steps: What it does, round by round.
    """

    capabilities = ProviderCapabilities(text=True, tools=True, streaming=True)

    def __init__(self, *steps: Step) -> None:
        self.steps = iter(steps)
        self.offered: list[list[str]] = []
        self.received: list[str] = []
        self.errors: list[bool] = []
        self.ids = itertools.count(1)

    def invoke(self, request: Any, tools: Any = None) -> ModelResponse:
        """Begin."""
        self.offered.append([one["function"].__name__ for one in tools or []])
        assert self.offered[-1] == [one.name for one in request.tools]
        return self._next()

    def continue_with_tool_results(self, request: Any, response: Any, results: Any) -> ModelResponse:
        """Go on with what the tools gave."""
        self.offered.append([one.name for one in request.tools])
        self.received += [one.content for one in results]
        self.errors += [one.is_error for one in results]
        return self._next()

    def _next(self) -> ModelResponse:
        step: Any = next(self.steps)
        while callable(step):
            step = step()
        if step is None:
            step = next(self.steps)
        if isinstance(step, str):
            return ModelResponse(content=step)
        calls = [ToolCall(id=f"call-{next(self.ids)}", name=name, arguments=given) for name, given in step]
        return ModelResponse(content="", tool_calls=calls)


def scripted(name: str, *steps: Step) -> Model:
    """Make a model that is there for agents as the provider *name*."""
    model = Model(*steps)
    get_provider_registry().register_provider(
        name, lambda config: model, default_model="scripted", capabilities=Model.capabilities
    )
    return model


@contextmanager
def clean() -> Iterator[None]:
    """Begin and end with nothing of Praval's left: registries, Reef, providers."""

    def wipe() -> None:
        uninstall()
        praval_registry.reset_tool_registry()
        reset_provider_registry()
        reset_registry()
        reset_reef()
        reset_tool_registry()

    wipe()
    scripted("script", "nothing to do")
    try:
        yield
    finally:
        reef = get_reef()
        wipe()
        reef.shutdown()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nothing of Praval's is left before and after."""
    with clean():
        yield
