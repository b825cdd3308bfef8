"""The store without a disk: as the durable one, and gone with the process."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from praval_tools.errors import JournalClosedError, JournalError
from praval_tools.journal.storage.leases import MemoryLeases, RunLease
from praval_tools.journal.storage.protocol import (
    INTENT,
    Answer,
    Item,
    Record,
    RunInfo,
    StateRow,
    StateView,
    Status,
    Uses,
)  # fmt: skip

if TYPE_CHECKING:
    from concurrent.futures import Future

_STORE_NAME: Final = "memory"
_MIN_TIME: Final = datetime.min.replace(tzinfo=UTC)
_Call = tuple[str, str]


class _StoredRun:
    """What is known of one run."""

    __slots__ = ("calls", "last_run_seq", "records")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.calls: dict[str, dict[int, Record]] = {}
        self.last_run_seq = 0

    @property
    def in_doubt(self) -> int:
        """How many calls began and have no result."""
        return sum(INTENT in attempts and max(attempts) == INTENT for attempts in self.calls.values())


class MemoryStore:
    """
    A journal in memory, of at most *capacity* records; see `Store` for what it does.

    When it is full, the oldest runs that are neither open nor in doubt go as a whole, and the oldest records
    outside of runs; where nothing may go, appending raises `JournalError`.
    """

    def __init__(self, capacity: int = 100_000) -> None:
        self.name = _STORE_NAME
        self._capacity = capacity
        self._lock = threading.Lock()
        self._leases = MemoryLeases()
        self._records: dict[int, Record] = {}
        self._runs: dict[str, _StoredRun] = {}
        self._state_rows: dict[tuple[str, str, str], StateRow] = {}
        self._grant_uses: dict[str, tuple[int | None, int]] = {}
        self._seq = self._revision = self._pruned_revision = 0
        self._closed = False

    def append(self, items: Sequence[Item]) -> list[Answer]:
        """Write *items*, in order."""
        with self._lock:
            self._raise_if_closed()
            answers = [self._append_item(item) for item in items]
        for at, answer in enumerate(answers):
            if answer.error is not None:
                error = answer.error
                answers[at] = msgspec.structs.replace(answer, error=None)
                error.answers = answers
                raise error
        return answers

    def submit(self, items: Sequence[Item]) -> Future[list[Answer]]:
        """Write *items*; the future is done."""
        from concurrent.futures import Future

        future: Future[list[Answer]] = Future()
        try:
            future.set_result(self.append(items))
        except JournalError as error:
            future.set_exception(error)
        return future

    def aappend(self, items: Sequence[Item]) -> Awaitable[list[Answer]]:
        """Write *items*; the awaitable is done."""
        from asyncio import get_running_loop

        future = get_running_loop().create_future()
        try:
            future.set_result(self.append(items))
        except JournalError as error:
            future.set_exception(error)
        return future

    def read(
        self,
        *,
        run_id: str | None = None,
        call_id: str | None = None,
        agent: str | None = None,
        tool: str | None = None,
        type: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after_seq: int = 0,
    ) -> Iterator[Record]:
        """Yield the records that fit all filters, by `seq`."""
        with self._lock:
            self._raise_if_closed()
            run = None if run_id is None else self._runs.get(run_id, _StoredRun())
            found = list(self._records.values() if run is None else run.records)
        same = [("call_id", call_id), ("agent", agent), ("tool", tool), ("type", type)]
        wanted = [(name, value) for name, value in same if value is not None]
        for one in found:
            if (one.seq or 0) <= after_seq or (since is not None and one.time < since):
                continue
            if until is not None and one.time >= until:
                continue
            if all(getattr(one, name) == value for name, value in wanted):
                yield one

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
            found = [_build_run_info(name, run) for name, run in self._runs.items()]
        yield from found

    def open_run(self, run_id: str) -> RunLease:
        """Open a run here, and only here."""
        self._raise_if_closed()
        return self._leases.open(run_id)

    def state(self, since: int = 0) -> StateView:
        """Return the acts that hold, or what changed after revision *since*."""
        with self._lock:
            self._raise_if_closed()
            complete = since <= 0 or since < self._pruned_revision or since > self._revision
            known = 0 if complete else since
            rows = [
                one for one in self._state_rows.values() if one.revision > known and not (complete and one.body is None)
            ]
            uses = [Uses(name, left) for name, (left, at) in self._grant_uses.items() if at > known]
            if complete:
                uses = [one for one in uses if one.left is not None]
            return StateView(self._revision, complete, tuple(sorted(rows, key=lambda one: one.revision)), tuple(uses))

    def revision(self) -> int:
        """Return the state's revision."""
        self._raise_if_closed()
        return self._revision

    def prune(self, before: datetime) -> int:
        """Forget what ended before; return how many records went."""
        with self._lock:
            self._raise_if_closed()
            gone = self._delete_oldest(before, len(self._records))
            self._pruned_revision = max(
                [self._pruned_revision]
                + [one.revision for one in self._state_rows.values() if one.body is None]
                + [at for left, at in self._grant_uses.values() if left is None]
            )
            self._state_rows = {key: one for key, one in self._state_rows.items() if one.body is not None}
            self._grant_uses = {name: one for name, one in self._grant_uses.items() if one[0] is not None}
            return gone

    def close(self) -> None:
        """Take nothing any more; safe twice."""
        self._closed = True

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise JournalClosedError(_STORE_NAME)

    def _append_item(self, item: Item) -> Answer:
        problem = _find_problem(item)
        if problem:
            fix = "Nothing of it was written; mend the item, or try again."
            return Answer(Status.FAILED, error=JournalError(_STORE_NAME, problem, fix))
        found = self._find_attempts(item)
        if found:
            return Answer(Status.EXISTS, revision=self._revision, found=found)
        if item.revision is not None and item.revision != self._revision:
            return Answer(Status.STALE, revision=self._revision)
        grant = self._find_exhausted_grant(item.spend)
        if grant is not None:
            return Answer(Status.EXHAUSTED, revision=self._revision, grant=grant)
        if not self._make_room(len(item.records)):
            fix = "Resolve them, or give MemoryStore a larger capacity, or keep the journal in a file."
            full = JournalError(
                _STORE_NAME, f"it is full of runs that are open or in doubt ({self._capacity} records)", fix
            )
            return Answer(Status.FAILED, error=full)
        self._spend_grants(item.spend)
        self._apply_changes(item)
        first = self._seq + 1
        stored = [self._append_record(record) for record in item.records]
        return Answer(Status.DONE, first, stored[0].run_seq, self._revision)

    def _find_attempts(self, item: Item) -> tuple[Record, ...]:
        found: dict[int, Record] = {}
        for one in item.records:
            run = self._runs.get(one.run_id) if one.run_id is not None else None
            if run is None or one.call_id is None or one.attempt is None:
                continue
            attempts = run.calls.get(one.call_id, {})
            if one.attempt in attempts:
                found.update({each.seq or 0: each for each in attempts.values()})
        return tuple(found[seq] for seq in sorted(found))

    def _find_exhausted_grant(self, spend: Sequence[str]) -> str | None:
        for at, grant in enumerate(spend):
            left, _ = self._grant_uses.get(grant, (0, 0))
            if (left or 0) <= spend[:at].count(grant):
                return grant
        return None

    def _spend_grants(self, spend: Sequence[str]) -> None:
        for grant in spend:
            left, at = self._grant_uses[grant]
            self._grant_uses[grant] = ((left or 0) - 1, at)

    def _apply_changes(self, item: Item) -> None:
        if not item.rows and not item.uses:
            return
        self._revision += 1
        for act in item.rows:
            key = (act.kind, act.key, act.source)
            self._state_rows[key] = msgspec.structs.replace(act, revision=self._revision)
        for one in item.uses:
            self._grant_uses[one.grant_id] = (one.left, self._revision)

    def _append_record(self, record: Record) -> Record:
        self._seq += 1
        run = None if record.run_id is None else self._runs.setdefault(record.run_id, _StoredRun())
        run_seq = None
        if run is not None:
            run_seq = run.last_run_seq = run.last_run_seq + 1
        stored = msgspec.structs.replace(record, seq=self._seq, run_seq=run_seq)
        self._records[self._seq] = stored
        if run is not None:
            run.records.append(stored)
            if record.call_id is not None and record.attempt is not None:
                run.calls.setdefault(record.call_id, {})[record.attempt] = stored
        return stored

    def _make_room(self, wanted: int) -> bool:
        over = len(self._records) + wanted - self._capacity
        if over > 0:
            self._delete_oldest(None, max(over, self._capacity // 8))
        return len(self._records) + wanted <= self._capacity

    def _delete_oldest(self, before: datetime | None, enough: int) -> int:
        """Forget from the oldest on until *enough* records went, all or those that ended before."""
        had = len(self._records)
        for seq in list(self._records):
            if had - len(self._records) >= enough:
                break
            one = self._records.get(seq)
            if one is None:
                continue
            run = None if one.run_id is None else self._runs.get(one.run_id)
            ended = [one] if run is None else run.records
            if before is not None and max(each.time for each in ended) >= before:
                continue
            if run is not None and (run.in_doubt or self._leases.is_open(one.run_id or "")):
                continue
            for each in ended:
                del self._records[each.seq or 0]
            if one.run_id is not None:
                del self._runs[one.run_id]
        return had - len(self._records)


def _find_problem(item: Item) -> str:
    """Say what a database would refuse."""
    if not item.records:
        return "ValueError: an item needs at least one record"
    for one in item.records:
        try:
            one.time - _MIN_TIME
        except TypeError as error:
            return f"TypeError: {error}"
    return ""


def _build_run_info(name: str, run: _StoredRun) -> RunInfo:
    calls = sum(INTENT in attempts for attempts in run.calls.values())
    return RunInfo(name, run.records[0].time, max(one.time for one in run.records), calls, run.in_doubt)
