"""Stores the calls whose functions run on workers: who runs which attempt, until when that counts, and the answer."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from praval_tools.journal.storage.database import Database
from praval_tools.journal.storage.tables import store, worker_calls

_MICROSECONDS: Final = 1_000_000


class CallState(StrEnum):
    """How far a call is: it waits for a worker, runs there, has an answer, was ended late, or nobody waits for it."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    LATE = "late"
    GIVEN_UP = "given_up"


class ClaimedCall(msgspec.Struct, frozen=True):
    """
    What a worker claimed.

    Args:
        request: What is asked.
        attempt: The number of the attempt, which only this worker may end.
        revision: That of the state of the store, by which the call is to be decided.
    """

    request: bytes
    attempt: int
    revision: int


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
        self._statements: _WorkerCallStatements | None = None

    def add(self, call_id: str, request: bytes, max_attempts: int, seconds: float) -> None:
        """Add a call, which up to *max_attempts* workers may begin one after another, within so many *seconds*."""
        wait = int(seconds * _MICROSECONDS)
        with self._write(is_awaited=False) as (connection, statements):
            statements.insert.execute(connection, call=call_id, asked=request, most=max_attempts, wait=wait)

    def claim(self, call_id: str, worker: str, seconds: float) -> ClaimedCall | None:
        """Begin a call that waits, or whose worker is gone, for *seconds*; None: there is nothing to begin."""
        lease = int(seconds * _MICROSECONDS)
        with self._write() as (connection, statements):  # on the disk before the function runs: never twice
            row = statements.claim.execute(connection, call=call_id, by=worker, lease=lease).one_or_none()
        return None if row is None else ClaimedCall(*row)

    def extend(self, call_id: str, seconds: float) -> None:
        """Let another worker begin a call, whose worker is gone, within so many *seconds* from now on."""
        with self._write(is_awaited=False) as (connection, statements):
            statements.extend.execute(connection, call=call_id, wait=int(seconds * _MICROSECONDS))

    def renew(self, calls: Iterable[tuple[str, str]], seconds: float) -> None:
        """Extend the leases of calls, each with its worker."""
        lease = int(seconds * _MICROSECONDS)
        for call_id, worker in calls:
            with self._write(is_awaited=False) as (connection, statements):
                statements.renew.execute(connection, call=call_id, by=worker, lease=lease)

    def release(self, call_id: str, worker: str, *, is_late: bool = False) -> None:
        """End the lease of a call whose process is gone, or the call where that was killed as its time was over."""
        with self._write(is_awaited=False) as (connection, statements):
            statement = statements.end_late if is_late else statements.release
            statement.execute(connection, call=call_id, by=worker)

    def end(self, call_id: str, attempt: int, answer: bytes) -> bool:
        """Store the answer of an attempt; tell whether it still counts."""
        with self._write(is_awaited=False) as (connection, statements):
            return statements.end.execute(connection, call=call_id, attempt=attempt, given=answer).rowcount > 0

    def give_up(self, call_id: str, state: CallState) -> bool:
        """Have a call that is in this state never begin, nor end, any more; tell whether it was."""
        with self._write() as (connection, statements):
            return statements.give_up.execute(connection, call=call_id, before=state.value).rowcount > 0

    def delete(self, call_ids: Sequence[str]) -> None:
        """Forget calls; their messages are of no use then."""
        with self._write(is_awaited=False) as (connection, statements):
            connection.execute(statements.delete, {"calls": call_ids})

    def delete_older(self, seconds: float) -> int:
        """Forget the calls that were added more than *seconds* ago; return how many."""
        with self._write(is_awaited=False) as (connection, statements):
            return connection.execute(statements.delete_older, {"age": int(seconds * _MICROSECONDS)}).rowcount

    def read(self, call_ids: Sequence[str]) -> list[CallStatus]:
        """Return how far these calls are; of one that is not there, nothing."""
        with self._connect() as (connection, statements):
            rows = connection.execute(statements.select, {"calls": call_ids})
            return [CallStatus(row[0], CallState(row[1]), *row[2:]) for row in rows]

    @contextmanager
    def _write(self, *, is_awaited: bool = True) -> Iterator[tuple[Connection, _WorkerCallStatements]]:
        """
        Write one statement inside it.

        Args:
            is_awaited: Wait until it is on the disk.
        """
        with self._connect() as (connection, statements):
            if not self._database.autocommits:
                self._database.begin_write(connection)
            yield connection, statements
            self._database.commit(connection, is_awaited=is_awaited)

    @contextmanager
    def _connect(self) -> Iterator[tuple[Connection, _WorkerCallStatements]]:
        """Yield the connection of this process, with the statements for it; after an error it is opened anew."""
        try:
            with self._lock:
                connection = self._connection = self._connection or self._database.connect_for_writing()
                if self._statements is None:
                    self._statements = _WorkerCallStatements(connection.dialect, self._database.now_sql)
                try:
                    yield connection, self._statements
                except BaseException:
                    self._connection = None
                    connection.invalidate()  # closed, so that nothing of it is left
                    connection.close()
                    raise
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


