"""Interfaces of what a registry's runtime holds of higher layers: the call dispatcher, and servers of tools."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from praval_tools.access.problems import RegistryProblem
from praval_tools.access.records import Principal
from praval_tools.tools.call import ToolCall, ToolResult


class Dispatcher(Protocol):
    """Receives the calls of a registry; implemented by `registry.dispatch.CallDispatcher`."""

    def get_toolset(self, principal: Principal) -> Any:
        """Return the `Toolset` of a principal."""
        ...

    def get_agent_toolset(self, agent: Any) -> Any:
        """Return the `Toolset` of an agent, passed as an object or by name."""
        ...

    def get_scoped_toolset(self, agent: object, scope: Callable[[], AbstractContextManager[None]]) -> Any:
        """Return the toolset of an agent each of whose calls is made inside what *scope* returns."""
        ...

    def execute(self, request: ToolCall) -> ToolResult:
        """Run a call by the agent that it names."""
        ...

    def aexecute(self, request: ToolCall) -> Coroutine[Any, Any, ToolResult]:
        """Run a call by the agent that it names, from async code."""
        ...

    async def record_result_async(self, call: ToolCall, principal: Principal | None, result: ToolResult) -> ToolResult:
        """Record a call that is not made, with the result that says why, from async code."""
        ...


class ToolSource(Protocol):
    """A server whose tools a registry has; such as `McpSource`."""

    @property
    def name(self) -> str:
        """What it is called here: the namespace of its tools."""
        ...

    @property
    def tools(self) -> list[str]:
        """The names of its tools that are registered."""
        ...

    @property
    def fingerprints(self) -> Mapping[str, str]:
        """The fingerprint of each of its tools, by name; what `pin=` takes."""
        ...

    def refresh(self) -> None:
        """Ask it for its tools, and take over what changed."""
        ...

    def accept(self, tool: str) -> None:
        """Accept the definition that the server gives a tool now."""
        ...

    def list_problems(self) -> list[RegistryProblem]:
        """Return what is wrong with it, and with its tools."""
        ...

    def close(self) -> None:
        """Take its tools out of the registry, and end the connection; safe twice."""
        ...


class RemoteEngine(Protocol):
    """Runs functions on workers of other machines."""

    def close(self) -> None:
        """End what speaks to the workers; safe to call twice."""
        ...
