"""The stores that tests run over: in memory, in a SQLite file, in a PostgreSQL database of the test's own."""

from __future__ import annotations

import atexit
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import LiteralString

import pytest

from praval_tools.journal.storage.open_store import is_database_url
from praval_tools.journal.storage.sql_store import SqlStore
from praval_tools.journal.storage.tables import metadata

SERVER = "postgresql://postgres@127.0.0.1:5432"
"""Where a PostgreSQL server is that these tests may make databases on."""


@cache
def find_server_problem() -> str:
    """Return why the server cannot be used; empty where it can."""
    try:
        import psycopg
    except ModuleNotFoundError:
        return "psycopg is not installed: pip install 'praval-tools[postgres]'"
    try:
        psycopg.connect(f"{SERVER}/postgres", connect_timeout=3).close()
    except psycopg.Error as error:
        return f"no PostgreSQL answers at {SERVER}: {str(error).splitlines()[0]}"
    return ""


def execute(url: str, statement: LiteralString, *names: str) -> None:
    """Run one statement, in which *names* stand for the braces."""
    import psycopg
    from psycopg import sql

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


@cache
def get_test_database() -> str:
    """Return the URL of a database for the tests of this process, which is dropped when the process ends."""
    name = f"praval_tools_test_{secrets.token_hex(8)}"
    execute(f"{SERVER}/postgres", "CREATE DATABASE {} TEMPLATE template0", name)
    atexit.register(execute, f"{SERVER}/postgres", "DROP DATABASE {} WITH (FORCE)", name)
    return f"{SERVER}/{name}"


@contextmanager
def make_empty_database() -> Iterator[str]:
    """Yield the URL of an empty schema, which is dropped afterwards; the test is skipped where no server answers."""
    if problem := find_server_problem():
        pytest.skip(problem)
    name = f"test_{secrets.token_hex(8)}"
    execute(get_test_database(), "CREATE SCHEMA {}", name)
    try:
        yield f"{get_test_database()}?options=-csearch_path%3D{name}"
    finally:
        execute(get_test_database(), "DROP SCHEMA {} CASCADE", name)


@contextmanager
def make_database() -> Iterator[str]:
    """Yield the URL of a new schema with the tables of a journal."""
    with make_empty_database() as url:
        from praval_tools.journal.storage.postgres import PostgresDatabase
        from praval_tools.journal.storage.postgres_schema import upgrade_schema

        with closing(PostgresDatabase(url)) as database:
            upgrade_schema(database)
        yield url


def clear_database(url: str) -> str:
    """Make the database at *url* as it was when it was made, and return the URL."""
    for table in set(metadata.tables) - {"journal_store"}:
        execute(url, "DELETE FROM {}", table)
    execute(url, "UPDATE journal_store SET seq = 0, revision = 0, forgotten = 0")
    return url


def open_sql_store(where: Path | str) -> SqlStore:
    """Open the store in a file, or at the URL of a database."""
    return SqlStore(str(where) if is_database_url(where) else Path(where))


@contextmanager
def make_location(kind: str, folder: Path) -> Iterator[Path | str]:
    """Yield where a new journal is kept: `memory`, a file in *folder*, or the URL of a database."""
    if kind == "postgres":
        with make_database() as url:
            yield url
    else:
        yield "memory" if kind == "memory" else folder / "runs.db"


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path | str]:
    """Where a new journal is that several processes share."""
    with make_location(request.param, tmp_path) as where:
        yield where
