"""SQLite: a file opened so that the library itself refuses what must not be."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, Final

from sqlalchemy import URL, Connection, NullPool, create_engine

from praval_tools_sql.protocol import Problem

_SQLITE_RECURSIVE: Final = 33
_READ_ACTIONS: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, _SQLITE_RECURSIVE}
)
_FORBIDDEN_ACTIONS: Final = frozenset(
    {
        sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_PRAGMA,
        sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT,
    }
)  # fmt: skip
_READ_PRAGMAS: Final = frozenset(
    {"table_info", "table_xinfo", "table_list", "foreign_key_list", "index_list", "index_info", "data_version"}
)
_VIRTUAL_TABLE_MODULES: Final = frozenset({"fts3", "fts4", "fts5", "rtree", "geopoly"})
_ACTION_NAMES: Final = {
    getattr(sqlite3, f"SQLITE_{name}"): name.lower().replace("_", " ")
    for name in (
        "ALTER_TABLE", "ANALYZE", "ATTACH", "CREATE_INDEX", "CREATE_TABLE", "CREATE_TEMP_INDEX", "CREATE_TEMP_TABLE",
        "CREATE_TEMP_TRIGGER", "CREATE_TEMP_VIEW", "CREATE_TRIGGER", "CREATE_VIEW", "CREATE_VTABLE", "DELETE",
        "DETACH", "DROP_INDEX", "DROP_TABLE", "DROP_TEMP_INDEX", "DROP_TEMP_TABLE", "DROP_TEMP_TRIGGER",
        "DROP_TEMP_VIEW", "DROP_TRIGGER", "DROP_VIEW", "DROP_VTABLE", "FUNCTION", "INSERT", "PRAGMA", "REINDEX",
        "SAVEPOINT", "TRANSACTION", "UPDATE",
    )
}  # fmt: skip
_SAFE_FUNCTIONS: Final = """
-> ->> abs acos acosh asin asinh atan atan2 atanh avg bm25 ceil ceiling changes char coalesce concat concat_ws cos
cosh count cume_dist current_date current_time current_timestamp date datetime degrees dense_rank exp first_value floor
format glob group_concat hex highlight if ifnull iif instr json json_array json_array_length json_error_position
json_extract json_group_array json_group_object json_insert json_object json_patch json_pretty json_quote json_remove
json_replace json_set json_type json_valid jsonb jsonb_array jsonb_extract jsonb_group_array jsonb_group_object
jsonb_insert jsonb_object jsonb_patch jsonb_remove jsonb_replace jsonb_set julianday lag last_insert_rowid last_value
lead length like likelihood likely ln log log10 log2 lower ltrim match matchinfo max median min mod nth_value ntile
nullif octet_length offsets percent_rank percentile percentile_cont percentile_disc pi pow power printf quote radians
random randomblob rank regexp replace round row_number rtrim sign sin sinh snippet soundex sqlite_version sqrt strftime
string_agg substr substring subtype sum tan tanh time timediff total total_changes trim trunc typeof unhex unicode
unistr unixepoch unlikely upper zeroblob
"""
"""What reads nothing but its arguments; `load_extension`, `readfile`, `writefile`, `edit` and others are not here."""

_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_LENGTH: 16_777_216,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}

_RTREE_QUERY: Final = "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE % USING rtree%'"
"""R-trees prepare writes when they are opened, also for reading: they are opened before the guard looks."""


class StatementGuard:
    """Decides what a statement may do, and remembers what it was not allowed."""

    def __init__(self, *, writing: bool, seconds: float) -> None:
        self._writing = writing
        self._deadline = monotonic() + seconds
        self.denied: str | None = None
        self.timed_out = False

    def authorize(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        """Answer SQLite, which asks for each action of a statement before it begins."""
        if self._is_allowed(action, first, second):
            return sqlite3.SQLITE_OK
        what = _ACTION_NAMES.get(action, f"action {action}")
        named = second if action == sqlite3.SQLITE_FUNCTION else first
        self.denied = self.denied or f"{what} {named or ''}".strip()
        return sqlite3.SQLITE_DENY

    def _is_allowed(self, action: int, first: str | None, second: str | None) -> bool:
        if action == sqlite3.SQLITE_FUNCTION:
            return (second or "").lower() in _SAFE_FUNCTIONS.split()
        if action == sqlite3.SQLITE_PRAGMA:
            return (first or "").lower() in _READ_PRAGMAS
        if (action, first) == (sqlite3.SQLITE_UPDATE, "sqlite_master"):
            return True  # asked when a virtual table is opened (json_each, fts5); SQLite itself refuses the statement
        if not self._writing:
            return action in _READ_ACTIONS
        if action == sqlite3.SQLITE_CREATE_VTABLE:
            return (second or "").lower() in _VIRTUAL_TABLE_MODULES
        return action not in _FORBIDDEN_ACTIONS

    def check_deadline(self) -> int:
        """Answer SQLite, which asks now and then whether to stop."""
        self.timed_out = monotonic() > self._deadline
        return int(self.timed_out)


def _resolve_file(url: URL) -> Path:
    if url.query:
        fix = "Leave them out; the file is opened as it is safe."
        raise Problem("settings", "The URL of a SQLite database has options", fix)
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        fix = "Give the path of a file: sqlite:////srv/sales.db."
        raise Problem("settings", "The URL names no database file", fix)
    path = Path(url.database)
    if not path.is_file():
        fix = (
            "Create it, or correct the URL; a path that begins with / has four slashes in it: sqlite:////srv/sales.db."
        )
        raise Problem("settings", "The URL names a database file that does not exist", fix)
    return path.resolve()


def _recover_journal(made: sqlite3.Connection, file: str, seconds: float) -> None:
    """
    Have SQLite undo what a writer left half done when it was killed.

    A reader may not, and until it is done nobody can read.
    """
    look = "SELECT 1 FROM sqlite_master LIMIT 1"
    try:
        made.execute(look).fetchall()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY:
            raise
        with closing(sqlite3.connect(f"{file}?mode=rw", uri=True, timeout=seconds)) as other:
            other.execute(look).fetchall()


@contextmanager
def open_connection(url: URL, *, writing: bool, seconds: float) -> Iterator[Connection]:
    """Open the database, read-only unless *writing*."""
    file = _resolve_file(url).as_uri()
    where = f"{file}?mode={'rw' if writing else 'ro'}"

    def create() -> sqlite3.Connection:
        made = sqlite3.connect(where, uri=True, timeout=seconds, isolation_level=None, check_same_thread=False)
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "temp_store = MEMORY", "mmap_size = 0"):
            made.execute(f"PRAGMA {pragma}")
        if not writing:
            made.execute("PRAGMA query_only = ON")
            _recover_journal(made, file, seconds)
        made.text_factory = lambda data: data.decode("utf-8", "replace")
        return made

    engine = create_engine("sqlite://", creator=create, poolclass=NullPool)
    with engine.connect() as connection:
        yield connection


@contextmanager
def guard_connection(connection: Connection, guard: StatementGuard, *, writing: bool) -> Iterator[None]:
    """Put *guard* in charge of what runs inside."""
    raw: Any = connection.connection.driver_connection
    for limit, value in _LIMITS.items():
        raw.setlimit(limit, value)
    for (name,) in connection.exec_driver_sql(_RTREE_QUERY).all():
        quoted = name.replace('"', '""')
        connection.exec_driver_sql(f'SELECT 1 FROM "{quoted}" LIMIT 0')  # noqa: S608
    if writing:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    raw.set_progress_handler(guard.check_deadline, 1_000)
    raw.set_authorizer(guard.authorize)
    try:
        yield
    finally:
        raw.set_authorizer(None)
        raw.set_progress_handler(None, 0)
