"""Reads from a journal what happened in a run or a span of time: calls, their processes and approvals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal

from attrs import define, field, frozen

from praval_tools.errors import EventFormatError
from praval_tools.journal.codec import from_json
from praval_tools.journal.events import AgentToolCall, AgentToolResult, ApprovalAnswered, ApprovalAsked, CallRefused
from praval_tools.journal.journal import Journal, RecordedCall, build_recorded_call
from praval_tools.journal.replay import Recording
from praval_tools.journal.storage.protocol import Record
from praval_tools.names import OPERATOR

Recovery = Literal["", "again", "resolved"]


@frozen(kw_only=True)
class HistoryCall:
    """
    One call.

    Args:
        record: What was recorded of it.
        number: Its place in the history, from 1.
        depth: How many calls it was made inside.
        process_number: Which process it began in, from 1.
        last_process_number: Which process recorded it last.
        process: The name of that process.
        recovery: It was in doubt, and then ran `again` with its key, or was `resolved` by a person.
        replay_count: How often it was answered from its record, where that is known.
    """

    record: RecordedCall
    number: int
    depth: int
    process_number: int
    last_process_number: int
    process: str = ""
    recovery: Recovery = ""
    replay_count: int = 0

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
class History:
    """
    What a journal holds of a run, or of a span of time.

    Args:
        calls: The calls, in order.
        process_count: How many processes recorded them.
        approval_requests: The approvals that were requested.
        approval_answers: The answers, by the ids of their requests.
        unreadable_count: How many records could not be read.
    """

    calls: tuple[HistoryCall, ...]
    process_count: int
    approval_requests: tuple[ApprovalAsked, ...] = ()
    approval_answers: Mapping[str, ApprovalAnswered] = field(factory=dict)
    unreadable_count: int = 0

    def find_answer(self, request: ApprovalAsked) -> ApprovalAnswered | None:
        """Return the answer to a request; None where nobody answered."""
        return self.approval_answers.get(request.id)

    @property
    def outcome_counts(self) -> Counter[str]:
        """How many calls ended in which way."""
        return Counter(call.outcome for call in self.calls)

    @property
    def replayed_calls(self) -> int:
        """How many calls were answered from their records instead of running again."""
        return sum(call.replay_count > 0 for call in self.calls)


@define(eq=False)
class _CallRecords:
    """The records of one call."""

    run_id: str | None
    call_id: str
    records: list[Record] = field(factory=list)
    processes: list[str] = field(factory=list)
    has_begun: bool = False
    has_answer: bool = False


@define
class _CallsOfKey:
    """The calls of one key: the latest, and those that started and have no result yet, the first of them first."""

    latest: _CallRecords
    open_calls: list[_CallRecords] = field(factory=list)


@define
class _Collector:
    """
    Sorts records by call.

    In a run an id is one call. Outside runs it may be used again, at the same time, too: there a call is one of an
    agent and a tool, and what is recorded of an end is that of the first that has none.
    """

    calls: dict[tuple[str | None, ...], _CallsOfKey] = field(factory=dict)
    all_calls: list[_CallRecords] = field(factory=list)
    processes: dict[str, int] = field(factory=dict)
    requests: list[ApprovalAsked] = field(factory=list)
    answers: dict[str, ApprovalAnswered] = field(factory=dict)
    unreadable_count: int = 0

    def add_record(self, record: Record) -> None:
        if record.call_id is None:
            return
        try:
            event = from_json(record.body, event_id=record.id)
        except EventFormatError:
            self.unreadable_count += 1
            return
        call = self._get_call(record, record.call_id, event)
        self.processes.setdefault(event.process, len(self.processes) + 1)
        call.records.append(record)
        call.processes.append(event.process)
        if isinstance(event, ApprovalAsked):
            self.requests.append(event)
        elif isinstance(event, ApprovalAnswered):
            call.has_answer = True
            self.answers[event.approval_id or self._find_request_id(event)] = event

    def _get_call(self, record: Record, call_id: str, event: object) -> _CallRecords:
        """Return the call to which a record belongs, which may begin with it."""
        key = (record.run_id, call_id) if record.run_id is not None else (None, call_id, record.agent, record.tool)
        calls = self.calls.get(key)
        if calls is None or (record.run_id is None and calls.latest.has_begun and _begins_call(event)):
            call = _CallRecords(record.run_id, call_id)
            self.all_calls.append(call)
            if calls is None:
                calls = self.calls[key] = _CallsOfKey(call)
            calls.latest = call
        elif isinstance(event, AgentToolCall | AgentToolResult):  # of a process that ended, nothing more comes
            open_calls = (call for call in calls.open_calls if call.processes[-1] == event.process)
            call = next(open_calls, calls.latest)
        else:
            call = calls.latest
        call.has_begun |= isinstance(event, AgentToolCall | CallRefused)
        if isinstance(event, AgentToolCall) and call not in calls.open_calls:
            calls.open_calls.append(call)
        elif isinstance(event, AgentToolResult) and call in calls.open_calls:
            calls.open_calls.remove(call)
        return call

    def _find_request_id(self, answer: ApprovalAnswered) -> str:
        """Return the id of the request of an answer that does not name it, as those of earlier releases do not."""
        call = answer.run_id, answer.tool_call_id
        return next((asked.id for asked in reversed(self.requests) if (asked.run_id, asked.tool_call_id) == call), "")


def _begins_call(event: object) -> bool:
    """Tell whether an event is the first of a call, where the call before has begun."""
    is_start = isinstance(event, AgentToolCall) and event.attempt == 1
    return is_start or isinstance(event, CallRefused | ApprovalAsked)


def build_history(
    journal: Journal, *, run_id: str | None = None, since: datetime | None = None, until: datetime | None = None,
    records: Iterable[Record] | None = None,
) -> History:  # fmt: skip
    """
    Read what a journal holds of calls.

    Args:
        journal: The journal.
        run_id: Only this run.
        since: Only from then on.
        until: Only before then.
        records: The records that were read already; None: they are read here.
    """
    collector = _Collector()
    for record in journal.read_records(run_id=run_id, since=since, until=until) if records is None else records:
        collector.add_record(record)
    calls: list[HistoryCall] = []
    depths: dict[tuple[str | None, str], int] = {}
    for group in collector.all_calls:
        entries = Recording(group.run_id or "", "id", group.records).entries
        if group.call_id in entries:  # an answer alone is not a call
            recorded = build_recorded_call(group.run_id or "", entries[group.call_id])
            calls.append(_build_call(recorded, len(calls) + 1, group, collector.processes, depths))
    return History(
        calls=tuple(calls),
        process_count=len(collector.processes),
        approval_requests=tuple(collector.requests),
        approval_answers=collector.answers,
        unreadable_count=collector.unreadable_count,
    )


def _build_call(
    record: RecordedCall, number: int, group: _CallRecords, processes: dict[str, int],
    depths: dict[tuple[str | None, str], int],
) -> HistoryCall:  # fmt: skip
    parent = record.parent_id
    depth = depths[group.run_id, group.call_id] = 0 if parent is None else depths.get((group.run_id, parent), -1) + 1
    first, last = processes[group.processes[0]], processes[group.processes[-1]]
    is_resolved = record.resolved_by is not None
    return HistoryCall(
        record=record,
        number=number,
        depth=depth,
        process_number=first,
        last_process_number=last,
        process=group.processes[-1],
        recovery="resolved" if is_resolved else "again" if first != last and not group.has_answer else "",
    )
