"""The SQLite database of a journal: connections, pragmas, locking and the meaning of its errors."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from sqlalchemy import create_engine, event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import NullPool, QueuePool

from praval_tools.errors import JournalError
from praval_tools.journal.storage.file_locks import get_file_identity
from praval_tools.journal.storage.group_commit import WriteGroup
from praval_tools.journal.storage.tables import events

LOCK_TIMEOUT: Final = 20.0
"""Seconds for which another process may keep the write lock."""

_POLL_SECONDS: Final = 0.001
_CHECKPOINT_PAGES: Final = 4_000  # 16 MB: pages that many groups change are copied into the file once
_CACHE_KB: Final = 16_000

_ERROR_MESSAGES: Final = (
    ("SQLITE_FULL", "the disk is full", "Free space on the disk of {path!r}; later appends work again."),
    ("SQLITE_READONLY", "the file is read-only", "Make {path!r} and its folder writable for this user."),
    ("SQLITE_BUSY", "another process kept the write lock for too long", "Find who writes into {path!r}, or try again."),
    ("SQLITE_CORRUPT", "the file is damaged", "Restore {path!r} from a backup, or move it away to start anew."),
    ("SQLITE_NOTADB", "the file is damaged", "Restore {path!r} from a backup, or move it away to start anew."),
    ("SQLITE_CANTOPEN", "the file cannot be opened", "Check that {path!r} and its folder exist and are writable."),
    ("SQLITE_TOOBIG", "a record is too big for the database", "Store less in one record, 1 GB at most."),
    ("SQLITE_IOERR", "the disk cannot be written or read", "Check that the disk of {path!r} works and has room."),
)  # fmt: skip

_EVENT_COLUMNS: Final = tuple(events.c.keys())
_GROUP_INSERT_SETUP: Final = (
    f"CREATE TEMP VIEW journal_group AS SELECT {', '.join(f'NULL AS {name}' for name in _EVENT_COLUMNS)}",
    f"""
    CREATE TEMP TRIGGER journal_group_event INSTEAD OF INSERT ON journal_group WHEN NEW.body IS NOT NULL BEGIN
        INSERT INTO journal_events VALUES ({", ".join(f"NEW.{name}" for name in _EVENT_COLUMNS)});
    END
    """,  # noqa: S608  # the names of our own columns
    """
    CREATE TEMP TRIGGER journal_group_store INSTEAD OF INSERT ON journal_group WHEN NEW.body IS NULL BEGIN
        SELECT RAISE(ABORT, 'another process has written')
            FROM journal_store WHERE NEW.run IS NULL AND (seq, revision) <> (NEW.seq, NEW.run_seq);
        UPDATE journal_store SET seq = NEW.time WHERE NEW.run IS NULL;
        UPDATE journal_runs SET length = NEW.run_seq, last = max(last, NEW.time) WHERE number = NEW.run;
    END
    """,
)
"""
Creates a connection's own view, into which the rows of a group are inserted: those of the events, and rows without a
body, which set counters. The first one has those of the store (`seq` and `run_seq` are the last record and the
revision that it must be at, `time` is the last record afterwards), the last ones have those of the runs (`run_seq` is
the length, `time` that of the latest record).
"""


class SqliteDatabase:
    """
    One SQLite file, in WAL mode: one connection writes, many read, and nobody waits for a reader.

    Args:
        path: The file; it exists and is a journal.
        lock_timeout: Seconds for which another process may keep the write lock.
    """

    begin_snapshot_sql = "BEGIN"
    list_numbers_sql = "SELECT value FROM json_each(:numbers)"
    autocommits = False
    now_sql = "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"
    max_group_rows = 80  # a statement is cached for each number of rows, 60 KB on average
    renumbers_groups = False

    def __init__(self, path: Path, lock_timeout: float = LOCK_TIMEOUT) -> None:
        self.name = str(path)  # what errors call it, as it was given
        self._path, self._lock_timeout = path.absolute(), lock_timeout
        self._abandoned_engines: list[object] = []
        self._file_identity = get_file_identity(self._path)
        self._create_engines()

    def _create_engines(self) -> None:
        self._write_engine = create_engine("sqlite://", creator=self._open_connection, poolclass=NullPool)
        self.readers: Engine = create_engine(
            "sqlite://", creator=self._open_connection, poolclass=QueuePool, pool_size=4, max_overflow=60
        )
        event.listen(self._write_engine, "connect", _configure_write_connection)
        event.listen(self.readers, "connect", _configure_read_connection)

    def _open_connection(self) -> sqlite3.Connection:
        uri = f"{self._path.as_uri()}?mode=rw"
        return sqlite3.connect(uri, uri=True, timeout=self._lock_timeout, isolation_level=None, check_same_thread=False)

    def connect_for_writing(self) -> Connection:
        """Return a connection for writing."""
        return self._write_engine.connect()

    def _raise_if_replaced(self) -> None:
        """
        Check that our file is where it was.

        Raises:
            JournalError: Another file is at our path, or none: what we wrote would be found by nobody.
        """
        if get_file_identity(self._path) != self._file_identity:
            raise JournalError(
                self.name, "the file was moved, removed or replaced while it was open", "Put it back, or start anew."
            )

    def begin_write(self, connection: Connection) -> None:
        """
        Take the write lock.

        SQLite's own waiting sleeps up to 0.1 s between two attempts, which starves a process beside a busy one.

        Raises:
            JournalError: Another file is at our path.
        """
        self._raise_if_replaced()
        deadline = time.monotonic() + self._lock_timeout
        while True:
            try:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                return
            except OperationalError as error:
                busy = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
                if not busy or time.monotonic() > deadline:
                    raise
            time.sleep(_POLL_SECONDS)

    def insert_group(self, connection: Connection, group: WriteGroup, tokens: Mapping[str, str]) -> WriteGroup:
        """
        Write a group in one statement, unless another process has written since the group was numbered.

        From its start to the disk and back it releases the interpreter lock. Several statements have to reacquire it
        after each, `executemany` after each row, for which they wait as long as another thread computes.
        """
        self._raise_if_replaced()
        values: list[object] = [group.first_seq - 1, None, group.revision, *[None] * 5, group.seq, None, None, None]
        for row in group.rows:
            values += row
            values[-1] = bytearray(row[-1])  # sqlite3 looks for an adapter of each `bytes`, of this type it does not
        for number, (length, last_time) in group.run_ends.items():
            values += (None, number, length, *[None] * 5, last_time, None, None, None)
        connection.exec_driver_sql(_build_group_insert(len(values) // len(_EVENT_COLUMNS)), tuple(values))
        return group

    def commit(self, connection: Connection, *, new_revision: int | None = None, is_awaited: bool = True) -> None:
        """Commit, and wait for the disk; other processes of this machine ask for the revision."""
        connection.exec_driver_sql("COMMIT")

    def rollback(self, connection: Connection) -> None:
        """Undo the transaction; many errors of SQLite have done so themselves."""
        if connection.connection.driver_connection.in_transaction:  # type: ignore[union-attr]
            connection.exec_driver_sql("ROLLBACK")

    def is_disconnected(self, connection: Connection) -> bool:
        """Return False: a file is not lost half-way; where an error is returned, nothing was written."""
        return False

    def identify_session(self, connection: Connection) -> object:
        """Return nothing: no server has sessions."""
        return None

    def end_session(self, connection: Connection, session: object) -> None:
        """Do nothing."""

    def translate_error(self, error: BaseException) -> JournalError:
        """Return *error* as the journal's error, with its meaning and the fix."""
        if isinstance(error, JournalError):
            return error
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        name = getattr(cause, "sqlite_errorname", "")
        for begin, problem, fix in _ERROR_MESSAGES:
            if name.startswith(begin):
                meaning = JournalError(self.name, f"{problem} ({cause})", fix.format(path=self.name))
                break
        else:
            fix = "Nothing of it was written; correct the item, or try again."
            meaning = JournalError(self.name, f"{type(cause).__name__}: {cause}", fix)
        meaning.__cause__ = cause
        return meaning

    def reset_after_fork(self) -> None:
        """Open engines of its own in a forked child; closing the parent's connections could undo the parent's work."""
        self._abandoned_engines += (self._write_engine, self.readers)
        self._create_engines()

    def close(self) -> None:
        """Close the readers."""
        self.readers.dispose()


def _configure_write_connection(connection: Any, _: object) -> None:
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA cache_size=-{_CACHE_KB}")
    connection.execute("PRAGMA temp_store=MEMORY")
    for statement in _GROUP_INSERT_SETUP:
        connection.execute(statement)
    # last, as the others may have to wait for a process that closes the file; from here on `begin_write` waits
    connection.execute("PRAGMA busy_timeout=0")


def _configure_read_connection(connection: Any, _: object) -> None:
    connection.execute("PRAGMA query_only=ON")


@cache
def _build_group_insert(row_count: int) -> str:
    row = f"({', '.join('?' * len(_EVENT_COLUMNS))})"
    return f"INSERT INTO journal_group VALUES {', '.join([row] * row_count)}"  # noqa: S608  # question marks