class _Statement:
    """A statement in the SQL of one dialect, which goes to the driver as it is: a call of workers takes several."""

    def __init__(
        self, statement: sa.Insert | sa.Update | sa.sql.dml.ReturningUpdate[bytes, int, int], dialect: sa.Dialect
    ) -> None:
        compiled = statement.compile(dialect=dialect)
        self._sql = str(compiled)
        self._names: Sequence[str] = tuple(compiled.positiontup or ())
        self._constants: Mapping[str, object] = compiled.params

    def execute(self, connection: Connection, **values: object) -> sa.CursorResult[bytes, int, int]:
        """Execute it with values of its parameters."""
        given = {**self._constants, **values}
        return connection.exec_driver_sql(self._sql, tuple([given[name] for name in self._names]))


class _WorkerCallStatements:
    """The statements of the table, built once; *now_sql*: the microseconds by the database's clock."""

    def __init__(self, dialect: sa.Dialect, now_sql: str) -> None:
        table, bind = worker_calls.c, sa.bindparam
        now: sa.ColumnElement[int] = sa.literal_column(now_sql, sa.BigInteger)
        lease_end = now + bind("lease", type_=sa.BigInteger)
        is_call, is_running = table.id == bind("call"), table.state == CallState.RUNNING.value
        is_lost, has_attempts = is_running & (table.lease_until < now), table.attempts < table.max_attempts
        is_free = ((table.state == CallState.WAITING.value) | (is_lost & has_attempts)) & (table.start_by > now)
        start_end = now + bind("wait", type_=sa.BigInteger)
        update = sa.update(worker_calls)
        running = update.where(is_call, is_running)
        ours = running.where(table.worker == bind("by"))
        insert = sa.insert(worker_calls).values(
            id=bind("call"), request=bind("asked"), max_attempts=bind("most"), state=CallState.WAITING.value,
            attempts=0, worker="", lease_until=0, created=now, start_by=start_end,
        )  # fmt: skip
        begun = {"state": CallState.RUNNING.value, "attempts": table.attempts + 1, "worker": bind("by")}
        claim = update.where(is_call, is_free).values(**begun, lease_until=lease_end)
        revision = sa.select(store.c.revision).scalar_subquery()
        ended = running.where(table.attempts == bind("attempt"))
        given_up = update.where(is_call, table.state == bind("before")).values(state=CallState.GIVEN_UP.value)
        self.insert = _Statement(insert, dialect)
        self.claim = _Statement(claim.returning(table.request, table.attempts, revision), dialect)
        self.extend = _Statement(running.values(start_by=start_end), dialect)
        self.renew = _Statement(ours.values(lease_until=lease_end), dialect)
        self.release = _Statement(ours.values(lease_until=0), dialect)
        self.end_late = _Statement(ours.values(state=CallState.LATE.value), dialect)
        self.end = _Statement(ended.values(state=CallState.ENDED.value, answer=bind("given")), dialect)
        self.give_up = _Statement(given_up, dialect)
        is_one = table.id.in_(bind("calls", expanding=True))
        self.delete = sa.delete(worker_calls).where(is_one)
        self.delete_older = sa.delete(worker_calls).where(table.created < now - bind("age", type_=sa.BigInteger))
        columns = (table.id, table.state, table.attempts, is_lost, has_attempts, table.answer)
        self.select = sa.select(*columns).where(is_one)
