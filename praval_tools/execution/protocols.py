"""Protocols of what the execution of calls uses of higher layers: the dispatcher of a registry."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any, Protocol

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
