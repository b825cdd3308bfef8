"""The PostgreSQL database of a journal: connections, how groups are written, and the meaning of its errors."""

from __future__ import annotations

import os
import shlex
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast
from urllib.parse import quote

import psycopg
from msgspec.structs import replace
from psycopg.abc import Buffer
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from psycopg.types.string import StrDumper, TextLoader
from sqlalchemy import create_engine
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, QueuePool

from praval_tools.errors import JournalError, ToolUsageError
from praval_tools.journal.storage.group_commit import RunCounters, WriteGroup
from praval_tools.journal.storage.rows import RUN_COLUMN
from praval_tools.journal.storage.tables import events

CHANNEL_PREFIX: Final = "praval_tools_journal_"
"""Begins the name of the channel on which changes of state are notified; the name of the schema follows."""

DriverConnection: TypeAlias = psycopg.Connection[TupleRow]

_DEFAULT_PARAMETERS: Final[dict[str, str | int]] = {
    "connect_timeout": 10, "application_name": "praval-tools", "keepalives_idle": 20,
}  # fmt: skip
"""What the parameters of a connection are where the URL does not say."""

_SESSION_SQL: Final = """
    SET synchronous_commit = off; SET lock_timeout = '20s'; SET idle_in_transaction_session_timeout = '60s';
    SET tcp_keepalives_idle = 20; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3
"""
"""
Transactions wait for the log in a step of their own (`commit`), when they hold no lock any more; a process or a host
that stands still keeps neither the store's row nor a lease for long.
"""

_WAIT_FOR_LOG_SQL: Final = (
    "SELECT set_config('synchronous_commit', %s, true), pg_logical_emit_message(true, 'praval_tools', '')"
)
"""A transaction that is durable only when all before it are, this connection's own and those that it has seen."""

_COLUMN_TYPES: Final = {"BIGINT": "bigint", "INTEGER": "bigint", "TEXT": "text", "BYTEA": "bytea", "BLOB": "bytea"}
_EVENT_COLUMNS: Final = {column.name: _COLUMN_TYPES[str(column.type)] for column in events.c}
_SHIFTS: Final = {"seq": "e.seq + seq_shift", "run_seq": "e.run_seq + r.run_shift"}
_GROUP_PROCEDURE: Final = f"""
CREATE PROCEDURE pg_temp.insert_journal_group(
    first_seq bigint, last_seq bigint, known_revision bigint, lease_runs text[], lease_tokens text[],
    run_numbers bigint[], run_lengths bigint[], run_growths bigint[], run_times bigint[],
    {", ".join(f"event_{name} {kind}[]" for name, kind in _EVENT_COLUMNS.items())},
    durability text, INOUT shifts bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    known journal_store;
    seq_shift bigint;
    run_shifts bigint[];
BEGIN
    SELECT * INTO STRICT known FROM journal_store FOR UPDATE;
    IF known.revision <> known_revision OR EXISTS (
        SELECT FROM unnest(lease_runs, lease_tokens) l (run_id, token)
            LEFT JOIN journal_leases USING (run_id) WHERE journal_leases.token IS DISTINCT FROM l.token
    ) THEN
        RAISE EXCEPTION 'the state or a lease has changed';
    END IF;
    seq_shift := known.seq + 1 - first_seq;
    UPDATE journal_store SET seq = last_seq + seq_shift;
    WITH grown AS (
        UPDATE journal_runs SET length = journal_runs.length + r.growth, last = greatest(last, r.time)
            FROM unnest(run_numbers, run_lengths, run_growths, run_times) r (number, length, growth, time)
            WHERE journal_runs.number = r.number RETURNING r.number, journal_runs.length - r.length AS run_shift
    )
    SELECT array_agg(grown.run_shift ORDER BY r.at) INTO run_shifts
        FROM unnest(run_numbers) WITH ORDINALITY r (number, at) LEFT JOIN grown USING (number);
    IF array_position(run_shifts, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'a run was deleted';
    END IF;
    INSERT INTO journal_events ({", ".join(_EVENT_COLUMNS)})
        SELECT {", ".join(_SHIFTS.get(name, f"e.{name}") for name in _EVENT_COLUMNS)}
        FROM unnest({", ".join(f"event_{name}" for name in _EVENT_COLUMNS)}) e ({", ".join(_EVENT_COLUMNS)})
        LEFT JOIN unnest(run_numbers, run_shifts) r (number, run_shift) ON r.number = e.run;
    COMMIT;
    PERFORM set_config('synchronous_commit', durability, true), pg_logical_emit_message(true, 'praval_tools', '');
    shifts := seq_shift || run_shifts;
END $$
"""  # noqa: S608  # the names of our own columns
"""
Writes a group under the store's lock, renumbered by what others wrote meanwhile, without a step back to this process.

Each statement of the procedure sees what was committed before it began, so those after the lock see all. After the
commit it waits for the log, as `_WAIT_FOR_LOG_SQL` does.
Returned are the shifts: by how much the numbers of the store and of each run were off.
"""
_CLASSES_BEFORE_COMMIT: Final = ("22", "23", "P0")
"""Classes of errors that the procedure raises before it commits: of values, of constraints, and its own."""
_GROUP_PARAMETERS: Final = [
    "%s", "%s", "%s", "%s::text[]", "%s::text[]", *["%s::bigint[]"] * 4,
    *(f"{'%b' if kind == 'bytea' else '%s'}::{kind}[]" for kind in _EVENT_COLUMNS.values()), "%s", "NULL",
]  # fmt: skip
_INSERT_GROUP_SQL: Final = f"CALL pg_temp.insert_journal_group({', '.join(_GROUP_PARAMETERS)})"

