"""
Leases of runs in a PostgreSQL database: advisory locks of one session, which the server releases when it ends.

A lock alone keeps nobody out of a run whose holder was cut off and goes on. So each lease leaves a token in the table
of leases, and a record of the run is written only while the run's token is still the holder's.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import selectors
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import psycopg
from psycopg import sql

from praval_tools.errors import JournalError, RunBusyError
from praval_tools.forks import ForkSafeLock
from praval_tools.journal.process_name import get_process_name
from praval_tools.journal.storage.leases import RunLease, RunLeases, make_lost_lease_error
from praval_tools.journal.storage.postgres import (
    CHANNEL_PREFIX,
    DriverConnection,
    PostgresDatabase,
    end_session,
    get_session,
)

_RETRY_SECONDS: Final = 0.5
"""Seconds between two attempts to connect, and so within which a change is noticed that was not notified."""

_TRY_LOCK_SQL: Final = "SELECT pg_try_advisory_lock(%s)"
_UNLOCK_SQL: Final = "SELECT pg_advisory_unlock(%s)"
_SELECT_LEASE_SQL: Final = "SELECT token, holder FROM journal_leases WHERE run_id = %s"
_DELETE_LEASE_SQL: Final = "DELETE FROM journal_leases WHERE run_id = %s AND token = %s"
_INSERT_LEASE_SQL: Final = """
    WITH locked AS MATERIALIZED (SELECT one FROM journal_store FOR UPDATE)
    INSERT INTO journal_leases (run_id, token, holder) SELECT %s, %s, %s FROM locked
    ON CONFLICT (run_id) DO UPDATE SET token = excluded.token, holder = excluded.holder
"""
"""Under the store's lock: what an earlier holder wrote can be read afterwards, and it writes nothing later."""


