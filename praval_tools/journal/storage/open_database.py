"""Opens the database of a journal, with the leases of its runs: a SQLite file, or a PostgreSQL database."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from praval_tools.errors import MissingExtraError
from praval_tools.journal.storage.database import Database
from praval_tools.journal.storage.leases import FileRunLeases, RunLeases
from praval_tools.journal.storage.sqlite import SqliteDatabase
from praval_tools.journal.storage.sqlite_file import get_lock_folder, prepare_file
from praval_tools.lazy_import import load


def open_database(where: Path | str, lock_timeout: float) -> tuple[Database, RunLeases]:
    """
    Open the database at *where*, the path of a file or a URL; the file is created where there is none.

    Raises:
        JournalFileError: The path cannot hold a journal, or holds something else; it is left as it is.
        JournalError: The server cannot be reached, or the tables are missing or of another version.
        MissingExtraError: The driver is not installed.
        ToolUsageError: The URL cannot be read.
    """
    if isinstance(where, Path):
        prepare_file(where)
        return SqliteDatabase(where, lock_timeout), FileRunLeases(get_lock_folder(where), str(where))
    opened: tuple[Database, RunLeases] = load_postgres().open_postgres(where)
    return opened


def load_postgres(name: str = "postgres_schema") -> ModuleType:
    """
    Import a module beside this one that needs the driver of PostgreSQL.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return load(f"praval_tools.journal.storage.{name}")
    except ModuleNotFoundError as error:
        raise MissingExtraError("A journal in PostgreSQL", "postgres") from error
