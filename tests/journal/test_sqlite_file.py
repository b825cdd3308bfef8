"""The file of a SQLite journal: opened, created, migrated, or refused and left as it is."""

# Tests of: tables

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from journal_rig import note
from sqlalchemy import create_engine
from sqlalchemy.dialects.postgresql import psycopg
from sqlite_rig import filled, list_ids, path  # noqa: F401

import praval_tools
from praval_tools.errors import JournalFileError, RunBusyError, ToolUsageError
from praval_tools.journal import open_store
from praval_tools.journal.storage.sql_store import SqlStore
from praval_tools.journal.storage.tables import SCHEMA_REVISION, VERSION_TABLE, Statements, metadata

OPENS_A_JOURNAL = """
from pathlib import Path
from typing import Annotated

from praval_tools import Secret, ToolCall, ToolRegistry

open("opened.txt", "w").close()
with ToolRegistry(journal={journal}) as registry:

    @registry.tool("log_in", shared=True)
    def log_in(password: Annotated[str, Secret]) -> None:
        \"\"\"Log in.\"\"\"

    registry.execute(ToolCall("1", "log_in", {{"password": "hush"}}, "ann"))
"""


class TestOpening:
    def test_by_path_and_by_url(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A path, relative or not, and the URLs of SQLAlchemy name the same file; odd names are no trouble."""
        monkeypatch.chdir(tmp_path)
        for where in ("a b?#%.db", tmp_path / "a b?#%.db", f"sqlite:///{tmp_path}/a b?#%.db", "sqlite:///a b?#%.db"):
            store = open_store(where)
            store.append([note()])
            store.close()

        with SqlStore(tmp_path / "a b?#%.db") as one:
            assert 4 == len(list_ids(one))

    @pytest.mark.parametrize("where", ["mysql://me:secret@host/db", "", ":memory:", "memory:", "sqlite:///"])
    def test_what_is_no_place(self, where: str) -> None:
        """Other databases and nameless files are refused with what to write instead, without telling a password."""
        with pytest.raises(ToolUsageError, match="memory") as caught:
            open_store(where)
        assert "secret" not in str(caught.value)

    def test_it_is_safe_and_ours(self, filled: Path) -> None:
        """Write-ahead log, synchronous=FULL, our application id, the version in place."""
        with SqlStore(filled) as store:
            store.append([note()])
            connection = store._writer._connection._connection
            assert connection is not None
            said = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in _PRAGMAS}
        assert said == _PRAGMAS

    def test_an_empty_file_is_taken(self, path: Path) -> None:
        """What `mktemp` made is as good as nothing."""
        path.touch()
        with SqlStore(path) as store:
            store.append([note()])

    def test_the_working_folder_may_change(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A relative path means the folder of the opening; a link means the file that it leads to."""
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path)
        with SqlStore(Path("runs.db")) as store:
            monkeypatch.chdir(tmp_path / "elsewhere")
            store.append([note()])
            assert ["note"] == list_ids(store)
            Path("link.db").symlink_to(tmp_path / "runs.db")
            with SqlStore(Path("link.db")) as linked, store.open_run("r"), pytest.raises(RunBusyError):
                linked.open_run("r")

    @pytest.mark.parametrize(
        ("journal", "folder"),
        [
            ("'runs.db'", "started"),
            ("Path('runs.db')", "started"),
            ("'sqlite:///runs.db'", "started"),
            ("Path(__file__).with_name('runs.db')", "program"),
        ],
    )
    def test_a_registry_takes_relative_paths_as_open_does(self, tmp_path: Path, journal: str, folder: str) -> None:
        """They are relative to the working directory of the process; a journal beside the program is so anywhere."""
        for name in ("started", "program"):
            (tmp_path / name).mkdir()
        program = tmp_path / "program" / "program.py"
        program.write_text(OPENS_A_JOURNAL.format(journal=journal), encoding="utf-8")
        env = {**os.environ, "PYTHONPATH": str(Path(praval_tools.__file__).parents[1])}
        subprocess.run([sys.executable, str(program)], cwd=tmp_path / "started", env=env, check=True, timeout=60)
        files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("runs.db*")}

        assert (tmp_path / "started" / "opened.txt").is_file()
        assert {f"{folder}/{name}" for name in ("runs.db", "runs.db.key", "runs.db-locks")} == files

    def test_closed_it_is_one_file(self, filled: Path) -> None:
        """Nothing waits beside a closed store but the folder of the locks."""
        assert ["runs.db", "runs.db-locks"] == sorted(one.name for one in filled.parent.iterdir())