class PostgresRunLeases(RunLeases):
    """
    Leases among the processes and hosts that share a database, and the notifications that it sends.

    Both need a session that lasts. A thread waits for what the server sends over it, notices when it is cut, and
    renews it: runs stay open unless another process has opened them in between.

    Args:
        database: Where the runs are.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__()
        self._database = database
        self._watchers: list[weakref.WeakMethod[Callable[[], object]]] = []
        self._wake_reader, self._wake_writer = -1, -1
        self._reset()

    def _reset(self) -> None:
        self._session_lock = ForkSafeLock()
        self._connection: DriverConnection | None = None
        self._session: object = None
        self._schema = ""
        self._lost_tokens: set[str] = set()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def watch(self, callback: Callable[[], object]) -> None:
        """Have a method called, in a thread, soon after the state has changed, as long as its object lives."""
        self._watchers.append(weakref.WeakMethod(callback, self._watchers.remove))
        self._start_thread()

    def _start_thread(self) -> None:
        with self._session_lock:
            if self._thread is None and not self._is_closed:
                self._wake_reader, self._wake_writer = os.pipe()
                self._thread = threading.Thread(target=self._listen, name="praval-tools-journal-session", daemon=True)
                self._thread.start()

    # ── leases ───────────────────────────────────────────────────────────────────────────────────

    def _make_lease(self, run_id: str) -> RunLease:
        self._start_thread()
        token, holder = secrets.token_hex(16), _describe_process()
        with self._use_session() as connection:
            if not self._try_lock(connection, run_id):
                row = connection.execute(_SELECT_LEASE_SQL, (run_id,)).fetchone()
                raise RunBusyError(run_id, row[1] if row is not None else "another process")
            try:
                connection.execute(_INSERT_LEASE_SQL, (run_id, token, holder))
            except psycopg.Error:
                connection.execute(_UNLOCK_SQL, (self._compute_key(run_id),))
                raise
        return RunLease(run_id, self, token=token)

    def check(self, lease: RunLease) -> None:
        """Make sure that the run is not open elsewhere, over a new session where the one of before was cut."""
        connection = self._connection
        if connection is None or connection.closed:
            with self._use_session():
                pass
        if lease.token in self._lost_tokens:
            raise make_lost_lease_error(self._database.name, lease.run_id)

    def _unlock_run(self, lease: RunLease) -> None:
        self._lost_tokens.discard(lease.token)
        connection = self._connection
        if connection is None or connection.closed:  # the server has released it
            return
        with self._session_lock, suppress(psycopg.Error):
            connection.execute(_DELETE_LEASE_SQL, (lease.run_id, lease.token))
            connection.execute(_UNLOCK_SQL, (self._compute_key(lease.run_id),))

    def _try_lock(self, connection: DriverConnection, run_id: str) -> bool:
        return connection.execute(_TRY_LOCK_SQL, (self._compute_key(run_id),)).fetchone() == (True,)

    def _compute_key(self, run_id: str) -> int:
        """Return the number of a run's lock; a database has one set of them for all its schemas."""
        text = f"praval_tools/{self._schema}/{run_id}".encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.sha256(text).digest()[:8], "big", signed=True)

    def _keep_lease(self, connection: DriverConnection, lease: RunLease) -> None:
        """Lock the run of *lease* again, unless another process has opened it since."""
        if self._try_lock(connection, lease.run_id):
            row = connection.execute(_SELECT_LEASE_SQL, (lease.run_id,)).fetchone()
            if row is not None and row[0] == lease.token:
                return
            connection.execute(_UNLOCK_SQL, (self._compute_key(lease.run_id),))
        self._lost_tokens.add(lease.token)

    # ── the session ──────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _use_session(self) -> Iterator[DriverConnection]:
        """Use the session, which is renewed where it was cut."""
        try:
            with self._session_lock:
                yield self._renew_session()
        except psycopg.Error as error:
            raise self._database.translate_error(error) from error

    def _renew_session(self) -> DriverConnection:
        connection = self._connection
        if connection is not None and not connection.closed:
            return connection
        connection = self._database.open_connection()
        try:
            if self._session is not None:
                end_session(connection, self._session, self._database.name)
            self._session = get_session(connection)
            (self._schema,) = connection.execute("SELECT current_schema()").fetchone() or ("",)
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL_PREFIX + self._schema)))
            for lease in self.list_open():
                if lease.token not in self._lost_tokens:
                    self._keep_lease(connection, lease)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self._wake()
        return connection

    def _wake(self) -> None:
        if self._wake_writer >= 0:
            os.write(self._wake_writer, b"x")

    def _listen(self) -> None:
        """Wait for notifications; where the session is cut, renew it and call the watchers."""
        while not self._is_closed:
            try:
                with self._use_session() as connection:
                    pass
                self._call_watchers()
                self._wait_for_server(connection)
            except (JournalError, psycopg.Error):
                self._wait(_RETRY_SECONDS)

    def _wait_for_server(self, connection: DriverConnection) -> None:
        """Call the watchers at each notification; return when another session is used, or none any more."""
        connection.add_notify_handler(lambda _: self._wake())  # those that come while a lease is opened
        while not self._is_closed and self._is_in_use(connection):
            self._wait(None, connection)
            with self._session_lock:
                if connection.closed:  # noticed by whoever used it last
                    return
                connection.pgconn.consume_input()
                while connection.pgconn.notifies() is not None:
                    pass
            self._call_watchers()

    def _is_in_use(self, connection: DriverConnection) -> bool:
        return connection is self._connection

    def _wait(self, seconds: float | None, connection: DriverConnection | None = None) -> None:
        """Wait until something arrives for *connection*, or this thread is woken, or the time is over."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_reader, selectors.EVENT_READ)
            if connection is not None:
                selector.register(connection.fileno(), selectors.EVENT_READ)
            for key, _ in selector.select(seconds):
                if key.fd == self._wake_reader:
                    os.read(self._wake_reader, 4096)

    def _call_watchers(self) -> None:
        for reference in list(self._watchers):
            callback = reference()
            try:
                if callback is not None:
                    callback()
            except JournalError:  # it is called again at the next notification, and looks itself meanwhile
                pass
            except Exception as error:  # isolation: the others are called, and the thread goes on
                report = threading.ExceptHookArgs((type(error), error, error.__traceback__, threading.current_thread()))
                threading.excepthook(report)

    def close(self) -> None:
        """Release all runs, and end the session and the thread."""
        super().close()
        with self._session_lock:
            self._is_closed, thread = True, self._thread
            self._wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        with self._session_lock:
            if self._connection is not None:
                self._connection.close()
            self._close_pipe()

    def _close_pipe(self) -> None:
        descriptors, self._wake_reader, self._wake_writer = (self._wake_reader, self._wake_writer), -1, -1
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)

    def reset_after_fork(self) -> None:
        """Start anew in a child, without the parent's leases, session and thread; the first run starts them."""
        super().reset_after_fork()
        self._close_pipe()
        self._reset()


def _describe_process() -> str:
    host, _, process_id = get_process_name().rpartition(":")
    return f"process {process_id} on {host}"
