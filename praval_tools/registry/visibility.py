"""What an agent sees of a registry now: lists, exports and explanations, all by the one resolver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from praval_tools.access.explanation import explain_decision
from praval_tools.access.queries import list_callable_tools
from praval_tools.access.records import Principal
from praval_tools.access.rules import resolve_access
from praval_tools.execution.pipeline import bind_arguments
from praval_tools.execution.policies import check_policies
from praval_tools.registry.export_cache import AgentExporter, ToolExportCache
from praval_tools.tools.decision import Decision
from praval_tools.tools.tool import Tool

if TYPE_CHECKING:
    from praval_tools.execution.runtime import Runtime


class ToolVisibility:
    """What agents see of one registry, at the moment of asking."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime, self._access_store, self._now = runtime, runtime.access_store, runtime.clock.now
        self._tool_export_cache: Any = None

    def list_tools(self, who: Principal) -> list[Tool[..., Any]]:
        """Return the tools that *who* may call, in registration order."""
        return list_callable_tools(self._access_store.get_current_state(), who, self._now())

    def list_names(self, who: Principal) -> list[str]:
        """Return their names."""
        return [tool.name for tool in self.list_tools(who)]

    def find_tool(self, who: Principal, name: str) -> tuple[Tool[..., Any] | None, bool]:
        """Return the tool if *who* may call it, and whether only a change of state can alter that."""
        verdict = resolve_access(self._access_store.get_current_state(), who, name, self._now())
        if verdict.refusal is not None or verdict.record is None:
            return None, False
        return verdict.record.tool, verdict.paths[0].is_unconditional

    def explain_access(self, who: Principal, name: str, arguments: Any) -> Decision:
        """Return the decision with every rule that was tried, on *arguments* where they are not None."""
        state, home = self._access_store.get_current_state(), self._runtime.registry
        return explain_decision(
            state, who, state.resolve_tool_name(name), self._now(), arguments,
            lambda tool, given: bind_arguments(self._runtime, tool, given),
            lambda tool, bound: check_policies(home, state, who.agent, tool, tool.implementation.render_for_review(bound))[0],
        )  # fmt: skip

    def make_exporter(self, who: Principal) -> AgentExporter:
        """Return the tools of *who* as providers get them; what that needs is imported once somebody asks."""
        if self._tool_export_cache is None:
            self._tool_export_cache = ToolExportCache()
        made: AgentExporter = AgentExporter(
            self._tool_export_cache, who, self._access_store, self._now, lambda: self._runtime.hooks.formats
        )
        return made
