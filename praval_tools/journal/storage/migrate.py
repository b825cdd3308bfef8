"""Brings the tables of a journal's database to the newest version, by Alembic's migrations."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import Connection


def migrate(connection: Connection) -> None:
    """Run the migrations that are missing, inside the caller's transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
