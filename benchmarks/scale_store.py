"""
What one PostgreSQL store takes for a call: time under its lock, waits for the log, bytes, and the processes' own time.

`python benchmarks/scale_store.py [--rounds N] [--write]`

Of several rounds the calmest counts, for each figure. The server is that of `journal_postgres.py`, on this machine:
the processor time of its sessions is read from `/proc`.
`--write` puts the figures into `scale_costs.json`, from which `scale.py` prints its tables.
"""

from __future__ import annotations

import argparse
import asyncio
import contextvars
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
from _scale_costs import write_section
from journal_calls import _load, _registry
from journal_postgres import SERVER, _database, _upgrade
from journal_store import _record
from msgspec.structs import replace
from sqlalchemy.engine import Connection

from praval_tools import ToolRegistry
from praval_tools.journal import INTENT, Item
from praval_tools.journal.storage import postgres
from praval_tools.journal.storage.protocol import StateRow
from praval_tools.journal.storage.sql_store import SqlStore
from praval_tools.journal.storage.worker_calls import WorkerCallTable
from praval_tools.registry.registry import get_runtime
from praval_tools.registry.toolset import Toolset

_GROUP_SIZES: Final = (1, 8, 64, 256)
_WRITERS: Final = 8
_SECONDS: Final = 4
_CHANGES: Final = 20  # a second
_TICKS: Final = os.sysconf("SC_CLK_TCK")

Costs = dict[str, float]


# ── one group ────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _timed_procedure(held: list[float]) -> Iterator[None]:
    """Have the procedure that writes groups tell how long each holds the store's lock, in microseconds."""
    original = postgres._GROUP_PROCEDURE
    timed = original.replace("DECLARE\n", "DECLARE\n    began timestamptz; over timestamptz;\n")
    timed = timed.replace("FOR UPDATE;\n", "FOR UPDATE;\n    began := clock_timestamp();\n")
    timed = timed.replace("    COMMIT;\n", "    COMMIT;\n    over := clock_timestamp();\n")
    report = "RAISE NOTICE USING MESSAGE = 'held ' || (extract(epoch FROM over - began) * 1e6)::bigint;\nEND $$"
    timed = timed.replace("END $$", report)
    if timed.count("clock_timestamp") != 2:
        raise SystemExit("the procedure has changed; correct _timed_procedure")
    opened = postgres.PostgresDatabase.open_connection

    def open_connection(database: postgres.PostgresDatabase) -> Any:
        connection = opened(database)
        connection.add_notice_handler(
            lambda notice: held.append(float(str(notice.message_primary).removeprefix("held ")))
        )
        return connection

    postgres._GROUP_PROCEDURE, postgres.PostgresDatabase.open_connection = timed, open_connection
    try:
        yield
    finally:
        postgres._GROUP_PROCEDURE, postgres.PostgresDatabase.open_connection = original, opened


def measure_groups(place: str) -> Costs:
    """Return the microseconds under the lock of a group and of each row, fitted to groups of several sizes."""
    held: list[float] = []
    medians: dict[int, float] = {}
    with _timed_procedure(held), SqlStore(place) as store:
        store.append(_items("warm", 4))
        for size in _GROUP_SIZES:
            held.clear()
            for number in range(80):
                store.append(_items(f"{size}-{number}", size))
            medians[size] = statistics.median(held)
            print(f"group of {size:5}: {medians[size]:9.0f} us under the lock", flush=True)
        stale = [_time_half_stale(store, f"stale-{number}") for number in range(30)]
    per_row = (medians[256] - medians[1]) / (256 - 1)
    return {
        "lock_group_us": medians[1] - per_row,
        "lock_row_us": per_row,
        "stale_item_us": statistics.median(stale) / 64 * 1e6,
    }


def _items(name: str, count: int, revision: int | None = None) -> tuple[Item, ...]:
    names = (f"{name}-{number}-{os.urandom(8).hex()}" for number in range(count))
    return tuple(Item((_record(text, INTENT, number),), revision) for number, text in enumerate(names))


