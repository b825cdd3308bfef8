"""A database in a file, one on a server, and agents that may call the tools."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cattrs
import pytest
from praval_tools import Agent, Allow, Outcome, ToolCall, ToolRegistry

from praval_tools_sql import plugin

Make = Callable[..., Agent]
Refused = Callable[..., str]

SERVER = os.environ.get("PRAVAL_TOOLS_SQL_POSTGRESQL", "postgresql://postgres@127.0.0.1:5432/test")
NAME = f"praval_tools_sql_{os.getpid()}"
PASSWORD = "pässw/rd:@%"


@pytest.fixture
def make() -> Make:
    """Makes an agent with all tools, from settings as a host would read them from a file; writes are approved."""

    def made(**settings: Any) -> Agent:
        registry = ToolRegistry()
        registry.set_approval_handler(lambda request: Allow(by="eve"))
        for tool in plugin.praval_tools_register_tools(cattrs.structure(settings, plugin.praval_tools_settings())):
            registry.register_tool(tool)
            registry.assign_tool_to_agent(tool.name, "ann")
        return registry.agent("ann")

    return made


@pytest.fixture
def refused() -> Refused:
    """Calls a tool that must fail with an error of this class; returns what it says."""

    def call(kind: str, agent: Agent, tool: str = "sql_query", **arguments: Any) -> str:
        result = agent.execute(ToolCall(name=tool, arguments=arguments))
        assert (Outcome.TOOL_ERROR, kind) == (result.outcome, result.error_type), (result.error, result.result)
        return result.error or ""

    return call


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database with a table of people, a view, an index and a table that refers to people."""
    path = tmp_path / "data.db"
    with sqlite3.connect(path) as made:
        made.executescript(
            """
            CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL DEFAULT 'nobody', photo BLOB);
            INSERT INTO people VALUES (1, 'ann', x'00ff'), (2, 'bob', NULL);
            CREATE TABLE pets (id INTEGER PRIMARY KEY, owner INTEGER REFERENCES people (id), name TEXT);
            CREATE UNIQUE INDEX by_name ON people (name);
            CREATE VIEW names AS SELECT name FROM people;
            """
        )
    made.close()
    return path


@pytest.fixture
def ann(make: Make, file: Path) -> Agent:
    """An agent of the database in the file."""
    return make(url=f"sqlite:///{file}")


@pytest.fixture(scope="session")
def server() -> Iterator[Any]:
    """A connection to the server as its superuser, with a database of its own and a role that may only read it."""
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    try:
        boss = psycopg.connect(SERVER, autocommit=True, connect_timeout=3)
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL answers: {error}")
    boss.execute(f"CREATE DATABASE {NAME}")
    boss.execute(f"CREATE ROLE {NAME} LOGIN PASSWORD '{PASSWORD}'")
    with psycopg.connect(SERVER, dbname=NAME, autocommit=True) as inside:
        inside.execute("CREATE TABLE people (id serial PRIMARY KEY, name text, born date, fee numeric, photo bytea)")
        inside.execute("INSERT INTO people (name, born, fee) VALUES ('ann', '1990-05-17', 12.50), ('bob', NULL, NULL)")
        inside.execute("CREATE SEQUENCE numbers")
        inside.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {NAME}")
        inside.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {NAME}")
        yield inside
    boss.execute(f"DROP DATABASE {NAME} WITH (FORCE)")
    boss.execute(f"DROP ROLE {NAME}")
    boss.close()


@pytest.fixture
def reader(server: Any) -> str:
    """The URL for the role."""
    from sqlalchemy import make_url

    url = make_url(SERVER).set(username=NAME, password=PASSWORD, database=NAME)
    return url.render_as_string(hide_password=False)


@pytest.fixture
def pia(make: Make, reader: str) -> Agent:
    """An agent of the database on the server."""
    return make(url=reader)