_PRAGMAS = {"journal_mode": "wal", "synchronous": 2, "application_id": 0x70726A31, "user_version": int(SCHEMA_REVISION)}


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE mine (x)")
        other.execute("INSERT INTO mine VALUES (1)")
        other.commit()


def _newer(path: Path) -> None:
    SqlStore(path).close()
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"PRAGMA user_version={int(SCHEMA_REVISION) + 1}")


def _without_a_table(path: Path) -> None:
    SqlStore(path).close()
    with closing(sqlite3.connect(path)) as other:
        other.execute("DROP TABLE journal_state")
        other.commit()


def _cut(path: Path, size: int) -> None:
    with SqlStore(path) as store:
        store.append([note(str(at), body=b"x" * 500) for at in range(200)])
    os.truncate(path, size)


def _overwritten(path: Path) -> None:
    _cut(path, path.stat().st_size if path.exists() else 8192)
    path.write_bytes(path.read_bytes()[:4096] + os.urandom(8192))


def _killed_with_log(path: Path, harm: Callable[[bytes], bytes]) -> None:
    """Make a store whose process was killed, with some of its log beside it, and then harm the file."""
    with SqlStore(path) as store:
        store.append([note(str(at), body=b"x" * 500) for at in range(2_000)])
    script = (
        f"import os; from journal_children import *; open_sql_store(Path({str(path)!r})).append([note()]); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[1] / "support")
    path.write_bytes(harm(path.read_bytes()))


def _garbage(data: bytes) -> bytes:
    return data[:4096] + os.urandom(len(data) - 4096)


_REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "text": (lambda path: path.write_text("id,amount\n" * 100), "not a database"),
    "one byte": (lambda path: path.write_bytes(b"x"), "not a database"),
    "foreign": (_foreign, "of another program"),
    "newer": (_newer, "newer praval-tools"),
    "without a table": (_without_a_table, "without journal_state"),
    "cut at a page": (lambda path: _cut(path, 8192), "damaged"),
    "cut in a page": (lambda path: _cut(path, 20_001), "damaged"),
    "cut in the header": (lambda path: _cut(path, 50), "not a database|damaged"),
    "overwritten": (_overwritten, "damaged"),
    "overwritten, with a log": (lambda path: _killed_with_log(path, _garbage), "damaged"),
    "a header, with a log": (lambda path: _killed_with_log(path, lambda data: data[:4096]), "damaged"),
    "folder": (lambda path: path.mkdir(), "is a folder"),
    "pipe": (os.mkfifo, "not a regular file"),
}


@contextmanager
def _unwritable(path: Path) -> Iterator[None]:
    """Make a file or folder read-only, for the superuser as well."""
    if os.geteuid():
        mode = path.stat().st_mode
        path.chmod(0o500 if path.is_dir() else 0o400)
        yield
        path.chmod(mode)
        return
    chattr = shutil.which("chattr")
    if chattr is None or subprocess.run([chattr, "+i", path], check=False, capture_output=True).returncode:
        pytest.skip("this file system cannot make a file read-only for root")
    try:
        yield
    finally:
        subprocess.run([chattr, "-i", path], check=True)