def _time_half_stale(store: SqlStore, name: str) -> float:
    """Return the seconds of a group of 64 calls and results, of which a change of access has made the calls old."""
    items = _items(name, 32, 10**6) + _items(f"{name}-results", 32)
    began = time.perf_counter()
    store.append(items)
    return time.perf_counter() - began


# ── the log and small transactions ───────────────────────────────────────────────────────────────


def measure_log(url: str) -> Costs:
    """Return how long one writer waits for the log, and what transactions of one row take that eight writers make."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE small (id bigint PRIMARY KEY, body bytea)")
        waits = []
        for _ in range(400):
            began = time.perf_counter()
            connection.execute("SELECT pg_logical_emit_message(true, 'bench', '')")
            waits.append(time.perf_counter() - began)
    done, spent = list[int](), list[float]()
    over = time.perf_counter() + _SECONDS

    def write(first: int) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            process, count = connection.info.backend_pid, 0
            before = _processor_time(process)
            while time.perf_counter() < over:
                connection.execute("INSERT INTO small VALUES (%s, %s)", (first + count, b"x" * 400))
                count += 1
            done.append(count)
            spent.append(_processor_time(process) - before)

    writers = [threading.Thread(target=write, args=(number * 10**9,)) for number in range(_WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    return {
        "log_wait_us": statistics.median(waits) * 1e6,
        "small_transactions_per_s": sum(done) / _SECONDS,
        "small_transaction_cpu_us": sum(spent) / sum(done) * 1e6,
    }


def _processor_time(process: int) -> float:
    """Return the seconds of processor time of a process."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


# ── calls ────────────────────────────────────────────────────────────────────────────────────────


def measure_calls(url: str) -> Costs:
    """Return what journaled calls take in a process and in the store, with and without a run, alone and counted."""
    costs: Costs = {}
    with _registry(_upgrade(url, "calls")) as registry, asyncio.Runner() as runner:  # type: ignore[arg-type]
        costs |= _measure_load(url, runner, registry.toolset("analyst"), 20_000, "call")
        registry.assign_tool_to_agent("add", "counted", max_calls=10**12)
        tools = registry.toolset("counted")
        with _timed_transactions() as held:
            runner.run(_call_alone(tools, 200))
            alone = statistics.median(held)
            held.clear()
            costs |= _measure_load(url, runner, tools, 6_000, "counted_call")
        more = (sum(held) - alone * len(held)) / (6_500 - len(held))
        costs |= {"counted_group_lock_us": (alone - more) * 1e6, "counted_call_lock_us": more * 1e6}
        with registry.run("in-a-run"):
            tools = registry.toolset("analyst")
            _run(runner, tools, 500)
            began = time.perf_counter()
            _run(runner, tools, 4_000)
            costs["run_calls_per_s"] = 4_000 / (time.perf_counter() - began)
        process = time.process_time()
        runner.run(_call_alone(registry.toolset("analyst"), 500))
        costs["call_alone_process_us"] = (time.process_time() - process) / 500 * 1e6
        analyst = registry.agent("analyst")
        costs["call_alone_us"] = _median(lambda number: analyst.call("subtract", x=float(number), y=1.0), 300)
        costs["run_us"] = _median(lambda number: _make_run(registry, number), 200)
    return costs


def _measure_load(url: str, runner: asyncio.Runner, tools: Toolset, calls: int, name: str) -> Costs:
    """Return what each of *calls* takes that 64 tasks make."""
    _run(runner, tools, 500)
    with psycopg.connect(url, autocommit=True) as connection:
        before, process, began = _read_server(connection), time.process_time(), time.perf_counter()
        _run(runner, tools, calls)
        spent, processor = time.perf_counter() - began, time.process_time() - process
        after = _read_server(connection)
    costs = {
        f"{name}_process_us": processor / calls * 1e6,
        f"{name}_server_us": (after["processor"] - before["processor"]) / calls * 1e6,
        f"{name}s_per_s": calls / spent,
    }
    if name == "call":
        costs["call_log_bytes"] = (after["log"] - before["log"]) / calls
        costs["call_table_bytes"] = (after["size"] - before["size"]) / calls
    return costs