_ERROR_MESSAGES: Final = {
    "42P01": ("its tables are missing", "Make them: {upgrade}"),
    "55P03": ("another process kept the store locked for too long", "Find who works in {name!r}, or try again."),
    "53100": ("the disk is full", "Free space on the disk of the server; later appends work again."),
    "25006": ("the database is read-only", "Give the URL of the primary server, not of a standby."),
    "54000": ("a name or an id is too long", "Use a shorter one: of 2,000 bytes at most."),
    "42501": ("this user lacks a permission", "Grant it on the tables and TEMPORARY on the database."),
}  # fmt: skip
"""By the codes of PostgreSQL: what is wrong, and the fix."""

_ESCAPE: Final = "\x1a"
_TO_TEXT: Final = {_ESCAPE: f"{_ESCAPE}\x01", "\0": f"{_ESCAPE}\x02"}


class _EscapingDumper(StrDumper):
    """Sends text in which NUL, which no text of PostgreSQL may hold, is escaped."""

    def dump(self, obj: str) -> Buffer | None:
        """Return the bytes that are sent."""
        if "\0" in obj or _ESCAPE in obj:
            obj = obj.replace(_ESCAPE, _TO_TEXT[_ESCAPE]).replace("\0", _TO_TEXT["\0"])
        return super().dump(obj)


class _UnescapingLoader(TextLoader):
    """Reads what `_EscapingDumper` sent."""

    def load(self, data: Buffer) -> str:
        """Return the text."""
        text = super().load(data)
        if not isinstance(text, str):
            text = text.decode()
        return text.replace(_TO_TEXT["\0"], "\0").replace(_TO_TEXT[_ESCAPE], _ESCAPE) if _ESCAPE in text else text


def write_upgrade_command(name: str) -> str:
    """Return the command that makes or upgrades the tables of a database."""
    return f"praval-tools db upgrade --journal {shlex.quote(name)}"


def get_url_name(url: str) -> str:
    """
    Return *url* without what may be secret.

    Raises:
        ToolUsageError: It cannot be read; what it holds is not repeated.
    """
    authority, _, path = url.partition("://")[2].partition("?")[0].partition("/")
    try:
        if authority.count("@") > 1 or "@" in path:  # a part of a password would be taken for the host or the port
            raise psycopg.ProgrammingError
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        raise ToolUsageError(
            "The URL of the journal cannot be read. Write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
            "with %40 for @, %2F for / and %23 for # in the password.",
            "journal-url",
        ) from None
    user, host, port = (parts.get(name) for name in ("user", "host", "port"))
    place = f"{f'{user}@' if user else ''}{host or ''}{f':{port}' if port else ''}"
    options = f"?options={quote(str(parts['options']), safe='')}" if parts.get("options") else ""  # such as a schema
    return f"postgresql://{place}/{parts.get('dbname') or ''}{options}"


