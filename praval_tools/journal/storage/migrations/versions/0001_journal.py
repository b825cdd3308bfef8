"""Create the tables: events, runs, changes of access that hold, counts, and the store's own row."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "journal_runs",
        sa.Column("number", _NUMBER, primary_key=True, autoincrement=False),
        sa.Column("run_id", sa.Text, nullable=False, unique=True),
        sa.Column("length", sa.BigInteger, nullable=False),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "journal_events",
        sa.Column("seq", _NUMBER, primary_key=True, autoincrement=False),
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
    )
    op.create_index("journal_events_call", "journal_events", ["run", "call_id", "attempt"], unique=True)
    op.create_index("journal_events_time", "journal_events", ["time"])
    _create_state_tables()


def _create_state_tables() -> None:
    op.create_table(
        "journal_state",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("source", sa.Text, primary_key=True),
        sa.Column("body", sa.LargeBinary),
        sa.Column("revision", sa.BigInteger, nullable=False),
    )
    op.create_index("journal_state_revision", "journal_state", ["revision"])
    op.create_table(
        "journal_uses",
        sa.Column("grant_id", sa.Text, primary_key=True),
        sa.Column("left", sa.BigInteger),
        sa.Column("revision", sa.BigInteger, nullable=False),
    )
    op.create_index("journal_uses_revision", "journal_uses", ["revision"])
    store = op.create_table(
        "journal_store",
        sa.Column("one", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("forgotten", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(store, [{"one": 1, "seq": 0, "revision": 0, "forgotten": 0}])
