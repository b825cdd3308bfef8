"""Tell the tokens of agents from those of people who use the operator's page."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; the tokens that are there are those of agents."""
    op.add_column("journal_tokens", sa.Column("role", sa.Text, nullable=False, server_default="agent"))