class PostgresDatabase:
    """
    One PostgreSQL database, for any number of processes and hosts.

    Writers lock the store's row, so the numbers of records are in the order in which they can be read. They wait for
    the disk after they have released it, so that the writers of all processes share the server's writes.

    Args:
        url: Where it is, as libpq reads it.
    """

    begin_snapshot_sql = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    list_numbers_sql = "SELECT CAST(value AS bigint) FROM json_array_elements_text(CAST(:numbers AS json)) AS value"
    autocommits = True
    now_sql = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
    max_group_rows = 2_000
    renumbers_groups = True

    def __init__(self, url: str) -> None:
        self.name = get_url_name(url)
        self._url, self._secret = url, str(conninfo_to_dict(url).get("password") or "")
        self._durability = "on"
        self._open_connections: weakref.WeakSet[DriverConnection] = weakref.WeakSet()
        self._abandoned: list[object] = []
        self._create_engines()

    def _create_engines(self) -> None:
        def create(**pool: object) -> Engine:
            return create_engine(
                "postgresql+psycopg://", creator=self.open_connection, isolation_level="AUTOCOMMIT",
                paramstyle="format", hide_parameters=True, use_native_hstore=False, **pool,
            )  # fmt: skip

        self._write_engine = create(poolclass=NullPool)
        self.readers: Engine = create(poolclass=QueuePool, pool_size=4, max_overflow=60, pool_pre_ping=True)

    def open_connection(self) -> DriverConnection:
        """Return a connection of the driver, with what each of ours is set to."""
        given = conninfo_to_dict(self._url)
        defaults = {name: value for name, value in _DEFAULT_PARAMETERS.items() if name not in given}
        # the driver loses count of the statements that it prepares in a pipeline which fails, so it prepares none
        connection = psycopg.connect(make_conninfo(self._url, **defaults), autocommit=True, prepare_threshold=None)
        try:
            connection.adapters.register_dumper(str, _EscapingDumper)
            for kind in ("text", "varchar"):
                connection.adapters.register_loader(kind, _UnescapingLoader)
            row = connection.execute("SHOW synchronous_commit").fetchone()
            if row is not None and row[0] != "off":  # the server's own setting; off would lose what was answered
                self._durability = row[0]
            connection.execute(_SESSION_SQL)
        except BaseException:
            connection.close()
            raise
        self._open_connections.add(connection)
        return connection

    def connect_for_writing(self) -> Connection:
        """Return a connection for writing."""
        connection = self._write_engine.connect()
        try:
            connection.exec_driver_sql(_GROUP_PROCEDURE)
        except BaseException:
            connection.close()
            raise
        return connection

    def begin_write(self, connection: Connection) -> None:
        """Start a transaction; each of its statements sees what was committed before it began."""
        connection.exec_driver_sql("BEGIN ISOLATION LEVEL READ COMMITTED")

    def insert_group(self, connection: Connection, group: WriteGroup, tokens: Mapping[str, str]) -> WriteGroup:
        """
        Write a group in one statement; where others have written meanwhile, it gets the numbers after theirs.

        Where it fails and nobody knows whether the group was committed, the connection is closed.
        """
        ends, growths = group.run_ends, dict.fromkeys(group.run_ends, 0)
        for row in group.rows:
            if row[RUN_COLUMN] is not None:
                growths[row[RUN_COLUMN]] += 1
        lengths, times = [length for length, _ in ends.values()], [time for _, time in ends.values()]
        by_kind = zip(_EVENT_COLUMNS.values(), zip(*group.rows, strict=True), strict=True)
        values = (
            group.first_seq, group.seq, group.revision, _format_texts(list(tokens)), _format_texts([*tokens.values()]),
            *map(_format_numbers, (ends, lengths, growths.values(), times)),
            *(_FORMATTERS[kind](column) for kind, column in by_kind),
        )  # fmt: skip
        try:
            shifts = connection.exec_driver_sql(_INSERT_GROUP_SQL, (*values, self._durability)).scalar_one()
        except DBAPIError as error:
            if _get_error_code(error)[:2] not in _CLASSES_BEFORE_COMMIT:  # as if the connection had been cut
                connection.invalidate()
            raise
        shift, *run_shifts = shifts
        return _renumber_group(group, shift, dict(zip(ends, run_shifts, strict=True)))

    def commit(self, connection: Connection, *, new_revision: int | None = None, is_awaited: bool = True) -> None:
        """Commit, notify others of a change of state, and wait until it is on the disk, where that is asked."""
        if _get_driver_connection(connection).info.transaction_status != TransactionStatus.IDLE:
            self._end_transaction(connection, new_revision)
        if is_awaited:
            self._wait_for_log(connection)

    def _end_transaction(self, connection: Connection, new_revision: int | None) -> None:
        if new_revision is not None:
            notify = "SELECT pg_notify(%s || current_schema(), %s)"
            connection.exec_driver_sql(notify, (CHANNEL_PREFIX, str(new_revision)))
        connection.exec_driver_sql("COMMIT")

    def _wait_for_log(self, connection: Connection) -> None:
        try:
            connection.exec_driver_sql(_WAIT_FOR_LOG_SQL, (self._durability,))
        except BaseException:  # it is committed all the same: as if the connection had been cut
            connection.invalidate()
            raise

    def rollback(self, connection: Connection) -> None:
        """Undo the transaction."""
        if _get_driver_connection(connection).info.transaction_status != TransactionStatus.IDLE:
            connection.exec_driver_sql("ROLLBACK")

    def is_disconnected(self, connection: Connection) -> bool:
        """Tell whether the connection was cut."""
        return connection.invalidated or connection.closed or _get_driver_connection(connection).closed

    def identify_session(self, connection: Connection) -> object:
        """Return what the server calls the session of a connection."""
        return get_session(_get_driver_connection(connection))

    def end_session(self, connection: Connection, session: object) -> None:
        """End a session that was cut, which the server may not have noticed."""
        end_session(_get_driver_connection(connection), session, self.name)

    def translate_error(self, error: BaseException) -> JournalError:
        """Return *error* as the journal's error, with its meaning and the fix."""
        if isinstance(error, JournalError):
            return error
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        text, code = self._hide_secret(str(cause).partition("\n")[0]), _get_error_code(error)
        if code in _ERROR_MESSAGES:
            problem, fix = _ERROR_MESSAGES[code]
            fix = fix.format(name=self.name, upgrade=write_upgrade_command(self.name))
            return JournalError(self.name, f"{problem} ({text})", fix)
        if isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError):
            fix = "Check the URL and that PostgreSQL runs there; what comes later works again as soon as it does."
            return JournalError(self.name, f"the database cannot be reached ({text})", fix)
        fix = "Nothing of it was written; correct the item, or try again."
        return JournalError(self.name, f"{type(cause).__name__}: {text}", fix)

    def _hide_secret(self, text: str) -> str:
        return text.replace(self._secret, "***") if self._secret else text

    def reset_after_fork(self) -> None:
        """Open engines of its own in a forked child; the parent's sessions must not end with it, nor live on in it."""
        self._abandoned += (self._write_engine, self.readers, *self._open_connections)
        nothing = os.open(os.devnull, os.O_RDWR)
        for connection in self._open_connections:
            if not connection.closed:
                os.dup2(nothing, connection.fileno())
        os.close(nothing)
        self._open_connections = weakref.WeakSet()
        self._create_engines()

    def close(self) -> None:
        """Close the readers."""
        self.readers.dispose()


