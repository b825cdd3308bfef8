"""Statements that try to do more than read, to hang or to flood, against a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from praval_tools import Agent, ToolCall
from rig import tried

from praval_tools_sql.protocol import Problem

Make = Callable[..., Agent]
Refused = Callable[..., str]

CHANGES = [
    "INSERT INTO people (name) VALUES ('eve')",
    "WITH x AS (DELETE FROM people RETURNING *) SELECT * FROM x",
    "WITH x AS (INSERT INTO people (name) VALUES ('eve') RETURNING 1) SELECT * FROM x",
    "SELECT nextval('numbers')",
    "SELECT setval('numbers', 7)",
    "SELECT * FROM people FOR UPDATE",
    "SELECT * INTO t FROM people",
    "CREATE TABLE t AS SELECT 1",
    "TRUNCATE people",
    "COMMIT",
    "ROLLBACK",
    "BEGIN",
    "SET TRANSACTION READ WRITE",
    "SET default_transaction_read_only = off",
    "SET ROLE postgres",
    "COPY people TO PROGRAM 'touch {there}'",
    "COPY people TO '{there}'",
    "COPY people FROM PROGRAM 'id'",
    "DO $$ BEGIN DELETE FROM people; END $$",
    "CALL x()",
    "LISTEN x",
    "NOTIFY x",
    "PREPARE x AS DELETE FROM people",
    "DECLARE x CURSOR FOR SELECT 1",
    "LOAD 'auto_explain'",
    "EXPLAIN ANALYZE DELETE FROM people",
    "SELECT 1; DELETE FROM people",
    "SELECT 1; COMMIT; DELETE FROM people; --",
    "SELECT 1; SET TRANSACTION READ WRITE; DELETE FROM people",
    "SELECT 1 /* ; */; DELETE FROM people",
    "SELECT 1\0; DELETE FROM people",
    "SELECT set_config('transaction_read_only', 'off', true)",
    "SELECT set_config('role', 'postgres', true)",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_export(1, '{there}')",
    "SELECT dblink('dbname=test', 'DELETE FROM people')",
    "SELECT pg_reload_conf()",
    "SELECT query_to_xml('DELETE FROM people RETURNING 1', true, false, '')",
    "SELECT rolpassword FROM pg_authid",
]
"""Each is refused: by the read-only transaction, by the cursor, by the rights of the role, or as no statement."""

FLOODS = [
    "SELECT pg_sleep(600)",
    "SELECT count(*) FROM generate_series(1, 1000000000000)",
    "SELECT set_config('statement_timeout', '0', false), pg_sleep(600)",
    "SELECT set_config('statement_timeout', '0', false), pg_sleep(x) FROM generate_series(1, 600) AS x",
    "SELECT set_config('statement_timeout', '0', false), pg_sleep((x - 1) * 60) FROM generate_series(1, 3) AS x",
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT count(*) FROM n",
    "SELECT repeat('a', 60) || '!' ~ '^(((a|a)+)+)+$', pg_sleep(600)",
]


def everything(server: Any) -> Any:
    """Return what the database holds."""
    return server.execute("SELECT (SELECT last_value FROM numbers), array_agg(p ORDER BY id) FROM people p").fetchall()


class TestReading:
    def test_rows(self, pia: Agent) -> None:
        """Dates, decimals and bytes come back as JSON can say them; values are bound."""
        sql = (
            r"SELECT id, born, fee, '\x00ff'::bytea, NULL, ARRAY[1.5], jsonb_build_object('a', ARRAY[1]), "
            "'NaN'::float8, now() - now() FROM people WHERE name = :who"
        )
        rows = pia.call("sql_query", sql=sql, parameters={"who": "ann"})
        assert [[1, "1990-05-17", "12.50", "AP8=", None, ["1.5"], {"a": [1]}, "nan", "0:00:00"]] == rows.rows

    def test_casts_are_no_parameters(self, pia: Agent) -> None:
        """Two colons are a cast, as PostgreSQL writes it, and a percent sign is itself."""
        assert [[1, "100%"]] == pia.call("sql_query", sql="SELECT '1'::int, '100%' WHERE 'ab' LIKE 'a%'").rows

    def test_long_numbers_in_json(self, reader: str) -> None:
        """A number of JSON that is beyond 64 bits comes as text, however long."""
        sql = "SELECT CAST('[7, -' || repeat('9', 5000) || ', 1.5]' AS json)"

        assert [[[7, "-" + "9" * 5000, 1.5]]] == tried(reader, sql, chars=10_000)["rows"]

    def test_values_that_python_lacks(self, reader: str) -> None:
        """The error says how to get them."""
        with pytest.raises(Problem, match="CAST"):
            tried(reader, "SELECT 'infinity'::timestamp")
        with pytest.raises(Problem, match="NUL"):
            tried(reader, "SELECT CAST(:a AS text)", parameters={"a": "\0"})
        assert [["infinity"]] == tried(reader, "SELECT CAST('infinity'::timestamp AS text)")["rows"]

    def test_tables_and_description(self, pia: Agent) -> None:
        """Tables are listed and described, with the types as PostgreSQL spells them."""
        assert ["people"] == [one.name for one in pia.call("sql_tables").tables]
        assert ["INTEGER", "TEXT", "DATE", "NUMERIC", "BYTEA"] == [
            one.type for one in pia.call("sql_describe", table="people").columns
        ]

    def test_writing(self, pia: Agent, server: Any) -> None:
        """An approved write is committed."""
        sql = "UPDATE people SET fee = fee WHERE name = :a RETURNING id"
        change = pia.call("sql_write", sql=sql, parameters={"a": "ann"})
        assert (1, [[1]]) == (change.affected, change.rows.rows)


class TestChanges:
    @pytest.mark.parametrize("sql", CHANGES)
    def test_are_refused(self, reader: str, server: Any, tmp_path: Path, sql: str) -> None:
        """The server refuses, and the database holds what it held."""
        before = everything(server)

        with pytest.raises(Problem) as caught:
            tried(reader, sql.replace("{there}", str(tmp_path / "there")))

        assert caught.value.kind in ("refused", "statement")
        assert (before, []) == (everything(server), list(tmp_path.iterdir()))

    def test_what_a_statement_sets_is_gone_after_it(self, reader: str) -> None:
        """Each statement has a connection of its own, which is not used again."""
        tried(reader, "SELECT set_config('default_transaction_read_only', 'off', false)")
        assert [["on"]] == tried(reader, "SELECT current_setting('transaction_read_only')")["rows"]

    @pytest.mark.parametrize(
        "sql", ["INSERT INTO people (name) VALUES ('eve'); DELETE FROM people", "SELECT 1; COMMIT; DELETE FROM people"]
    )
    def test_a_write_is_one_statement(self, reader: str, server: Any, sql: str) -> None:
        """Who approves one statement has not approved a second behind it."""
        before = everything(server)
        with pytest.raises(Problem, match="multiple commands"):
            tried(reader, sql, do="write")
        assert before == everything(server)

    def test_ending_sessions_of_others(self, reader: str, server: Any) -> None:
        """The role must not have the right to end sessions, and a role that has it is refused."""
        mine = server.execute("SELECT pg_backend_pid()").fetchone()[0]
        with pytest.raises(Problem) as caught:
            tried(reader, f"SELECT pg_terminate_backend({mine})")
        assert "refused" == caught.value.kind


class TestRoles:
    def test_a_superuser_is_refused(self, make: Make, server: Any, refused: Refused) -> None:
        """Nothing holds a superuser back, so that it is refused with a way out, for writing as well."""
        url = _boss(server)
        assert "CREATE ROLE reader" in refused("SqlRefusedError", make(url=url), sql="SELECT 1")
        refused("SqlRefusedError", make(url=url), "sql_write", sql="DELETE FROM people")
        assert [[1]] == make(url=url, allow_superuser=True).call("sql_query", sql="SELECT 1").rows

    def test_strong_roles_are_refused(self, reader: str, server: Any) -> None:
        """So is a member of a role that reads files or runs programs."""
        who = server.execute("SELECT current_database()").fetchone()[0]
        server.execute(f"GRANT pg_read_server_files TO {who}")
        try:
            with pytest.raises(Problem, match="pg_read_server_files"):
                tried(reader, "SELECT pg_read_file('/etc/passwd')")
        finally:
            server.execute(f"REVOKE pg_read_server_files FROM {who}")

    def test_a_role_that_replicates_is_refused(self, reader: str, server: Any) -> None:
        """So is one that may make replication slots, which stay when the transaction is rolled back."""
        who = server.execute("SELECT current_database()").fetchone()[0]
        server.execute(f"ALTER ROLE {who} REPLICATION")
        try:
            with pytest.raises(Problem, match="REPLICATION"):
                tried(reader, f"SELECT pg_create_physical_replication_slot('{who}', true)")
            made = server.execute("SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s", [who])
            assert (0,) == made.fetchone()
        finally:
            server.execute(f"ALTER ROLE {who} NOREPLICATION")


class TestFloods:
    @pytest.mark.parametrize("sql", FLOODS)
    def test_without_end(self, reader: str, sql: str) -> None:
        """A query that never ends is ended by the server, also one that lifts the time-out for itself."""
        with pytest.raises(Problem) as caught:
            tried(reader, sql, timeout=0.2)
        assert "limit" == caught.value.kind

    def test_many_rows(self, reader: str) -> None:
        """Only so many rows leave the server as are wanted."""
        answer = tried(reader, "SELECT generate_series(1, 1000000000)", rows=3)
        assert ([[1], [2], [3]], True) == (answer["rows"], answer["truncated"])

    def test_large_values(self, make: Make, reader: str, refused: Refused) -> None:
        """A value that does not fit into the memory of the process ends it, and nothing else."""
        agent = make(url=reader, max_memory_mb=200)
        refused("SqlLimitError", agent, sql="SELECT repeat('a', 120000000)")
        assert [[1]] == agent.call("sql_query", sql="SELECT 1").rows

    def test_deep_values(self, make: Make, reader: str, refused: Refused) -> None:
        """JSON that is nested deeper than Python reads is an error in words."""
        sql = "SELECT (repeat('[', 5000) || repeat(']', 5000))::json"
        refused("SqlLimitError", make(url=reader), sql=sql)


class TestSecrets:
    @pytest.mark.parametrize("port", ["5432", "1"])
    def test_no_error_shows_the_password(self, make: Make, reader: str, port: str) -> None:
        """Whatever goes wrong, neither the error nor anything else of the result holds the password."""
        from sqlalchemy import make_url

        url = make_url(reader).set(port=int(port), username="nobody_there").render_as_string(hide_password=False)
        agent = make(url=url, timeout=3)
        calls: dict[str, dict[str, str]] = {"sql_tables": {}, "sql_query": {"sql": "nonsense :x"}}
        for tool, more in calls.items():
            result = agent.execute(ToolCall(name=tool, arguments=more))
            assert "SqlConnectionError" == result.error_type
            for text in (str(result), repr(result), str(result.exception), result.for_model()):
                assert "pässw" not in text
                assert "p%C3%A4ssw" not in text

    def test_settings_do_not_show_it(self, reader: str) -> None:
        """Nor do the settings when they are printed."""
        from praval_tools_sql.settings import SqlSettings

        assert "ssw" not in repr(SqlSettings(url=reader))

    def test_processes_do_not_show_it(self, make: Make, reader: str) -> None:
        """No list of processes shows it while a statement runs."""
        agent = make(url=reader)
        sql = "SELECT string_agg(pg_stat_get_backend_activity(s), ' ') FROM pg_stat_get_backend_idset() s"
        assert "ssw" not in str(agent.call("sql_query", sql=sql).rows)


def _boss(server: Any) -> str:
    from conftest import NAME, SERVER
    from sqlalchemy import make_url

    return make_url(SERVER).set(database=NAME).render_as_string(hide_password=False)
