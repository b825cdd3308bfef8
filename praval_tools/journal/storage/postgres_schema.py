"""Opens a PostgreSQL journal whose tables are of this version, and upgrades those of an older one."""

from __future__ import annotations

from typing import Final

from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from praval_tools.errors import JournalError
from praval_tools.journal.storage.migrate import migrate
from praval_tools.journal.storage.postgres import PostgresDatabase, write_upgrade_command
from praval_tools.journal.storage.postgres_leases import PostgresRunLeases
from praval_tools.journal.storage.tables import SCHEMA_REVISION, VERSION_TABLE

_UPGRADE_LOCK: Final = 0x70726A31
"""The advisory lock under which one process after the other upgrades a database."""


def open_postgres(url: str) -> tuple[PostgresDatabase, PostgresRunLeases]:
    """
    Open the database at *url*, with the leases of its runs.

    Raises:
        JournalError: It cannot be reached, or its tables are missing or of another version.
        ToolUsageError: The URL cannot be read.
    """
    database = PostgresDatabase(url)
    version = read_schema_version(database)
    if version != SCHEMA_REVISION:
        problem, fix = _describe_version(database.name, version)
        database.close()
        raise JournalError(database.name, problem, fix)
    return database, PostgresRunLeases(database)


def _describe_version(name: str, version: str | None) -> tuple[str, str]:
    """Return what is wrong with a version of the tables, and the fix."""
    fix = f"Run: {write_upgrade_command(name)}"
    if version is None:
        return "the database has no tables of a journal", fix
    if version > SCHEMA_REVISION:
        newer = f"its tables are of a newer praval-tools (version {version}, this one knows {SCHEMA_REVISION})"
        return newer, "Upgrade praval-tools, or use another database."
    return f"its tables are of an older version ({version}; this praval-tools needs {SCHEMA_REVISION})", fix


def read_schema_version(database: PostgresDatabase) -> str | None:
    """Return the version of a database's tables; None: it has none."""
    try:
        with database.readers.connect() as connection:
            return _read_version(connection)
    except SQLAlchemyError as error:
        raise database.translate_error(error) from error


def _read_version(connection: Connection) -> str | None:
    if connection.exec_driver_sql("SELECT to_regclass(%s)", (VERSION_TABLE,)).scalar() is None:
        return None
    version = connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalar()  # noqa: S608  # our own name
    return None if version is None else str(version)


def upgrade_schema(database: PostgresDatabase) -> str | None:
    """
    Create the tables, or bring them to this version, all or nothing.

    Returns:
        The version that they had before; None: there were none.

    Raises:
        JournalError: The database cannot be reached, or its tables are of a newer version.
    """
    try:
        with database.readers.connect() as connection:
            database.begin_write(connection)
            try:
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (_UPGRADE_LOCK,))
                version = _read_version(connection)
                if version is not None and version > SCHEMA_REVISION:
                    raise JournalError(database.name, *_describe_version(database.name, version))
                if version != SCHEMA_REVISION:
                    migrate(connection)
                    database.commit(connection)
            finally:
                database.rollback(connection)
    except SQLAlchemyError as error:
        raise database.translate_error(error) from error
    return version
