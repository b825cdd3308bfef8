"""What happened in the run, as its journal tells it: calls, the process that each began in, approvals, effects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from attrs import field, frozen

from praval_tools.demo.effects import Effect
from praval_tools.journal import Journal, RecordedCall
from praval_tools.journal.events import AgentToolResult, ApprovalAnswered, ApprovalAsked, JournalEvent

Recovery = Literal["", "again", "resolved"]


@frozen(kw_only=True)
class DemoCall:
    """
    One call.

    Args:
        call: What was recorded of it.
        number: Its place in the run, from 1.
        depth: How many calls it was made inside of.
        process: Which process it began in, from 1.
        fate: `again`: it was in doubt and ran again with its key; `resolved`: it was, and a person said what came.
        replays: How often it was answered by its record.
        answer: Who approved it or not, if somebody was asked.
    """

    record: RecordedCall
    number: int
    depth: int
    process_number: int
    recovery: Recovery = ""
    replay_count: int = 0
    approval_answer: ApprovalAnswered | None = None


@frozen(kw_only=True)
class RunReport:
    """
    The run.

    Args:
        lines: Its calls, in order.
        processes: In how many processes it was played.
        effects: What was done to the world.
        asked: The approvals that were asked for.
    """

    calls: tuple[DemoCall, ...]
    process_count: int
    effects: tuple[Effect, ...]
    approval_requests: tuple[ApprovalAsked, ...] = ()

    @property
    def outcome_counts(self) -> Counter[str]:
        """How many calls ended in which way."""
        return Counter(_get_outcome_name(line) for line in self.calls)

    @property
    def repeated_effects(self) -> int:
        """How many effects happened more than once: 0, or something is wrong."""
        return len(self.effects) - len({one.key for one in self.effects})

    @property
    def missing_effects(self) -> int:
        """How many calls succeeded without the effect that they are made for: 0, or something is wrong."""
        done, tools = {one.call for one in self.effects}, {one.tool for one in self.effects}
        made = [
            line.record for line in self.calls if line.record.tool_name in tools and _get_outcome_name(line) == "ok"
        ]
        return sum(call.tool_call_id not in done for call in made)

    @property
    def replayed_calls(self) -> int:
        """How many calls were answered by their records instead of running again."""
        return sum(line.replay_count > 0 for line in self.calls)


def _get_outcome_name(line: DemoCall) -> str:
    return "in_doubt" if line.record.outcome is None else line.record.outcome.value


@frozen
class _EventSummary:
    """What the events of a run say beyond its calls."""

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
    """Read the journal of a run that has come to its end."""
    traces = _EventSummary()
    for event in journal.events(run_id=run_id):
        traces.add_event(event)
    depths: dict[str, int] = {}
    lines = [_build_call(call, number, traces, depths) for number, call in enumerate(journal.calls(run_id), start=1)]
    return RunReport(
        calls=tuple(lines),
        process_count=len(traces.processes),
        effects=tuple(effects),
        approval_requests=tuple(traces.approval_requests),
    )


def _build_call(call: RecordedCall, number: int, traces: _EventSummary, depths: dict[str, int]) -> DemoCall:
    name = call.tool_call_id
    depth = depths[name] = 0 if call.parent_id is None else depths.get(call.parent_id, 0) + 1
    began, ended = traces.first_processes[name], traces.last_processes[name]
    fate: Recovery = "resolved" if name in traces.resolved_calls else "again" if began != ended else ""
    replays = 0 if depth else len(traces.processes) - ended + (fate == "resolved")
    return DemoCall(
        record=call, number=number, depth=depth, process_number=began, recovery=fate, replay_count=replays,
        approval_answer=traces.approval_answers.get(name),
    )  # fmt: skip
