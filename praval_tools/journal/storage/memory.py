"""The journal's store in memory: ends with the process, and deletes the oldest records when its capacity is reached."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeVar, Unpack

import msgspec

from praval_tools.errors import JournalClosedError, JournalError
from praval_tools.forks import ForkSafeLock
from praval_tools.journal.storage.leases import RunLease, RunLeases
from praval_tools.journal.storage.protocol import (
    INTENT,
    Answer,
    Item,
    Record,
    RecordFilter,
    RecordFilters,
    RunInfo,
    StateRow,
    StateView,
    Status,
    Uses,
    find_attempts,
    find_error,
)
from praval_tools.journal.storage.rows import to_microseconds
from praval_tools.names import format_count

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

    FutureT = TypeVar("FutureT", Future[list[Answer]], asyncio.Future[list[Answer]])

_STORE_NAME: Final = "memory"


class _StoredRun:
    """The records of one run, and those of its calls' attempts."""

    __slots__ = ("calls", "records")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.calls: dict[str, dict[int, Record]] = {}

    def count_in_doubt(self) -> int:
        """Return how many calls began and have no result."""
        return sum(INTENT in attempts and max(attempts) == INTENT for attempts in self.calls.values())

    def summarize(self, run_id: str) -> RunInfo:
        """Return the run in numbers."""
        calls = sum(INTENT in attempts for attempts in self.calls.values())
        last = max(record.time for record in self.records)
        return RunInfo(run_id, self.records[0].time, last, calls, self.count_in_doubt())


