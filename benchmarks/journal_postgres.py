"""
Journaled calls of a registry over PostgreSQL beside raw grouped inserts of the same rows, in turns.

`python benchmarks/journal_postgres.py [--rounds N]`

The server is that of PRAVAL_TOOLS_BENCH_POSTGRES, a URL without a database; it gets a database, which is dropped.
"""

from __future__ import annotations

import argparse
import asyncio
import contextvars
import os
import secrets
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Final

from _measure import Figure
from journal_calls import _load, _registry
from journal_store import _CALLERS, _CALLS, _settled

SERVER: Final = os.environ.get("PRAVAL_TOOLS_BENCH_POSTGRES", "postgresql://postgres@127.0.0.1:5432")


@contextmanager
def _database() -> Iterator[str]:
    """Yield the URL of a new database; raises where there is no driver or no server."""
    import psycopg

    name = f"praval_tools_bench_{secrets.token_hex(6)}"
    try:
        connection = psycopg.connect(f"{SERVER}/postgres", autocommit=True, connect_timeout=3)
    except psycopg.OperationalError as error:
        raise ConnectionError(str(error)) from error
    with connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield f"{SERVER}/{name}"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _upgrade(url: str, schema: str) -> str:
    """Return the URL of a schema with the tables of a journal."""
    import psycopg

    from praval_tools.journal.storage.postgres import PostgresDatabase
    from praval_tools.journal.storage.postgres_schema import upgrade_schema

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    place = f"{url}?options=-csearch_path%3D{schema}"
    with closing(PostgresDatabase(place)) as database:
        upgrade_schema(database)
    return place


def _raw(connection: Any, groups: Sequence[Sequence[tuple[Any, ...]]]) -> float:
    """Return the seconds of plain `executemany`, which sends a group at once: nobody asks, nobody is answered."""
    began = time.perf_counter()
    for rows in groups:
        with connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO journal_events VALUES ({','.join(['%s'] * 12)})", rows)
    return time.perf_counter() - began


def beside_raw(url: str, rounds: int) -> tuple[list[float], list[float]]:
    """Return journaled calls a second and raw events a second of each turn."""
    import psycopg

    rates, raws, calls, last = list[float](), list[float](), _CALLERS * _CALLS, 0
    with ExitStack() as stack:
        plain = stack.enter_context(psycopg.connect(_upgrade(url, "raw"), autocommit=True))
        runner = stack.enter_context(asyncio.Runner())
        registry = stack.enter_context(_registry(_upgrade(url, "ours")))
        tools = registry.toolset("analyst")
        for turn in range(rounds):
            with registry.run(f"run-{turn}"), _settled():
                began = time.perf_counter()
                runner.run(_load(tools, calls), context=contextvars.copy_context())
                rates.append(calls / (time.perf_counter() - began))
            rows = plain.execute("SELECT * FROM ours.journal_events WHERE seq > %s ORDER BY seq", (last,)).fetchall()
            last = rows[-1][0]
            with _settled():
                raws.append(len(rows) / _raw(plain, [rows[at : at + _CALLERS] for at in range(0, len(rows), _CALLERS)]))
    return rates, raws


def journaling(rounds: int) -> Iterator[Figure]:
    """Yield calls a second and their share of raw inserts; nothing where there is no driver or no server."""
    os.environ.setdefault("PRAVAL_TOOLS_KEY", "the key of the benchmark")
    try:
        with _database() as url:
            rates, raws = beside_raw(url, rounds)
    except (ImportError, ConnectionError) as error:
        print(f"PostgreSQL is not measured: {error}", file=sys.stderr)
        return
    shares = sorted(200 * rate / raw for rate, raw in zip(rates, raws, strict=True))
    low, middle, high = (shares[int(len(shares) * part)] for part in (0.25, 0.5, 0.75))
    raw = f"{statistics.median(raws):,.0f} raw events a second"
    yield Figure("journal:postgres", statistics.median(rates), "/s", note=f"{_CALLERS} tasks, PostgreSQL on loopback")
    yield Figure("journal:postgres-share", middle, "%", low, high, note=f"two events a call; {raw} of the same rows")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    for figure in journaling(parser.parse_args().rounds):
        print(figure)


if __name__ == "__main__":
    main()
