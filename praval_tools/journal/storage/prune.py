"""Forgetting: whole runs and records outside of runs, in steps that keep no writer waiting for long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from praval_tools.errors import RunBusyError
from praval_tools.journal.storage.database import Database
from praval_tools.journal.storage.leases import RunLease
from praval_tools.journal.storage.query import find_old_runs
from praval_tools.journal.storage.tables import events, runs, state, store, uses

_RUNS_PER_STEP: Final = 100
_ROWS_PER_STEP: Final = 5_000


def prune_records(database: Database, open_run: Callable[[str], RunLease], before: int) -> int:
    """Forget what ended before; return how many records went."""
    with database.connect_for_writing() as connection:
        old, gone = find_old_runs(connection, before), 0
        for at in range(0, len(old), _RUNS_PER_STEP):
            gone += _delete_runs(database, connection, open_run, old[at : at + _RUNS_PER_STEP], before)
        gone += _delete_records_outside_runs(database, connection, before)
        with _lock_store_row(database, connection):
            _delete_ended_changes(connection)
    return gone


@contextmanager
def _lock_store_row(database: Database, connection: Connection) -> Iterator[None]:
    """Hold the store's row; its `seq` moves, so that no writer trusts what it knew of the runs."""
    database.begin_write(connection)
    try:
        connection.execute(sa.select(store.c.seq).with_for_update())
        yield
        connection.execute(sa.update(store).values(seq=store.c.seq + 1))
        connection.exec_driver_sql("COMMIT")
    finally:
        database.rollback(connection)


def _delete_runs(
    database: Database,
    connection: Connection,
    open_run: Callable[[str], RunLease],
    old: Sequence[tuple[int, str]],
    before: int,
) -> int:
    """Forget those of the *old* runs that nobody has open; looked at again while no one can write."""
    with ExitStack() as leases:
        mine = []
        for number, name in old:
            try:
                leases.enter_context(open_run(name))
            except RunBusyError:
                continue
            mine.append(number)
        with _lock_store_row(database, connection):
            still = [number for number, _ in find_old_runs(connection, before, mine)]
            gone = connection.execute(sa.delete(events).where(events.c.run.in_(still))).rowcount
            connection.execute(sa.delete(runs).where(runs.c.number.in_(still)))
            return gone


def _delete_records_outside_runs(database: Database, connection: Connection, before: int) -> int:
    """Forget the records outside of runs."""
    gone, last = 0, 0
    while True:
        outside = (events.c.run.is_(None), events.c.time < before, events.c.seq > last)
        page = sa.select(events.c.seq).where(*outside).order_by(events.c.seq).limit(_ROWS_PER_STEP)
        found = connection.execute(page).scalars().all()
        if not found:
            return gone
        with _lock_store_row(database, connection):
            gone += connection.execute(sa.delete(events).where(*outside, events.c.seq <= found[-1])).rowcount
        last = found[-1]


def _delete_ended_changes(connection: Connection) -> None:
    """Forget the traces of ended acts; who has not seen them yet gets all acts instead of the changed ones."""
    for table, ended in ((state, state.c.body.is_(None)), (uses, uses.c.left.is_(None))):
        latest = connection.execute(sa.select(sa.func.max(table.c.revision)).where(ended)).scalar()
        if latest is not None:
            newer = sa.case((store.c.forgotten < latest, latest), else_=store.c.forgotten)
            connection.execute(sa.update(store).values(forgotten=newer))
            connection.execute(sa.delete(table).where(ended))
