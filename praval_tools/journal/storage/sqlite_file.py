"""The file of a SQLite journal: found to be ours, or refused and left as it is; made; brought up to date."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from praval_tools.errors import JournalError, JournalFileError
from praval_tools.journal.storage.file_locks import turn
from praval_tools.journal.storage.sqlite import PATIENCE, SqliteDatabase
from praval_tools.journal.storage.tables import SCHEMA, VERSIONS, metadata

APPLICATION: Final = 0x70726A31
"""SQLite's `application_id` of our files."""

_SMALLEST: Final = 512
_ELSEWHERE: Final = "Give the journal a path of its own"


def locks_beside(path: Path) -> Path:
    """Return the folder of the lock files of the journal at *path*."""
    real = path.resolve()  # as SQLite names its log: by the file, not by the link
    return real.with_name(real.name + "-locks")


def prepare(path: Path) -> None:
    """
    Make the file at *path* a journal of this version, where it is one or there is none.

    Processes that open one path at once do this one after the other.

    Raises:
        JournalFileError: It is something else, damaged, read-only or newer; nothing was changed.
    """
    _see_place(path)
    folder = locks_beside(path)
    try:
        _see_content(path)
    except JournalFileError:
        if not folder.exists():  # else somebody may just be making it: look again when it is our turn
            raise
    try:
        folder.mkdir(exist_ok=True)
        with turn(folder / "open.lock"):
            if not path.exists():
                path.touch()
            _see_content(path)
            _bring_up_to_date(path)
    except OSError as error:
        raise JournalFileError(str(path), f"it cannot be made ({error})", "Make its folder writable.") from error


def _see_place(path: Path) -> None:
    """Refuse a path at which no file can be."""
    folder, name = path.absolute().parent, str(path)
    if not folder.is_dir():
        raise JournalFileError(name, f"its folder {str(folder)!r} does not exist", "Create the folder first.")
    if path.is_dir():
        raise JournalFileError(name, "it is a folder", f"{_ELSEWHERE}, such as {str(path / 'runs.db')!r}.")
    if path.exists() and not path.is_file():
        raise JournalFileError(name, "it is no regular file", f"{_ELSEWHERE}.")
    for place in (path, folder):
        if place.exists() and not os.access(place, os.W_OK):
            what = "it" if place is path else f"its folder {str(folder)!r}"
            raise JournalFileError(name, f"{what} is read-only", "Make file and folder writable for this user.")


def _see_content(path: Path) -> None:
    """
    Refuse a file that is not ours, without writing a byte.

    Opened as immutable, SQLite neither recovers nor locks it; where a log waits beside it, it must be read with it.
    The file is never opened and closed by hand: that would drop the locks of other connections of this process.
    """
    if not path.exists() or not path.stat().st_size:
        return
    name = str(path)
    if path.stat().st_size < _SMALLEST:  # SQLite takes these for empty
        raise JournalFileError(name, "it is no journal and no database at all", f"{_ELSEWHERE}.")
    how = "mode=ro" if _has_bytes(path, "-wal") else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True)) as connection:
            (owner,) = connection.execute("PRAGMA application_id").fetchone()
            if owner != APPLICATION:
                raise JournalFileError(name, "it is the database of another program", f"{_ELSEWHERE}.")
            if _has_bytes(path, "-journal"):  # killed while it was made: SQLite undoes that when it is opened
                return
            _see_schema(connection, name)
            _see_pages(connection, path)
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorname", "")
        if code.startswith("SQLITE_NOTADB"):
            raise JournalFileError(name, "it is no journal and no database at all", f"{_ELSEWHERE}.") from error
        raise _damaged(name, str(error)) from error


def _see_schema(connection: sqlite3.Connection, name: str) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > int(SCHEMA):
        problem = f"it was written by a newer praval-tools (schema {version}, this one knows {int(SCHEMA)})"
        raise JournalFileError(name, problem, "Upgrade praval-tools, or use another path.")
    there = {one for (one,) in connection.execute("SELECT name FROM sqlite_master")}
    missing = sorted({VERSIONS, *metadata.tables} - there) if version == int(SCHEMA) else []
    if missing:
        raise _damaged(name, f"without {', '.join(missing)}")


def _see_pages(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that was cut; what the log still holds may be missing from it."""
    (pages,), (size,) = (connection.execute(f"PRAGMA {what}").fetchone() for what in ("page_count", "page_size"))
    there = path.stat().st_size
    if pages * size > there and not _has_bytes(path, "-wal"):
        raise _damaged(str(path), f"{there} bytes of {pages * size}")
    if connection.execute("SELECT seq FROM journal_store").fetchone() is None:
        raise _damaged(str(path), "its own row is missing")
    connection.execute("SELECT * FROM journal_events ORDER BY seq DESC LIMIT 1").fetchone()


def _has_bytes(path: Path, suffix: str) -> bool:
    real = path.resolve()
    beside = real.with_name(real.name + suffix)
    return beside.exists() and beside.stat().st_size > 0


def _damaged(name: str, how: str) -> JournalFileError:
    return JournalFileError(
        name, f"it is damaged ({how})", "Restore it from a backup, or move it and what is beside it away to start anew."
    )


def _bring_up_to_date(path: Path) -> None:
    """Migrate in one transaction, then switch to the write-ahead log; see that it can be written."""
    database = SqliteDatabase(path)
    try:
        with database.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA busy_timeout={int(PATIENCE * 1_000)}")
            database.begin(connection)
            try:
                if connection.exec_driver_sql("PRAGMA user_version").scalar() != int(SCHEMA):
                    _migrate(connection)
            finally:
                database.rollback(connection)
            mode = connection.exec_driver_sql("PRAGMA journal_mode=WAL").scalar()
            if mode != "wal":
                fix = "Put it on a local disk: the write-ahead log needs shared memory."
                raise JournalFileError(str(path), f"its disk allows no write-ahead log (only {mode})", fix)
    except DBAPIError as error:
        meant: JournalError = database.error(error)
        raise JournalFileError(str(path), meant.problem, meant.fix) from error


def _migrate(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION}")
    connection.exec_driver_sql(f"PRAGMA user_version={int(SCHEMA)}")
    connection.exec_driver_sql("COMMIT")
