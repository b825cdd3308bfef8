"""Where the calls of a registry come in: the toolset that decides on each is found here."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from praval_tools.access.records import Principal, acting_for
from praval_tools.errors import InvalidNameError
from praval_tools.execution.context import running_principal
from praval_tools.execution.executor import Executor
from praval_tools.execution.failures import raised
from praval_tools.execution.results import nobody
from praval_tools.names import check_agent_name, name_of
from praval_tools.registry.toolset import Toolset
from praval_tools.registry.visibility import Lookup
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.tool import Tool

_MOST: Final = 16_384


class Desk:
    """
    The toolsets of one registry, made when they are asked for, and the calls that name no toolset.

    Args:
        home: The registry.
        executor: What runs its calls.
    """

    def __init__(self, home: Any, executor: Executor) -> None:
        self._home, self._executor = home, executor
        self.lookup = Lookup(executor.runtime)
        self._toolsets: dict[Principal, Toolset] = {}
        self._named: dict[str, Toolset] = {}

    def clear(self) -> None:
        """Forget all toolsets."""
        self._toolsets.clear()
        self._named.clear()

    def toolset(self, who: Principal) -> Toolset:
        """Return the toolset of *who*."""
        found = self._toolsets.get(who)
        if found is None:
            if len(self._toolsets) > _MOST:
                self.clear()
            found = self._toolsets[who] = Toolset(self, self._executor, who)
        return found

    def of(self, agent: Any) -> Toolset:
        """Return the toolset of an agent, given as object or by its name; a name acts for nobody."""
        who = getattr(agent, "_who", None)
        return self.toolset(who) if isinstance(who, Principal) else self._plain(name_of(agent))

    def toolset_through(self, agent: Any, wrap: Callable[[Any], Any]) -> Toolset:
        """Return the toolset of an agent whose calls go through what *wrap* makes of the desk and the executor."""
        return Toolset(wrap(self), wrap(self._executor), self.of(agent)._who)

    def tools(self, agent: Any) -> list[Tool[..., Any]]:
        """Return the tools that an agent may call, for the host program: calling one of these is not checked."""
        return self.lookup.tools(self.of(agent)._who)

    def execute(self, request: ToolCall | str, name: str = "", arguments: Any = None) -> ToolResult:
        """Run a call of the agent that it names; one by id, name and arguments is that of who is running."""
        if isinstance(request, ToolCall):
            mine = self._deciding(request)
            if isinstance(mine, Toolset):
                return self._executor.execute(request, mine._who, mine._lanes)
            return self._executor.run(request, None, mine)
        who = running_principal(self._home)
        return self._executor.execute(_call_of(who, request, name, arguments), who)

    def aexecute(
        self, request: ToolCall | str, name: str = "", arguments: Any = None
    ) -> Coroutine[Any, Any, ToolResult]:
        """Run a call from async code."""
        if isinstance(request, ToolCall):
            mine = self._deciding(request)
            if isinstance(mine, Toolset):
                return self._executor.aexecute(request, mine._who, mine._lanes)
            return self._executor.arun(request, None, mine)
        who = running_principal(self._home)
        return self._executor.aexecute(_call_of(who, request, name, arguments), who)

    def value(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool as who is running and return its value, or raise the typed error."""
        who = running_principal(self._home)
        if who is not None:
            return self.toolset(who).call(name, **arguments)
        result = self._executor.run(ToolCall(None, name, arguments), None)
        if not result.success:
            raise raised(result)
        return result.result

    def _plain(self, name: str) -> Toolset:
        found = self._named.get(name)
        if found is None:
            found = self._named[name] = self.toolset(Principal(check_agent_name(name)))
        return found

    def _deciding(self, call: ToolCall) -> Toolset | ToolResult:
        """
        Return the toolset that decides on a call: the named agent's, acting for whom it acts now or for whom it says.

        A result where it names no agent.
        """
        agent = call.agent
        if agent is None:
            return nobody(call)
        me = running_principal(self._home)
        if me is not None and me.agent == agent and call.on_behalf_of in ((), me.chain):
            return self.toolset(me)
        mine = self._named.get(agent) if type(agent) is str else None
        try:
            if mine is None:
                mine = self._plain(name_of(agent))
            return self.toolset(acting_for(mine._who, call.on_behalf_of)) if call.on_behalf_of else mine
        except InvalidNameError as error:
            return nobody(call, str(error))


def _call_of(who: Principal | None, call_id: str, name: str, arguments: Any) -> ToolCall:
    return ToolCall(call_id, name, arguments, who.agent if who else None, None, who.chain if who else ())
