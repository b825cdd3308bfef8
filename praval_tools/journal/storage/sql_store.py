"""The durable store: one writer thread, readers of their own, leases by the operating system."""

from __future__ import annotations

import os
import socket
import weakref
from collections.abc import Awaitable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from praval_tools.errors import JournalClosedError
from praval_tools.journal.storage import query
from praval_tools.journal.storage.leases import FileLeases, RunLease
from praval_tools.journal.storage.protocol import Answer, Item, Record, RunInfo, StateView, Store
from praval_tools.journal.storage.prune import prune
from praval_tools.journal.storage.rows import micros
from praval_tools.journal.storage.sqlite import PATIENCE, SqliteDatabase
from praval_tools.journal.storage.sqlite_file import locks_beside, prepare
from praval_tools.journal.storage.tables import store
from praval_tools.journal.storage.write_requests import FutureTicket, LoopDoor, ThreadTicket
from praval_tools.journal.storage.writer import Writer


class SqlStore:
    """
    A journal in a SQLite file; see `Store` for what it does.

    For any number of threads, event loops and processes; what is answered is on the disk (synchronous=FULL).
    After a fork the child has connections, a writer and leases of its own, and the parent goes on.

    Args:
        path: The file; made where there is none, in a folder that is there.
        patience: Seconds for which another process may keep the write lock, before what waits gets an error.
    """

    def __init__(self, path: Path, patience: float = PATIENCE) -> None:
        prepare(path)
        self._database = SqliteDatabase(path, patience)
        self._writer = Writer(self._database)
        self._door = LoopDoor(self._writer.hand_over)
        self._leases = FileLeases(locks_beside(path), str(path), process)
        self._closed = False
        # also at the interpreter's end: what was submitted and not waited for is written then
        self._end = weakref.finalize(self, _end, self._writer, self._leases, self._database)
        _survive_forks(self)

    @property
    def name(self) -> str:
        """The path."""
        return self._database.name

    def append(self, items: Sequence[Item]) -> list[Answer]:
        """Write *items*, in order; return when they are durable."""
        ticket = ThreadTicket(items)
        self._writer.hand_over(ticket)
        return ticket.wait()

    def submit(self, items: Sequence[Item]) -> Future[list[Answer]]:
        """Write *items* without waiting; the future's callbacks run in the writer, and must be short."""
        ticket = FutureTicket(items)
        self._writer.hand_over(ticket)
        return ticket.future

    def aappend(self, items: Sequence[Item]) -> Awaitable[list[Answer]]:
        """Write *items*, together with what the loop's other tasks append in this round of it."""
        return self._door.enter(items)

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
        wanted = query.Wanted(run_id, call_id, agent, tool, type, since, until, after_seq)
        with self._reading():
            yield from query.records(self._database, wanted)

    def count(self) -> int:
        """Return how many records there are."""
        with self._reading():
            return query.count(self._database.readers)

    def runs(self) -> Iterator[RunInfo]:
        """Yield the runs, the oldest first."""
        with self._reading():
            yield from query.all_runs(self._database.readers)

    def open_run(self, run_id: str) -> RunLease:
        """Open a run here, and only here."""
        self._refuse_closed()
        return self._leases.open(run_id)

    def state(self, since: int = 0) -> StateView:
        """Return the acts that hold, or what changed after revision *since*."""
        with self._reading():
            return query.acts(self._database, since)

    def revision(self) -> int:
        """Return the state's revision."""
        with self._reading(), self._database.readers.connect() as connection:
            return int(connection.execute(sa.select(store.c.revision)).scalar_one())

    def prune(self, before: datetime) -> int:
        """Forget what ended before; return how many records went."""
        with self._reading():
            return prune(self._database, self._leases.open, micros(before))

    def close(self) -> None:
        """Write what waits, and let go of everything; safe twice."""
        self._closed = True
        self._end()

    def __enter__(self) -> SqlStore:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise JournalClosedError(self.name)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Say what an error of the database means."""
        self._refuse_closed()
        try:
            yield
        except SQLAlchemyError as error:
            raise self._database.error(error) from error

    def _before_fork(self) -> None:
        self._writer.before_fork()

    def _after_fork(self) -> None:
        self._writer.after_fork()

    def _forked(self) -> None:
        self._leases.forked()
        self._database.renew()
        self._writer.forked()
        self._door = LoopDoor(self._writer.hand_over)


if TYPE_CHECKING:
    _is_a_store: type[Store] = SqlStore


def process() -> str:
    """Return what stands for this process in the errors of others."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def _end(writer: Writer, leases: FileLeases, database: SqliteDatabase) -> None:
    writer.close()
    leases.close()
    database.close()


def _survive_forks(one: SqlStore) -> None:
    """Call the store around each fork, as long as it lives; such calls can't be taken back."""
    alive = weakref.ref(one)

    def told(name: str) -> Any:
        def tell() -> None:
            there = alive()
            if there is not None:
                getattr(there, name)()

        return tell

    os.register_at_fork(
        before=told("_before_fork"), after_in_parent=told("_after_fork"), after_in_child=told("_forked")
    )