@contextmanager
def _timed_transactions() -> Iterator[list[float]]:
    """Yield the seconds of each transaction that is not one statement, from its begin to its commit."""
    database, held, began = postgres.PostgresDatabase, list[float](), [0.0]
    begin_write, wait_for_log = database.begin_write, database._wait_for_log

    def begin(self: postgres.PostgresDatabase, connection: Connection) -> None:
        began[0] = time.perf_counter()
        begin_write(self, connection)

    def wait(self: postgres.PostgresDatabase, connection: Connection) -> None:
        held.append(time.perf_counter() - began[0])
        wait_for_log(self, connection)

    database.begin_write, database._wait_for_log = begin, wait  # type: ignore[method-assign]
    try:
        yield held
    finally:
        database.begin_write, database._wait_for_log = begin_write, wait_for_log  # type: ignore[method-assign]


async def _call_alone(tools: Toolset, calls: int) -> None:
    for number in range(calls):
        await tools.acall("add", x=float(number), y=2.0)


def _run(runner: asyncio.Runner, tools: Toolset, calls: int) -> None:
    runner.run(_load(tools, calls), context=contextvars.copy_context())


def _make_run(registry: ToolRegistry, number: int) -> None:
    with registry.run(f"short-{number}"):
        pass


def _median(action: Callable[[int], object], count: int) -> float:
    """Return the median microseconds of an action."""
    spent = []
    for number in range(count):
        began = time.perf_counter()
        action(number)
        spent.append(time.perf_counter() - began)
    return statistics.median(spent) * 1e6


def _read_server(connection: psycopg.Connection[Any]) -> Mapping[str, float]:
    """Return the processor time of the sessions of praval_tools, the bytes of the log and those of the table."""
    sessions = connection.execute(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'praval-tools' AND datname = current_database()"
    )
    processor = sum(_processor_time(process) for (process,) in sessions.fetchall())
    query = "SELECT pg_current_wal_insert_lsn() - '0/0', pg_total_relation_size('calls.journal_events')"
    (log, size) = connection.execute(query).fetchone() or (0, 0)
    return {"processor": processor, "log": float(log), "size": float(size)}


# ── changes of access ────────────────────────────────────────────────────────────────────────────


def measure_changes(url: str) -> Costs:
    """Return what a change of access takes, and how many stored changes a process reads a second when it starts."""
    place, count = _upgrade(url, "changes"), 20_000
    with _registry(place) as registry:  # type: ignore[arg-type]
        change_us = _median(lambda number: registry.assign_tool_to_agent("add", f"agent_{number}"), 300)
        access_store = get_runtime(registry).access_store
        reread_us = _median(lambda _: access_store.load_other_changes(), 300)
    with SqlStore(place) as store:
        grant = next(row for row in store.state().rows if row.kind == "grant")
        rows = tuple(_copy_grant(grant, number) for number in range(count))
        store.append((Item((_record("changes", INTENT, 0),), rows=rows),))
    began = time.perf_counter()
    with _registry(place) as registry:  # type: ignore[arg-type]
        if "add" not in registry.toolset(f"many_{count - 1}"):
            raise SystemExit("the stored changes were not read")
        spent = time.perf_counter() - began
    return {"change_us": change_us, "reread_us": reread_us, "stored_changes_per_s": count / spent}


def _copy_grant(grant: StateRow, number: int) -> StateRow:
    """Return a stored grant to another agent."""
    key = f"{number:032x}"
    body = (grant.body or b"").replace(grant.key.encode(), key.encode())
    body = re.sub(rb'"agent":"[^"]*"', b'"agent":"many_%d"' % number, body)
    return replace(grant, key=key, body=body)


