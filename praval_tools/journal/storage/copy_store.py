"""Copies a journal into another store, such as from a file into a database: all or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from praval_tools.errors import JournalError
from praval_tools.journal.storage.database import Database
from praval_tools.journal.storage.open_database import open_database
from praval_tools.journal.storage.sqlite import LOCK_TIMEOUT
from praval_tools.journal.storage.tables import events, runs, state, store, tokens, uses

_TABLES: Final = (runs, events, state, uses, tokens)
"""What is copied, with the store's own row; open runs are not."""

_PAGE_SIZE: Final = 1_000


def copy_journal(source: Path | str, target: Path | str) -> int:
    """
    Copy everything of the journal at *source* into the one at *target*, which has nothing yet.

    All is as it was at one moment, and is written in one transaction.

    Returns:
        How many events were copied.

    Raises:
        JournalError: One of the stores cannot be opened, read or written, or *target* is not empty.
    """
    with ExitStack() as opened:
        databases = []
        for where in (source, target):
            database, leases = open_database(where, LOCK_TIMEOUT)
            opened.callback(database.close)
            opened.callback(leases.close)
            databases.append(database)
        reader = opened.enter_context(_read_snapshot(databases[0]))
        writer = opened.enter_context(_write(databases[1]))
        _raise_if_used(databases[1], writer)
        for table in _TABLES:
            _copy_table(reader, writer, table)
        counters = reader.execute(sa.select(store.c.seq, store.c.revision, store.c.forgotten)).one()
        writer.execute(sa.update(store).values(counters._asdict()))
        return int(writer.execute(sa.select(sa.func.count()).select_from(events)).scalar_one())


@contextmanager
def _read_snapshot(database: Database) -> Iterator[Connection]:
    with _translate_errors(database), database.readers.connect() as connection:
        connection.exec_driver_sql(database.begin_snapshot_sql)
        try:
            yield connection
        finally:
            database.rollback(connection)


@contextmanager
def _write(database: Database) -> Iterator[Connection]:
    with _translate_errors(database), database.connect_for_writing() as connection:
        database.begin_write(connection)
        try:
            connection.execute(sa.select(store.c.seq).with_for_update())
            yield connection
            database.commit(connection)
        finally:
            database.rollback(connection)


@contextmanager
def _translate_errors(database: Database) -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        raise database.translate_error(error) from error


def _raise_if_used(database: Database, connection: Connection) -> None:
    seq, revision = connection.execute(sa.select(store.c.seq, store.c.revision)).one()
    if seq or revision or connection.execute(sa.select(tokens.c.id).limit(1)).first() is not None:
        raise JournalError(database.name, "it is not empty, and nothing was copied", "Give an empty store as DST.")


def _copy_table(reader: Connection, writer: Connection, table: sa.Table) -> None:
    """Copy the rows of *table* in pages, by its primary key."""
    key = tuple(table.primary_key.columns)
    page = sa.select(table).order_by(*key).limit(_PAGE_SIZE)
    rows = reader.execute(page).mappings().all()
    while rows:
        writer.execute(sa.insert(table), [dict(row) for row in rows])
        last = sa.tuple_(*(sa.literal(rows[-1][column.name], column.type) for column in key))
        rows = reader.execute(page.where(sa.tuple_(*key) > last)).mappings().all()
