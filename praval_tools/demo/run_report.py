"""The run's report from its journal: calls, the process that each began in, approvals, effects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from attrs import field, frozen

from praval_tools.demo.effects import Effect
from praval_tools.journal import Journal, RecordedCall
from praval_tools.journal.events import AgentToolResult, ApprovalAnswered, ApprovalAsked, JournalEvent
from praval_tools.names import OPERATOR

Recovery = Literal["", "again", "resolved"]


@frozen(kw_only=True)
class DemoCall:
    """
    One call.

    Args:
        record: What was recorded of it.
        number: Its place in the run, from 1.
        depth: How many calls it was made inside of.
        process_number: Which process it began in, from 1.
        recovery: It was in doubt, and then ran `again` with its key, or was `resolved` by a person.
        replay_count: How often it was answered from its record.
        approval_answer: The answer, if an approval was requested.
    """

    record: RecordedCall
    number: int
    depth: int
    process_number: int
    recovery: Recovery = ""
    replay_count: int = 0
    approval_answer: ApprovalAnswered | None = None

    @property
    def agent(self) -> str:
        """Who called."""
        return self.record.agent or OPERATOR

    @property
    def outcome(self) -> str:
        """How it ended."""
        return "in_doubt" if self.record.outcome is None else self.record.outcome.value

    @property
    def recovery_text(self) -> str:
        """What later processes did with it."""
        if self.recovery:
            return "again, same key" if self.recovery == "again" else "in doubt, resolved"
        return ("", "replayed", "replayed twice")[min(self.replay_count, 2)]


@frozen(kw_only=True)
class RunReport:
    """
    The run.

    Args:
        calls: Its calls, in order.
        process_count: How many processes it took.
        effects: What its calls did.
        approval_requests: The approvals that were requested.
    """

    calls: tuple[DemoCall, ...]
    process_count: int
    effects: tuple[Effect, ...]
    approval_requests: tuple[ApprovalAsked, ...] = ()

    @property
    def outcome_counts(self) -> Counter[str]:
        """How many calls ended in which way."""
        return Counter(call.outcome for call in self.calls)

    @property
    def repeated_effects(self) -> int:
        """How many effects happened more than once: 0, or something is wrong."""
        return len(self.effects) - len({effect.key for effect in self.effects})

    @property
    def missing_effects(self) -> int:
        """How many calls succeeded without the effect that they are made for: 0, or something is wrong."""
        done, tools = {effect.call for effect in self.effects}, {effect.tool for effect in self.effects}
        made = [call.record for call in self.calls if call.record.tool_name in tools and call.outcome == "ok"]
        return sum(record.tool_call_id not in done for record in made)

    @property
    def effects_text(self) -> str:
        """How many effects there were, and whether each happened once."""
        tools, keys = sorted({effect.tool for effect in self.effects}), {effect.key for effect in self.effects}
        text = (
            f"{self.process_count} processes made {len(self.calls)} calls. Those of {' and '.join(tools)} have an "
            f"effect, a line in effects.jsonl: {len(self.effects)} lines of {len(keys)} calls."
        )
        if self.repeated_effects or self.missing_effects:
            return f"{text} {self.repeated_effects} happened twice, {self.missing_effects} are missing."
        return f"{text} Nothing happened twice, nothing is missing."

    @property
    def replayed_calls(self) -> int:
        """How many calls were answered from their records instead of running again."""
        return sum(call.replay_count > 0 for call in self.calls)


@frozen
class _EventSummary:
    """What the events of a run say beyond the calls."""

    processes: list[str] = field(factory=list)
    first_processes: dict[str, int] = field(factory=dict)
    last_processes: dict[str, int] = field(factory=dict)
    resolved_calls: set[str] = field(factory=set)
    approval_requests: list[ApprovalAsked] = field(factory=list)
    approval_answers: dict[str, ApprovalAnswered] = field(factory=dict)

    def add_event(self, event: JournalEvent) -> None:
        """Take in the next event."""
        call = getattr(event, "tool_call_id", None)
        if call is None:
            return
        if event.process not in self.processes:
            self.processes.append(event.process)
        number = self.processes.index(event.process) + 1
        self.first_processes.setdefault(call, number)
        self.last_processes[call] = number
        if isinstance(event, AgentToolResult) and event.by:
            self.resolved_calls.add(call)
        elif isinstance(event, ApprovalAsked):
            self.approval_requests.append(event)
        elif isinstance(event, ApprovalAnswered):
            self.approval_answers[call] = event


def build_run_report(journal: Journal, run_id: str, effects: Iterable[Effect]) -> RunReport:
    """Read the journal of a run that has ended."""
    summary = _EventSummary()
    for event in journal.events(run_id=run_id):
        summary.add_event(event)
    depths: dict[str, int] = {}
    calls = [_build_call(record, number, summary, depths) for number, record in enumerate(journal.calls(run_id), 1)]
    return RunReport(
        calls=tuple(calls),
        process_count=len(summary.processes),
        effects=tuple(effects),
        approval_requests=tuple(summary.approval_requests),
    )


def _build_call(record: RecordedCall, number: int, summary: _EventSummary, depths: dict[str, int]) -> DemoCall:
    call_id = record.tool_call_id
    depth = depths[call_id] = 0 if record.parent_id is None else depths.get(record.parent_id, 0) + 1
    first, last = summary.first_processes[call_id], summary.last_processes[call_id]
    is_resolved = call_id in summary.resolved_calls
    return DemoCall(
        record=record,
        number=number,
        depth=depth,
        process_number=first,
        recovery="resolved" if is_resolved else "again" if first != last else "",
        replay_count=0 if depth else len(summary.processes) - last + is_resolved,
        approval_answer=summary.approval_answers.get(call_id),
    )
