"""Sums up a run of the demo from its journal: the history of the calls, and their effects."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve, frozen

from praval_tools.demo.effects import Effect
from praval_tools.journal import Journal
from praval_tools.journal.history import History, build_history


@frozen(kw_only=True)
class RunReport(History):
    """
    The run.

    Args:
        effects: What its calls did.
    """

    effects: tuple[Effect, ...]

    @property
    def repeated_effects(self) -> int:
        """How many effects happened more than once: 0, or something is wrong."""
        return len(self.effects) - len({effect.key for effect in self.effects})

    @property
    def missing_effects(self) -> int:
        """How many calls succeeded without the effect that they are made for: 0, or something is wrong."""
        calls_with_effect, tools = {effect.call for effect in self.effects}, {effect.tool for effect in self.effects}
        records = [call.record for call in self.calls if call.record.tool_name in tools and call.outcome == "ok"]
        return sum(record.tool_call_id not in calls_with_effect for record in records)


def build_run_report(journal: Journal, run_id: str, effects: Iterable[Effect]) -> RunReport:
    """Read the journal of a run that has ended; every process of the demo makes the same calls again."""
    history = build_history(journal, run_id=run_id)
    calls = tuple(
        evolve(call, replay_count=history.process_count - call.last_process_number + (call.recovery == "resolved"))
        if not call.depth
        else call
        for call in history.calls
    )
    return RunReport(
        calls=calls,
        process_count=history.process_count,
        approval_requests=history.approval_requests,
        approval_answers=history.approval_answers,
        effects=tuple(effects),
    )
