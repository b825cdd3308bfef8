"""Runs the migrations over the connection that the caller passes, inside the caller's transaction."""

from __future__ import annotations

from alembic import context

from praval_tools.journal.storage.tables import VERSION_TABLE, metadata

if context.is_offline_mode():
    context.configure(
        url=context.config.get_main_option("sqlalchemy.url"),
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        literal_binds=True,
    )
else:
    context.configure(
        connection=context.config.attributes["connection"], target_metadata=metadata, version_table=VERSION_TABLE
    )

with context.begin_transaction():
    context.run_migrations()
