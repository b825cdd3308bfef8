"""Reads records, runs and state from the journal's database, in pages, so that a slow reader blocks nobody."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from praval_tools.journal.storage.database import Database
from praval_tools.journal.storage.protocol import Record, RecordFilter, RunInfo, StateRow, StateView, Uses
from praval_tools.journal.storage.rows import from_microseconds, row_to_record, to_microseconds
from praval_tools.journal.storage.tables import events, runs, state, store, uses

_PAGE_SIZE: Final = 1_000
_SEQ_PAGE_SIZE: Final = 100_000
_LOOKUP_SIZE: Final = 500
_DENSITY_THRESHOLD: Final = 2
"""Where one of so many consecutive records is wanted, or more, all of them are looked through."""
_SELECT_RECORDS: Final = (
    sa.select(events, runs.c.run_id).join(runs, runs.c.number == events.c.run, isouter=True).order_by(events.c.seq)
)


def iter_records(database: Database, wanted: RecordFilter) -> Iterator[Record]:
    """Yield the records that are wanted, up to what is there now."""
    if wanted.numbers is not None:
        yield from _read_numbered(database, wanted)
        return
    readers = database.readers
    with readers.connect() as connection:
        end, last = connection.execute(sa.select(store.c.seq)).scalar_one(), wanted.after_seq
        if wanted.since is not None or wanted.until is not None:  # clocks differ: times are only nearly in order
            bounds = sa.select(sa.func.min(events.c.seq), sa.func.max(events.c.seq))
            first, latest = connection.execute(bounds.where(*_build_time_conditions(wanted))).one()
            if first is None:
                return
            end, last = min(end, latest), max(last, first - 1)
    if wanted.run_id is None and wanted.call_id is None:
        yield from _scan_store(readers, wanted, last, end)
    else:
        yield from _scan_call_index(database, wanted, last, end)


def _read_numbered(database: Database, wanted: RecordFilter) -> Iterator[Record]:
    """Yield the records that are wanted by number."""
    conditions = [*_build_conditions(wanted), events.c.seq > wanted.after_seq]
    if wanted.run_id is not None:
        conditions.append(runs.c.run_id == wanted.run_id)
    select = _SELECT_RECORDS.where(*conditions, events.c.seq.in_(sa.text(database.list_numbers_sql)))
    numbers = sorted(wanted.numbers or ())
    for start in range(0, len(numbers), _LOOKUP_SIZE):
        with database.readers.connect() as connection:
            rows = connection.execute(select, {"numbers": json.dumps(numbers[start : start + _LOOKUP_SIZE])}).all()
        yield from map(row_to_record, rows)


def count_records(readers: Engine) -> int:
    """Return how many records there are."""
    with readers.connect() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(events)).scalar_one())


def _scan_store(readers: Engine, wanted: RecordFilter, last: int, end: int) -> Iterator[Record]:
    page = _SELECT_RECORDS.where(*_build_conditions(wanted), events.c.seq > sa.bindparam("last"), events.c.seq <= end)
    page = page.limit(_PAGE_SIZE)
    while True:
        with readers.connect() as connection:
            rows = connection.execute(page, {"last": last}).all()
        yield from map(row_to_record, rows)
        if len(rows) < _PAGE_SIZE:
            return
        last = rows[-1][0]


def _scan_call_index(database: Database, wanted: RecordFilter, last: int, end: int) -> Iterator[Record]:
    """Look up the numbers in the index of calls, which is not in the order of time, and then the records."""
    readers = database.readers
    numbers = sa.select(events.c.seq).where(events.c.seq > sa.bindparam("last"), events.c.seq <= end)
    conditions = _build_conditions(wanted)
    # one parameter for all numbers: hundreds of parameters cost more than the records that they select
    by_number = _SELECT_RECORDS.where(*conditions, events.c.seq.in_(sa.text(database.list_numbers_sql)))
    # by range, which is cheaper than one by one where most of the records in between are wanted
    by_range = _SELECT_RECORDS.where(*conditions, events.c.seq.between(sa.bindparam("first"), sa.bindparam("last")))
    if wanted.run_id is not None:
        run = sa.select(runs.c.number).where(runs.c.run_id == wanted.run_id).scalar_subquery()
        zero: sa.ColumnElement[int] = sa.literal_column("0")
        numbers = numbers.where(events.c.run == run)
        by_range = by_range.where(events.c.run + zero == run)  # not by the index of the run
    if wanted.call_id is not None:
        numbers = numbers.where(events.c.call_id == wanted.call_id)
    numbers = numbers.order_by(events.c.seq).limit(_SEQ_PAGE_SIZE)
    while True:
        with readers.connect() as connection:
            page = connection.execute(numbers, {"last": last}).scalars().all()
        for start in range(0, len(page), _LOOKUP_SIZE):
            part = page[start : start + _LOOKUP_SIZE]
            with readers.connect() as connection:
                if part[-1] - part[0] < _DENSITY_THRESHOLD * len(part):
                    rows = connection.execute(by_range, {"first": part[0], "last": part[-1]}).all()
                else:
                    rows = connection.execute(by_number, {"numbers": json.dumps(list(part))}).all()
            yield from map(row_to_record, rows)
        if len(page) < _SEQ_PAGE_SIZE:
            return
        last = page[-1]


def _build_time_conditions(wanted: RecordFilter) -> list[sa.ColumnElement[bool]]:
    conditions = []
    if wanted.since is not None:
        conditions.append(events.c.time >= to_microseconds(wanted.since))
    if wanted.until is not None:
        conditions.append(events.c.time < to_microseconds(wanted.until))
    return conditions


def _build_conditions(wanted: RecordFilter) -> list[sa.ColumnElement[bool]]:
    """Return all conditions but that on the run."""
    exact_values = wanted.get_exact_values().items()
    return _build_time_conditions(wanted) + [events.c[name] == value for name, value in exact_values]


def _select_calls(of_runs: sa.ColumnElement[bool]) -> sa.Subquery:
    """Select each call that began in some runs, and whether it is in doubt; the index of calls answers alone."""
    latest = sa.func.max(events.c.attempt)
    return (
        sa.select(events.c.run, sa.case((latest == 0, 1), else_=0).label("in_doubt"))
        .where(of_runs, events.c.call_id.is_not(None))
        .group_by(events.c.run, events.c.call_id)
        .having(sa.func.min(events.c.attempt) == 0)
        .subquery()
    )


def iter_runs(readers: Engine) -> Iterator[RunInfo]:
    """Yield the runs by their first record."""
    page = sa.select(runs).where(runs.c.number > sa.bindparam("last")).order_by(runs.c.number).limit(_PAGE_SIZE)
    calls = _select_calls(events.c.run.between(sa.bindparam("first"), sa.bindparam("last")))
    counts = sa.select(calls.c.run, sa.func.count(), sa.func.sum(calls.c.in_doubt)).group_by(calls.c.run)
    last = 0
    while True:
        with readers.connect() as connection:
            rows = connection.execute(page, {"last": last}).all()
            if not rows:
                return
            bounds = {"first": rows[0].number, "last": rows[-1].number}
            count_rows = connection.execute(counts, bounds)
            counts_by_run = {run: (int(begun), int(in_doubt)) for run, begun, in_doubt in count_rows}
        for number, run_id, _, first_time, last_time in rows:
            times = from_microseconds(first_time), from_microseconds(last_time)
            yield RunInfo(run_id, *times, *counts_by_run.get(number, (0, 0)))
        last = rows[-1].number


def read_state(database: Database, since: int) -> StateView:
    """Return the changes of access and counts after revision *since*, as they were at one moment."""
    with database.readers.connect() as connection:
        connection.exec_driver_sql(database.begin_snapshot_sql)
        _, _, revision, pruned_revision = connection.execute(sa.select(store)).one()
        complete = since <= 0 or since < pruned_revision or since > revision
        known = 0 if complete else since
        select_rows = sa.select(state).where(state.c.revision > known).order_by(state.c.revision)
        select_uses = sa.select(uses.c.grant_id, uses.c.left).where(uses.c.revision > known)
        if complete:
            select_rows = select_rows.where(state.c.body.is_not(None))
            select_uses = select_uses.where(uses.c.left.is_not(None))
        rows = tuple(StateRow(*row) for row in connection.execute(select_rows))
        counts = tuple(Uses(*row) for row in connection.execute(select_uses))
        database.rollback(connection)
    return StateView(revision, complete, rows, counts)


def read_counts(database: Database) -> StateView:
    """Return the counts of all grants, as they were at one moment, without the changes of access."""
    with database.readers.connect() as connection:
        connection.exec_driver_sql(database.begin_snapshot_sql)
        revision: int = connection.execute(sa.select(store.c.revision)).scalar_one()
        select_uses = sa.select(uses.c.grant_id, uses.c.left).where(uses.c.left.is_not(None))
        counts = tuple(Uses(*row) for row in connection.execute(select_uses))
        database.rollback(connection)
    return StateView(revision, complete=True, rows=(), uses=counts)


def find_old_runs(connection: Connection, before: int, among: Sequence[int] | None = None) -> list[tuple[int, str]]:
    """Return number and id of the runs, all or *among* some, whose last event is before, without calls in doubt."""
    of_runs = events.c.run.is_not(None) if among is None else events.c.run.in_(among)
    calls = _select_calls(of_runs)
    in_doubt = sa.select(calls.c.run).where(calls.c.in_doubt == 1)
    wanted = sa.select(runs.c.number, runs.c.run_id).where(runs.c.last < before, runs.c.number.not_in(in_doubt))
    if among is not None:
        wanted = wanted.where(runs.c.number.in_(among))
    return [(int(number), str(name)) for number, name in connection.execute(wanted.order_by(runs.c.number))]
