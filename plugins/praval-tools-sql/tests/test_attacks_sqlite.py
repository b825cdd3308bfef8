"""Statements that try to do more than read, to hang or to flood, against a SQLite file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from praval_tools import Agent
from rig import tried
from sqlalchemy import make_url

from praval_tools_sql import plugin, sqlite
from praval_tools_sql.protocol import Problem

Make = Callable[..., Agent]
Refused = Callable[..., str]

CHANGES = [
    "INSERT INTO people (name) VALUES ('eve')",
    "UPDATE people SET name = 'eve' RETURNING id",
    "DELETE FROM people",
    "REPLACE INTO people (id) VALUES (1)",
    "WITH x AS (SELECT 1) INSERT INTO people (name) SELECT 'eve' FROM x",
    "WITH x AS (SELECT id FROM people) DELETE FROM people WHERE id IN x RETURNING *",
    "/* SELECT */ DROP TABLE people -- SELECT",
    "CREATE TABLE t (x)",
    "CREATE TABLE t AS SELECT * FROM people",
    "CREATE TEMP TABLE t (x)",
    "CREATE TEMP VIEW people AS SELECT 1",
    "CREATE TEMP TRIGGER t AFTER INSERT ON people BEGIN SELECT 1; END",
    "CREATE VIRTUAL TABLE t USING fts5(x)",
    "ALTER TABLE people RENAME TO t",
    "CREATE INDEX i ON people (photo)",
    "REINDEX", "ANALYZE", "VACUUM",
    "VACUUM INTO '{there}'",
    "ATTACH '{there}' AS x",
    "ATTACH 'file:{there}?mode=rwc' AS x",
    "DETACH main",
    "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT x", "BEGIN IMMEDIATE",
    "PRAGMA query_only = OFF",
    "PRAGMA writable_schema = ON",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA temp_store_directory = '/tmp'",
    "PRAGMA user_version = 7",
    "PRAGMA trusted_schema",
    "SELECT * FROM pragma_database_list",
    "SELECT load_extension('{there}')",
    "SELECT load_extension(value) FROM json_each('[1]')",
    "SELECT LOAD_EXTENSION('{there}', 'x')",
    "SELECT fts3_tokenizer('simple')",
    "SELECT sqlite_compileoption_get(1)",
    "EXPLAIN DELETE FROM people",
]  # fmt: skip
"""Each is refused by SQLite itself, and named."""

NONSENSE = [
    "SELECT 1; DROP TABLE people",
    "UPDATE sqlite_master SET sql = ''",
    "DELETE FROM sqlite_master",
    "SELECT 1;\n-- a comment\nDELETE FROM people;",
    "SELECT writefile('{there}', 'x')",
    "SELECT readfile('/etc/passwd')",
    "SELECT edit('x')",
    "SELECT eval('DELETE FROM people')",
    ".shell touch {there}",
    "SELECT * FROM people INTO OUTFILE '{there}'",
    "COPY people TO '{there}'",
    "CALL x()",
    "",
    ";",
    "--",
]
"""Each is no single statement that SQLite knows."""


class TestChanges:
    @pytest.mark.parametrize("sql", CHANGES)
    def test_are_refused(self, file: Path, sql: str) -> None:
        """The statement is refused as one that does more than read; no byte of the file changes, no other appears."""
        before, there = file.read_bytes(), file.parent / "there"

        with pytest.raises(Problem) as caught:
            tried(file, sql.format(there=there))

        assert "refused" == caught.value.kind
        assert (before, ["data.db"]) == (file.read_bytes(), os.listdir(file.parent))

    @pytest.mark.parametrize("sql", NONSENSE)
    def test_by_what_is_no_statement(self, file: Path, sql: str) -> None:
        """More than one statement, and what SQLite does not know, changes nothing either."""
        before, there = file.read_bytes(), file.parent / "there"

        try:
            answer = tried(file, sql.format(there=there))
        except Problem as problem:
            assert "statement" == problem.kind
        else:
            assert [] == answer["rows"]

        assert (before, ["data.db"]) == (file.read_bytes(), os.listdir(file.parent))

    @pytest.mark.parametrize(
        "sql",
        ["ATTACH '{there}' AS x", "VACUUM INTO '{there}'", "PRAGMA writable_schema = ON", "COMMIT", "ROLLBACK",
         "SELECT load_extension('x')", "CREATE VIRTUAL TABLE t USING csv(filename='/etc/passwd')", "SAVEPOINT x",
         "DETACH main", "INSERT INTO people (name) SELECT fts3_tokenizer('simple')", "PRAGMA journal_mode = OFF"],
    )  # fmt: skip
    def test_writing_is_for_tables(self, file: Path, sql: str) -> None:
        """What writes may change tables; other files, settings and the transaction stay closed to it."""
        with pytest.raises(Problem) as caught:
            tried(file, sql.format(there=file.parent / "there"), do="write")

        assert caught.value.kind == ("statement" if "VACUUM" in sql else "refused")
        assert ["data.db"] == os.listdir(file.parent)

    def test_without_the_guard_the_file_is_still_read_only(self, file: Path) -> None:
        """The authorizer is not the only lock: the file is opened so that SQLite cannot write to it."""
        import sqlite3

        with sqlite.open_connection(make_url(f"sqlite:///{file}"), writing=False, seconds=1) as connection:
            raw = connection.connection.driver_connection
            assert raw is not None
            for switch in ("PRAGMA query_only = OFF", "PRAGMA query_only = ON"):
                raw.execute(switch)
                with pytest.raises(sqlite3.OperationalError, match="readonly"):
                    raw.execute("DELETE FROM people")

    def test_what_a_trigger_or_view_does_is_asked_too(self, file: Path) -> None:
        """A view made by somebody else does not lend its functions."""
        import sqlite3

        with sqlite3.connect(file) as made:
            made.execute("CREATE VIEW evil AS SELECT load_extension('x') AS y")
        made.close()

        with pytest.raises(Problem, match="load_extension"):
            tried(file, "SELECT * FROM evil")


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
DOUBLING = ", ".join(f"a{n} AS (SELECT p.x FROM a{n - 1} p, a{n - 1} q)" for n in range(1, 60))


class TestFloods:
    @pytest.mark.parametrize(
        "sql",
        [
            ENDLESS + "SELECT count(*) FROM n",
            ENDLESS + "SELECT x FROM n WHERE x < 0",
            ENDLESS + "SELECT x FROM n ORDER BY random()",
            ENDLESS + "SELECT max(hex(randomblob(1000000))) FROM n",
            "SELECT count(*) FROM people a, people b, people c, people d, people e, people f, people g, people h, "
            "people i, people j, people k, people l, people m, people n, people o, people p, people q, people r, "
            "people s, people t, people u, people v, people w, people x, people y, people z, people aa, people bb",
        ],
    )
    def test_without_end(self, file: Path, sql: str) -> None:
        """A query that never ends is stopped by the clock that SQLite asks."""
        with pytest.raises(Problem) as caught:
            tried(file, sql, timeout=0.2)
        assert "limit" == caught.value.kind

    def test_before_the_clock_is_asked(self, make: Make, file: Path, refused: Refused) -> None:
        """A query whose planning alone never ends, which SQLite cannot interrupt, is killed."""
        agent = make(url=f"sqlite:///{file}", timeout=0.5)
        sql = f"WITH a0 AS (SELECT 1 x), {DOUBLING} SELECT count(*) FROM a59"
        refused("SqlLimitError", agent, sql=sql)

    def test_a_pattern_that_explodes(
        self, make: Make, file: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A regular expression that takes for ever is killed, too."""
        monkeypatch.setattr(plugin, "GRACE_SECONDS", 0.5)
        agent = make(url=f"sqlite:///{file}", timeout=0.5)
        refused("SqlLimitError", agent, sql="SELECT printf('%.*c', 60, 'a') || '!' REGEXP '(a+)+$'")

    def test_memory(self, make: Make, file: Path, refused: Refused) -> None:
        """A query that fills the memory ends with an error; this process does not notice."""
        agent = make(url=f"sqlite:///{file}", max_memory_mb=200, timeout=20)
        large = "m(b) AS MATERIALIZED (SELECT hex(zeroblob(4000000)) FROM n LIMIT 1000)"
        sql = f"{ENDLESS}, {large} SELECT count(m.b) FROM m, m o"
        refused("SqlLimitError", agent, sql=sql)

    @pytest.mark.parametrize(
        "sql",
        ["SELECT zeroblob(1000000000)", "SELECT randomblob(1e9)", "SELECT hex(zeroblob(16000000))",
         "SELECT replace(hex(zeroblob(4000)), '0', hex(zeroblob(4000)))",
         ENDLESS + "SELECT group_concat(hex(randomblob(1000))) FROM n", "SELECT " + "(" * 300 + "1" + ")" * 300,
         "SELECT 1" + " UNION ALL SELECT 1" * 200, "SELECT '" + "a" * 100_000 + "'",
         "SELECT 'a' LIKE '" + "%a" * 1_000 + "'"],
    )  # fmt: skip
    def test_large_values(self, file: Path, sql: str) -> None:
        """Values, texts and nesting beyond SQLite's limits, which are set low, are errors at once."""
        with pytest.raises(Problem) as caught:
            tried(file, sql, timeout=0.5)
        assert caught.value.kind in ("statement", "limit")
        assert len(str(caught.value)) < 1_000

    def test_many_columns(self, file: Path) -> None:
        """A wide result counts against the size of a result, names included."""
        wide = "SELECT " + ", ".join(f"1 AS {'c' * 40}{n}" for n in range(1_500))
        assert tried(file, wide, bytes=1_000)["truncated"]
