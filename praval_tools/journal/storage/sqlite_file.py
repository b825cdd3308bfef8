"""Opens the file of a SQLite journal: checks it, creates or migrates it, or refuses it and leaves it as it is."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from sqlalchemy.exc import DBAPIError

from praval_tools.errors import JournalFileError
from praval_tools.journal.storage.file_locks import hold_lock
from praval_tools.journal.storage.migrate import migrate
from praval_tools.journal.storage.sqlite import LOCK_TIMEOUT, SqliteDatabase
from praval_tools.journal.storage.tables import SCHEMA_REVISION, VERSION_TABLE, metadata

APPLICATION_ID: Final = 0x70726A31
"""SQLite's `application_id` of our files."""

_MIN_FILE_SIZE: Final = 512
_OTHER_PATH_FIX: Final = "Give the journal a path of its own"


def get_lock_folder(path: Path) -> Path:
    """Return the folder of the lock files of the journal at *path*."""
    real = path.resolve()  # as SQLite names its log: by the file, not by the link
    return real.with_name(real.name + "-locks")


def prepare_file(path: Path) -> None:
    """
    Create or migrate the file at *path*, where it is a journal or there is none.

    Processes that open one path at the same time do this one after the other.

    Raises:
        JournalFileError: It is something else, damaged, read-only or newer; it is left as it is.
    """
    _check_path(path)
    folder = get_lock_folder(path)
    try:
        _check_content(path)
    except JournalFileError:
        if not folder.exists():  # else somebody may just be creating it: check again when it is our turn
            raise
    try:
        folder.mkdir(exist_ok=True)
        with hold_lock(folder / "open.lock"):
            if not path.exists():
                path.touch()
            _check_content(path)
            _upgrade_file(path)
    except OSError as error:
        raise JournalFileError(str(path), f"it cannot be created ({error})", "Make its folder writable.") from error


def _check_path(path: Path) -> None:
    """Refuse a path at which no file can be created."""
    folder, name = path.absolute().parent, str(path)
    if not folder.is_dir():
        raise JournalFileError(name, f"its folder {str(folder)!r} does not exist", "Create the folder first.")
    if path.is_dir():
        raise JournalFileError(name, "it is a folder", f"{_OTHER_PATH_FIX}, such as {str(path / 'runs.db')!r}.")
    if path.exists() and not path.is_file():
        raise JournalFileError(name, "it is not a regular file", f"{_OTHER_PATH_FIX}.")
    for place in (path, folder):
        if place.exists() and not os.access(place, os.W_OK):
            subject = "it" if place is path else f"its folder {str(folder)!r}"
            raise JournalFileError(name, f"{subject} is read-only", "Make file and folder writable for this user.")


def _check_content(path: Path) -> None:
    """
    Refuse a file that is not a journal of this version or an older one, without writing a byte.

    Opened as immutable, SQLite neither recovers nor locks it; where a log waits beside it, it must be read with it.
    The file is never opened and closed by hand: that would drop the locks of other connections of this process.
    """
    if not path.exists() or not path.stat().st_size:
        return
    name = str(path)
    not_a_database = JournalFileError(name, "it is not a database", f"{_OTHER_PATH_FIX}.")
    if path.stat().st_size < _MIN_FILE_SIZE:  # SQLite takes these for empty
        raise not_a_database
    mode = "mode=ro" if _has_companion_file(path, "-wal") else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)) as connection:
            (owner,) = connection.execute("PRAGMA application_id").fetchone()
            if owner != APPLICATION_ID:
                raise JournalFileError(name, "it is the database of another program", f"{_OTHER_PATH_FIX}.")
            if _has_companion_file(path, "-journal"):  # creating it was interrupted: SQLite undoes that at opening
                return
            _check_schema(connection, name)
            _check_pages(connection, path)
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorname", "")
        if code.startswith("SQLITE_NOTADB"):
            raise not_a_database from error
        raise _make_damaged_error(name, str(error)) from error


def _check_schema(connection: sqlite3.Connection, name: str) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > int(SCHEMA_REVISION):
        problem = f"it was written by a newer praval-tools (schema {version}, this one knows {int(SCHEMA_REVISION)})"
        raise JournalFileError(name, problem, "Upgrade praval-tools, or use another path.")
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    missing = sorted({VERSION_TABLE, *metadata.tables} - tables) if version == int(SCHEMA_REVISION) else []
    if missing:
        raise _make_damaged_error(name, f"without {', '.join(missing)}")


def _check_pages(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a truncated file; what the log still holds may be missing from it."""
    (count,), (size,) = (connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size"))
    actual_size = path.stat().st_size
    if count * size > actual_size and not _has_companion_file(path, "-wal"):
        raise _make_damaged_error(str(path), f"{actual_size} bytes of {count * size}")
    if connection.execute("SELECT seq FROM journal_store").fetchone() is None:
        raise _make_damaged_error(str(path), "its own row is missing")
    connection.execute("SELECT * FROM journal_events ORDER BY seq DESC LIMIT 1").fetchone()


def _has_companion_file(path: Path, suffix: str) -> bool:
    real = path.resolve()
    beside = real.with_name(real.name + suffix)
    return beside.exists() and beside.stat().st_size > 0


def _make_damaged_error(name: str, damage: str) -> JournalFileError:
    return JournalFileError(
        name,
        f"it is damaged ({damage})",
        "Restore it from a backup, or move it and what is beside it away to start anew.",
    )


def _upgrade_file(path: Path) -> None:
    """Migrate in one transaction, then switch to the write-ahead log, which checks that the file can be written."""
    database = SqliteDatabase(path)
    try:
        with database.connect_for_writing() as connection:
            connection.exec_driver_sql(f"PRAGMA busy_timeout={int(LOCK_TIMEOUT * 1_000)}")
            database.begin_write(connection)
            try:
                if connection.exec_driver_sql("PRAGMA user_version").scalar() != int(SCHEMA_REVISION):
                    migrate(connection)
                    connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION_ID}")
                    connection.exec_driver_sql(f"PRAGMA user_version={int(SCHEMA_REVISION)}")
                    database.commit(connection)
            finally:
                database.rollback(connection)
            mode = connection.exec_driver_sql("PRAGMA journal_mode=WAL").scalar()
            if mode != "wal":
                fix = "Put it on a local disk: the write-ahead log needs shared memory."
                raise JournalFileError(str(path), f"its disk allows no write-ahead log (only {mode})", fix)
    except DBAPIError as error:
        meaning = database.translate_error(error)
        raise JournalFileError(str(path), meaning.problem, meaning.fix) from error
