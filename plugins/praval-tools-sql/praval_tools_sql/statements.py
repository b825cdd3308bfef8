"""Lists and describes tables, queries and writes, in the process that runs a statement."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, Final
from urllib.parse import quote, quote_plus

from sqlalchemy import Connection, CursorResult, TextClause, inspect, make_url, text
from sqlalchemy.engine.interfaces import ReflectedColumn
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InternalError,
    NoSuchTableError,
    OperationalError,
    SQLAlchemyError,
    StatementError,
)

from praval_tools_sql import postgresql, sqlite
from praval_tools_sql.encoding import Encoder
from praval_tools_sql.protocol import Answer, Problem, Request
from praval_tools_sql.worker import serve_request

_ASK_LESS_FIX: Final = "Ask for less: a smaller range, fewer joins, a LIMIT."
_ONE_STATEMENT_FIX: Final = "Send one statement, correct and complete; sql_tables and sql_describe show what there is."
_LOCK_ERRORS: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_READ_ONLY_FIX: Final = (
    "This tool only reads, with one SELECT; what changes something is for sql_write, which needs approval."
)


def run(request: Request) -> Answer:
    """Do what *request* asks for; its keys are those that `plugin` sends."""
    database = Database(request)
    answer: Answer = getattr(database, request["do"])()
    if request["do"] in ("tables", "describe") and (size := len(json.dumps(answer))) > request["bytes"]:
        problem = f"The answer has {size} bytes, and {request['bytes']} are allowed"
        raise Problem("limit", problem, "Query the catalog of the database for a part of it.")
    return answer


class Database:
    """The database of one request."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._seconds: float = request["timeout"]
        try:
            self._url = make_url(request["url"])
        except (ArgumentError, ValueError):
            fix = "Write it as SQLAlchemy takes it: postgresql://user:password@host/name."
            raise Problem("settings", "The URL of the database cannot be read", fix) from None
        self._backend = self._url.get_backend_name()

    def tables(self) -> Answer:
        """Return the tables and views of a schema."""
        with self._open_connection() as connection:
            found, schema = inspect(connection), self._request["schema"]
            kinds = [("table", found.get_table_names(schema=schema)), ("view", found.get_view_names(schema=schema))]
            names = [{"name": name, "kind": kind} for kind, names in kinds for name in sorted(names)]
            schemas = sorted(found.get_schema_names())
        most = self._request["rows"]
        return {"tables": names[:most], "schemas": schemas[:most], "truncated": max(len(names), len(schemas)) > most}

    def describe(self) -> Answer:
        """Return the columns, keys and indexes of a table."""
        table, schema = self._request["table"], self._request["schema"]
        with self._open_connection() as connection:
            found = inspect(connection)
            try:
                columns, key = found.get_columns(table, schema=schema), found.get_pk_constraint(table, schema=schema)
            except NoSuchTableError:
                names = [*found.get_table_names(schema=schema), *found.get_view_names(schema=schema)]
                near = get_close_matches(table, names, 3, 0.6)
                fix = f"Did you mean {' or '.join(map(repr, near))}?" if near else "sql_tables lists what there is."
                raise Problem("statement", f"There is no table {table[:100]!r}", fix) from None
            foreign = found.get_foreign_keys(table, schema=schema)
            indexes = found.get_indexes(table, schema=schema)
        primary = key.get("constrained_columns") or []
        return {
            "columns": [_describe_column(column, primary) for column in columns],
            "foreign_keys": [
                {
                    "columns": list(one["constrained_columns"]),
                    "table": one["referred_table"],
                    "referred": list(one["referred_columns"]),
                }
                for one in foreign
            ],
            "indexes": [
                {"columns": [str(name) for name in one["column_names"]], "unique": bool(one["unique"])}
                for one in indexes
            ],
        }

    def query(self) -> Answer:
        """Return the rows of a query."""
        with self._open_connection() as connection:
            statement, given = self._bind_parameters()
            if self._backend == "postgresql":
                return self._encode_rows(
                    *postgresql.fetch_rows(connection, statement, given, self._request["rows"] + 1)
                )
            with self._guard_statement(connection, writing=False):
                return self._encode_result(connection.execute(statement, given))

    def write(self) -> Answer:
        """Run a statement that changes something, and commit."""
        with self._open_connection(writing=True) as connection:
            with self._guard_statement(connection, writing=True):
                result = connection.execute(*self._bind_parameters())
                answer = {"affected": max(result.rowcount, 0), "rows": self._encode_result(result)}
            connection.commit()
        return answer

    def _bind_parameters(self) -> tuple[TextClause, dict[str, Any]]:
        """Return the statement and its parameters, which fit together."""
        if "\0" in self._request["sql"]:
            raise Problem(
                "statement", "The statement holds a NUL, where some databases stop reading", _ONE_STATEMENT_FIX
            )
        statement, given = text(self._request["sql"]), self._request["parameters"]
        wanted = set(statement.compile().params)
        if missing := sorted(wanted - set(given)):
            fix = "Give it in parameters; where the colon belongs to a text, write \\: instead."
            raise Problem("statement", f"The statement has a parameter :{missing[0][:60]} without a value", fix)
        if unknown := sorted(set(given) - wanted):
            name = unknown[0][:60]
            fix = f"Write :{name} where it belongs, without quotes around it, or leave it out."
            if f":{name}::" in self._request["sql"]:
                fix = f"A parameter cannot stand directly before '::'; write CAST(:{name} AS …) instead of :{name}::…"
            raise Problem("statement", f"The statement has no parameter :{name}", fix)
        return statement, given

    def _encode_result(self, result: CursorResult[Any]) -> Answer:
        return self._encode_rows(result.keys(), result) if result.returns_rows else self._encode_rows((), ())

    def _encode_rows(self, names: Iterable[str], given: Iterable[Iterable[object]]) -> Answer:
        """Return names and rows as JSON, as many as fit."""
        encoder, most, left = Encoder(self._request["chars"]), self._request["rows"], self._request["bytes"]
        columns = [str(Encoder(200).encode_value(name)) for name in names]
        rows: list[list[object]] = []
        left -= len(json.dumps(columns))
        truncated, cut = False, 0
        for row in given:
            encoded = encoder.encode_row(row) if len(rows) < most else []
            left -= len(json.dumps(encoded)) + 2
            if truncated := left < 0 or len(rows) == most:
                break
            rows.append(encoded)
            cut = encoder.cut_count
        return {"columns": columns, "rows": rows, "truncated": truncated, "cut_values": cut}

    # ── opening ──────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _open_connection(self, *, writing: bool = False) -> Iterator[Connection]:
        connect: Any
        if self._backend == "sqlite":
            connect = sqlite.open_connection(self._url, writing=writing, seconds=self._seconds)
        elif self._backend == "postgresql":
            superuser = self._request["superuser"]
            connect = postgresql.open_connection(self._url, writing=writing, seconds=self._seconds, superuser=superuser)
        else:
            fix = "Use SQLite or PostgreSQL: only there the database itself keeps a query from writing."
            raise Problem("settings", f"The URL is one of {self._backend!r}", fix)
        self._connected = False
        try:
            with connect as connection:
                self._connected = True
                yield connection
        except DBAPIError as error:
            raise self._convert_error(error) from None
        except OverflowError as error:
            raise Problem(
                "statement", f"A parameter is too large: {self._format_error(error)}", "Send it as text."
            ) from None
        except StatementError as error:
            raise Problem("statement", self._format_error(error.orig), _ONE_STATEMENT_FIX) from None
        except SQLAlchemyError as error:
            raise Problem("statement", self._format_error(error), _ONE_STATEMENT_FIX) from None

    @contextmanager
    def _guard_statement(self, connection: Connection, *, writing: bool) -> Iterator[None]:
        if self._backend != "sqlite":
            yield
            return
        guard = sqlite.StatementGuard(writing=writing, seconds=self._seconds)
        try:
            with sqlite.guard_connection(connection, guard, writing=writing):
                yield
        except DBAPIError:
            if guard.timed_out:
                raise self._build_timeout_problem() from None
            if guard.denied:
                why = "Files, settings and transactions are not for statements." if writing else _READ_ONLY_FIX
                raise Problem("refused", f"The statement is refused: {guard.denied}", why) from None
            raise

    def _build_timeout_problem(self) -> Problem:
        return Problem("limit", f"The statement did not end within {self._seconds} s", _ASK_LESS_FIX)

    def _convert_error(self, error: DBAPIError) -> Problem:
        state, said = getattr(error.orig, "sqlstate", None), self._format_error(error.orig)
        if isinstance(error.orig, MemoryError):
            return Problem("limit", "The statement took too much memory", _ASK_LESS_FIX)
        if state == "57014":
            return self._build_timeout_problem()
        if state == "55P03" or getattr(error.orig, "sqlite_errorcode", 0) & 0xFF in _LOCK_ERRORS:
            return Problem("limit", f"Somebody else has a lock: {said}", "Try again later.")
        if state == "25006" or (state == "0A000" and "DECLARE" in said):
            return Problem("refused", f"The statement is refused: {said}", _READ_ONLY_FIX)
        if state == "42501":
            return Problem("refused", f"The statement is refused: {said}", "Ask the operator for the right to do it.")
        if self._connected and self._backend == "postgresql" and state is None:  # the driver, which has no states
            if type(error.orig).__name__ not in ("DataError", "NotSupportedError"):
                return Problem("limit", f"The rows could not be received: {said}", _ASK_LESS_FIX)
            fix = "Cast what Python has no value for: CAST(x AS text)."
            return Problem("statement", f"A value cannot be sent or read: {said}", fix)
        if not self._connected and isinstance(error, OperationalError | InternalError):
            fix = "Ask the operator to check that it runs, the URL, and the rights of the role."
            return Problem("connection", f"The database lets nobody in: {said}", fix)
        return Problem(
            "statement",
            f"The database says: {said}",
            _ONE_STATEMENT_FIX if self._request["do"] == "write" else _READ_ONLY_FIX,
        )

    def _format_error(self, error: BaseException | None) -> str:
        """Return what the database says, without the URL and its password."""
        said = " ".join(str(error).split())
        password = self._url.password or ""
        for secret in (self._request["url"], password, quote(password, safe=""), quote_plus(password)):
            said = said.replace(secret, "***") if secret else said
        return said[:600]


def _describe_column(column: ReflectedColumn, primary: list[str]) -> Answer:
    return {
        "name": column["name"],
        "type": str(column["type"]),
        "nullable": bool(column["nullable"]),
        "default": None if column.get("default") is None else str(column["default"])[:500],
        "primary_key": column["name"] in primary,
    }


if __name__ == "__main__":
    serve_request(run)
