"""What happened in the run, as its journal tells it: calls, the process that each began in, approvals, effects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from attrs import field, frozen

from praval_tools.demo.effects import Effect
from praval_tools.journal import Journal, RecordedCall
from praval_tools.journal.events import AgentToolResult, ApprovalAnswered, ApprovalAsked, JournalEvent

Fate = Literal["", "again", "resolved"]


@frozen(kw_only=True)
class Line:
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

    call: RecordedCall
    number: int
    depth: int
    process: int
    fate: Fate = ""
    replays: int = 0
    answer: ApprovalAnswered | None = None


@frozen(kw_only=True)
class Account:
    """
    The run.

    Args:
        lines: Its calls, in order.
        processes: In how many processes it was played.
        effects: What was done to the world.
        asked: The approvals that were asked for.
    """

    lines: tuple[Line, ...]
    processes: int
    effects: tuple[Effect, ...]
    asked: tuple[ApprovalAsked, ...] = ()

    @property
    def outcomes(self) -> Counter[str]:
        """How many calls ended in which way."""
        return Counter(_outcome(line) for line in self.lines)

    @property
    def repeated(self) -> int:
        """How many effects happened more than once: 0, or something is wrong."""
        return len(self.effects) - len({one.key for one in self.effects})

    @property
    def missing(self) -> int:
        """How many calls succeeded without the effect that they are made for: 0, or something is wrong."""
        done, tools = {one.call for one in self.effects}, {one.tool for one in self.effects}
        made = [line.call for line in self.lines if line.call.tool_name in tools and _outcome(line) == "ok"]
        return sum(call.tool_call_id not in done for call in made)

    @property
    def kept(self) -> int:
        """How many calls were answered by their records instead of running again."""
        return sum(line.replays > 0 for line in self.lines)


def _outcome(line: Line) -> str:
    return "in_doubt" if line.call.outcome is None else line.call.outcome.value


@frozen
class _Traces:
    """What the events of a run say beyond its calls."""

    processes: list[str] = field(factory=list)
    began: dict[str, int] = field(factory=dict)
    ended: dict[str, int] = field(factory=dict)
    resolved: set[str] = field(factory=set)
    asked: list[ApprovalAsked] = field(factory=list)
    answers: dict[str, ApprovalAnswered] = field(factory=dict)

    def follow(self, event: JournalEvent) -> None:
        """Take in the next event."""
        call = getattr(event, "tool_call_id", None)
        if call is None:
            return
        if event.process not in self.processes:
            self.processes.append(event.process)
        number = self.processes.index(event.process) + 1
        self.began.setdefault(call, number)
        self.ended[call] = number
        if isinstance(event, AgentToolResult) and event.by:
            self.resolved.add(call)
        elif isinstance(event, ApprovalAsked):
            self.asked.append(event)
        elif isinstance(event, ApprovalAnswered):
            self.answers[call] = event


def account_of(journal: Journal, run_id: str, effects: Iterable[Effect]) -> Account:
    """Read the journal of a run that has come to its end."""
    traces = _Traces()
    for event in journal.events(run_id=run_id):
        traces.follow(event)
    depths: dict[str, int] = {}
    lines = [_line(call, number, traces, depths) for number, call in enumerate(journal.calls(run_id), start=1)]
    return Account(
        lines=tuple(lines), processes=len(traces.processes), effects=tuple(effects), asked=tuple(traces.asked)
    )


def _line(call: RecordedCall, number: int, traces: _Traces, depths: dict[str, int]) -> Line:
    name = call.tool_call_id
    depth = depths[name] = 0 if call.parent_id is None else depths.get(call.parent_id, 0) + 1
    began, ended = traces.began[name], traces.ended[name]
    fate: Fate = "resolved" if name in traces.resolved else "again" if began != ended else ""
    replays = 0 if depth else len(traces.processes) - ended + (fate == "resolved")
    return Line(
        call=call, number=number, depth=depth, process=began, fate=fate, replays=replays,
        answer=traces.answers.get(name),
    )  # fmt: skip
