"""Where the calls of a registry come in: finds the toolset that decides on each call, and keeps it for the next."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from praval_tools.access.records import Principal, with_delegators
from praval_tools.errors import InvalidNameError
from praval_tools.execution.context import get_current_principal
from praval_tools.execution.executor import Executor, get_value
from praval_tools.execution.results import build_no_agent_result
from praval_tools.names import check_agent_name, get_name
from praval_tools.registry.export_cache import ToolExportCache
from praval_tools.registry.toolset import Toolset, aexecute_complete, execute_complete
from praval_tools.tools.call import ToolCall, ToolResult

_MAX_TOOLSETS: Final = 16_384


class CallDispatcher:
    """
    The toolsets of one registry, made when they are asked for, and the calls that name no toolset.

    Args:
        executor: Runs the calls of the registry.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor, self._registry = executor, executor.runtime.registry
        self._exports = ToolExportCache()
        self._toolsets: dict[Principal, Toolset] = {}
        self._toolsets_by_name: dict[str, Toolset] = {}

    def clear(self) -> None:
        """Forget all toolsets."""
        self._toolsets.clear()
        self._toolsets_by_name.clear()

    def get_toolset(self, principal: Principal) -> Toolset:
        """Return the toolset of *principal*."""
        toolset = self._toolsets.get(principal)
        if toolset is None:
            if len(self._toolsets) > _MAX_TOOLSETS:
                self.clear()
            toolset = self._toolsets[principal] = Toolset(self, self._executor, principal, self._exports)
        return toolset

    def get_agent_toolset(self, agent: object) -> Toolset:
        """Return the toolset of an agent, given as object or by its name; a name acts for nobody."""
        principal = getattr(agent, "principal", None)
        return self.get_toolset(principal) if isinstance(principal, Principal) else self._get_by_name(get_name(agent))

    def toolset_through(self, agent: object, wrap: Callable[[Any], Any]) -> Toolset:
        """Return the toolset of an agent whose calls go through what *wrap* makes of dispatcher and executor."""
        return Toolset(wrap(self), wrap(self._executor), self.get_agent_toolset(agent).principal, self._exports)

    def execute(self, request: ToolCall | str, name: str = "", arguments: object = None) -> ToolResult:
        """Run a call of the agent that it names; one by id, name and arguments is made by who is running."""
        if isinstance(request, ToolCall):
            toolset = self._find_toolset(request)
            if isinstance(toolset, Toolset):
                return execute_complete(toolset, request)
            return self._executor.run_pipeline(request, None, toolset)
        principal = get_current_principal(self._registry)
        return self._executor.execute(_make_call(principal, request, name, arguments), principal)

    def aexecute(
        self, request: ToolCall | str, name: str = "", arguments: object = None
    ) -> Coroutine[Any, Any, ToolResult]:
        """Run a call from async code."""
        if isinstance(request, ToolCall):
            toolset = self._find_toolset(request)
            if isinstance(toolset, Toolset):
                return aexecute_complete(toolset, request)
            return self._executor.run_pipeline_async(request, None, toolset)
        principal = get_current_principal(self._registry)
        return self._executor.aexecute(_make_call(principal, request, name, arguments), principal)

    def call_tool(self, name: str, arguments: dict[str, object]) -> object:
        """Call a tool as who is running and return its value, or raise the typed error."""
        principal = get_current_principal(self._registry)
        if principal is not None:
            return self.get_toolset(principal).call(name, **arguments)
        return get_value(self._executor.run_pipeline(ToolCall(None, name, arguments), None))

    def _get_by_name(self, name: str) -> Toolset:
        toolset = self._toolsets_by_name.get(name)
        if toolset is None:
            toolset = self._toolsets_by_name[name] = self.get_toolset(Principal(check_agent_name(name)))
        return toolset

    def _find_toolset(self, call: ToolCall) -> Toolset | ToolResult:
        """
        Return the toolset that decides on a call.

        Returns:
            The toolset of the named agent, acting for whom it acts now or for whom the call says; a result where the
            call names no agent.
        """
        agent = call.agent
        if agent is None:
            return build_no_agent_result(call)
        running = get_current_principal(self._registry)
        if running is not None and running.agent == agent and call.on_behalf_of in ((), running.chain):
            return self.get_toolset(running)
        toolset = self._toolsets_by_name.get(agent) if type(agent) is str else None
        try:
            if toolset is None:
                toolset = self._get_by_name(get_name(agent))
            if not call.on_behalf_of:
                return toolset
            return self.get_toolset(with_delegators(toolset.principal, call.on_behalf_of))
        except InvalidNameError as error:
            return build_no_agent_result(call, str(error))


def _make_call(principal: Principal | None, call_id: str, name: str, arguments: object) -> ToolCall:
    if principal is None:
        return ToolCall(call_id, name, arguments)
    return ToolCall(call_id, name, arguments, principal.agent, None, principal.chain)