# ── calls on workers ─────────────────────────────────────────────────────────────────────────────


def measure_worker_calls(url: str) -> Costs:
    """Return what each step of a call on a worker takes in the table of such calls, over one connection."""
    with closing(postgres.PostgresDatabase(_upgrade(url, "workers"))) as database:
        table = WorkerCallTable(database)
        request = os.urandom(400)
        table.add("warm", request, 1, 60.0)
        costs = {
            "worker_add_us": _median(lambda number: table.add(f"{number}", request, 1, 60.0), 300),
            "worker_claim_us": _median(lambda number: table.claim(f"{number}", "bench", 60.0), 300),
            "worker_end_us": _median(lambda number: table.end(f"{number}", 1, request), 300),
            "worker_read_us": _median(lambda number: table.read([f"{number}"]), 300),
            "worker_delete_us": _median(lambda number: table.delete([f"{number}"]), 300),
        }
        table.close()
    return costs


# ── several processes ────────────────────────────────────────────────────────────────────────────


def measure_processes(url: str) -> Costs:
    """Return the calls a second of two and four processes together, on the cores of this machine."""
    place, costs = _upgrade(url, "processes"), Costs()
    for count in (1, 2, 4):
        command = [sys.executable, __file__, "--load", place]
        children = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(count)]
        for child in children:
            child.stdout.readline()  # type: ignore[union-attr]
        for child in children:
            child.stdin.close()  # type: ignore[union-attr]
            child.stdin = None
        costs[f"processes_{count}_calls_per_s"] = sum(float(child.communicate()[0]) for child in children)
    child = subprocess.Popen([sys.executable, __file__, "--load", place], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()  # type: ignore[union-attr]
    with _registry(place) as registry:  # type: ignore[arg-type]
        child.stdin.close()  # type: ignore[union-attr]
        child.stdin = None
        for number in range(_CHANGES * _SECONDS):
            registry.assign_tool_to_agent("subtract", f"agent_{number}")
            time.sleep(1 / _CHANGES)
        costs["calls_beside_changes_per_s"] = float(child.communicate()[0])
    costs["changes_beside_calls_per_s"] = _CHANGES
    return costs


def load(place: str) -> None:
    """Make calls from 64 tasks for as long as the others do; print how many a second."""
    with _registry(place) as registry, asyncio.Runner() as runner:  # type: ignore[arg-type]
        tools = registry.toolset("analyst")
        _run(runner, tools, 500)
        print(flush=True)
        sys.stdin.read()
        began, calls = time.perf_counter(), 0
        while time.perf_counter() < began + _SECONDS:
            _run(runner, tools, 640)
            calls += 640
        print(calls / (time.perf_counter() - began), flush=True)


def measure() -> Costs:
    """Return the figures of one round, in a new database."""
    with _database() as url:
        costs = measure_groups(_upgrade(url, "groups"))
        for part in (measure_log, measure_calls, measure_changes, measure_worker_calls, measure_processes):
            costs |= part(url)
    return costs


def _choose(key: str, values: list[float]) -> float:
    """Return the value of the calmest round."""
    if key.endswith("_bytes"):
        return statistics.median(values)
    return max(values) if key.endswith("_per_s") else min(values)


def main() -> None:
    """Measure, print, and write the figures where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--load", help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ.setdefault("PRAVAL_TOOLS_KEY", "the key of the benchmark")
    if given.load:
        load(given.load)
        return
    rounds = [measure() for _ in range(given.rounds)]
    costs = {key: round(_choose(key, [each[key] for each in rounds]), 1) for key in rounds[0]}
    for key, value in costs.items():
        print(f"{key:28} {value:14,.1f}")
    if given.write:
        with psycopg.connect(f"{SERVER}/postgres") as connection:
            version = connection.info.server_version // 10_000
        write_section("store", costs, f", PostgreSQL {version} on the same machine")


if __name__ == "__main__":
    main()