class TestRefused:
    @pytest.mark.parametrize("kind", _REFUSED)
    def test_a_file_that_is_not_ours_is_left_as_it_is(self, path: Path, kind: str) -> None:
        """Each is refused with its name, what is wrong and what to do, and not a byte of it changes."""
        make, problem = _REFUSED[kind]
        make(path)
        before = path.read_bytes() if path.is_file() else b""
        log = path.with_name("runs.db-wal")
        logged = log.read_bytes() if log.exists() else b""

        with pytest.raises(JournalFileError, match=problem) as caught:
            SqlStore(path)

        assert (str(path), "journal-file") == (caught.value.store, caught.value.code)
        assert caught.value.fix.endswith(".")
        assert before == (path.read_bytes() if path.is_file() else b"")
        assert logged == (log.read_bytes() if log.exists() else b"")

    def test_the_folder_must_be_there(self, tmp_path: Path) -> None:
        """A missing folder is named, and not made: it may be a mount that is missing."""
        with pytest.raises(JournalFileError, match=r"folder .*none' does not exist"):
            SqlStore(tmp_path / "none" / "runs.db")
        assert [] == list(tmp_path.iterdir())

    def test_a_read_only_file(self, filled: Path) -> None:
        """What can't be written is refused when it is opened, not at the first call."""
        before = filled.read_bytes()
        with _unwritable(filled), pytest.raises(JournalFileError, match="it is read-only"):
            SqlStore(filled)
        assert before == filled.read_bytes()

    def test_a_read_only_folder(self, filled: Path) -> None:
        """The log needs a place beside the file."""
        with _unwritable(filled.parent), pytest.raises(JournalFileError, match="its folder .* is read-only"):
            SqlStore(filled)


class TestSchema:
    def test_migrations_make_the_tables(self, filled: Path) -> None:
        """What the migrations make is what the code writes to."""
        engine = create_engine(f"sqlite:///{filled}")
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
            assert [] == compare_metadata(context, metadata)
            assert SCHEMA_REVISION == context.get_current_revision()
        engine.dispose()

    def test_an_older_file_is_migrated(self, filled: Path) -> None:
        """A journal of the first release opens, keeps its records, and can hold tokens."""
        with closing(sqlite3.connect(filled)) as old:
            old.executescript(
                "DROP TABLE journal_tokens; DROP TABLE journal_leases; DROP TABLE journal_worker_calls; "
                "UPDATE journal_version SET version_num = '0001'; PRAGMA user_version = 1"
            )

        with SqlStore(filled) as store:
            assert 0 < store.count()
            assert [] == store.tokens.list_tokens()

    def test_the_newest_migration_is_the_version(self) -> None:
        """A new migration without a new version would never run."""
        config = Config()
        config.set_main_option(
            "script_location", str(Path(praval_tools.__file__).parent / "journal" / "storage" / "migrations")
        )

        assert SCHEMA_REVISION == ScriptDirectory.from_config(config).get_current_head()

    def test_the_writer_speaks_postgresql(self) -> None:
        """Every statement of the writer compiles there, with positional parameters and the row lock."""
        said = Statements(psycopg.dialect(paramstyle="format"))

        assert said.lock_store.endswith("FOR UPDATE")
        assert 12 == said.insert_event.count("%s")

    def test_a_big_store_is_listed_fast_by_its_indexes(self, filled: Path) -> None:
        """Reading a run, a call and the list of runs never looks through all records."""
        with closing(sqlite3.connect(filled)) as connection:
            for query in _INDEXED:
                plan = " ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}"))
                assert "SCAN journal_events " not in plan.replace("SCAN journal_events USING COVERING", ""), plan

    def test_importing_the_package_loads_no_database(self) -> None:
        """`import praval_tools`, and the journal's values with it, cost nothing of SQL."""
        script = (
            "import sys, praval_tools, praval_tools.journal;"
            "print([one for one in ('sqlalchemy', 'alembic', 'sqlite3', 'asyncio', 'logging') if one in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
        assert "[]\n" == done.stdout


_INDEXED = (
    "SELECT seq FROM journal_events WHERE run=1 AND seq>0 AND seq<=9 ORDER BY seq LIMIT 9",
    "SELECT seq FROM journal_events WHERE run=1 AND call_id='c' AND seq>0 AND seq<=9 ORDER BY seq LIMIT 9",
    "SELECT run, max(attempt) FROM journal_events WHERE run IS NOT NULL AND call_id IS NOT NULL GROUP BY run, call_id",
    "SELECT min(seq), max(seq) FROM journal_events WHERE time>=5",
)
