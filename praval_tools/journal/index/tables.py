"""The file of an index: its tables, and connections to it."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from weakref import finalize

from praval_tools.forks import ForkSafeLock

_WRITER_CACHE_KB, _READER_CACHE_KB = 64_000, 8_000
_MAX_IDLE_READERS: Final = 4
_TABLES: Final = (
    # one row for each event; `rule` of a result is that of its call
    """CREATE TABLE events (
        seq INTEGER PRIMARY KEY, time INTEGER NOT NULL, type TEXT NOT NULL, agent TEXT, tool TEXT, outcome TEXT,
        rule TEXT, latency REAL)""",
    # one row for each run; `number` is that of its first event
    """CREATE TABLE runs (
        number INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, latest INTEGER NOT NULL, first INTEGER NOT NULL,
        last INTEGER NOT NULL, events INTEGER NOT NULL, calls INTEGER NOT NULL, failed INTEGER NOT NULL,
        refused INTEGER NOT NULL)""",
    "CREATE INDEX runs_latest ON runs (latest)",
    # where each call of a run begins
    "CREATE TABLE starts (run INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (run, seq)) WITHOUT ROWID",
    # calls of runs that started and have no result that counts; `has_ended`: one that leaves them in doubt
    """CREATE TABLE open_calls (
        run_id TEXT NOT NULL, call_id TEXT NOT NULL, seq INTEGER NOT NULL, time INTEGER NOT NULL, agent TEXT,
        tool TEXT NOT NULL, process TEXT NOT NULL, may_rerun INTEGER NOT NULL DEFAULT 0,
        has_ended INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (run_id, call_id)) WITHOUT ROWID""",
    "CREATE INDEX open_calls_seq ON open_calls (seq)",
    # sums by UTC day (0: of all days) of all calls, of a tool, of an agent; `ns` is the time of those that ended well
    """CREATE TABLE days (
        kind TEXT NOT NULL, day INTEGER NOT NULL, name TEXT NOT NULL, ok INTEGER NOT NULL, failed INTEGER NOT NULL,
        refused INTEGER NOT NULL, ns INTEGER NOT NULL, PRIMARY KEY (kind, day, name)) WITHOUT ROWID""",
)  # fmt: skip
_EVENT_INDEXES: Final = (
    "CREATE INDEX events_time ON events (time)",
    "CREATE INDEX events_agent ON events (agent) WHERE agent IS NOT NULL",
    "CREATE INDEX events_tool ON events (tool) WHERE tool IS NOT NULL",
    "CREATE INDEX events_outcome ON events (outcome) WHERE outcome IS NOT NULL",
    "CREATE INDEX events_rule ON events (rule) WHERE rule IS NOT NULL",
)
"""Created when the events of a journal that was there before are in the table: at once is five times as fast."""


class IndexFile:
    """
    A SQLite file in a private folder of its own; both are gone when it is closed, or the process ends.

    One connection writes; readers see what was committed, and wait for nobody. It holds names, numbers and times of
    events, and neither arguments nor results.

    Args:
        folder: Where the folder is made; None: where the system keeps temporary files.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="praval-tools-index-", dir=folder))  # for this user alone
        self._lock, self._idle_readers = ForkSafeLock(), list[sqlite3.Connection]()
        self._finalizer = finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self.writer = self._connect(_WRITER_CACHE_KB)
        self.writer.execute("PRAGMA journal_mode=WAL")
        self.writer.execute("PRAGMA synchronous=OFF")  # after a crash it is made anew
        self.create_tables()

    def create_tables(self) -> None:
        """Create the tables, in place of those that are there."""
        self.writer.execute("BEGIN")
        names = self.writer.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in names:
            self.writer.execute(f"DROP TABLE {name}")
        for statement in _TABLES:
            self.writer.execute(statement)
        self.writer.execute("COMMIT")

    def create_event_indexes(self) -> None:
        """Create the indexes by which events are searched."""
        self.writer.execute("BEGIN")
        for statement in _EVENT_INDEXES:
            self.writer.execute(statement)
        self.writer.execute("COMMIT")

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection on which all statements see the same state."""
        with self._lock:
            connection = self._idle_readers.pop() if self._idle_readers else None
        if connection is None:
            connection = self._connect(_READER_CACHE_KB)
            connection.execute("PRAGMA query_only=ON")
        try:
            connection.execute("BEGIN")
            yield connection
        finally:
            connection.rollback()
            with self._lock:
                is_kept = len(self._idle_readers) < _MAX_IDLE_READERS and self._finalizer.alive
                if is_kept:
                    self._idle_readers.append(connection)
            if not is_kept:
                connection.close()

    def close(self) -> None:
        """Remove the file; safe to call twice."""
        with self._lock:
            readers, self._idle_readers = self._idle_readers, []
            self._finalizer()
        for connection in (*readers, self.writer):
            connection.close()

    def _connect(self, cache_kb: int) -> sqlite3.Connection:
        connection = sqlite3.connect(self.folder / "index.db", isolation_level=None, check_same_thread=False)
        connection.execute(f"PRAGMA cache_size=-{cache_kb}")
        return connection