def get_session(connection: DriverConnection) -> tuple[int, str]:
    """Return the number and the start of the server's process of a connection, which together never come again."""
    found = connection.execute("SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()")
    process, start = found.fetchone() or (0, "")
    return process, start


def end_session(connection: DriverConnection, session: object, store: str) -> None:
    """
    End a session of this user on the server, where it is still there.

    Raises:
        JournalError: It did not end.
    """
    ended = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid = %s AND backend_start::text = %s"
    process, start = session if isinstance(session, tuple) else (0, "")
    if connection.execute(ended, (process, start)).fetchone() == (False,):
        raise JournalError(store, "a connection that was cut is still at work on the server", "Try again.")


def _get_error_code(error: BaseException) -> str:
    """Return PostgreSQL's code of an error of a statement; empty where it has none."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return getattr(cause, "sqlstate", None) or ""


def _get_driver_connection(connection: Connection) -> DriverConnection:
    return cast(DriverConnection, connection.connection.driver_connection)


# The driver takes ten times as long for an array: it looks at the type and the quotes of each element.


def _format_numbers(numbers: Iterable[int | None]) -> str:
    """Return an array as PostgreSQL reads it."""
    return "{" + ",".join(["NULL" if number is None else int.__repr__(number) for number in numbers]) + "}"


def _format_texts(texts: Sequence[str | None]) -> str:
    """Return an array as PostgreSQL reads it."""
    joined = "".join([text for text in texts if text is not None])
    if '"' in joined or "\\" in joined:
        texts = [text and text.replace("\\", "\\\\").replace('"', '\\"') for text in texts]
    return "{" + ",".join(["NULL" if text is None else f'"{text}"' for text in texts]) + "}"


_FORMATTERS: Final[Mapping[str, Callable[[Sequence[Any]], object]]] = {
    "bigint": _format_numbers, "text": _format_texts, "bytea": list,
}  # fmt: skip


def _renumber_group(group: WriteGroup, shift: int, run_shifts: Mapping[int, int]) -> WriteGroup:
    """Return *group* with the numbers that it got, which are that much higher than it expected."""
    if not shift and not any(run_shifts.values()):
        return group
    answers = []
    for answer in group.answers:
        seq, run_seq = answer.seq or 0, answer.run_seq
        if run_seq is not None:
            run_seq += run_shifts[group.rows[seq - group.first_seq][RUN_COLUMN]]
        answers.append(replace(answer, seq=seq + shift, run_seq=run_seq))
    runs = {
        run_id: RunCounters(run.number, run.length + run_shifts[run.number]) for run_id, run in group.runs.items()
    }
    return replace(group, seq=group.seq + shift, answers=answers, runs=runs)
