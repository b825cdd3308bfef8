"""Going on after a crash: what is settled first, and what is not told a second time."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define

from praval_tools.demo.agents import DemoApp
from praval_tools.demo.steps import AnswerStep, CallStep, InDoubtStep, ReplayStep, Step, StepCallback
from praval_tools.demo.tools import Report
from praval_tools.runs.run import Run


def resolve_doubts(run: Run, house: DemoApp, tell: StepCallback) -> Iterator[str]:
    """
    Say what came of each call in doubt, as an operator would who looks at the world; yields their ids.

    Calls of idempotent tools are left alone: they run again by themselves, with the same key.
    """
    for call in run.in_doubt:
        tool = house.registry.get_tool(call.tool_name)
        idempotent = tool is not None and tool.metadata.idempotent is True
        happened = house.workspace.effects.has_effect(call.tool_call_id)
        tell(InDoubtStep(call, idempotent, happened))
        yield call.tool_call_id
        if idempotent:
            continue
        if happened:
            run.resolve(call.tool_call_id, result=Report(**call.arguments))
        else:
            run.resolve(call.tool_call_id, rerun=True)


@define
class ReplayFilter:
    """
    Keeps to itself what was told already, until the play is where the process died.

    Args:
        tell: Who is told the rest.
        doubts: The ids of the calls that were in doubt; the first of them is where the process died.
    """

    emit: StepCallback
    doubtful_call_ids: frozenset[str]
    has_caught_up: bool = False
    replayed_count: int = 0

    def __call__(self, step: Step) -> None:
        """Pass *step* on, if it is news."""
        if not self.has_caught_up:
            self.has_caught_up = self._is_new(step)
            if self.has_caught_up:
                self.emit(ReplayStep(self.replayed_count))
        if self.has_caught_up:
            self.emit(step)

    def _is_new(self, step: Step) -> bool:
        if not isinstance(step, CallStep):
            return isinstance(step, AnswerStep)
        old = step.result.replayed and step.result.tool_call_id not in self.doubtful_call_ids
        self.replayed_count += old
        return not old
