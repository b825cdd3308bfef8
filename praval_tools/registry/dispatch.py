"""Where the calls of a registry come in: the toolset that decides on each is found here."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from praval_tools.access.records import Principal, with_delegators
from praval_tools.errors import InvalidNameError
from praval_tools.execution.context import get_current_principal
from praval_tools.execution.executor import Executor
from praval_tools.execution.failures import make_typed_error
from praval_tools.execution.results import build_no_agent_result
from praval_tools.names import check_agent_name, get_name
from praval_tools.registry.toolset import Toolset
from praval_tools.registry.visibility import ToolVisibility
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.tool import Tool

_MAX_TOOLSETS: Final = 16_384


class CallDispatcher:
    """
    The toolsets of one registry, made when they are asked for, and the calls that name no toolset.

    Args:
        home: The registry.
        executor: What runs its calls.
    """

    def __init__(self, home: Any, executor: Executor) -> None:
        self._registry, self._executor = home, executor
        self.visibility = ToolVisibility(executor.runtime)
        self._toolsets: dict[Principal, Toolset] = {}
        self._toolsets_by_name: dict[str, Toolset] = {}

    def clear(self) -> None:
        """Forget all toolsets."""
        self._toolsets.clear()
        self._toolsets_by_name.clear()

    def get_toolset(self, who: Principal) -> Toolset:
        """Return the toolset of *who*."""
        found = self._toolsets.get(who)
        if found is None:
            if len(self._toolsets) > _MAX_TOOLSETS:
                self.clear()
            found = self._toolsets[who] = Toolset(self, self._executor, who)
        return found

    def get_agent_toolset(self, agent: Any) -> Toolset:
        """Return the toolset of an agent, given as object or by its name; a name acts for nobody."""
        who = getattr(agent, "_principal", None)
        return self.get_toolset(who) if isinstance(who, Principal) else self._get_named_toolset(get_name(agent))

    def toolset_through(self, agent: Any, wrap: Callable[[Any], Any]) -> Toolset:
        """Return the toolset of an agent whose calls go through what *wrap* makes of the desk and the executor."""
        return Toolset(wrap(self), wrap(self._executor), self.get_agent_toolset(agent)._principal)

    def list_tools(self, agent: Any) -> list[Tool[..., Any]]:
        """Return the tools that an agent may call, for the host program: calling one of these is not checked."""
        return self.visibility.list_tools(self.get_agent_toolset(agent)._principal)

    def execute(self, request: ToolCall | str, name: str = "", arguments: Any = None) -> ToolResult:
        """Run a call of the agent that it names; one by id, name and arguments is that of who is running."""
        if isinstance(request, ToolCall):
            mine = self._find_toolset(request)
            if isinstance(mine, Toolset):
                return self._executor.execute(request, mine._principal, mine._fast_cache)
            return self._executor.run_pipeline(request, None, mine)
        who = get_current_principal(self._registry)
        return self._executor.execute(_make_call(who, request, name, arguments), who)

    def aexecute(
        self, request: ToolCall | str, name: str = "", arguments: Any = None
    ) -> Coroutine[Any, Any, ToolResult]:
        """Run a call from async code."""
        if isinstance(request, ToolCall):
            mine = self._find_toolset(request)
            if isinstance(mine, Toolset):
                return self._executor.aexecute(request, mine._principal, mine._fast_cache)
            return self._executor.run_pipeline_async(request, None, mine)
        who = get_current_principal(self._registry)
        return self._executor.aexecute(_make_call(who, request, name, arguments), who)

    def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool as who is running and return its value, or raise the typed error."""
        who = get_current_principal(self._registry)
        if who is not None:
            return self.get_toolset(who).call(name, **arguments)
        result = self._executor.run_pipeline(ToolCall(None, name, arguments), None)
        if not result.success:
            raise make_typed_error(result)
        return result.result

    def _get_named_toolset(self, name: str) -> Toolset:
        found = self._toolsets_by_name.get(name)
        if found is None:
            found = self._toolsets_by_name[name] = self.get_toolset(Principal(check_agent_name(name)))
        return found

    def _find_toolset(self, call: ToolCall) -> Toolset | ToolResult:
        """
        Return the toolset that decides on a call: the named agent's, acting for whom it acts now or for whom it says.

        A result where it names no agent.
        """
        agent = call.agent
        if agent is None:
            return build_no_agent_result(call)
        me = get_current_principal(self._registry)
        if me is not None and me.agent == agent and call.on_behalf_of in ((), me.chain):
            return self.get_toolset(me)
        mine = self._toolsets_by_name.get(agent) if type(agent) is str else None
        try:
            if mine is None:
                mine = self._get_named_toolset(get_name(agent))
            return self.get_toolset(with_delegators(mine._principal, call.on_behalf_of)) if call.on_behalf_of else mine
        except InvalidNameError as error:
            return build_no_agent_result(call, str(error))


def _make_call(who: Principal | None, call_id: str, name: str, arguments: Any) -> ToolCall:
    return ToolCall(call_id, name, arguments, who.agent if who else None, None, who.chain if who else ())
