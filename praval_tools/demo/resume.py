"""Going on after a crash: what is settled first, and what is not told a second time."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define

from praval_tools.demo.agents import House
from praval_tools.demo.steps import Answered, Called, Doubted, Replayed, Step, Tell
from praval_tools.demo.tools import Report
from praval_tools.runs.run import Run


def settled(run: Run, house: House, tell: Tell) -> Iterator[str]:
    """
    Say what came of each call in doubt, as an operator would who looks at the world; yields their ids.

    Calls of idempotent tools are left alone: they run again by themselves, with the same key.
    """
    for call in run.in_doubt:
        tool = house.registry.get_tool(call.tool_name)
        idempotent = tool is not None and tool.metadata.idempotent is True
        happened = house.desk.effects.has(call.tool_call_id)
        tell(Doubted(call, idempotent, happened))
        yield call.tool_call_id
        if idempotent:
            continue
        if happened:
            run.resolve(call.tool_call_id, result=Report(**call.arguments))
        else:
            run.resolve(call.tool_call_id, rerun=True)


@define
class CatchingUp:
    """
    Keeps to itself what was told already, until the play is where the process died.

    Args:
        tell: Who is told the rest.
        doubts: The ids of the calls that were in doubt; the first of them is where the process died.
    """

    tell: Tell
    doubts: frozenset[str]
    there: bool = False
    replayed: int = 0

    def __call__(self, step: Step) -> None:
        """Pass *step* on, if it is news."""
        if not self.there:
            self.there = self._is_news(step)
            if self.there:
                self.tell(Replayed(self.replayed))
        if self.there:
            self.tell(step)

    def _is_news(self, step: Step) -> bool:
        if not isinstance(step, Called):
            return isinstance(step, Answered)
        old = step.result.replayed and step.result.tool_call_id not in self.doubts
        self.replayed += old
        return not old
