"""
The journal's store: journaled calls a second beside raw grouped inserts, one caller's latency, replay reading.

`python benchmarks/journal_store.py [--rounds N] [--profile] [--folder F]`

Raw and ours write the same records, made before, in groups of the same size. They take turns of about 0.1 s, so that
a disk that is now fast and now slow is so for both; what counts is the median of the turns' ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import os
import pstats
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from praval_tools.clock import SystemClock
from praval_tools.journal import INTENT, Item, Record
from praval_tools.journal.storage.rows import record_to_row
from praval_tools.journal.storage.sql_store import SqlStore

_CALLERS: Final = 64
_RUNS = 8
_CALLS: Final = 16  # of each caller, in one turn
_CALL: Final = (
    b'{"v":1,"tool_call_id":"%s","tool_name":"analyst.csv_parser","arguments":{"path":"data/sales-2026.csv","rows":100},'
    b'"chain":["analyst"],"fingerprint":"9f86d081884c7d65","decision":{"rule":"owner","allowed":true}}'
)
_RESULT: Final = (
    b'{"v":1,"tool_call_id":"%s","outcome":"ok","result":{"rows":100,"columns":["day","sum"]},"latency_ms":1.25}'
)


def _record(call: str, attempt: int, caller: int) -> Record:
    body = _CALL if attempt == INTENT else _RESULT
    return Record(
        type="agent_tool_result" if attempt else "agent_tool_call",
        body=body % call.encode(),
        id=os.urandom(16).hex(),
        time=datetime.now(UTC),
        process="host.example:4711",
        run_id=f"run-{caller % _RUNS}",
        call_id=call,
        agent=f"agent-{caller % 5}",
        tool=f"tool-{caller % 7}",
        attempt=attempt,
    )


_Pair = tuple[tuple[Item], tuple[Item]]


def _callers(
    calls: int, callers: int = _CALLERS, new_id: Callable[[], str] = SystemClock().new_id
) -> list[list[_Pair]]:
    """Return intent and result of so many calls of each caller, ready to be appended; ids in the order of the calls."""
    ids = [[new_id() for _ in range(callers)] for _ in range(calls)]
    return [[_pair(of_round[number], number) for of_round in ids] for number in range(callers)]


def _pair(call: str, number: int) -> _Pair:
    return (Item((_record(call, INTENT, number),)),), (Item((_record(call, 1, number),)),)


async def _caller(store: SqlStore, pairs: Sequence[_Pair], took: list[float]) -> None:
    for intent, result in pairs:
        began = time.perf_counter()
        await store.aappend(intent)
        await store.aappend(result)
        took.append(time.perf_counter() - began)


async def _all(store: SqlStore, callers: Sequence[Sequence[_Pair]], took: list[float]) -> float:
    began = time.perf_counter()
    await asyncio.gather(*(_caller(store, pairs, took) for pairs in callers))
    return time.perf_counter() - began


def _rows(callers: Sequence[Sequence[_Pair]], seq: int, length: int) -> list[list[tuple[Any, ...]]]:
    """Return the rows of the same records: 64 intents, then their results."""
    groups = []
    for calls in zip(*callers, strict=True):
        for which in (0, 1):
            rows = []
            for caller, pair in enumerate(calls):
                seq, length = seq + 1, length + 1
                rows.append(record_to_row(pair[which][0].records[0], seq, caller % _RUNS, length))
            groups.append(rows)
    return groups


def _raw(connection: sqlite3.Connection, groups: Sequence[Sequence[tuple[Any, ...]]]) -> float:
    """Return the seconds of plain `executemany` into the same tables: nobody asks, nobody is answered."""
    began = time.perf_counter()
    for rows in groups:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(f"INSERT INTO journal_events VALUES ({','.join('?' * 12)})", rows)
        connection.execute("COMMIT")
    return time.perf_counter() - began


def _plain(path: Path) -> sqlite3.Connection:
    SqlStore(path).close()
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("synchronous=FULL", "wal_autocheckpoint=4000", "cache_size=-16000"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def beside_raw(here: Path, rounds: int) -> tuple[list[float], list[float], list[float]]:
    """Return journaled calls a second and raw events a second of each turn, and how long each call took."""
    rates, raws, took = list[float](), list[float](), list[float]()
    plain = closing(_plain(here / "raw.db"))
    with SqlStore(here / "ours.db") as store, plain as connection, asyncio.Runner() as runner:
        for turn in range(rounds):
            callers = _callers(_CALLS)
            calls = _CALLERS * _CALLS
            groups = _rows(callers, 2 * calls * turn, 2 * calls * turn)
            with _settled():
                raws.append(2 * calls / _raw(connection, groups))
                rates.append(calls / runner.run(_all(store, callers, took)))
    return rates, raws, took


@contextmanager
def _settled() -> Iterator[None]:
    """Keep the collector from walking over what was made ready, on both sides."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def sequential(path: Path, calls: int) -> tuple[float, float]:
    """Return the median seconds of one call, two commits, by a thread and by a task that are alone."""
    with SqlStore(path) as store:
        store.append((Item((_record("warm", INTENT, 0),)),))
        plain = []
        for _ in range(calls):
            call, began = os.urandom(16).hex(), time.perf_counter()
            store.append((Item((_record(call, INTENT, 0),)),))
            store.append((Item((_record(call, 1, 0),)),))
            plain.append(time.perf_counter() - began)
        took: list[float] = []
        asyncio.run(_caller(store, _callers(calls, 1)[0], took))
    return statistics.median(plain), statistics.median(took)


