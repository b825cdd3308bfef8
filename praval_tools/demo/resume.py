"""Resumes the demo after a crash: calls in doubt are resolved first, and known steps are not emitted again."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define

from praval_tools.demo.app import DemoApp
from praval_tools.demo.steps import AnswerStep, CallStep, InDoubtStep, ReplayStep, Step, StepCallback
from praval_tools.demo.tools import Report
from praval_tools.runs.run import Run


def resolve_doubts(run: Run, app: DemoApp, emit: StepCallback) -> Iterator[str]:
    """
    Resolve each call in doubt, as an operator would who looks for its effect; yields their ids.

    Calls of idempotent tools are left alone: they run again by themselves, with the same key.
    """
    for call in run.in_doubt:
        tool = app.registry.get_tool(call.tool_name)
        is_idempotent = tool is not None and tool.metadata.idempotent is True
        has_effect = app.workspace.effects.has_effect(call.tool_call_id)
        emit(InDoubtStep(call, is_idempotent, has_effect))
        yield call.tool_call_id
        if not is_idempotent and has_effect:
            run.resolve(call.tool_call_id, result=Report(**call.arguments))
        elif not is_idempotent:
            run.resolve(call.tool_call_id, rerun=True)


@define
class ReplayFilter:
    """
    Drops the steps that an earlier process emitted, until the run is where that process crashed.

    Args:
        emit: Gets the other steps.
        doubtful_call_ids: The calls that were in doubt; the first of them is where the process crashed.
    """

    emit: StepCallback
    doubtful_call_ids: frozenset[str]
    has_caught_up: bool = False
    replayed_count: int = 0

    def __call__(self, step: Step) -> None:
        """Pass *step* on, if it is new."""
        if not self.has_caught_up and self._is_new(step):
            self.has_caught_up = True
            self.emit(ReplayStep(self.replayed_count))
        if self.has_caught_up:
            self.emit(step)

    def _is_new(self, step: Step) -> bool:
        if not isinstance(step, CallStep):
            return isinstance(step, AnswerStep)
        is_replayed = step.result.replayed and step.result.tool_call_id not in self.doubtful_call_ids
        self.replayed_count += is_replayed
        return not is_replayed
