"""
Writes groups of items over one database connection: in one transaction, and when that fails each item on its own.

Where the connection was cut, nobody knows whether the last transaction was committed. Its items are looked for over
the next connection, by the times and ids of their records, before they are written again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from praval_tools.errors import JournalError
from praval_tools.journal.storage.database import Database
from praval_tools.journal.storage.group_commit import RunCounters, build_group, find_run_ends, number_records
from praval_tools.journal.storage.leases import RunLeases, make_lost_lease_error
from praval_tools.journal.storage.protocol import Answer, Item, Record, Status, find_attempts
from praval_tools.journal.storage.rows import (
    EventRow,
    row_to_record,
    to_microseconds,
)
from praval_tools.journal.storage.tables import Statements

_MAX_CACHED_RUNS = 10_000
_MAX_TRIES = 4
"""How often a group is tried again whose connection is cut, before whoever waits gets the error."""
_SAVEPOINT, _RELEASE, _ROLLBACK = "SAVEPOINT item", "RELEASE SAVEPOINT item", "ROLLBACK TO SAVEPOINT item"

_WriteStrategy = Callable[[Connection, Sequence[Item]], list[Answer]]


class _RefusedError(Exception):
    """Some item of the group breaks a rule: the group must be written item by item."""


class _UnavailableError(Exception):
    """No transaction can be started: no item is at fault."""


class _DisconnectedError(Exception):
    """The connection was cut: what was sent may have been committed."""


class WriteConnection:
    """
    The one connection that writes, used by one thread at a time.

    `seq` and `revision` are those of the store's row, which is locked while a transaction is open.
    They also tell whether another process has written meanwhile, so that the counters of the runs can be cached.

    Args:
        database: Where to.
        leases: The runs that this process has open: a run that another process has opened meanwhile is not written to.
    """

    def __init__(self, database: Database, leases: RunLeases) -> None:
        self._database, self._leases = database, leases
        self._session: object = None
        self._was_cut = False
        self._unsettled: set[tuple[int, str]] = set()
        """Time and id of the first records of items of which nobody knows whether they were written."""
        self._connection: Connection | None = None
        self._statements: Statements
        self._seq = self._revision = -1
        self._run_counters: dict[str, RunCounters] = {}
        self._is_only_writer = False  # nobody else wrote between the last two transactions
        self._was_renumbered = False  # others wrote before a group: the counters of the runs that are not in it are old

    def write(self, items: Sequence[Item]) -> list[Answer]:
        """Write *items* and return what became of each; never raises an error of the database."""
        if not items:
            return []
        for _ in range(_MAX_TRIES):
            try:
                is_unsettled = self._unsettled and not self._unsettled.isdisjoint(map(_get_key, items))
                return self._settle_and_write(items) if is_unsettled else self._write(items)
            except _DisconnectedError as error:
                self._was_cut = True
                self.close()
                self._unsettled.update(key for item in items if (key := _get_key(item)) is not None)
                cause: Exception = error.args[0]
        return [self._make_failed_answer(cause) for _ in items]

    def _settle_and_write(self, items: Sequence[Item]) -> list[Answer]:
        """Write those of *items* that a connection that was cut has not written."""
        keys = [_get_key(item) for item in items]
        try:
            connection = self._begin_transaction()
            answers = [
                self._find_written(connection, item, key) if key in self._unsettled else None
                for item, key in zip(items, keys, strict=True)
            ]
            self._database.commit(connection)  # what was found is durable then
        except _UnavailableError as error:
            return [self._make_failed_answer(error.args[0]) for _ in items]
        except SQLAlchemyError as error:  # as long as nobody knows, nothing is written
            raise _DisconnectedError(error) from error
        written = iter(self._write([item for item, answer in zip(items, answers, strict=True) if answer is None]))
        self._unsettled.difference_update(key for key in keys if key is not None)
        return [next(written) if answer is None else answer for answer in answers]

    def _find_written(self, connection: Connection, item: Item, key: tuple[int, str] | None) -> Answer | None:
        """Return the answer to an item that was written; None: it was not."""
        row = connection.exec_driver_sql(self._statements.select_event, key).first()
        if row is None:
            return None
        record = row_to_record(row)
        revision = self._revision if item.revision is None else item.revision + bool(item.rows or item.uses)
        return Answer(Status.DONE, record.seq, record.run_seq, revision)

    def _write(self, items: Sequence[Item]) -> list[Answer]:
        if not items:
            return []
        answers = self._write_group(items)
        if answers is not None:
            return answers
        for strategy in (self._write_in_bulk, self._write_with_savepoints):
            try:
                return self._run_transaction(strategy, items)
            except _DisconnectedError:
                raise
            except _UnavailableError as error:
                return [self._make_failed_answer(error.args[0]) for _ in items]
            except Exception as error:  # isolation: the next strategy finds the item at fault, the last one reports
                last_error: Exception = error
        return [self._make_failed_answer(last_error)] if len(items) == 1 else self._write_separately(items)

    def close(self) -> None:
        """Close the connection; the next group opens another."""
        connection = self.abandon()
        if connection is not None:
            try:
                connection.invalidate()
                connection.close()
            except SQLAlchemyError:  # it was broken before
                pass

    def abandon(self) -> Connection | None:
        """Forget the connection without closing it, and return it: a forked child must keep it, and never use it."""
        connection, self._connection, self._seq = self._connection, None, -1
        return connection

    def _write_group(self, items: Sequence[Item]) -> list[Answer] | None:
        """Write a group of plain records in one statement; None where that is not possible, and nothing was written."""
        connection = self._connection
        database = self._database
        if connection is None or not (self._is_only_writer or database.renumbers_groups):
            return None
        try:
            group = build_group(items, self._seq, self._revision, self._run_counters, database.max_group_rows)
            if group is None:
                return None
            expected_seq = group.seq
            group = database.insert_group(connection, group, self._leases.get_tokens(group.runs))
        except Exception as error:  # isolation: another strategy finds the item at fault, and reports it
            self._is_only_writer = False
            self._raise_if_disconnected(connection, error)
            return None
        self._seq = group.seq
        self._was_renumbered |= group.seq != expected_seq
        self._run_counters.update(group.runs)
        return group.answers

    def _write_separately(self, items: Sequence[Item]) -> list[Answer]:
        """Write each item in a transaction of its own: one that is too big for the disk may leave room for others."""
        answers: list[Answer] = []
        for item in items:
            try:
                answers += self._run_transaction(self._write_with_savepoints, (item,))
            except _UnavailableError as error:
                return answers + [self._make_failed_answer(error.args[0]) for _ in items[len(answers) :]]
            except Exception as error:  # isolation: reported to who waits for the item
                answers.append(self._make_failed_answer(error))
        return answers

    def _run_transaction(self, strategy: _WriteStrategy, items: Sequence[Item]) -> list[Answer]:
        connection = self._begin_transaction()
        try:
            seq, revision = self._seq, self._revision
            answers = strategy(connection, items)
            if (self._seq, self._revision) == (seq, revision):
                self._database.rollback(connection)
                return answers
            connection.exec_driver_sql(self._statements.update_store, (self._seq, self._revision))
            new_revision = None if self._revision == revision else self._revision
            self._database.commit(connection, new_revision=new_revision)
        except Exception as error:
            self._raise_if_disconnected(connection, error)
            self._roll_back(connection)
            raise
        if len(self._run_counters) > _MAX_CACHED_RUNS:
            self._run_counters.clear()
        return answers

    def _begin_transaction(self) -> Connection:
        try:
            connection = self._connect() if self._connection is None else self._connection
        except Exception as error:  # isolation: reported to all who wait
            self.close()
            raise _UnavailableError(error) from error
        try:
            self._database.begin_write(connection)
            seq, revision = connection.exec_driver_sql(self._statements.lock_store).one()
        except Exception as error:  # isolation: reported to all who wait; a broken connection is opened anew
            self._raise_if_disconnected(connection, error)
            self.close()
            raise _UnavailableError(error) from error
        self._is_only_writer = seq == self._seq
        if self._was_renumbered or not self._is_only_writer:
            self._run_counters.clear()
            self._was_renumbered = False
        self._seq, self._revision = seq, revision
        return connection

    def _connect(self) -> Connection:
        """Open the connection; what was sent over one that was cut is ended first."""
        connection = self._connection = self._database.connect_for_writing()
        self._statements = Statements(connection.dialect)
        if self._was_cut:
            self._database.end_session(connection, self._session)
        self._session, self._was_cut = self._database.identify_session(connection), False
        return connection

    def _raise_if_disconnected(self, connection: Connection, error: Exception) -> None:
        if self._database.is_disconnected(connection):
            raise _DisconnectedError(error) from error

    def _roll_back(self, connection: Connection) -> None:
        self._seq = -1
        try:
            self._database.rollback(connection)
        except Exception:  # isolation: the error that led here is the one to report
            self.close()

    def _write_in_bulk(self, connection: Connection, items: Sequence[Item]) -> list[Answer]:
        """Write all items but those that are stale; any other refusal or a duplicate raises, and nothing is written."""
        rows: list[EventRow] = []
        answers, spent, call_ids = list[Answer](), Counter[str](), set[str | None]()
        if self._find_lost_lease(connection, [record for item in items for record in item.records]) is not None:
            raise _RefusedError
        for item in items:
            if self._is_stale(item):
                if any(record.call_id in call_ids for record in item.records):  # it may exist by what comes before it
                    raise _RefusedError
                answers.append(self._answer_existing(connection, item) or Answer(Status.STALE, revision=self._revision))
                continue
            spent.update(item.spend)
            if item.uses:  # counts that are set after what was spent of them
                self._spend_or_raise(connection, spent)
            self._apply_changes(connection, item)
            answers.append(self._number_records(connection, item, rows))
            call_ids.update([record.call_id for record in item.records if record.call_id is not None])
        self._spend_or_raise(connection, spent)
        if rows:
            self._insert_rows(connection, rows)
        return answers

    def _spend_or_raise(self, connection: Connection, spent: Counter[str]) -> None:
        """Spend that many calls of each grant, and clear *spent*."""
        for grant, calls in spent.items():
            if not self._spend(connection, grant, calls):
                raise _RefusedError
        spent.clear()

    def _write_with_savepoints(self, connection: Connection, items: Sequence[Item]) -> list[Answer]:
        """Write each item behind a savepoint: a refused item gets its answer, and a failing one fails alone."""
        answers = []
        for item in items:
            before, error = (self._seq, self._revision), None
            connection.exec_driver_sql(_SAVEPOINT)
            try:
                answer = self._write_item(connection, item)
            except Exception as caught:  # isolation: reported to who waits for the item
                answer, error = self._make_failed_answer(caught), caught
            if answer.status is not Status.DONE:
                self._seq, self._revision = before
                self._run_counters.clear()
                try:
                    connection.exec_driver_sql(_ROLLBACK)
                except SQLAlchemyError as rollback_error:  # a full disk ended the whole transaction: report that
                    raise error or rollback_error from rollback_error
            connection.exec_driver_sql(_RELEASE)
            answers.append(answer)
        return answers

    def _write_item(self, connection: Connection, item: Item) -> Answer:
        existing = self._answer_existing(connection, item)
        if existing is not None:
            return existing
        error = self._find_lost_lease(connection, item.records)
        if error is not None:
            return Answer(Status.FAILED, revision=self._revision, error=error)
        refusal = self._spend_or_refuse(connection, item)
        if refusal is not None:
            return refusal
        self._apply_changes(connection, item)
        rows: list[EventRow] = []
        answer = self._number_records(connection, item, rows)
        self._insert_rows(connection, rows)
        return answer

    def _answer_existing(self, connection: Connection, item: Item) -> Answer | None:
        """Return the answer to an item that would repeat an attempt of a call, else None."""
        attempts = self._find_attempts(connection, item)
        return Answer(Status.EXISTS, revision=self._revision, found=attempts) if attempts else None

    def _is_stale(self, item: Item) -> bool:
        return item.revision is not None and item.revision != self._revision

    def _spend_or_refuse(self, connection: Connection, item: Item) -> Answer | None:
        """Spend a call of each grant of the item; return an answer if it is refused, else None."""
        if self._is_stale(item):
            return Answer(Status.STALE, revision=self._revision)
        for grant in item.spend:
            if not self._spend(connection, grant, 1):
                return Answer(Status.EXHAUSTED, revision=self._revision, grant=grant)
        return None

    def _spend(self, connection: Connection, grant: str, calls: int) -> bool:
        """Spend calls of a grant; False where it has not that many, and none was spent."""
        return connection.exec_driver_sql(self._statements.spend_uses, (calls, grant, calls)).rowcount == 1

    def _find_lost_lease(self, connection: Connection, records: Iterable[Record]) -> JournalError | None:
        """Return the error of records of a run that this process has open, and another process opened meanwhile."""
        runs = {record.run_id: None for record in records if record.run_id is not None}
        for run_id, token in self._leases.get_tokens(runs).items():
            if connection.exec_driver_sql(self._statements.select_lease, (run_id,)).scalar() != token:
                return make_lost_lease_error(self._database.name, run_id)
        return None

    def _number_records(self, connection: Connection, item: Item, rows: list[EventRow]) -> Answer:
        """Assign the item's records their numbers and add them to *rows*."""
        get_run = partial(self._find_or_create_run, connection)
        answer = number_records(item.records, self._seq, self._revision, get_run, rows)
        self._seq += len(item.records)
        return answer

    def _find_or_create_run(self, connection: Connection, record: Record, seq: int) -> RunCounters:
        """Return the counters of the record's run; create the run, with this record as its first, if there is none."""
        run_id = record.run_id or ""
        run = self._run_counters.get(run_id)
        if run is None:
            row = connection.exec_driver_sql(self._statements.select_run, (run_id,)).one_or_none()
            if row is None:
                time = to_microseconds(record.time)
                connection.exec_driver_sql(self._statements.insert_run, (seq, run_id, 0, time, time))
            run = self._run_counters[run_id] = RunCounters(seq, 0) if row is None else RunCounters(row[0], row[1])
        return run

    def _insert_rows(self, connection: Connection, rows: list[EventRow]) -> None:
        connection.exec_driver_sql(self._statements.insert_event, rows)
        ends = find_run_ends(rows).items()
        if ends:
            updates = [(length, last_time, last_time, run) for run, (length, last_time) in ends]
            connection.exec_driver_sql(self._statements.update_run, updates)

    def _find_attempts(self, connection: Connection, item: Item) -> tuple[Record, ...]:
        def read_attempts(run_id: str, call_id: str) -> list[Record]:
            rows = connection.exec_driver_sql(self._statements.select_attempts, (run_id, call_id))
            return [row_to_record(row) for row in rows]

        return find_attempts(item, read_attempts)

    def _apply_changes(self, connection: Connection, item: Item) -> None:
        """Store changes of access and counts, under a new revision."""
        if not item.rows and not item.uses:
            return
        self._revision += 1
        execute, statements = connection.exec_driver_sql, self._statements
        for row in item.rows:
            execute(statements.delete_state_row, (row.kind, row.key, row.source))
            execute(statements.insert_state_row, (row.kind, row.key, row.source, row.body, self._revision))
        for use in item.uses:
            execute(statements.delete_uses, (use.grant_id,))
            execute(statements.insert_uses, (use.grant_id, use.left, self._revision))

    def _make_failed_answer(self, error: BaseException) -> Answer:
        return Answer(Status.FAILED, error=self._database.translate_error(error))


def _get_key(item: Item) -> tuple[int, str] | None:
    """Return the time and id of the first record of *item*; None where it has none, so that it was not written."""
    try:
        return to_microseconds(item.records[0].time), item.records[0].id
    except Exception:  # isolation: whoever waits for the item gets the error when it is written
        return None
