"""Reads of a record what an index keeps, and adds up the calls that ended."""

from __future__ import annotations

from collections import OrderedDict
from datetime import timedelta
from typing import Final

import msgspec

from praval_tools.journal.codec import build_body_decoder
from praval_tools.journal.events import EventType
from praval_tools.journal.replay_entry import IN_DOUBT_OUTCOMES
from praval_tools.journal.storage.protocol import Record
from praval_tools.journal.storage.rows import to_microseconds
from praval_tools.names import OPERATOR

ALL_DAYS: Final = 0
"""The day of the sums of all days."""

_DAY: Final = timedelta(days=1) // timedelta(microseconds=1)
_NANOSECONDS_PER_MS: Final = 1_000_000
_MAX_MS: Final = 1e12
_MAX_STARTED: Final = 50_000
_CALL, _RESULT, _REFUSED = EventType.AGENT_TOOL_CALL, EventType.AGENT_TOOL_RESULT, EventType.CALL_REFUSED
_RERUN: Final = EventType.CALL_RERUN
_MAY_RERUN, _HAS_ENDED = 7, 8
"""Columns of open calls."""
UNCOUNTED: Final = ("unknown_tool", "approval_required")
"""Ends that do not count as refusals, as in a registry's statistics: there is no such tool, or the call waits."""


class _Rule(msgspec.Struct):
    rule: str = ""


class _EventFields(msgspec.Struct):
    """The fields of an event's JSON that an index needs."""

    outcome: str | None = None
    decision: _Rule | None = None
    latency_ms: float | None = None


_decode_fields: Final = build_body_decoder(_EventFields)  # at import: see `journal.replay_entry`
_NO_FIELDS: Final = _EventFields()


class IndexedEvent(msgspec.Struct, frozen=True, gc=False):
    """What an index keeps of one record; the names are those of the record."""

    seq: int
    time: int
    type: str
    agent: str | None
    tool: str | None
    outcome: str | None
    rule: str | None
    latency_ms: float | None
    run_id: str | None
    call_id: str | None
    attempt: int | None
    process: str

    @property
    def is_new_call(self) -> bool:
        """Whether a call starts with it, for the first time."""
        return self.type == _CALL and self.attempt is not None

    @property
    def count_position(self) -> int | None:
        """Where the call that it ends is counted: 0 for `ok`, 1 failed, 2 refused; None: it ends none."""
        if self.type == _RESULT:
            return 0 if self.outcome == "ok" else 1
        return 2 if self.type == _REFUSED and self.outcome not in UNCOUNTED else None

    def to_row(self) -> tuple[object, ...]:
        """Return the columns of its row."""
        return self.seq, self.time, self.type, self.agent, self.tool, self.outcome, self.rule, self.latency_ms


class EventReader:
    """Reads records one after the other; remembers the rules of calls that have no result yet, the latest ones."""

    def __init__(self) -> None:
        self._rules: OrderedDict[tuple[str | None, str | None], str] = OrderedDict()

    def read_event(self, record: Record) -> IndexedEvent:
        """Return what is kept of *record*; of a damaged one, what the store knows of it."""
        try:
            fields = _decode_fields(record.body)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            fields = _NO_FIELDS
        rule = None if fields.decision is None else fields.decision.rule
        key = (record.run_id, record.call_id)
        if record.type == _CALL and rule:
            self._rules[key] = rule
            if len(self._rules) > _MAX_STARTED:
                self._rules.popitem(last=False)
        elif record.type == _RESULT:
            rule = self._rules.pop(key, None)
        return IndexedEvent(
            record.seq or 0, to_microseconds(record.time), record.type, record.agent, record.tool, fields.outcome,
            rule or None, fields.latency_ms, record.run_id, record.call_id, record.attempt, record.process,
        )  # fmt: skip


class CallSums:
    """The sums of a batch of events: by day of all calls, of each tool, and of each agent."""

    def __init__(self) -> None:
        self._days: dict[tuple[str, int, str], list[int]] = {}

    def add_event(self, event: IndexedEvent) -> None:
        """Count the call that *event* ends; other events count nothing."""
        position = event.count_position
        if position is None:
            return
        latency = event.latency_ms or 0.0
        time = int(min(latency, _MAX_MS) * _NANOSECONDS_PER_MS) if position == 0 and latency > 0 else 0
        day, names = event.time // _DAY, (("all", ""), ("tool", event.tool or ""), ("agent", event.agent or OPERATOR))
        for kind, name in names:
            for key in ((kind, day, name), (kind, ALL_DAYS, name)):
                sums = self._days.get(key)
                if sums is None:
                    sums = self._days[key] = [0, 0, 0, 0]
                sums[position] += 1
                sums[3] += time

    def list_rows(self) -> list[tuple[object, ...]]:
        """Return the rows by day, in the order of their table."""
        return [(*key, *sums) for key, sums in sorted(self._days.items())]


class RunSums:
    """What a batch of events changes of runs, and of calls that have no result."""

    def __init__(self) -> None:
        self._runs: dict[str, list[int]] = {}
        self._open_calls: dict[tuple[str, str], tuple[object, ...] | None] = {}
        self.starts: list[tuple[int, str]] = []
        self.reruns: list[tuple[str, str]] = []
        self.doubts: list[tuple[str, str]] = []

    def add_event(self, event: IndexedEvent) -> None:
        """Add an event; those outside runs change nothing."""
        run_id, call_id, kind = event.run_id, event.call_id, event.type
        if run_id is None:
            return
        position, sums = event.count_position, self._runs.get(run_id)
        if sums is None:
            sums = self._runs[run_id] = [event.seq, event.seq, event.time, event.time, 0, 0, 0, 0]
        sums[1] = event.seq
        sums[2], sums[3] = min(sums[2], event.time), max(sums[3], event.time)
        sums[4] += 1
        sums[5] += event.is_new_call
        sums[6] += position == 1
        sums[7] += position == 2
        if event.is_new_call or kind == _REFUSED:
            self.starts.append((event.seq, run_id))
        if call_id is None:
            return
        if kind == _CALL:
            row = (run_id, call_id, event.seq, event.time, event.agent, event.tool or "", event.process, 0, 0)
            self._open_calls[run_id, call_id] = row
        elif kind == _RESULT and event.attempt is not None:
            self._open_calls[run_id, call_id] = None
        elif kind == _RESULT and event.outcome in IN_DOUBT_OUTCOMES:
            self._mark(run_id, call_id, _HAS_ENDED, self.doubts)
        elif kind == _RERUN:
            self._mark(run_id, call_id, _MAY_RERUN, self.reruns)

    def _mark(self, run_id: str, call_id: str, column: int, earlier: list[tuple[str, str]]) -> None:
        """Set a column of an open call; one that an *earlier* batch began is added there."""
        row = self._open_calls.get((run_id, call_id))
        if row is None:
            earlier.append((run_id, call_id))
        else:
            self._open_calls[run_id, call_id] = (*row[:column], 1, *row[column + 1 :])

    def list_runs(self) -> list[tuple[object, ...]]:
        """Return the rows of the runs: first and latest number, times, counts."""
        return [(first, run_id, *others) for run_id, (first, *others) in self._runs.items()]

    def list_open_calls(self) -> list[tuple[object, ...]]:
        """Return the rows of the calls that have no result at the end of the batch."""
        return [row for row in self._open_calls.values() if row is not None]

    def list_ended_calls(self) -> list[tuple[str, str]]:
        """Return run and id of the calls that have one."""
        return [key for key, row in self._open_calls.items() if row is None]
