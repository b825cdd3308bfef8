"""What the tools do, and what they say where they cannot."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from praval_tools import Agent, Outcome, ToolCall, ToolRegistry
from rig import tried

from praval_tools_sql import plugin
from praval_tools_sql.encoding import Encoder
from praval_tools_sql.errors import SqlSettingsError
from praval_tools_sql.protocol import Problem
from praval_tools_sql.settings import SqlSettings

Make = Callable[..., Agent]
Refused = Callable[..., str]


class TestReading:
    def test_tables(self, ann: Agent) -> None:
        """Tables and views are listed, by name."""
        found = ann.call("sql_tables")
        assert [("people", "table"), ("pets", "table"), ("names", "view")] == [
            (one.name, one.kind) for one in found.tables
        ]
        assert not found.truncated

    def test_description(self, ann: Agent) -> None:
        """A table is described with types, keys, defaults, indexes and what it refers to."""
        people, pets = ann.call("sql_describe", table="people"), ann.call("sql_describe", table="pets")

        assert [("id", "INTEGER", True), ("name", "TEXT", False), ("photo", "BLOB", False)] == [
            (one.name, one.type, one.primary_key) for one in people.columns
        ]
        assert ("'nobody'", False) == (people.columns[1].default, people.columns[1].nullable)
        assert [(["name"], True)] == [(one.columns, one.unique) for one in people.indexes]
        assert [(["owner"], "people", ["id"])] == [(one.columns, one.table, one.referred) for one in pets.foreign_keys]

    def test_a_table_that_is_not_there(self, ann: Agent, refused: Refused) -> None:
        """A near name is suggested, also where the name is an attack."""
        assert "'people'" in refused("SqlStatementError", ann, "sql_describe", table="peple")
        refused("SqlStatementError", ann, "sql_describe", table='people"; DROP TABLE people; --')

    def test_rows(self, ann: Agent) -> None:
        """Values are bound and come back as JSON; bytes in base64; two columns of one name both count."""
        rows = ann.call("sql_query", sql="SELECT *, id FROM people WHERE name = :who", parameters={"who": "ann"})
        assert (["id", "name", "photo", "id"], [[1, "ann", "AP8=", 1]]) == (rows.columns, rows.rows)

    def test_parameters_are_no_text(self, ann: Agent) -> None:
        """A value is a value, whatever it looks like."""
        evil = "' OR 1=1; DROP TABLE people; --"
        assert [[evil]] == ann.call("sql_query", sql="SELECT :a", parameters={"a": evil}).rows
        assert [] == ann.call("sql_query", sql="SELECT 1 FROM people WHERE name = :a", parameters={"a": evil}).rows

    @pytest.mark.parametrize(
        ("sql", "parameters", "said"),
        [
            ("SELECT :a", {}, ":a without a value"),
            ("SELECT 1", {"b": 1}, "no parameter :b"),
            ("SELEC 1", {}, "syntax"),
            ("SELECT :a", {"a": 2**70}, "too large"),
            ("SELECT 1\0; DROP TABLE x", {}, "NUL"),
        ],
    )
    def test_statements_that_do_not_fit(self, file: Path, sql: str, parameters: dict[str, Any], said: str) -> None:
        """What is wrong is said: the parameter, or what the database says."""
        with pytest.raises(Problem, match=said) as caught:
            tried(file, sql, parameters=parameters)
        assert "statement" == caught.value.kind

    def test_tables_that_are_code(self, file: Path) -> None:
        """Full text, R-trees, JSON and the tables that describe tables can be read."""
        with sqlite3.connect(file) as made:
            made.executescript(
                """
                CREATE VIRTUAL TABLE notes USING fts5 (x); INSERT INTO notes VALUES ('hello world');
                CREATE VIRTUAL TABLE boxes USING rtree (id, low, high); INSERT INTO boxes VALUES (1, 2, 3);
                """
            )
        made.close()
        for sql, expected in (
            ("SELECT highlight(notes, 0, '[', ']') FROM notes WHERE notes MATCH 'hello'", [["[hello] world"]]),
            ("SELECT id FROM boxes WHERE low > 1", [[1]]),
            ("SELECT value FROM json_each('[1, 2]')", [[1], [2]]),
            ("SELECT name FROM pragma_table_info('pets')", [["id"], ["owner"], ["name"]]),
        ):
            assert expected == tried(file, sql)["rows"]
        assert 1 == tried(file, "INSERT INTO notes VALUES ('again')", do="write")["affected"]

    def test_what_other_processes_wrote_ahead(self, file: Path) -> None:
        """A database in WAL mode is read, while it is open elsewhere and after."""
        with sqlite3.connect(file) as made:
            made.execute("PRAGMA journal_mode = WAL")
            made.execute("DELETE FROM people WHERE id = 2")
            made.commit()
            assert [[1]] == tried(file, "SELECT id FROM people")["rows"]
        made.close()
        assert [[1]] == tried(file, "SELECT id FROM people")["rows"]

    def test_limits_of_a_result(self, make: Make, file: Path) -> None:
        """Rows, size and long values are limited, and the result says so."""
        many = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x, printf('%.*c', x, 'a') FROM n"
        agent = make(url=f"sqlite:///{file}", max_rows=5, max_result_bytes=500, max_value_chars=3)

        few = agent.call("sql_query", sql=many, limit=1_000)
        assert (5, True, 2) == (len(few.rows), few.truncated, few.cut_values)
        wide = agent.call("sql_query", sql="SELECT " + ", ".join(f"'abc{n}'" for n in range(100)))
        assert ([], True) == (wide.rows, wide.truncated)
        assert not agent.call("sql_query", sql=f"{many} LIMIT 5").truncated

    def test_limits_of_a_list_and_a_description(self, make: Make, file: Path, refused: Refused) -> None:
        """They are as large as a result may be, at most."""
        agent = make(url=f"sqlite:///{file}", max_result_bytes=50)

        assert "50 are allowed" in refused("SqlLimitError", agent, "sql_tables")
        assert "50 are allowed" in refused("SqlLimitError", agent, "sql_describe", table="people")

    def test_text_that_is_no_text(self, ann: Agent) -> None:
        """Text that is not UTF-8, NULs, infinity and the largest numbers come back as JSON can say them."""
        sql = r"SELECT CAST(x'61ff' AS TEXT), char(0), 9e999, -9223372036854775808, '12\:30'"
        assert [["a\ufffd", "\0", "inf", -(2**63), "12:30"]] == ann.call("sql_query", sql=sql).rows

    def test_the_encoder(self) -> None:
        """What JSON has no form for becomes text; nested values too; long ones are cut and counted."""
        from datetime import date, datetime, timedelta
        from decimal import Decimal
        from uuid import UUID

        encoder = Encoder(40)
        given = [
            Decimal("1.50"),
            date(2026, 5, 1),
            datetime(2026, 5, 1, 12),
            timedelta(hours=1),
            UUID(int=0),
            {1: [b"a"]},
        ]
        expected = ["1.50", "2026-05-01", "2026-05-01T12:00:00", "1:00:00", str(UUID(int=0)), {"1": ["YQ=="]}]
        assert (expected, 0) == (encoder.encode_row(given), encoder.cut_count)
        assert (40, 1) == (len(encoder.encode_value(b"x" * 100)), encoder.cut_count)


class TestWriting:
    def test_a_write(self, ann: Agent, file: Path) -> None:
        """A change is committed, counted, and gives what it returns."""
        sql = "INSERT INTO people (name) VALUES (:name) RETURNING id"
        change = ann.call("sql_write", sql=sql, parameters={"name": "eve"})

        assert [[3]] == change.rows.rows
        assert 3 == ann.call("sql_write", sql="UPDATE people SET photo = NULL").affected
        with sqlite3.connect(file) as again:
            assert [(3,)] == again.execute("SELECT count(*) FROM people").fetchall()
        again.close()

    def test_needs_approval(self, file: Path) -> None:
        """Nobody who approves: nothing is written. The operator cannot switch that off, only the tool."""
        registry = ToolRegistry()
        for tool in plugin.praval_tools_register_tools(SqlSettings(url=f"sqlite:///{file}")):
            registry.register_tool(tool)
            registry.assign_tool_to_agent(tool.name, "ann")
        call = ToolCall(name="sql_write", arguments={"sql": "DELETE FROM people"})

        assert Outcome.APPROVAL_REQUIRED is registry.agent("ann").execute(call).outcome
        assert [[2]] == registry.agent("ann").call("sql_query", sql="SELECT count(*) FROM people").rows
        names = [tool.name for tool in plugin.praval_tools_register_tools(SqlSettings(write=False))]
        assert ["sql_tables", "sql_describe", "sql_query"] == names

    def test_a_failure_changes_nothing(self, ann: Agent, refused: Refused) -> None:
        """A statement that fails half-way is rolled back."""
        refused("SqlStatementError", ann, "sql_write", sql="INSERT INTO people (name) VALUES ('eve'), ('ann')")
        assert [[2]] == ann.call("sql_query", sql="SELECT count(*) FROM people").rows


class TestSettings:
    def test_no_database(self, make: Make, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each tool says how to declare one."""
        assert 'url_env = "DATABASE_URL"' in refused("SqlSettingsError", make(), "sql_tables")
        monkeypatch.delenv("NOT_THERE", raising=False)
        assert "'NOT_THERE'" in refused("SqlSettingsError", make(url_env="NOT_THERE"), "sql_tables")

    def test_the_environment(self, make: Make, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The URL may stand in the environment."""
        monkeypatch.setenv("HERE", f"sqlite:///{file}")
        assert [[1]] == make(url_env="HERE").call("sql_query", sql="SELECT 1").rows

    @pytest.mark.parametrize(
        "url",
        ["sqlite://", "sqlite:///:memory:", "sqlite:////not/there.db", "sqlite:///file:x?uri=true", "mysql://a:b@c/d",
         "nonsense://", "sqlite:///x.db?mode=rwc", "nosuch+driver://x"],
    )  # fmt: skip
    def test_databases_that_cannot_be_used(self, url: str) -> None:
        """What is no file, no known database or has options is refused, and nothing is created."""
        with pytest.raises(Problem) as caught:
            tried(url, "SELECT 1")
        assert "settings" == caught.value.kind

    @pytest.mark.parametrize(
        "wrong",
        [{"timeout": 0}, {"max_rows": -1}, {"max_memory_mb": 5}, {"url": "a", "url_env": "b"},
         {"max_rows": 1.5}, {"write": "no"}, {"allow_superuser": "false"}],
    )  # fmt: skip
    def test_wrong_values(self, wrong: dict[str, Any]) -> None:
        """A limit that makes no sense and two databases are errors."""
        with pytest.raises(SqlSettingsError):
            SqlSettings(**wrong)

    def test_what_the_tools_say_of_themselves(self) -> None:
        """Readers are read-only; the writer is destructive and needs approval; nobody owns or shares them."""
        for tool in plugin.praval_tools_register_tools(SqlSettings()):
            output, writes = tool.metadata, tool.name == "sql_write"
            expected = (not writes or None, writes or None, writes)
            assert expected == (output.read_only, output.destructive, output.requires_approval)
            assert (None, False, "sql") == (output.owned_by, output.shared, output.category)


class TestStopping:
    def test_a_statement_of_a_call_that_was_given_up(self, make: Make, file: Path) -> None:
        """Who cancels a call does not leave its process behind."""
        import asyncio

        agent = make(url=f"sqlite:///{file}", timeout=60)
        endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT count(*) FROM n"

        async def main() -> None:
            task = asyncio.create_task(agent.acall("sql_query", sql=endless))
            await asyncio.sleep(0)
            while not _children():
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            while _children():
                await asyncio.sleep(0.01)

        asyncio.run(asyncio.wait_for(main(), 30))

    def test_many_at_once(self, ann: Agent) -> None:
        """Calls side by side do not meet."""
        calls = [ToolCall(name="sql_query", arguments={"sql": f"SELECT {n}"}) for n in range(6)]
        assert [[[n]] for n in range(6)] == [one.result.rows for one in ann.execute_batch(calls, max_parallel=3)]

    @pytest.mark.parametrize("journal", ["DELETE", "TRUNCATE", "WAL"])
    def test_after_a_write_that_was_killed(self, ann: Agent, file: Path, journal: str) -> None:
        """What a writer left half done when it was killed is undone, and does not keep anybody from reading."""
        subprocess.run([sys.executable, "-c", _KILLED, str(file), journal], check=False)
        assert list(file.parent.glob("data.db-*"))

        assert [[2]] == ann.call("sql_query", sql="SELECT count(*) FROM people").rows
        assert ["people", "pets", "names"] == [one.name for one in ann.call("sql_tables").tables]

    def test_a_cast_by_two_colons(self, make: Make, file: Path, refused: Refused) -> None:
        """A parameter before `::` is not found; the fix says how to write the cast."""
        agent = make(url=f"sqlite:///{file}")

        assert "CAST(:x AS" in refused("SqlStatementError", agent, sql="SELECT :x::int", parameters={"x": 1})

    @pytest.mark.parametrize(("do", "sql"), [("query", "SELECT * FROM people"), ("write", "DELETE FROM people")])
    def test_a_locked_database(self, file: Path, do: str, sql: str) -> None:
        """A lock that somebody else holds is waited for until the time-out, and named."""
        with closing(sqlite3.connect(file)) as other:
            other.execute("BEGIN EXCLUSIVE")
            with pytest.raises(Problem, match="locked") as caught:
                tried(file, sql, do=do, timeout=0.5)
        assert "limit" == caught.value.kind


_KILLED = """
import os, signal, sqlite3, sys
file, journal = sys.argv[1:]
made = sqlite3.connect(file, isolation_level=None)
made.execute(f"PRAGMA journal_mode = {journal}")
made.execute("PRAGMA cache_size = 1")  # so that pages go to the disk before the end
made.execute("BEGIN")
for _ in range(5000):
    made.execute("INSERT INTO people (name) VALUES (hex(randomblob(50)))")
os.kill(os.getpid(), signal.SIGKILL)
"""


def _children() -> list[str]:
    """Return the processes that this one has."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        try:
            found += (task / "children").read_text().split()
        except FileNotFoundError:
            continue
    return [one for one in found if not _gone(one)]


def _gone(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
