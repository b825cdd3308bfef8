"""PostgreSQL: a read-only transaction, by a role that it holds back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import URL, Connection, NullPool, TextClause, create_engine, text
from sqlalchemy.exc import DBAPIError

from praval_tools_sql.protocol import Problem

_PRIVILEGED_ROLES: Final = (
    "pg_read_server_files",
    "pg_write_server_files",
    "pg_execute_server_program",
    "pg_signal_backend",
)

_SET_CONFIG_QUERY: Final = text(
    """
    SELECT set_config(name, value, true) FROM pg_catalog.pg_settings
    JOIN unnest(CAST(:names AS text[]), CAST(:given AS text[])) AS wanted (name, value) USING (name)
    """
)
"""Sets what this version of the server knows."""

_ROLE_QUERY: Final = text(
    """
    SELECT session_user, EXISTS (SELECT FROM pg_catalog.pg_roles
        WHERE rolsuper AND pg_catalog.pg_has_role(session_user, oid, 'MEMBER')),
    EXISTS (SELECT FROM pg_catalog.pg_roles
        WHERE rolreplication AND pg_catalog.pg_has_role(session_user, oid, 'MEMBER')),
    ARRAY(SELECT rolname FROM pg_catalog.pg_roles
        WHERE rolname = ANY(:strong) AND pg_catalog.pg_has_role(session_user, oid, 'MEMBER'))
    """
)


def _read_json(data: str | bytes) -> Any:
    """Return a value of JSON; a whole number beyond 64 bits as text: Python reads none of more than 4300 digits."""
    return json.loads(data, parse_int=lambda digits: int(digits) if len(digits) < 20 else digits)


@contextmanager
def open_connection(url: URL, *, writing: bool, seconds: float, superuser: bool) -> Iterator[Connection]:
    """Open the database, read-only unless *writing*; nothing is kept that is not committed."""
    driven = url.set(drivername="postgresql+psycopg")
    arguments: dict[str, Any] = {"connect_timeout": max(2, int(seconds)), "prepare_threshold": 0}
    try:
        engine = create_engine(driven, poolclass=NullPool, connect_args=arguments, json_deserializer=_read_json)
    except ImportError as error:
        fix = "Install it: pip install 'praval-tools-sql[postgresql]'."
        raise Problem("settings", "The driver for PostgreSQL, psycopg, is missing", fix) from error
    with engine.connect() as connection:
        connection = connection.execution_options(postgresql_readonly=not writing)
        _set_timeouts(connection, seconds)
        if not writing and connection.execute(text("SHOW transaction_read_only")).scalar() != "on":
            fix = "Ask for a direct connection, not one through a proxy that changes transactions."
            raise Problem("refused", "The database did not begin a read-only transaction", fix)
        if not superuser:
            _check_role(connection)
        yield connection


def fetch_rows(
    connection: Connection, statement: TextClause, given: dict[str, Any], most: int
) -> tuple[list[str], list[Any]]:
    """
    Return the names of the columns, and at most *most* rows.

    The statement becomes a cursor, which takes one SELECT only, and all rows come by one FETCH: the time-out was set
    before it began, so that the statement cannot lift it for rows to come. SQLAlchemy's own results fetch bit by bit.
    """
    compiled, raw = statement.compile(dialect=connection.dialect), connection.connection.driver_connection
    driver: Any = connection.dialect.dbapi
    assert raw is not None
    try:
        with raw.cursor(name="praval_tools") as cursor:
            cursor.execute(str(compiled), given)
            rows = cursor.fetchmany(most)
            return [column.name for column in cursor.description], rows
    except driver.Error as error:
        raise DBAPIError(None, None, error) from error


def _set_timeouts(connection: Connection, seconds: float) -> None:
    time = f"{max(1, int(seconds * 1000))}ms"
    wanted = {
        "statement_timeout": time,
        "lock_timeout": time,
        "idle_in_transaction_session_timeout": f"{int(seconds * 1000) + 5_000}ms",
        "client_connection_check_interval": "1s",  # from 14 on: a killed client ends its statement
        "max_parallel_workers_per_gather": "0",
    }
    connection.execute(_SET_CONFIG_QUERY, {"names": list(wanted), "given": list(wanted.values())})


def _check_role(connection: Connection) -> None:
    """Refuse a role that could do what no transaction holds back: read files, run programs, replicate, end sessions."""
    who, superuser, replication, strong = connection.execute(_ROLE_QUERY, {"strong": list(_PRIVILEGED_ROLES)}).one()
    if superuser:
        what = "a superuser"
    elif replication:
        what = "one with REPLICATION (or a member of one)"
    elif strong:
        what = f"a member of {', '.join(strong)}"
    else:
        return
    fix = (
        "Create a role that may only select (CREATE ROLE reader LOGIN; GRANT pg_read_all_data TO reader), "
        "or set allow_superuser = true if you accept that."
    )
    raise Problem("refused", f"The role {who!r} is {what}, which a read-only transaction does not hold back", fix)
