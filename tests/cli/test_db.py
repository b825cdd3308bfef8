"""The tables of a shared database, every command on it, and copying a journal from one store to another."""

# Tests of: db, journal/schema_version, journal/copy_store

from __future__ import annotations

import json
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated

import pytest
from cli_journal_rig import WORK, fill_journal, run_app
from cli_rig import App, Run, app, run  # noqa: F401
from store_rig import make_database, make_empty_database

from praval_tools import Secret, ToolCall, ToolRegistry
from praval_tools.journal import open_journal, open_store
from praval_tools.journal.storage.tables import SCHEMA_REVISION, metadata

PASSWORD = "not-to-be-shown"


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a database with the tables of a journal."""
    monkeypatch.setenv("PRAVAL_TOOLS_KEY", "a key that all processes share")
    with make_database() as made:
        yield made


class TestTables:
    def test_of_a_database(self, run: Run, app: App) -> None:
        """A database without tables is refused with the command that makes them; the password is never shown."""
        app()
        with make_empty_database() as made:
            address = made.replace("postgres@", f"postgres:{PASSWORD}@")
            upgrade = f"praval-tools --journal {shlex.quote(made)} db upgrade"
            for command, text in (
                ("runs", f"has no tables of a journal. Run: praval-tools db upgrade --journal {shlex.quote(made)}"),
                ("db status", f"are missing; needed is {SCHEMA_REVISION}: run {upgrade}."),
            ):
                code, out, err = run(*command.split(), "--journal", address)
                assert (code, text in out + err, PASSWORD in out + err) == (1, True, False)

            code, out, err = run("db", "upgrade", "--journal", address)
            assert (code, err) == (0, "")
            text = f"The tables of '{made}' are of version {SCHEMA_REVISION} now; before: none."
            assert text == " ".join(out.split())

            assert run("db", "upgrade", "--journal", address)[0] == 0
            assert (0, 0) == (run("db", "status", "--journal", address)[0], run("runs", "--journal", address)[0])
            found = json.loads(run("db", "status", "--json", "--journal", address)[1])
            assert {"journal": made, "version": SCHEMA_REVISION, "needed": SCHEMA_REVISION} == found

    def test_of_a_file(self, run: Run, app: App) -> None:
        """A file's tables are made when it is opened; the commands work on it as well."""
        app()
        assert run("db", "status", "--journal", "runs.db")[0] == 1
        assert not Path("runs.db").exists()
        assert run("db", "upgrade", "--journal", "runs.db")[1].endswith("before: none.\n")
        assert run("db", "status", "--journal", "runs.db")[1].endswith("as needed.\n")


class TestCommands:
    def test_changes_and_calls_are_shared(self, run: Run, app: App, url: str) -> None:
        """What one command changes in a database, another one sees; nothing is written into the folder."""
        name = app()
        on = ("--app", f"{name}:registry", "--journal", url)
        assert run("call", "intern", "quote", "symbol=X", *on)[0] == 0
        code, out, err = run("block", "quote", "intern", *on)
        assert code == 0 and f"ToolRegistry(journal='{url}')" in (out + err).replace("\n", "")
        assert run("call", "intern", "quote", "symbol=X", *on)[0] == 3
        assert "block" in run("audit", "--journal", url)[1]
        assert json.loads(run("journal", "--json", "--journal", url)[1])["size"] is None
        assert url == run("journal", "path", "--journal", url)[1].strip()
        assert [] == list(Path().glob("*.db*")) + list(Path().glob("*.key"))


def read_all(place: Path | str) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of all tables, as they are read through the store."""
    with closing(open_store(place)) as store:
        readers = store._database.readers  # type: ignore[attr-defined]
        with readers.connect() as connection:
            return {
                name: sorted((tuple(row) for row in connection.execute(table.select())), key=repr)
                for name, table in metadata.tables.items()
                if name != "journal_leases"
            }


class TestCopy:
    @pytest.fixture
    def filled(self, run: Run, app: App) -> Path:
        """A journal with a run in doubt, changes, counts, a token, and more records than one page."""
        run_app(app, "half", crash="last")
        fill_journal("work.db", 2_500)
        with ToolRegistry(journal="work.db") as registry:
            registry.tool("ask", owned_by="clerk")(ask)
            registry.assign_tool_to_agent("ask", "intern", max_calls=3)
            registry.block("ask", "guest", reason="a\0b")
            registry.execute(ToolCall(None, "ask", {"word": "hush hush"}, "intern"))
        assert run("tokens", "add", "clerk", "--journal", "work.db")[0] == 0
        return Path("work.db")

    def test_to_a_database_and_back(self, run: Run, filled: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Every row is the same on both ways, with its numbers; the file's key goes along as `hex:`."""
        monkeypatch.delenv("PRAVAL_TOOLS_KEY")
        before = read_all(filled)
        code, out, err = run("journal", "copy", "work.db", url)
        assert (code, err) == (0, "")
        assert out.startswith("Copied 2,5")
        assert before == read_all(url)
        assert run("journal", "copy", url, "back.db")[0] == 0
        assert before == read_all(Path("back.db"))

        monkeypatch.setenv("PRAVAL_TOOLS_KEY", f"hex:{Path('work.db.key').read_text().strip()}")
        with ToolRegistry(journal=url) as registry, open_journal("work.db") as journal:
            registry.tool("ask", owned_by="clerk")(ask)
            asked = [str(registry.execute(ToolCall(None, "ask", {"word": "x"}, "intern")).outcome) for _ in range(3)]
            assert ["ok", "ok", "forbidden"] == asked
            assert registry.journal is not None and registry.journal.calls("half") == journal.calls("half")
            assert "forbidden" == str(registry.execute(ToolCall(None, "ask", {"word": "x"}, "guest")).outcome)

    def test_into_a_store_that_is_not_empty(self, run: Run, filled: Path, url: str) -> None:
        """It is refused, and both are as they were."""
        assert run("journal", "copy", "work.db", url)[0] == 0
        before = read_all(url)
        code, out, err = run("journal", "copy", "work.db", url)
        assert (code, out) == (1, "")
        assert "it is not empty, and nothing was copied" in err
        assert before == read_all(url)

    @pytest.mark.parametrize("target", ["file", "database"])
    def test_what_fails_half_way_leaves_nothing(self, run: Run, filled: Path, url: str, target: str) -> None:
        """A source that is damaged is refused in one line; the target is as empty as before, and can be used again."""
        with closing(sqlite3.connect("work.db")) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("DROP TABLE journal_uses")
            connection.execute("CREATE TABLE journal_uses (grant_id TEXT)")
        place = "new.db" if target == "file" else url

        code, out, err = run("journal", "copy", "work.db", place)

        assert (code, out, err.count("\n")) == (1, "", 1)
        rows = read_all(place if target == "database" else Path(place))
        assert [] == [row for name, found in rows.items() if name != "journal_store" for row in found]

    def test_a_source_that_is_not_there(self, run: Run, app: App) -> None:
        """A path without a journal is an error, and no file is made; memory is refused."""
        app(WORK)
        assert run("journal", "copy", "none.db", "new.db") == (1, "", "Error: There is no journal 'none.db'.\n")
        assert run("journal", "copy", "memory", "new.db")[0] == 2
        assert [] == list(Path().glob("*.db"))


def ask(word: Annotated[str, Secret]) -> int:
    """Ask."""
    return len(word)
