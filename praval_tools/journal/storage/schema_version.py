"""The version of the tables of a journal, in a file or a database: reads it, and upgrades the tables."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from praval_tools.journal.storage.open_database import load_postgres
from praval_tools.journal.storage.sqlite_file import prepare_file
from praval_tools.journal.storage.tables import SCHEMA_REVISION

__all__ = ["SCHEMA_REVISION", "read_tables_version", "upgrade_tables"]


def read_tables_version(where: Path | str) -> str | None:
    """
    Return the version of the tables of the file or the database at *where*; None: there are none.

    Raises:
        JournalError: It cannot be read.
    """
    if isinstance(where, Path):
        return _read_file_version(where)
    postgres = load_postgres()
    with closing(postgres.PostgresDatabase(where)) as database:
        version: str | None = postgres.read_schema_version(database)
        return version


def _read_file_version(path: Path) -> str | None:
    if not path.exists():
        return None
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return f"{version:04}" if version else None


def upgrade_tables(where: Path | str) -> str | None:
    """
    Make the tables of the file or the database at *where*, or bring them to this version; return that of before.

    Raises:
        JournalError: It cannot be written, or is of a newer version.
    """
    if isinstance(where, Path):
        before = _read_file_version(where)
        prepare_file(where)
        return before
    postgres = load_postgres()
    with closing(postgres.PostgresDatabase(where)) as database:
        version: str | None = postgres.upgrade_schema(database)
        return version