def reading(path: Path, records: int) -> float:
    """Return the seconds that reading a run of that many records takes, as replay does."""
    with SqlStore(path) as store:
        for at in range(0, records // 2, 500):
            calls = [f"call-{one}" for one in range(at, at + 500)]
            store.append([Item((_record(call, INTENT, 0), _record(call, 1, 0))) for call in calls])
        best = 9.0
        for _ in range(5):
            began = time.perf_counter()
            found = sum(1 for _ in store.read(run_id="run-0"))
            best = min(best, time.perf_counter() - began)
        if found != records:
            raise SystemExit(f"{found} of {records} records were read")
        return best


def profile(path: Path, calls: int) -> None:
    """Print where the time goes, of the loop's thread and of the writer's."""
    of_writer, took = cProfile.Profile(), list[float]()
    callers = _callers(calls // _CALLERS)
    threading.setprofile(lambda *_: of_writer.enable())
    with cProfile.Profile() as of_loop, SqlStore(path) as store:
        asyncio.run(_all(store, callers, took))
    threading.setprofile(None)
    for title, one in (("the loop", of_loop), ("the writer", of_writer)):
        print(f"\n{title}")
        pstats.Stats(one).sort_stats("tottime").print_stats(18)


def syncing(path: Path) -> float:
    """Return the median seconds in which the disk makes 8 KB durable, to judge the others by."""
    took = []
    with path.open("wb", buffering=0) as file:
        for _ in range(200):
            file.write(b"x" * 8192)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - began)
    return statistics.median(took)


def _percentile(took: Sequence[float], part: float) -> float:
    return sorted(took)[int(len(took) * part)] * 1e3


def main() -> None:
    """Measure all and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--runs", type=int, default=8, help="among how many runs the callers are")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--folder", default=None)
    given = parser.parse_args()
    global _RUNS
    _RUNS = given.runs
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        here = Path(folder)
        if given.profile:
            profile(here / "profile.db", 20_000)
            return
        rates, raws, took = beside_raw(here, given.rounds)
        ratio = statistics.quantiles([2 * rate / one for rate, one in zip(rates, raws, strict=True)], n=4)
        plain, alone = sequential(here / "sequential.db", 1_000)
        read, sync = reading(here / "reading.db", 10_000), syncing(here / "sync")
    print(f"journaled calls, {_CALLERS} callers   {statistics.median(rates):8,.0f} /s      target 15,000")
    print(f"raw grouped inserts          {statistics.median(raws):8,.0f} events/s")
    print(f"ours beside raw              {ratio[1]:8.0%}         target 60 %; quartiles {ratio[0]:.0%}, {ratio[2]:.0%}")
    among = f"p50 {_percentile(took, 0.5):.2f} ms, p99 {_percentile(took, 0.99):.2f} ms"
    print(f"a call among {_CALLERS}             {among}")
    print(f"a call alone, two commits    thread {plain * 1e3:.2f} ms, task {alone * 1e3:.2f} ms")
    print(f"the disk's fdatasync         {sync * 1e3:8.2f} ms")
    print(f"reading 10,000 records       {read:8.3f} s       target 0.2")


if __name__ == "__main__":
    main()
