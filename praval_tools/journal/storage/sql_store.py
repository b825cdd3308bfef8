"""The journal's store in a SQL database: one writer thread, separate readers, leases of runs."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from praval_tools.errors import JournalClosedError
from praval_tools.forks import handle_forks
from praval_tools.journal.storage import query
from praval_tools.journal.storage.leases import RunLease
from praval_tools.journal.storage.open_database import open_database
from praval_tools.journal.storage.protocol import (
    Answer,
    Item,
    Record,
    RecordFilter,
    RecordFilters,
    RunInfo,
    StateView,
    Store,
)
from praval_tools.journal.storage.prune import prune_records
from praval_tools.journal.storage.rows import to_microseconds
from praval_tools.journal.storage.sqlite import LOCK_TIMEOUT
from praval_tools.journal.storage.tables import store
from praval_tools.journal.storage.token_table import TokenTable
from praval_tools.journal.storage.worker_calls import WorkerCallTable
from praval_tools.journal.storage.write_requests import FutureWriteRequest, LoopBatcher, ThreadWriteRequest
from praval_tools.journal.storage.writer import WriterThread


class SqlStore:
    """
    A journal in a SQLite file or a PostgreSQL database; see `Store` for what it does.

    For any number of threads, event loops and processes; what is answered is on the disk.
    After a fork the child has connections, a writer and leases of its own, and the parent's go on.

    Args:
        where: The path of a file, created where there is none, in a folder that exists; or the URL of a database.
        lock_timeout: Seconds for which another process may keep a file's write lock, before what waits gets an error.
    """

    def __init__(self, where: Path | str, lock_timeout: float = LOCK_TIMEOUT) -> None:
        self._database, self._leases = open_database(where, lock_timeout)
        self._writer = WriterThread(self._database, self._leases)
        self._loop_batcher = LoopBatcher(self._writer.submit)
        self.tokens = TokenTable(self._database)
        self.worker_calls = WorkerCallTable(self._database)
        self.watch = self._leases.watch
        self._closed = False
        # also at the interpreter's end: what was submitted and not waited for is written then
        ends = (self._leases.close, self.worker_calls.close, self._database.close)
        self._finalizer = weakref.finalize(self, _close_all, weakref.ref(self), self._writer, ends)
        handle_forks(
            self,
            before=SqlStore._pause_for_fork,
            in_parent=SqlStore._resume_after_fork,
            in_child=SqlStore._reset_after_fork,
        )

    @property
    def name(self) -> str:
        """The path, or the URL without secrets."""
        return self._database.name

    def append(self, items: Sequence[Item]) -> list[Answer]:
        """Write *items*, in order; return when they are durable."""
        request = ThreadWriteRequest(items)
        self._loop_batcher.flush()
        self._writer.submit(request)
        return request.wait()

    def submit(self, items: Sequence[Item]) -> Future[list[Answer]]:
        """Write *items* without waiting; the future's callbacks run in the writer, and must be short."""
        request = FutureWriteRequest(items)
        self._loop_batcher.flush()
        self._writer.submit(request)
        return request.future

    def aappend(self, items: Sequence[Item]) -> Awaitable[list[Answer]]:
        """Write *items*, together with what the loop's other tasks append in this iteration of it."""
        return self._loop_batcher.add(items)

    def read(self, **filters: Unpack[RecordFilters]) -> Iterator[Record]:
        """Yield the records that fit all filters, by `seq`."""
        with self._translate_errors():
            yield from query.iter_records(self._database, RecordFilter(**filters))

    def count(self) -> int:
        """Return how many records there are."""
        with self._translate_errors():
            return query.count_records(self._database.readers)

    def last_seq(self) -> int:
        """Return a `seq` after which there is no record; without a prune since, that of the latest record."""
        return self._read_counter(store.c.seq)

    def runs(self) -> Iterator[RunInfo]:
        """Yield the runs, the oldest first."""
        with self._translate_errors():
            yield from query.iter_runs(self._database.readers)

    def open_run(self, run_id: str) -> RunLease:
        """Open a run in one place at a time."""
        self._raise_if_closed()
        return self._leases.open(run_id)

    def state(self, since: int = 0, *, counts_only: bool = False) -> StateView:
        """Return the changes of access that hold, or what changed after revision *since*."""
        with self._translate_errors():
            return query.read_counts(self._database) if counts_only else query.read_state(self._database, since)

    def revision(self) -> int:
        """Return the state's revision."""
        return self._read_counter(store.c.revision)

    def prune(self, before: datetime) -> int:
        """Delete what ended before; return how many records were deleted."""
        with self._translate_errors():
            return prune_records(self._database, self._leases.open, to_microseconds(before))

    def close(self) -> None:
        """Write what waits, and release everything; safe to call twice."""
        self._closed = True
        self._finalizer()

    def __enter__(self) -> SqlStore:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _read_counter(self, column: sa.Column[int]) -> int:
        with self._translate_errors(), self._database.readers.connect() as connection:
            return int(connection.execute(sa.select(column)).scalar_one())

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise JournalClosedError(self.name)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise an error of the database as the journal's."""
        self._raise_if_closed()
        try:
            yield
        except SQLAlchemyError as error:
            raise self._database.translate_error(error) from error

    def _pause_for_fork(self) -> None:
        self._writer.pause_for_fork()

    def _resume_after_fork(self) -> None:
        self._writer.resume_after_fork()

    def _reset_after_fork(self) -> None:
        self._database.reset_after_fork()
        self._leases.reset_after_fork()
        self._writer.reset_after_fork()
        self._loop_batcher = LoopBatcher(self._writer.submit)
        self.worker_calls.reset_after_fork()


if TYPE_CHECKING:
    _is_a_store: type[Store] = SqlStore


def _close_all(
    reference: weakref.ref[SqlStore], writer: WriterThread, ends: Iterable[Callable[[], object]]
) -> None:
    """
    Close the writer, then all else of a store.

    A store that was collected waits for nobody: the collector runs in any thread, whatever locks that holds.
    """

    def close_rest() -> None:
        for end in ends:
            end()

    if reference() is None:
        writer.close_later(close_rest)
    else:
        writer.close()
        close_rest()
