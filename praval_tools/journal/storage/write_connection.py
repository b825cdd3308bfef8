"""Writes groups of items over one database connection: in one transaction, and when that fails each item on its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from praval_tools.journal.storage.database import Database
from praval_tools.journal.storage.group_commit import RunCounters, build_group, find_run_ends, number_records
from praval_tools.journal.storage.protocol import Answer, Item, Record, Status, find_attempts
from praval_tools.journal.storage.rows import (
    EventRow,
    row_to_record,
    to_microseconds,
)
from praval_tools.journal.storage.tables import Statements

_MAX_CACHED_RUNS = 10_000
_SAVEPOINT, _RELEASE, _ROLLBACK = "SAVEPOINT item", "RELEASE SAVEPOINT item", "ROLLBACK TO SAVEPOINT item"

_WriteStrategy = Callable[[Connection, Sequence[Item]], list[Answer]]


class _RefusedError(Exception):
    """Some item of the group breaks a rule: the group must be written item by item."""


class _UnavailableError(Exception):
    """No transaction can be started: no item is at fault."""


class WriteConnection:
    """
    The one connection that writes, used by one thread at a time.

    `seq` and `revision` are those of the store's row, which is locked while a transaction is open.
    They also tell whether another process has written meanwhile, so that the counters of the runs can be cached.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Connection | None = None
        self._statements: Statements
        self._seq = self._revision = -1
        self._run_counters: dict[str, RunCounters] = {}
        self._is_only_writer = False  # nobody else wrote between the last two transactions

    def write(self, items: Sequence[Item]) -> list[Answer]:
        """Write *items* and return what became of each; never raises an error of the database."""
        if not items:
            return []
        answers = self._write_group(items)
        if answers is not None:
            return answers
        for strategy in (self._write_in_bulk, self._write_with_savepoints):
            try:
                return self._run_transaction(strategy, items)
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
        if connection is None or not self._is_only_writer:
            return None
        try:
            group = build_group(items, self._seq, self._revision, self._run_counters)
            statement = None if group is None else self._database.build_group_insert(group.row_count)
            if group is None or statement is None:
                return None
            self._database.raise_if_file_replaced()
            connection.exec_driver_sql(statement, group.values)
        except Exception:  # isolation: another strategy finds the item at fault, and reports it
            self._is_only_writer = False
            return None
        self._seq = group.seq
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
            before = self._seq, self._revision
            answers = strategy(connection, items)
            if (self._seq, self._revision) == before:
                self._database.rollback(connection)
                return answers
            connection.exec_driver_sql(self._statements.update_store, (self._seq, self._revision))
            connection.exec_driver_sql("COMMIT")
        except Exception:
            self._roll_back(connection)
            raise
        if len(self._run_counters) > _MAX_CACHED_RUNS:
            self._run_counters.clear()
        return answers

    def _begin_transaction(self) -> Connection:
        try:
            if self._connection is None:
                self._connection = self._database.connect_for_writing()
                self._statements = Statements(self._connection.dialect)
            connection = self._connection
            self._database.begin_write(connection)
            seq, revision = connection.exec_driver_sql(self._statements.lock_store).one()
        except Exception as error:  # isolation: reported to all who wait; a broken connection is opened anew
            self.close()
            raise _UnavailableError(error) from error
        self._is_only_writer = seq == self._seq
        if not self._is_only_writer:
            self._run_counters.clear()
        self._seq, self._revision = seq, revision
        return connection

    def _roll_back(self, connection: Connection) -> None:
        self._seq = -1
        try:
            self._database.rollback(connection)
        except Exception:  # isolation: the error that led here is the one to report
            self.close()

    def _write_in_bulk(self, connection: Connection, items: Sequence[Item]) -> list[Answer]:
        """Write all items; any refusal or duplicate raises, and nothing is written."""
        rows: list[EventRow] = []
        answers = []
        for item in items:
            if self._spend_or_refuse(connection, item) is not None:
                raise _RefusedError
            self._apply_changes(connection, item)
            answers.append(self._number_records(connection, item, rows))
        self._insert_rows(connection, rows)
        return answers

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
        attempts = self._find_attempts(connection, item)
        if attempts:
            return Answer(Status.EXISTS, revision=self._revision, found=attempts)
        refusal = self._spend_or_refuse(connection, item)
        if refusal is not None:
            return refusal
        self._apply_changes(connection, item)
        rows: list[EventRow] = []
        answer = self._number_records(connection, item, rows)
        self._insert_rows(connection, rows)
        return answer

    def _spend_or_refuse(self, connection: Connection, item: Item) -> Answer | None:
        """Spend a call of each grant of the item; return an answer if it is stale or a grant is used up, else None."""
        if item.revision is not None and item.revision != self._revision:
            return Answer(Status.STALE, revision=self._revision)
        for grant in item.spend:
            if connection.exec_driver_sql(self._statements.spend_use, (grant,)).rowcount != 1:
                return Answer(Status.EXHAUSTED, revision=self._revision, grant=grant)
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
