"""Reading: in pages by key, each a transaction of its own, so that a slow reader keeps nothing from anybody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from praval_tools.journal.storage.database import Database
from praval_tools.journal.storage.protocol import Record, RunInfo, StateRow, StateView, Uses
from praval_tools.journal.storage.rows import from_microseconds, row_to_record, to_microseconds
from praval_tools.journal.storage.tables import events, runs, state, store, uses

_PAGE_SIZE: Final = 1_000
_SEQ_PAGE_SIZE: Final = 100_000
_LOOKUP_SIZE: Final = 500
_DENSITY_THRESHOLD: Final = 2
"""Of so many records in a row one is wanted, or more: then all of them are looked through."""
_SELECT_RECORDS: Final = sa.select(events, runs.c.run_id).join(runs, runs.c.number == events.c.run, isouter=True)


class RecordFilter(msgspec.Struct, frozen=True):
    """What is read; see `Store.read`."""

    run_id: str | None
    call_id: str | None
    agent: str | None
    tool: str | None
    type: str | None
    since: datetime | None
    until: datetime | None
    after_seq: int


def iter_records(database: Database, wanted: RecordFilter) -> Iterator[Record]:
    """Yield the records that are wanted, up to what is there now."""
    readers = database.readers
    with readers.connect() as connection:
        end, last = connection.execute(sa.select(store.c.seq)).scalar_one(), wanted.after_seq
        if wanted.since is not None or wanted.until is not None:
            first, latest = connection.execute(_select_time_bounds(wanted)).one()
            if first is None:
                return
            end, last = min(end, latest), max(last, first - 1)
    if wanted.run_id is None and wanted.call_id is None:
        yield from _scan_store(readers, wanted, last, end)
    else:
        yield from _scan_call_index(database, wanted, last, end)


def count_records(readers: Engine) -> int:
    """Return how many records there are."""
    with readers.connect() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(events)).scalar_one())


def _scan_store(readers: Engine, wanted: RecordFilter, last: int, end: int) -> Iterator[Record]:
    page = _SELECT_RECORDS.where(*_build_conditions(wanted), events.c.seq > sa.bindparam("last"), events.c.seq <= end)
    page = page.order_by(events.c.seq).limit(_PAGE_SIZE)
    while True:
        with readers.connect() as connection:
            found = connection.execute(page, {"last": last}).all()
        for one in found:
            yield row_to_record(one)
        if len(found) < _PAGE_SIZE:
            return
        last = found[-1][0]


def _scan_call_index(database: Database, wanted: RecordFilter, last: int, end: int) -> Iterator[Record]:
    """Look up the places in the index of calls, which has no order of time, and then the records."""
    readers = database.readers
    places = sa.select(events.c.seq).where(events.c.seq > sa.bindparam("last"), events.c.seq <= end)
    if wanted.run_id is not None:
        places = places.where(events.c.run == _select_run_number(wanted.run_id))
    if wanted.call_id is not None:
        places = places.where(events.c.call_id == wanted.call_id)
    places = places.order_by(events.c.seq).limit(_SEQ_PAGE_SIZE)
    # one parameter for all places: hundreds of them cost more than what they find
    listed = sa.text(database.list_seqs_sql)
    page = _SELECT_RECORDS.where(*_build_conditions(wanted), events.c.seq.in_(listed)).order_by(events.c.seq)
    stretch = _select_seq_range(wanted)
    while True:
        with readers.connect() as connection:
            found = connection.execute(places, {"last": last}).scalars().all()
        for at in range(0, len(found), _LOOKUP_SIZE):
            some = found[at : at + _LOOKUP_SIZE]
            with readers.connect() as connection:
                if some[-1] - some[0] < _DENSITY_THRESHOLD * len(some):
                    rows = connection.execute(stretch, {"first": some[0], "until": some[-1]}).all()
                else:
                    rows = connection.execute(page, {"places": msgspec.json.encode(some).decode()}).all()
            for one in rows:
                yield row_to_record(one)
        if len(found) < _SEQ_PAGE_SIZE:
            return
        last = found[-1]


def _select_run_number(run_id: str) -> sa.ScalarSelect[int]:
    return sa.select(runs.c.number).where(runs.c.run_id == run_id).scalar_subquery()


def _select_seq_range(wanted: RecordFilter) -> sa.Select[Any]:
    """Ask for the records between two places, which is cheaper than one by one where most of them are wanted."""
    none: sa.ColumnElement[int] = sa.literal_column("0")
    within = _SELECT_RECORDS.where(
        *_build_conditions(wanted), events.c.seq.between(sa.bindparam("first"), sa.bindparam("until"))
    )
    if wanted.run_id is not None:
        within = within.where(events.c.run + none == _select_run_number(wanted.run_id))  # not by the index of the run
    if wanted.call_id is not None:
        within = within.where(events.c.call_id == wanted.call_id)
    return within.order_by(events.c.seq)


def _select_time_bounds(wanted: RecordFilter) -> sa.Select[Any]:
    """Ask for the first and last place in a time: clocks differ, so that times are only nearly in order."""
    return sa.select(sa.func.min(events.c.seq), sa.func.max(events.c.seq)).where(*_build_time_conditions(wanted))


def _build_time_conditions(wanted: RecordFilter) -> list[sa.ColumnElement[bool]]:
    found: list[sa.ColumnElement[bool]] = []
    if wanted.since is not None:
        found.append(events.c.time >= to_microseconds(wanted.since))
    if wanted.until is not None:
        found.append(events.c.time < to_microseconds(wanted.until))
    return found


def _build_conditions(wanted: RecordFilter) -> list[sa.ColumnElement[bool]]:
    same = {"agent": wanted.agent, "tool": wanted.tool, "type": wanted.type}
    return _build_time_conditions(wanted) + [events.c[name] == one for name, one in same.items() if one is not None]


def _select_calls(of_runs: sa.ColumnElement[bool]) -> sa.Subquery:
    """Ask for each call that began in some runs, and whether it is in doubt; the index of calls answers alone."""
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
            found = connection.execute(page, {"last": last}).all()
            if not found:
                return
            ends = {"first": found[0].number, "last": found[-1].number}
            counted = {run: (int(began), int(doubtful)) for run, began, doubtful in connection.execute(counts, ends)}
        for number, name, _, began_at, ended_at in found:
            yield RunInfo(name, from_microseconds(began_at), from_microseconds(ended_at), *counted.get(number, (0, 0)))
        last = found[-1].number


def read_state(database: Database, since: int) -> StateView:
    """Return the acts and counts after revision *since*, as they were at one moment."""
    with database.readers.connect() as connection:
        connection.exec_driver_sql(database.begin_snapshot_sql)
        _, _, revision, forgotten = connection.execute(sa.select(store)).one()
        complete = since <= 0 or since < forgotten or since > revision
        known = 0 if complete else since
        rows, counts = sa.select(state).where(state.c.revision > known), sa.select(uses).where(uses.c.revision > known)
        if complete:
            rows, counts = rows.where(state.c.body.is_not(None)), counts.where(uses.c.left.is_not(None))
        found: Any = connection.execute(rows.order_by(state.c.revision)).all()
        counted: Any = connection.execute(counts).all()
        database.rollback(connection)
    return StateView(
        revision,
        complete,
        tuple(StateRow(kind, key, source, body, at) for kind, key, source, body, at in found),
        tuple(Uses(grant, left) for grant, left, _ in counted),
    )


def find_old_runs(connection: Connection, before: int, among: Sequence[int] | None = None) -> list[tuple[int, str]]:
    """Return number and id of the runs, all or *among* some, whose last event is before, without calls in doubt."""
    some = events.c.run.is_not(None) if among is None else events.c.run.in_(among)
    calls = _select_calls(some)
    doubtful = sa.select(calls.c.run).where(calls.c.in_doubt == 1)
    wanted = sa.select(runs.c.number, runs.c.run_id).where(runs.c.last < before, runs.c.number.not_in(doubtful))
    if among is not None:
        wanted = wanted.where(runs.c.number.in_(among))
    return [(int(number), str(name)) for number, name in connection.execute(wanted.order_by(runs.c.number))]
