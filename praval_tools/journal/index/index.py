"""`JournalIndex`: follows a journal, and keeps an index of it up to date."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import Final

from attrs import frozen

from praval_tools.errors import JournalError
from praval_tools.journal.index.counting import CallSums, EventReader, IndexedEvent, RunSums
from praval_tools.journal.index.tables import IndexFile
from praval_tools.journal.storage.protocol import Record, Store

_BATCH_SIZE: Final = 10_000
_POLL_SECONDS: Final = 0.2
_RETRY_SECONDS: Final = 2.0
_PRUNE_CHECK_POLLS: Final = 300
_MAX_NEWS: Final = 500
"""How many new records, the latest ones, listeners get at once."""

_INSERT_EVENT: Final = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_UPSERT_RUN: Final = """
    INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id) DO UPDATE SET
    latest = excluded.latest, first = min(first, excluded.first), last = max(last, excluded.last),
    events = events + excluded.events, calls = calls + excluded.calls, failed = failed + excluded.failed,
    refused = refused + excluded.refused"""
_INSERT_START: Final = "INSERT OR IGNORE INTO starts SELECT number, ? FROM runs WHERE run_id = ?"
_INSERT_OPEN_CALL: Final = "INSERT OR REPLACE INTO open_calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_DELETE_OPEN_CALL: Final = "DELETE FROM open_calls WHERE run_id = ? AND call_id = ?"
_MARK_RERUN: Final = "UPDATE open_calls SET may_rerun = 1 WHERE run_id = ? AND call_id = ?"
_MARK_ENDED: Final = "UPDATE open_calls SET has_ended = 1 WHERE run_id = ? AND call_id = ?"
_UPSERT_DAY: Final = """
    INSERT INTO days VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    ok = ok + excluded.ok, failed = failed + excluded.failed, refused = refused + excluded.refused,
    ns = ns + excluded.ns"""


@frozen
class IndexProgress:
    """
    How far an index is.

    Args:
        seq: The number of the latest event that is in it.
        last_seq: That of the latest event of the journal, when it was last looked at.
        error: Why the journal could not be read the last time; empty: it could.
    """

    seq: int
    last_seq: int
    error: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether everything was in it that the journal held."""
        return self.seq >= self.last_seq

    @property
    def percent(self) -> int:
        """How much of the journal is in it."""
        return 100 if self.is_complete else 100 * self.seq // self.last_seq


EventListener = Callable[[Sequence[Record]], object]


class JournalIndex:
    """
    Keeps an index of a journal, of which other processes may write more all the time.

    Args:
        store: The journal's store.
        folder: Where the index is kept, in a folder of its own; None: with the temporary files.
    """

    def __init__(self, store: Store, folder: Path | None = None) -> None:
        self._store, self._file, self._reader = store, IndexFile(folder), EventReader()
        self._progress, self._event_count = IndexProgress(0, max(store.last_seq(), 0)), 0
        self._stop_event, self._is_ready = threading.Event(), False
        self._thread: threading.Thread | None = None
        self._listeners: tuple[EventListener, ...] = ()

    @property
    def progress(self) -> IndexProgress:
        """How far it is."""
        return self._progress

    @property
    def is_ready(self) -> bool:
        """Whether everything is in it that the journal held when this began; searches need that."""
        return self._is_ready

    def read(self) -> AbstractContextManager[sqlite3.Connection]:
        """Lend a connection to the index; see `tables`."""
        return self._file.read()

    def add_listener(self, listener: EventListener) -> None:
        """Have *listener* called with new records, in the index's thread, once what was there before is indexed."""
        self._listeners = (*self._listeners, listener)

    def start(self) -> None:
        """Follow the journal in a thread of its own, until `close`; events are in the index a moment after."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._follow, name="praval-tools journal index", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop, and remove the index; safe to call twice."""
        self._stop_event.set()
        if self._thread is not None:
            self._thread.join()
        self._file.close()

    def catch_up(self) -> None:
        """Add what the journal holds, and is not in the index."""
        last_seq = self._store.last_seq()
        if last_seq < self._progress.seq:
            self._start_anew()
        self._progress = IndexProgress(self._progress.seq, last_seq)
        if last_seq > self._progress.seq:
            self._add_new_records(is_news=self._is_ready)
        if not self._is_ready and not self._stop_event.is_set():
            self._file.create_event_indexes()
            self._is_ready = True

    def drop_pruned(self) -> None:
        """Make the index anew if events that are in it are gone from the journal."""
        if self._store.count() < self._event_count:
            self._start_anew()
            self.catch_up()

    def _start_anew(self) -> None:
        self._file.create_tables()
        self._reader, self._event_count, self._is_ready = EventReader(), 0, False
        self._progress = IndexProgress(0, self._progress.last_seq)

    def _follow(self) -> None:
        polls, wait = 0, 0.0
        while not self._stop_event.wait(wait):
            try:
                self.catch_up()
                polls, wait = polls + 1, _POLL_SECONDS
                if polls % _PRUNE_CHECK_POLLS == 0:
                    self.drop_pruned()
            except (JournalError, sqlite3.Error, OSError) as error:  # a server that restarts, a full disk: tried again
                if self._stop_event.is_set():
                    return
                self._progress = IndexProgress(self._progress.seq, self._progress.last_seq, str(error))
                wait = _RETRY_SECONDS

    def _add_new_records(self, *, is_news: bool) -> None:
        last_seq, listeners = self._progress.last_seq, self._listeners if is_news else ()
        records = self._store.read(after_seq=self._progress.seq)
        news: list[Record] | None = [] if listeners else None
        while not self._stop_event.is_set() and (batch := self._read_batch(records, news)):
            self._add_batch(batch)
            seq = batch[-1].seq
            self._progress = IndexProgress(seq, max(seq, last_seq))
            if news:
                for listener in listeners:
                    listener(tuple(news))
                news.clear()
        if not self._stop_event.is_set():  # the last numbers may be of no event
            seq = max(self._progress.seq, last_seq)
            self._progress = IndexProgress(seq, seq)

    def _read_batch(self, records: Iterator[Record], news: list[Record] | None) -> list[IndexedEvent]:
        """Return what is kept of the next records, without their content, which may be large; add them to *news*."""
        batch = []
        for record in islice(records, _BATCH_SIZE):
            batch.append(self._reader.read_event(record))
            if news is not None:
                news.append(record)
                del news[:-_MAX_NEWS]
        return batch

    def _add_batch(self, events: Sequence[IndexedEvent]) -> None:
        calls, runs, writer = CallSums(), RunSums(), self._file.writer
        for event in events:
            calls.add_event(event)
            runs.add_event(event)
        writer.execute("BEGIN")
        try:
            for statement, rows in (
                (_INSERT_EVENT, [event.to_row() for event in events]),
                (_UPSERT_DAY, calls.list_rows()),
                (_UPSERT_RUN, runs.list_runs()),
                (_INSERT_START, runs.starts),
                (_DELETE_OPEN_CALL, runs.list_ended_calls()),
                (_MARK_RERUN, runs.reruns),  # of earlier batches; a call that begins anew after it is open again
                (_MARK_ENDED, runs.doubts),
                (_INSERT_OPEN_CALL, runs.list_open_calls()),
            ):
                writer.executemany(statement, rows)
            writer.execute("COMMIT")
        except BaseException:
            writer.execute("ROLLBACK")
            raise
        self._event_count += len(events)
