"""Defines the tables of the journal's database, and compiles the statements of the writer."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

SCHEMA_REVISION: Final = "0005"
"""The revision of the schema that this version reads and writes: the head of the migrations."""

VERSION_TABLE: Final = "journal_version"
"""The table in which Alembic keeps the revision; a host may have migrations of its own beside ours."""

metadata: Final = sa.MetaData()

_BIG_INTEGER: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

runs: Final = sa.Table(
    "journal_runs",
    metadata,
    # the number of its first record in the store
    sa.Column("number", _BIG_INTEGER, primary_key=True, autoincrement=False),
    sa.Column("run_id", sa.Text, nullable=False, unique=True),
    sa.Column("length", sa.BigInteger, nullable=False),
    sa.Column("first", sa.BigInteger, nullable=False),
    sa.Column("last", sa.BigInteger, nullable=False),
)
events: Final = sa.Table(
    "journal_events",
    metadata,
    sa.Column("seq", _BIG_INTEGER, primary_key=True, autoincrement=False),
    sa.Column("run", sa.BigInteger),
    sa.Column("run_seq", sa.BigInteger),
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("call_id", sa.Text),
    sa.Column("attempt", sa.Integer),
    sa.Column("agent", sa.Text),
    sa.Column("tool", sa.Text),
    sa.Column("time", sa.BigInteger, nullable=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("process", sa.Text, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    # the run first: random ids of calls then touch the few pages of the runs at work, not the whole index;
    # it also serves reading a run: one more index by run_seq would cost a fifth of the writer's speed
    sa.Index("journal_events_call", "run", "call_id", "attempt", unique=True),
    sa.Index("journal_events_time", "time"),
)
state: Final = sa.Table(
    "journal_state",
    metadata,
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("body", sa.LargeBinary),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Index("journal_state_revision", "revision"),
)
uses: Final = sa.Table(
    "journal_uses",
    metadata,
    sa.Column("grant_id", sa.Text, primary_key=True),
    sa.Column("left", sa.BigInteger),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Index("journal_uses_revision", "revision"),
)
store: Final = sa.Table(
    "journal_store",
    metadata,
    sa.Column("one", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("forgotten", sa.BigInteger, nullable=False),
)
tokens: Final = sa.Table(
    "journal_tokens",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("salt", sa.LargeBinary, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("created", sa.BigInteger, nullable=False),
    sa.Column("expires", sa.BigInteger),
    sa.Column("role", sa.Text, nullable=False, server_default="agent"),
)
leases: Final = sa.Table(
    "journal_leases",
    metadata,
    sa.Column("run_id", sa.Text, primary_key=True),
    # of the lease that opened the run last; where processes share a file, they lock files instead
    sa.Column("token", sa.Text, nullable=False),
    sa.Column("holder", sa.Text, nullable=False),
)
worker_calls: Final = sa.Table(
    "journal_worker_calls",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("request", sa.LargeBinary, nullable=False),
    sa.Column("answer", sa.LargeBinary),
    # how often a worker began it; the number of an attempt keeps one that came before from ending it
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("max_attempts", sa.Integer, nullable=False),
    sa.Column("worker", sa.Text, nullable=False),
    sa.Column("lease_until", sa.BigInteger, nullable=False),
    sa.Column("created", sa.BigInteger, nullable=False),
    # no worker begins it later: its caller may be gone, and cannot say so
    sa.Column("start_by", sa.BigInteger, nullable=False),
)


class Statements:
    """
    The statements of the writer, compiled once for a dialect with positional parameters.

    The names beside a statement are its parameters, in order.
    """

    def __init__(self, dialect: Dialect) -> None:
        def compile_statement(statement: sa.ClauseElement, *names: str) -> str:
            compiled = statement.compile(dialect=dialect)
            parameters = tuple(getattr(compiled, "positiontup", None) or ())
            if parameters != names:
                raise AssertionError(f"{compiled} takes {parameters}, not {names}")
            return str(compiled)

        bind = sa.bindparam
        self.lock_store = compile_statement(sa.select(store.c.seq, store.c.revision).with_for_update())
        self.update_store = compile_statement(sa.update(store).values(seq=bind("s"), revision=bind("r")), "s", "r")
        self.insert_event = compile_statement(sa.insert(events), *events.c.keys())
        run = sa.select(runs.c.number, runs.c.length).where(runs.c.run_id == bind("i"))
        self.select_run = compile_statement(run, "i")
        self.insert_run = compile_statement(sa.insert(runs), *runs.c.keys())
        last = sa.case((runs.c.last < bind("t"), bind("u")), else_=runs.c.last)  # clocks differ
        extended_run = sa.update(runs).values(length=bind("l"), last=last).where(runs.c.number == bind("n"))
        self.update_run = compile_statement(extended_run, "l", "t", "u", "n")
        attempts = sa.select(events, runs.c.run_id).join(runs, runs.c.number == events.c.run).order_by(events.c.seq)
        of_call = (runs.c.run_id == bind("r"), events.c.call_id == bind("c"), events.c.attempt.is_not(None))
        self.select_attempts = compile_statement(attempts.where(*of_call), "r", "c")
        found = sa.select(events, runs.c.run_id).join(runs, runs.c.number == events.c.run, isouter=True)
        is_event = (events.c.time == bind("t"), events.c.id == bind("i"))
        self.select_event = compile_statement(found.where(*is_event), "t", "i")
        self.select_lease = compile_statement(sa.select(leases.c.token).where(leases.c.run_id == bind("i")), "i")
        spent = sa.update(uses).values(left=uses.c.left - bind("n"))
        has_left = uses.c.left >= bind("m")
        self.spend_uses = compile_statement(spent.where(uses.c.grant_id == bind("g"), has_left), "n", "g", "m")
        is_row = (state.c.kind == bind("k"), state.c.key == bind("n"), state.c.source == bind("s"))
        self.delete_state_row = compile_statement(sa.delete(state).where(*is_row), "k", "n", "s")
        self.insert_state_row = compile_statement(sa.insert(state), *state.c.keys())
        self.delete_uses = compile_statement(sa.delete(uses).where(uses.c.grant_id == bind("g")), "g")
        self.insert_uses = compile_statement(sa.insert(uses), *uses.c.keys())
