"""The writer thread of an open store: it takes the requests that wait, and commits them as a group."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Sequence
from itertools import islice
from queue import SimpleQueue
from typing import Final

from praval_tools.errors import JournalClosedError, JournalError
from praval_tools.journal.storage.database import Database
from praval_tools.journal.storage.leases import RunLeases
from praval_tools.journal.storage.write_connection import WriteConnection
from praval_tools.journal.storage.write_requests import WriteRequest, WriteResult

_MAX_GROUP_SIZE = 1_000  # requests: more wait for the next commit, so that the first ones are not kept waiting

_closing_threads: Final[set[threading.Thread]] = set()
"""Those that write the rest for stores that nobody has any more; the interpreter waits for them at its end."""


@atexit.register
def _join_closing_threads() -> None:
    for thread in list(_closing_threads):
        thread.join()


class WriterThread:
    """
    Writes requests in the order in which they come; what comes while a group is committed is the next group.

    Started by the first request, and again in a forked child.
    No error ends it: whoever waits for an item gets the item's error.

    Args:
        database: Where to.
        leases: The runs that this process has open.
    """

    def __init__(self, database: Database, leases: RunLeases) -> None:
        self._database = database
        self._connection = WriteConnection(database, leases)
        self._abandoned_connections: list[object] = []
        self._closed = False
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._turn_lock, self._transaction_lock = threading.Lock(), threading.Lock()
        self._wake_queue: SimpleQueue[None] = SimpleQueue()
        self._pending: list[WriteRequest] = []
        self._is_idle = self._is_forking = False
        self._thread: threading.Thread | None = None
        self._then: Callable[[], object] | None = None

    def submit(self, request: WriteRequest) -> None:
        """
        Accept *request*; it is completed later.

        Raises:
            JournalClosedError: The writer was closed.
        """
        with self._lock:
            if self._closed:
                raise JournalClosedError(self._database.name)
            if self._thread is None:
                self._start_thread()
            elif (
                self._is_idle
            ):  # before the request: an interrupt in between wakes the writer for nothing, and loses no request
                self._wake_queue.put(None)
                self._is_idle = False
            self._pending.append(request)

    def _start_thread(self) -> None:
        self._thread = threading.Thread(target=self._run, name="praval-tools-journal", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._thread = None
            fix = "End some threads, or close the journal before the interpreter ends."
            raise JournalError(self._database.name, f"its writer thread cannot be started ({error})", fix) from error

    def close(self) -> None:
        """Write what waits, and end the thread; safe to call twice."""
        with self._lock:
            self._closed, thread = True, self._thread
            self._wake_queue.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def close_later(self, then: Callable[[], object]) -> None:
        """Close without waiting for the thread, and have it call *then* at its end; without a thread, call it now."""
        with self._lock:
            self._closed, thread = True, self._thread
            if thread is not None:
                self._then = then
                _closing_threads.add(thread)
                self._wake_queue.put(None)
        if thread is None:
            then()

    def pause_for_fork(self) -> None:
        """Wait for the end of the transaction: a child must not inherit half of one."""
        self._turn_lock.acquire()  # else a busy writer would take the other lock again and again
        self._transaction_lock.acquire()
        self._is_forking = True

    def resume_after_fork(self) -> None:
        """Continue, in the parent."""
        if self._is_forking:  # else the store was opened by another thread within the fork
            self._is_forking = False
            self._transaction_lock.release()
            self._turn_lock.release()

    def reset_after_fork(self) -> None:
        """Start anew in the child; the requests that wait are the parent's."""
        self._abandoned_connections.append(self._connection.abandon())
        self._reset()

    def _run(self) -> None:
        while True:
            requests = self._take_requests()
            if not requests:
                break
            with self._turn_lock:
                self._transaction_lock.acquire()
            try:
                results = self._write_requests(requests)
            finally:
                self._transaction_lock.release()
            for request, result in zip(requests, results, strict=True):
                _deliver_result(request, result)
        with self._transaction_lock:
            self._connection.close()
        if self._then is not None:
            self._then()
            _closing_threads.discard(threading.current_thread())

    def _take_requests(self) -> Sequence[WriteRequest]:
        """Wait for requests and return them; none once it is closed and all is written."""
        while True:
            with self._lock:
                if self._pending:
                    taken, self._pending = self._pending[:_MAX_GROUP_SIZE], self._pending[_MAX_GROUP_SIZE:]
                    return taken
                if self._closed:
                    return ()
                self._is_idle = True
            self._wake_queue.get()

    def _write_requests(self, requests: Sequence[WriteRequest]) -> list[WriteResult]:
        """Return the result of each request."""
        try:
            if len(requests) == 1:
                return [self._connection.write(requests[0].items)]
            answers = iter(self._connection.write([item for request in requests for item in request.items]))
        except Exception as error:  # isolation: reported to all who wait; the thread goes on
            return [self._database.translate_error(error) for _ in requests]
        return [list(islice(answers, len(request.items))) for request in requests]


def _deliver_result(request: WriteRequest, result: WriteResult) -> None:
    try:
        request.complete(result)
    except Exception as error:  # isolation: somebody else completed the future; the others still wait
        report = threading.ExceptHookArgs((type(error), error, error.__traceback__, threading.current_thread()))
        threading.excepthook(report)
