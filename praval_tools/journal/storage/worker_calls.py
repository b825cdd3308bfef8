"""Stores the calls whose functions run on workers: who runs which attempt, until when that counts, and the answer."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from praval_tools.journal.storage.database import Database
from praval_tools.journal.storage.tables import worker_calls

_MICROSECONDS: Final = 1_000_000


class CallState(StrEnum):
    """How far a call is: it waits for a worker, runs there, has an answer, or nobody waits for it any more."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    GIVEN_UP = "given_up"


class ClaimedCall(msgspec.Struct, frozen=True):
    """What a worker claimed: the request, and the number of the attempt, which only this worker may end."""

    request: bytes
    attempt: int


class CallStatus(msgspec.Struct, frozen=True):
    """
    How far a call is.

    Args:
        id: That of the call.
        state: How far it is.
        attempts: How often a worker began it.
        is_lost: Whether the worker that ran it is gone.
        can_run_again: Whether another one may begin it.
        answer: What the worker answered.
    """

    id: str
    state: CallState
    attempts: int = 0
    is_lost: bool = False
    can_run_again: bool = False
    answer: bytes | None = None


class WorkerCallTable:
    """
    The calls of all processes that are run by workers.

    A call is begun by one worker at a time, as often as its caller allows, and never after its caller gave it up:
    each step is one statement, which checks the state that it changes. Times are those of the database's clock.

    Args:
        database: Where the table is.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._abandoned: list[object] = []
        self._now: sa.ColumnElement[int] = sa.literal_column(database.now_sql, sa.BigInteger)

    def add(self, call_id: str, request: bytes, max_attempts: int) -> None:
        """Add a call, which up to *max_attempts* workers may begin one after another."""
        values = {
            "id": call_id, "state": CallState.WAITING, "request": request, "attempts": 0, "max_attempts": max_attempts,
            "worker": "", "lease_until": 0, "created": self._now,
        }  # fmt: skip
        with self._write(is_awaited=False) as connection:
            connection.execute(sa.insert(worker_calls).values(values))

    def claim(self, call_id: str, worker: str, seconds: float) -> ClaimedCall | None:
        """Begin a call that waits, or whose worker is gone, for *seconds*; None: there is nothing to begin."""
        table = worker_calls.c
        is_lost = (table.state == CallState.RUNNING) & (table.lease_until < self._now)
        is_free = (table.state == CallState.WAITING) | (is_lost & (table.attempts < table.max_attempts))
        statement = (
            sa.update(worker_calls)
            .where(table.id == call_id, is_free)
            .values(
                state=CallState.RUNNING, attempts=table.attempts + 1, worker=worker, lease_until=self._get_end(seconds)
            )
            .returning(table.request, table.attempts)
        )
        with self._write() as connection:  # on the disk before the function runs: it must not begin twice
            row = connection.execute(statement).one_or_none()
        return None if row is None else ClaimedCall(*row)

    def renew(self, calls: Iterable[tuple[str, str]], seconds: float) -> None:
        """Extend the leases of calls, each with its worker."""
        for call_id, worker in calls:
            self._update(call_id, worker_calls.c.worker == worker, lease_until=self._get_end(seconds))

    def release(self, call_id: str, worker: str) -> None:
        """End the lease of a call whose worker is gone."""
        self._update(call_id, worker_calls.c.worker == worker, lease_until=0)

    def end(self, call_id: str, attempt: int, answer: bytes) -> bool:
        """Store the answer of an attempt; tell whether it still counts."""
        return self._update(call_id, worker_calls.c.attempts == attempt, state=CallState.ENDED, answer=answer)

    def _update(self, call_id: str, condition: sa.ColumnElement[bool], **values: object) -> bool:
        """Update a call that runs."""
        is_it = (worker_calls.c.id == call_id, worker_calls.c.state == CallState.RUNNING, condition)
        with self._write(is_awaited=False) as connection:
            return connection.execute(sa.update(worker_calls).where(*is_it).values(values)).rowcount > 0

    def give_up(self, call_id: str, state: CallState) -> bool:
        """Have a call that is in this state never begin, nor end, any more; tell whether it was."""
        is_it = (worker_calls.c.id == call_id, worker_calls.c.state == state)
        with self._write() as connection:
            changed = connection.execute(sa.update(worker_calls).where(*is_it).values(state=CallState.GIVEN_UP))
            return changed.rowcount > 0

    def delete(self, call_id: str) -> None:
        """Forget a call; its messages are of no use then."""
        with self._write(is_awaited=False) as connection:
            connection.execute(sa.delete(worker_calls).where(worker_calls.c.id == call_id))

    def delete_older(self, seconds: float) -> int:
        """Forget the calls that were added more than *seconds* ago; return how many."""
        before = self._now - int(seconds * _MICROSECONDS)
        with self._write(is_awaited=False) as connection:
            return connection.execute(sa.delete(worker_calls).where(worker_calls.c.created < before)).rowcount

    def read(self, call_ids: Sequence[str]) -> list[CallStatus]:
        """Return how far these calls are; of one that is not there, nothing."""
        table = worker_calls.c
        is_running = table.state == CallState.RUNNING
        columns = (
            table.id, table.state, table.attempts, is_running & (table.lease_until < self._now),
            table.attempts < table.max_attempts, table.answer,
        )  # fmt: skip
        with self._translate_errors(), self._database.readers.connect() as connection:
            rows = connection.execute(sa.select(*columns).where(table.id.in_(call_ids)))
            return [CallStatus(row[0], CallState(row[1]), *row[2:]) for row in rows]

    def _get_end(self, seconds: float) -> sa.ColumnElement[int]:
        return self._now + int(seconds * _MICROSECONDS)

    @contextmanager
    def _write(self, *, is_awaited: bool = True) -> Iterator[Connection]:
        """
        Write inside it, all or nothing.

        Args:
            is_awaited: Wait until it is on the disk.
        """
        with self._translate_errors(), self._lock:
            connection = self._connection = self._connection or self._database.connect_for_writing()
            try:
                self._database.begin_write(connection)
                yield connection
                self._database.commit(connection, is_awaited=is_awaited)
            except BaseException:
                self._connection = None
                connection.invalidate()  # closed, so that nothing of it is left
                connection.close()
                raise

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise self._database.translate_error(error) from error

    def reset_after_fork(self) -> None:
        """Begin anew in a forked child, whose parent goes on with its connection."""
        self._abandoned.append(self._connection)
        self._connection, self._lock = None, threading.Lock()

    def close(self) -> None:
        """Close the connection; it is opened anew where it is needed again."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
