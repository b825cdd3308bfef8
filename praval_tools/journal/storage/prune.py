"""Deletes old runs, and old records outside runs, in steps that block no writer for long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from praval_tools.errors import RunBusyError
from praval_tools.journal.events import INTERVENTION_PREFIX, EventType
from praval_tools.journal.storage.database import Database
from praval_tools.journal.storage.leases import RunLease
from praval_tools.journal.storage.query import find_old_runs
from praval_tools.journal.storage.tables import events, runs, state, store, uses

_RUNS_PER_STEP: Final = 100
_ROWS_PER_STEP: Final = 5_000

_SAYS_YES_WAS_USED: Final = sa.and_(
    events.c.type == EventType.APPROVAL_ANSWERED.value,
    sa.func.coalesce(events.c.call_id, "").startswith(INTERVENTION_PREFIX, autoescape=True),
)
"""Of events that stay for good: without them, code that writes Praval's store could have a yes used again."""


def prune_records(database: Database, open_run: Callable[[str], RunLease], before: int) -> int:
    """Delete what ended before; return how many records were deleted."""
    with database.connect_for_writing() as connection:
        old_runs, deleted = find_old_runs(connection, before), 0
        for start in range(0, len(old_runs), _RUNS_PER_STEP):
            step = old_runs[start : start + _RUNS_PER_STEP]
            deleted += _delete_runs(database, connection, open_run, step, before)
        deleted += _delete_records_outside_runs(database, connection, before)
        with _lock_store(database, connection):
            _delete_ended_changes(connection)
    return deleted


@contextmanager
def _lock_store(database: Database, connection: Connection) -> Iterator[None]:
    """Hold the store's row; its `seq` moves, so that no writer trusts what it knew of the runs."""
    database.begin_write(connection)
    try:
        connection.execute(sa.select(store.c.seq).with_for_update())
        yield
        connection.execute(sa.update(store).values(seq=store.c.seq + 1))
        database.commit(connection)
    finally:
        database.rollback(connection)


def _delete_runs(
    database: Database,
    connection: Connection,
    open_run: Callable[[str], RunLease],
    old_runs: Sequence[tuple[int, str]],
    before: int,
) -> int:
    """Delete those of the *old_runs* that nobody has open; checked again while no other process can write."""
    with ExitStack() as leases:
        opened = []
        for number, run_id in old_runs:
            try:
                leases.enter_context(open_run(run_id))
            except RunBusyError:
                continue
            opened.append(number)
        with _lock_store(database, connection):
            still_old = [number for number, _ in find_old_runs(connection, before, opened)]
            of_runs = events.c.run.in_(still_old)
            kept = sa.update(events).where(of_runs, _SAYS_YES_WAS_USED)
            connection.execute(kept.values(run=None, run_seq=None))  # as outside runs: the run may begin anew
            deleted = connection.execute(sa.delete(events).where(of_runs)).rowcount
            connection.execute(sa.delete(runs).where(runs.c.number.in_(still_old)))
            return deleted


def _delete_records_outside_runs(database: Database, connection: Connection, before: int) -> int:
    deleted, last = 0, 0
    while True:
        outside = (events.c.run.is_(None), events.c.time < before, events.c.seq > last, ~_SAYS_YES_WAS_USED)
        page = sa.select(events.c.seq).where(*outside).order_by(events.c.seq).limit(_ROWS_PER_STEP)
        numbers = connection.execute(page).scalars().all()
        if not numbers:
            return deleted
        last = numbers[-1]
        with _lock_store(database, connection):
            deleted += connection.execute(sa.delete(events).where(*outside, events.c.seq <= last)).rowcount


def _delete_ended_changes(connection: Connection) -> None:
    """Delete what remains of ended changes; a process that has not read them yet will get all rows."""
    for table, ended in ((state, state.c.body.is_(None)), (uses, uses.c.left.is_(None))):
        latest = connection.execute(sa.select(sa.func.max(table.c.revision)).where(ended)).scalar()
        if latest is not None:
            newer = sa.case((store.c.forgotten < latest, latest), else_=store.c.forgotten)
            connection.execute(sa.update(store).values(forgotten=newer))
            connection.execute(sa.delete(table).where(ended))
