"""Items into the database: a group in one transaction, and when that fails each on its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from praval_tools.journal.storage.database import Database
from praval_tools.journal.storage.group_commit import RunCounters, build_group
from praval_tools.journal.storage.protocol import Answer, Item, Record, Status
from praval_tools.journal.storage.rows import (
    RUN_COLUMN,
    RUN_SEQ_COLUMN,
    TIME_COLUMN,
    record_to_row,
    row_to_record,
    to_microseconds,
)
from praval_tools.journal.storage.tables import Statements

_MAX_CACHED_RUNS = 10_000
_SAVEPOINT, _RELEASE, _ROLLBACK = "SAVEPOINT item", "RELEASE SAVEPOINT item", "ROLLBACK TO SAVEPOINT item"

_WriteStrategy = Callable[[Connection, Sequence[Item]], list[Answer]]


class _RefusedError(Exception):
    """Some item of the group breaks a rule: the group must be looked at item by item."""


class _UnavailableError(Exception):
    """No transaction can be begun: it is no item's fault."""


class WriteConnection:
    """
    The one connection that writes, used by one thread at a time.

    `seq` and `revision` are those of the store's row, which is locked while a transaction is open.
    They also tell whether another process has written meanwhile, so that what is known of the runs can be kept.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Connection | None = None
        self._statements: Statements
        self._seq = self._revision = -1
        self._run_counters: dict[str, RunCounters] = {}
        self._is_only_writer = False  # nobody else wrote between the last two transactions

    def write(self, items: Sequence[Item]) -> list[Answer]:
        """Write *items* and return what became of each; never raises for the database's sake."""
        if not items:
            return []
        answers = self._write_group(items)
        if answers is not None:
            return answers
        for way in (self._write_in_bulk, self._write_with_savepoints):
            try:
                return self._run_transaction(way, items)
            except _UnavailableError as error:
                return [self._make_failed_answer(error.args[0]) for _ in items]
            except Exception as error:  # isolation: the next way finds whose fault it is, and the last one reports
                failed: Exception = error
        if len(items) == 1:
            return [self._make_failed_answer(failed)]
        return self._write_separately(items)

    def close(self) -> None:
        """Close the connection; the next group opens another."""
        connection, self._connection = self._connection, None
        self._seq = -1
        if connection is not None:
            try:
                connection.invalidate()
                connection.close()
            except SQLAlchemyError:  # it was broken before
                pass

    def abandon(self) -> object:
        """Forget the connection without closing it, and return it: a forked child must keep, never touch it."""
        connection, self._connection, self._seq = self._connection, None, -1
        return connection

    def _write_group(self, items: Sequence[Item]) -> list[Answer] | None:
        """Write a group of plain records in one statement; None: nothing was written, it must go another way."""
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
        except Exception:  # isolation: another way finds whose fault it is, and reports it
            self._is_only_writer = False
            return None
        self._seq = group.seq
        self._run_counters.update(group.runs)
        return group.answers

    def _write_separately(self, items: Sequence[Item]) -> list[Answer]:
        """Give each item a transaction of its own: one that is too big for the disk may leave room for others."""
        answers: list[Answer] = []
        for item in items:
            try:
                answers += self._run_transaction(self._write_with_savepoints, (item,))
            except _UnavailableError as error:
                return answers + [self._make_failed_answer(error.args[0]) for _ in items[len(answers) :]]
            except Exception as error:  # isolation: reported to who waits for the item
                answers.append(self._make_failed_answer(error))
        return answers

    def _run_transaction(self, way: _WriteStrategy, items: Sequence[Item]) -> list[Answer]:
        connection = self._begin_transaction()
        try:
            before = self._seq, self._revision
            answers = way(connection, items)
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
            connection = self._connection
            if connection is None:
                connection = self._connection = self._database.connect_for_writing()
                self._statements = Statements(connection.dialect)
            self._database.begin_write(connection)
            seq, revision = connection.exec_driver_sql(self._statements.lock_store).one()
        except Exception as error:  # isolation: reported to all who wait; what is broken is opened anew
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
        """Write all in bulk; any refusal or duplicate raises, and nothing is written."""
        rows: list[tuple[Any, ...]] = []
        answers = []
        for item in items:
            if item.revision is not None and item.revision != self._revision:
                raise _RefusedError
            if item.spend and self._spend_grants(connection, item) is not None:
                raise _RefusedError
            if item.rows or item.uses:
                self._apply_changes(connection, item)
            answers.append(self._collect_rows(connection, item, rows))
        self._insert_rows(connection, rows)
        return answers

    def _write_with_savepoints(self, connection: Connection, items: Sequence[Item]) -> list[Answer]:
        """Write each behind a savepoint: who breaks a rule is answered, who fails fails alone."""
        answers = []
        for item in items:
            before, failed = (self._seq, self._revision), None
            connection.exec_driver_sql(_SAVEPOINT)
            try:
                answer = self._write_item(connection, item)
            except Exception as error:  # isolation: reported to who waits for the item
                answer, failed = self._make_failed_answer(error), error
            if answer.status is not Status.DONE:
                self._seq, self._revision = before
                self._run_counters.clear()
                self._roll_back_to_savepoint(connection, failed)
            connection.exec_driver_sql(_RELEASE)
            answers.append(answer)
        return answers

    @staticmethod
    def _roll_back_to_savepoint(connection: Connection, failed: Exception | None) -> None:
        """Go back to the savepoint; a full disk ends the whole transaction, and is what must be reported then."""
        try:
            connection.exec_driver_sql(_ROLLBACK)
        except SQLAlchemyError as error:
            raise failed or error from error

    def _write_item(self, connection: Connection, item: Item) -> Answer:
        found = self._find_attempts(connection, item)
        if found:
            return Answer(Status.EXISTS, revision=self._revision, found=found)
        if item.revision is not None and item.revision != self._revision:
            return Answer(Status.STALE, revision=self._revision)
        grant = self._spend_grants(connection, item)
        if grant is not None:
            return Answer(Status.EXHAUSTED, revision=self._revision, grant=grant)
        self._apply_changes(connection, item)
        rows: list[tuple[Any, ...]] = []
        answer = self._collect_rows(connection, item, rows)
        self._insert_rows(connection, rows)
        return answer

    def _collect_rows(self, connection: Connection, item: Item, rows: list[tuple[Any, ...]]) -> Answer:
        """Give the item's records their places and add them to *rows*."""
        if not item.records:
            raise ValueError("an item needs at least one record")
        first_run = None
        first = seq = self._seq + 1
        for one in item.records:
            if one.run_id is None:
                rows.append(record_to_row(one, seq, None, None))
            else:
                run = self._run_counters.get(one.run_id) or self._find_or_create_run(connection, one, seq)
                run.length += 1
                rows.append(record_to_row(one, seq, run.number, run.length))
                if seq == first:
                    first_run = run.length
            seq += 1
        self._seq = seq - 1
        return Answer(Status.DONE, first, first_run, self._revision)

    def _find_or_create_run(self, connection: Connection, record: Record, seq: int) -> RunCounters:
        """Return the run of *record*, which begins it where there is none."""
        name = record.run_id or ""
        found = connection.exec_driver_sql(self._statements.select_run, (name,)).one_or_none()
        if found is None:
            time = to_microseconds(record.time)
            connection.exec_driver_sql(self._statements.insert_run, (seq, name, 0, time, time))
        run = self._run_counters[name] = RunCounters(seq, 0) if found is None else RunCounters(found[0], found[1])
        return run

    def _insert_rows(self, connection: Connection, rows: list[tuple[Any, ...]]) -> None:
        connection.exec_driver_sql(self._statements.insert_event, rows)
        ends: dict[int, tuple[int, int]] = {}
        for made in rows:
            if made[RUN_COLUMN] is not None:
                known = ends.get(made[RUN_COLUMN])
                ends[made[RUN_COLUMN]] = (
                    made[RUN_SEQ_COLUMN],
                    made[TIME_COLUMN] if known is None else max(made[TIME_COLUMN], known[1]),
                )
        if ends:
            longer = [(length, last, last, run) for run, (length, last) in ends.items()]
            connection.exec_driver_sql(self._statements.update_run, longer)

    def _find_attempts(self, connection: Connection, item: Item) -> tuple[Record, ...]:
        """Return the attempts of the calls of which the item would repeat one."""
        found: dict[int | None, Record] = {}
        for one in item.records:
            if one.run_id is None or one.call_id is None or one.attempt is None:
                continue
            of_call = connection.exec_driver_sql(self._statements.select_attempts, (one.run_id, one.call_id)).all()
            known = [row_to_record(each) for each in of_call]
            if any(each.attempt == one.attempt for each in known):
                found.update({each.seq: each for each in known})
        return tuple(found[seq] for seq in sorted(found, key=lambda seq: seq or 0))

    def _spend_grants(self, connection: Connection, item: Item) -> str | None:
        """Take one call of each grant; return the first that has none left."""
        for grant in item.spend:
            if connection.exec_driver_sql(self._statements.spend_use, (grant,)).rowcount != 1:
                return grant
        return None

    def _apply_changes(self, connection: Connection, item: Item) -> None:
        """Make, replace and end acts and counts, under a new revision."""
        if not item.rows and not item.uses:
            return
        self._revision += 1
        run, say = connection.exec_driver_sql, self._statements
        for act in item.rows:
            run(say.delete_state_row, (act.kind, act.key, act.source))
            run(say.insert_state_row, (act.kind, act.key, act.source, act.body, self._revision))
        for one in item.uses:
            run(say.delete_uses, (one.grant_id,))
            run(say.insert_uses, (one.grant_id, one.left, self._revision))

    def _make_failed_answer(self, error: BaseException) -> Answer:
        return Answer(Status.FAILED, error=self._database.translate_error(error))
