"""What the execution of calls needs of the floors above it, as protocols."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol

from praval_tools.access.records import Principal
from praval_tools.tools.call import ToolCall, ToolResult


class Dispatcher(Protocol):
    """Where the calls of a registry come in; `registry.dispatch.CallDispatcher`."""

    def get_toolset(self, who: Principal) -> Any:
        """Return the `Toolset` of a principal."""
        ...

    def get_agent_toolset(self, agent: Any) -> Any:
        """Return the `Toolset` of an agent, given as object or by name."""
        ...

    def execute(self, request: ToolCall) -> ToolResult:
        """Run a call of the agent that it names."""
        ...

    def aexecute(self, request: ToolCall) -> Coroutine[Any, Any, ToolResult]:
        """Run a call from async code."""
        ...
