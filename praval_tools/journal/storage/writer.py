"""The one thread of a process that writes: it takes what waits, and commits it as a group."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from queue import SimpleQueue

from praval_tools.errors import JournalClosedError, JournalError
from praval_tools.journal.storage.database import Database
from praval_tools.journal.storage.protocol import Answer
from praval_tools.journal.storage.write_connection import Transactions
from praval_tools.journal.storage.write_requests import Ticket

_GROUP = 1_000  # tickets: more wait for the next commit, so that the first ones are not kept waiting


class Writer:
    """
    Writes tickets in the order in which they come; what comes while a group is committed is the next group.

    Started by the first ticket, and again in a forked child.
    No error ends it: whoever waits for an item gets the item's error.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._transactions = Transactions(database)
        self._kept: list[object] = []
        self._closed = False
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._turn, self._writing = threading.Lock(), threading.Lock()
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._waiting: list[Ticket] = []
        self._idle = self._forking = False
        self._thread: threading.Thread | None = None

    def hand_over(self, ticket: Ticket) -> None:
        """
        Take *ticket*; it is settled later.

        Raises:
            JournalClosedError: The writer was closed.
        """
        with self._lock:
            if self._closed:
                raise JournalClosedError(self._database.name)
            if self._thread is None:
                self._start()
            elif self._idle:  # before the ticket: an interrupt in between wakes it for nothing, and loses nobody
                self._wake.put(None)
                self._idle = False
            self._waiting.append(ticket)

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="praval-tools-journal", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._thread = None
            fix = "End some threads, or close the journal before the interpreter ends."
            raise JournalError(self._database.name, f"its writer cannot be started ({error})", fix) from error

    def close(self) -> None:
        """Write what waits, and end the thread; safe twice."""
        with self._lock:
            self._closed, thread = True, self._thread
            self._wake.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def before_fork(self) -> None:
        """Wait for the end of the transaction: a child must not inherit half of one."""
        self._turn.acquire()  # else a busy writer would take the other lock again and again
        self._writing.acquire()
        self._forking = True

    def after_fork(self) -> None:
        """Go on, in the parent."""
        if self._forking:  # else the store was opened by another thread within the fork
            self._forking = False
            self._writing.release()
            self._turn.release()

    def forked(self) -> None:
        """Start anew in the child; what waits there is the parent's."""
        self._kept.append(self._transactions.abandon())
        self._reset()

    def _run(self) -> None:
        while True:
            tickets = self._take()
            if not tickets:
                break
            with self._turn:
                self._writing.acquire()
            try:
                answers = self._write(tickets)
            finally:
                self._writing.release()
            for ticket, mine in zip(tickets, answers, strict=True):
                _tell(ticket, mine)
        with self._writing:
            self._transactions.close()

    def _take(self) -> Sequence[Ticket]:
        """Wait for tickets and return them; none once it is closed and all is written."""
        while True:
            with self._lock:
                if self._waiting:
                    taken, self._waiting = self._waiting[:_GROUP], self._waiting[_GROUP:]
                    return taken
                if self._closed:
                    return ()
                self._idle = True
            self._wake.get()

    def _write(self, tickets: Sequence[Ticket]) -> list[list[Answer] | JournalError]:
        """Return the answers for each ticket."""
        try:
            if len(tickets) == 1:
                return [self._transactions.write(tickets[0].items)]
            answers = self._transactions.write([item for ticket in tickets for item in ticket.items])
        except Exception as error:  # isolation: reported to all who wait; the thread goes on
            return [self._database.error(error) for _ in tickets]
        parts: list[list[Answer] | JournalError] = []
        begin = 0
        for ticket in tickets:
            end = begin + len(ticket.items)
            parts.append(answers[begin:end])
            begin = end
        return parts


def _tell(ticket: Ticket, answers: list[Answer] | JournalError) -> None:
    try:
        if isinstance(answers, JournalError):
            ticket.fail(answers)
        else:
            ticket.settle(answers)
    except Exception as error:  # isolation: somebody else completed the future; the others still wait
        report = threading.ExceptHookArgs((type(error), error, error.__traceback__, threading.current_thread()))
        threading.excepthook(report)