class MemoryStore:
    """
    A journal in memory, of at most *capacity* records; see `Store` for what it does.

    When it is full, it deletes the oldest runs that are neither open nor in doubt, as a whole, and the oldest records
    outside runs; where nothing may be deleted, appending raises `JournalError`.
    """

    def __init__(self, capacity: int = 100_000) -> None:
        self.name = _STORE_NAME
        self._capacity = capacity
        self._lock = ForkSafeLock()
        self._leases = RunLeases()
        self._records: dict[int, Record] = {}
        self._runs: dict[str, _StoredRun] = {}
        self._state_rows: dict[tuple[str, str, str], StateRow] = {}
        self._uses: dict[str, tuple[int | None, int]] = {}
        """Grant id → calls left, and the revision at which they were set."""
        self._seq = self._revision = self._pruned_revision = 0
        self._closed = False

    def append(self, items: Sequence[Item]) -> list[Answer]:
        """Write *items*, in order."""
        with self._lock:
            self._raise_if_closed()
            answers = [self._append_item(item) for item in items]
        error = find_error(answers)
        if error is not None:
            raise error
        return answers

    def submit(self, items: Sequence[Item]) -> Future[list[Answer]]:
        """Write *items*; the future is done."""
        from concurrent.futures import Future

        return self._append_into(Future(), items)

    def aappend(self, items: Sequence[Item]) -> Awaitable[list[Answer]]:
        """Write *items*; the awaitable is done."""
        from asyncio import get_running_loop

        return self._append_into(get_running_loop().create_future(), items)

    def _append_into(self, future: FutureT, items: Sequence[Item]) -> FutureT:
        try:
            future.set_result(self.append(items))
        except JournalError as error:
            future.set_exception(error)
        return future

    def read(self, **filters: Unpack[RecordFilters]) -> Iterator[Record]:
        """Yield the records that fit all filters, by `seq`."""
        wanted = RecordFilter(**filters)
        since, until, exact_values = wanted.since, wanted.until, wanted.get_exact_values().items()
        with self._lock:
            self._raise_if_closed()
            run = None if wanted.run_id is None else self._runs.get(wanted.run_id, _StoredRun())
            records = list(self._records.values() if run is None else run.records)
        numbers = None if wanted.numbers is None else set(wanted.numbers)
        for record in records:
            if (
                (record.seq or 0) > wanted.after_seq
                and (numbers is None or record.seq in numbers)
                and (since is None or record.time >= since)
                and (until is None or record.time < until)
                and all(getattr(record, name) == value for name, value in exact_values)
            ):
                yield record

    def count(self) -> int:
        """Return how many records there are."""
        self._raise_if_closed()
        return len(self._records)

    def last_seq(self) -> int:
        """Return a `seq` after which there is no record; without a prune since, that of the latest record."""
        self._raise_if_closed()
        return self._seq

    def runs(self) -> Iterator[RunInfo]:
        """Yield the runs, the oldest first."""
        with self._lock:
            self._raise_if_closed()
            runs = [run.summarize(run_id) for run_id, run in self._runs.items()]
        yield from runs

    def open_run(self, run_id: str) -> RunLease:
        """Open a run in one place at a time."""
        self._raise_if_closed()
        return self._leases.open(run_id)

    def state(self, since: int = 0, *, counts_only: bool = False) -> StateView:
        """Return the changes of access that hold, or what changed after revision *since*."""
        with self._lock:
            self._raise_if_closed()
            complete = counts_only or since <= 0 or since < self._pruned_revision or since > self._revision
            known = 0 if complete else since
            rows = [
                row
                for row in (() if counts_only else self._state_rows.values())
                if row.revision > known and not (complete and row.body is None)
            ]
            uses = [
                Uses(grant, left)
                for grant, (left, revision) in self._uses.items()
                if revision > known and not (complete and left is None)
            ]
            return StateView(self._revision, complete, tuple(sorted(rows, key=lambda row: row.revision)), tuple(uses))

    def revision(self) -> int:
        """Return the state's revision."""
        self._raise_if_closed()
        return self._revision

    def prune(self, before: datetime) -> int:
        """Delete what ended before; return how many records were deleted."""
        with self._lock:
            self._raise_if_closed()
            deleted = self._delete_oldest(before, len(self._records))
            ended_rows = {key: row.revision for key, row in self._state_rows.items() if row.body is None}
            ended_uses = {grant: revision for grant, (left, revision) in self._uses.items() if left is None}
            self._pruned_revision = max(self._pruned_revision, *ended_rows.values(), *ended_uses.values(), 0)
            for key in ended_rows:
                del self._state_rows[key]
            for grant in ended_uses:
                del self._uses[grant]
            return deleted

    def close(self) -> None:
        """Accept nothing any more; safe to call twice."""
        self._closed = True

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise JournalClosedError(_STORE_NAME)

    def _append_item(self, item: Item) -> Answer:
        problem = _find_problem(item)
        if problem:
            return _make_failed_answer(problem, "Nothing of it was written; correct the item, or try again.")
        attempts = find_attempts(item, self._read_attempts)
        if attempts:
            return Answer(Status.EXISTS, revision=self._revision, found=attempts)
        if item.revision is not None and item.revision != self._revision:
            return Answer(Status.STALE, revision=self._revision)
        grant = self._find_exhausted_grant(item.spend)
        if grant is not None:
            return Answer(Status.EXHAUSTED, revision=self._revision, grant=grant)
        if not self._make_room(len(item.records)):
            return _make_failed_answer(
                f"it is full of runs that are open or in doubt ({format_count(self._capacity, 'record')})",
                "Resolve them, or give MemoryStore a larger capacity, or keep the journal in a file.",
            )
        self._apply_changes(item)
        first = self._seq + 1
        run_seq, *_ = [self._append_record(record) for record in item.records]
        return Answer(Status.DONE, first, run_seq, self._revision)

    def _read_attempts(self, run_id: str, call_id: str) -> Iterable[Record]:
        run = self._runs.get(run_id)
        return () if run is None else run.calls.get(call_id, {}).values()

    def _find_exhausted_grant(self, spend: Sequence[str]) -> str | None:
        for index, grant in enumerate(spend):
            left, _ = self._uses.get(grant, (0, 0))
            if (left or 0) <= spend[:index].count(grant):
                return grant
        return None

    def _apply_changes(self, item: Item) -> None:
        for grant in item.spend:
            left, revision = self._uses[grant]
            self._uses[grant] = ((left or 0) - 1, revision)
        self._revision += bool(item.rows or item.uses)
        for row in item.rows:
            self._state_rows[row.kind, row.key, row.source] = msgspec.structs.replace(row, revision=self._revision)
        for use in item.uses:
            self._uses[use.grant_id] = (use.left, self._revision)

    def _append_record(self, record: Record) -> int | None:
        """Store *record*; return its number in its run."""
        self._seq += 1
        if record.run_id is None:
            self._records[self._seq] = msgspec.structs.replace(record, seq=self._seq)
            return None
        run = self._runs.setdefault(record.run_id, _StoredRun())
        run_seq = len(run.records) + 1
        stored = self._records[self._seq] = msgspec.structs.replace(record, seq=self._seq, run_seq=run_seq)
        run.records.append(stored)
        if record.call_id is not None and record.attempt is not None:
            run.calls.setdefault(record.call_id, {})[record.attempt] = stored
        return run_seq

    def _make_room(self, count: int) -> bool:
        excess = len(self._records) + count - self._capacity
        if excess > 0:
            self._delete_oldest(None, max(excess, self._capacity // 8))
        return len(self._records) + count <= self._capacity

    def _delete_oldest(self, before: datetime | None, enough: int) -> int:
        """Delete from the oldest on until *enough* records are gone; with *before*, only what ended before."""
        count = len(self._records)
        for seq in list(self._records):
            if count - len(self._records) >= enough:
                break
            record = self._records.get(seq)
            if record is None:
                continue
            run_id = record.run_id
            run = None if run_id is None else self._runs[run_id]
            records = [record] if run is None else run.records
            if before is not None and max(each.time for each in records) >= before:
                continue
            if run is not None and run_id is not None:
                if run.count_in_doubt() or self._leases.is_open(run_id):
                    continue
                del self._runs[run_id]
            for each in records:
                del self._records[each.seq or 0]
        return count - len(self._records)


def _find_problem(item: Item) -> str:
    """Return why a database would refuse the item; empty: it would not."""
    if not item.records:
        return "ValueError: an item needs at least one record"
    try:
        for record in item.records:
            to_microseconds(record.time)
    except TypeError as error:
        return f"TypeError: {error}"
    return ""


def _make_failed_answer(problem: str, fix: str) -> Answer:
    return Answer(Status.FAILED, error=JournalError(_STORE_NAME, problem, fix))
