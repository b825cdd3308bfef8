"""What an agent sees of a registry now: lists, exports and explanations, all by the one resolver."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from praval_tools.access.queries import callable_tools, explained
from praval_tools.access.records import Principal
from praval_tools.access.rules import judge
from praval_tools.execution.pipeline import bound_for
from praval_tools.execution.policies import asked_policies
from praval_tools.tools.decision import Decision
from praval_tools.tools.tool import Tool

if TYPE_CHECKING:
    from praval_tools.execution.runtime import Runtime
    from praval_tools.registry.export_cache import Offers


class Lookup:
    """What agents see of one registry, at the moment of asking."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime, self._ledger, self._now = runtime, runtime.ledger, runtime.clock.now
        self._pieces: Any = None

    def tools(self, who: Principal) -> list[Tool[..., Any]]:
        """Return the tools that *who* may call, in registration order."""
        return callable_tools(self._ledger.present(), who, self._now())

    def names(self, who: Principal) -> list[str]:
        """Return their names."""
        return [tool.name for tool in self.tools(who)]

    def tool(self, who: Principal, name: str) -> tuple[Tool[..., Any] | None, bool]:
        """Return the tool if *who* may call it, and whether only a change of state can alter that."""
        verdict = judge(self._ledger.present(), who, name, self._now())
        if verdict.refusal is not None or verdict.record is None:
            return None, False
        return verdict.record.tool, verdict.paths[0].lasting

    def explain(self, who: Principal, name: str, arguments: Any) -> Decision:
        """Return the decision with every rule that was tried, on *arguments* where they are not None."""
        state, home = self._ledger.present(), self._runtime.home
        return explained(
            state, who, state.own_name(name), self._now(), arguments,
            lambda tool, given: bound_for(self._runtime, tool, given),
            lambda tool, bound: asked_policies(home, state, who.agent, tool, tool.definition_.shown(bound))[0],
        )  # fmt: skip

    def offers(self, who: Principal) -> Offers:
        """Return the tools of *who* as providers get them; what that needs is imported once somebody asks."""
        module = import_module("praval_tools.registry.export_cache")
        if self._pieces is None:
            self._pieces = module.Pieces()
        made: Offers = module.Offers(self._pieces, who, self._ledger, self._now, lambda: self._runtime.hooks.formats)
        return made
