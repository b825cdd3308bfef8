"""Reads from a journal what happened in a run or a span of time: calls, their processes and approvals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from attrs import define, field, frozen

from praval_tools.errors import EventFormatError
from praval_tools.journal.codec import from_json
from praval_tools.journal.events import ApprovalAnswered, ApprovalAsked
from praval_tools.journal.journal import Journal, RecordedCall, build_recorded_call
from praval_tools.journal.replay import Recording
from praval_tools.journal.storage.protocol import Record
from praval_tools.names import OPERATOR

Recovery = Literal["", "again", "resolved"]

_START_TYPES = frozenset(("agent_tool_call", "call_refused"))


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
        approval_answer: The answer, if an approval was requested.
    """

    record: RecordedCall
    number: int
    depth: int
    process_number: int
    last_process_number: int
    process: str = ""
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
class History:
    """
    What a journal holds of a run, or of a span of time.

    Args:
        calls: The calls, in order.
        process_count: How many processes recorded them.
        approval_requests: The approvals that were requested.
        unreadable_count: How many records could not be read.
    """

    calls: tuple[HistoryCall, ...]
    process_count: int
    approval_requests: tuple[ApprovalAsked, ...] = ()
    unreadable_count: int = 0

    @property
    def outcome_counts(self) -> Counter[str]:
        """How many calls ended in which way."""
        return Counter(call.outcome for call in self.calls)

    @property
    def replayed_calls(self) -> int:
        """How many calls were answered from their records instead of running again."""
        return sum(call.replay_count > 0 for call in self.calls)


@define
class _CallRecords:
    """The records of one call."""

    run_id: str | None
    call_id: str
    records: list[Record] = field(factory=list)
    processes: list[str] = field(factory=list)
    answer: ApprovalAnswered | None = None


@define
class _Collector:
    """Sorts records by call; outside runs an id may be used again, by another call."""

    calls: dict[tuple[str | None, str], _CallRecords] = field(factory=dict)
    all_calls: list[_CallRecords] = field(factory=list)
    processes: dict[str, int] = field(factory=dict)
    requests: list[ApprovalAsked] = field(factory=list)
    unreadable_count: int = 0

    def add_record(self, record: Record) -> None:
        if record.call_id is None:
            return
        try:
            event = from_json(record.body, event_id=record.id)
        except EventFormatError:
            self.unreadable_count += 1
            return
        key = (record.run_id, record.call_id)
        call = self.calls.get(key)
        is_new = record.run_id is None and record.type in _START_TYPES and call is not None and bool(call.records)
        if call is None or (is_new and any(known.type in _START_TYPES for known in call.records)):
            call = self.calls[key] = _CallRecords(*key)
            self.all_calls.append(call)
        self.processes.setdefault(event.process, len(self.processes) + 1)
        call.records.append(record)
        call.processes.append(event.process)
        if isinstance(event, ApprovalAsked):
            self.requests.append(event)
        elif isinstance(event, ApprovalAnswered):
            call.answer = event


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
        recovery="resolved" if is_resolved else "again" if first != last and group.answer is None else "",
        approval_answer=group.answer,
    )
