"""The SQLite store: errors of the database, waiting for the lock, pruning."""

# Tests of: writer, write_connection, write_requests, database

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from journal_children import output
from journal_rig import NOON, intent, note, record, result
from sqlite_rig import filled, list_ids, path  # noqa: F401

from praval_tools.errors import JournalError
from praval_tools.journal import Item, StateRow, Uses
from praval_tools.journal.storage.sql_store import SqlStore


class TestFailing:
    def test_a_full_disk(self, path: Path) -> None:
        """Who waits gets the error, nobody hangs, what was acknowledged is there, and later it goes on."""
        with SqlStore(path) as store:
            store.append([note("before")])
            with _pragma(store, "max_page_count", 1, 1 << 30):
                store.append([note("small")])
                with pytest.raises(JournalError, match=r"disk is full.*Free space") as caught:
                    for at in range(1_000):
                        store.append([note(str(at), body=b"x" * 10_000)])
                answered = _append_at_once(store, 32)
            assert caught.value.__cause__ is not None
            assert 32 == len(answered)
            assert {"JournalError"} == set(answered)

            assert "done" == store.append([note("after", body=b"x" * 10_000)])[0].status
            assert {"before", "small", "after"} <= set(list_ids(store))

    def test_what_is_too_big_for_the_disk_leaves_room_for_others(self, path: Path) -> None:
        """In one group with a giant, the small ones are written."""
        with SqlStore(path) as store:
            store.append([note("before")])
            with _pragma(store, "max_page_count", 40, 1 << 30), pytest.raises(JournalError) as caught:
                store.append([note("a"), note("giant", body=b"x" * 1_000_000), note("b")])
            assert ["done", "failed", "done"] == [one.status for one in caught.value.answers]
            assert ["before", "a", "b"] == list_ids(store)

    def test_a_full_file_system(self, tmp_path: Path) -> None:
        """The same with a file system that has no room, and gets some."""
        place = tmp_path / "small"
        place.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
        if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("only the superuser can mount a small file system")
        with ExitStack() as stack:
            stack.callback(subprocess.run, ["umount", str(place)], check=True)
            store = stack.enter_context(SqlStore(place / "runs.db"))
            with pytest.raises(JournalError, match="full|cannot be written"):
                for at in range(1_000):
                    store.append([note(str(at), body=b"x" * 20_000)])
            assert {"JournalError"} == set(_append_at_once(store, 16, b"x" * 20_000))
            acknowledged = len(list_ids(store))
            subprocess.run(["mount", "-o", "remount,size=16m", str(place)], check=True)
            store.append([note("after", body=b"x" * 20_000)])
            assert acknowledged + 1 == len(list_ids(store))

    def test_a_limit_of_the_process(self, path: Path) -> None:
        """Where a file may not grow (RLIMIT_FSIZE): errors for all who wait, then it goes on."""
        before, counts, found, after = output("full", path)

        done, failed, all_of_them = map(int, counts.split())
        assert ("done", "done") == (before, after)
        assert (64, done) == (all_of_them, int(found))
        assert failed == all_of_them - done > 0

    def test_a_connection_that_cannot_write_any_more(self, path: Path) -> None:
        """Whoever waits gets the error, the store can be read, and the next append opens another connection."""
        with SqlStore(path) as store:
            store.append([note("before")])
            _raw(store).execute("PRAGMA query_only=1")

            with pytest.raises(JournalError, match=r"read-only.*writable"):
                store.append([note("lost")])

            assert ["before"] == list_ids(store)
            assert "done" == store.append([note("after")])[0].status

    def test_a_closed_connection(self, path: Path) -> None:
        """Whoever waits when the connection breaks gets the error; the next append opens another."""
        with SqlStore(path) as store:
            store.append([note("before")])
            _raw(store).close()

            with pytest.raises(JournalError, match="closed"):
                store.append([note("lost")])

            assert "done" == store.append([note("after")])[0].status
            assert ["before", "after"] == list_ids(store)

    def test_another_process_keeps_the_lock(self, path: Path) -> None:
        """Beyond its patience an append fails, with who is to be looked for; then it goes on."""
        with SqlStore(path, lock_timeout=0.05) as store:
            store.append([note("before")])
            with _locked(path):
                with pytest.raises(JournalError, match="another process kept the write lock"):
                    store.append([note("lost")])
                assert {"JournalError"} == set(_append_at_once(store, 8))
            assert "done" == store.append([note("after")])[0].status

    @pytest.mark.parametrize(
        "bad",
        [
            note("\ud800"),
            Item((record(call_id=b"bytes", run_id=["list"]),)),
            Item((record(),), uses=(Uses("g", 1 << 80),)),
            Item((record(),), rows=(StateRow("k", None, "", b""),)),  # type: ignore[arg-type]
            object(),
        ],
        ids=["surrogate", "list", "huge number", "key missing", "no item"],
    )
    def test_junk_fails_alone(self, path: Path, bad: Any) -> None:
        """What a database can't take fails, its neighbours of the group are written, and the writer goes on."""
        with SqlStore(path) as store:
            with pytest.raises(JournalError) as caught:
                store.append([intent("a"), bad, intent("b")])

            assert ["done", "failed", "done"] == [one.status for one in caught.value.answers]
            assert [1, 2] == [one.run_seq for one in store.read(run_id="run")]
            assert (0, ()) == (store.revision(), store.state().uses)
            assert "done" == store.append([result("a")])[0].status

    def test_a_damaged_page_is_reported_when_it_is_read(self, filled: Path) -> None:
        """Damage deep in the file is an error with the file and the fix, not a wrong answer."""
        with SqlStore(filled) as store:
            page = 4096 * (filled.stat().st_size // 4096 // 2)
            with filled.open("r+b") as file:
                file.seek(page)
                file.write(b"\xff" * 4096 * 4)
            with pytest.raises(JournalError, match=r"damaged.*Restore"):
                list_ids(store)


def _raw(store: SqlStore) -> sqlite3.Connection:
    connection = store._writer._connection._connection
    assert connection is not None
    driver: Any = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


@contextmanager
def _pragma(store: SqlStore, name: str, value: int, back: int) -> Iterator[None]:
    """Limit the writer's connection."""
    raw = _raw(store)
    if name == "max_page_count" and value > 1:
        value += raw.execute("PRAGMA page_count").fetchone()[0]
    raw.execute(f"PRAGMA {name}={value}").fetchall()
    yield
    raw.execute(f"PRAGMA {name}={back}").fetchall()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep the write lock, as another process would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def _append_at_once(store: SqlStore, threads: int, body: bytes = b"x" * 10_000) -> list[str]:
    def one(at: int) -> str:
        try:
            return store.append([note(f"lost-{at}", body=body)])[0].status
        except JournalError as error:
            return type(error).__name__

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, range(threads)))


class TestWaiting:
    def test_a_loop_that_was_closed(self, path: Path) -> None:
        """A loop that ends before the commit harms nobody; what it handed over is written."""
        with SqlStore(path) as store:
            store.append([note("before")])
            with _locked(path):
                loop = asyncio.new_event_loop()
                loop.run_until_complete(_hand_over(store))
                loop.close()
            assert "done" == store.append([note("after")])[0].status
            assert ["before", "orphan", "after"] == list_ids(store)

    def test_those_who_wait_share_a_commit(self, path: Path) -> None:
        """What 64 callers append while a commit is under way is one commit."""
        with SqlStore(path) as store:
            store.append([note("before")])
            commits: list[int] = []
            write = store._writer._connection.write
            store._writer._connection.write = lambda items: commits.append(len(items)) or write(items)  # type: ignore[method-assign,func-returns-value]
            with _locked(path):
                waiting = [store.submit([note("first")])]
                while not commits:
                    pass
                waiting += [store.submit([note(str(at))]) for at in range(64)]
            assert {"done"} == {one.result(60)[0].status for one in waiting}
            assert 66 == store.count()
        assert [1, 64] == commits

    def test_one_wake_up_per_group(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """64 tasks that wait are woken by one call into their loop, not by 64."""
        woken = []

        async def main(store: SqlStore) -> None:
            loop = asyncio.get_running_loop()
            wake = loop.call_soon_threadsafe
            monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *given: woken.append(1) or wake(*given))
            for _ in range(10):
                await asyncio.gather(*(store.aappend([note(str(at))]) for at in range(64)))

        with SqlStore(path) as store:
            asyncio.run(main(store))
        assert 10 == len(woken)

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_a_future_that_somebody_else_completed(self, path: Path) -> None:
        """The writer reports it and answers the others."""
        with SqlStore(path) as store:
            store.append([note("before")])
            with _locked(path):
                stolen, other = store.submit([note("a")]), store.submit([note("b")])
                stolen.set_result([])
            assert "done" == other.result(10)[0].status
            assert ["before", "a", "b"] == list_ids(store)

    def test_closing_while_others_append(self, path: Path) -> None:
        """Each append of that moment is either written or refused; none hangs."""
        store, done, start = SqlStore(path), list[str](), threading.Barrier(9)

        def work(thread: int) -> None:
            start.wait()
            for at in range(1_000):
                try:
                    store.append([note(f"{thread}-{at}")])
                except JournalError:
                    return
                done.append(f"{thread}-{at}")

        with ThreadPoolExecutor(8) as pool:
            for thread in range(8):
                pool.submit(work, thread)
            start.wait()
            while len(done) < 100:
                pass
            store.close()
        with SqlStore(path) as again:
            assert sorted(done) == sorted(list_ids(again))

    def test_a_slow_reader_keeps_nobody(self, path: Path) -> None:
        """A reading that was begun and left standing lets the log be emptied."""
        with SqlStore(path) as store:
            store.append([note(str(at), body=b"x" * 1_000) for at in range(3_000)])
            standing = store.read()
            next(standing)
            store.append([note("more")])
            busy, _, _ = _raw(store).execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            assert 0 == busy
            assert 2_999 == sum(1 for _ in standing)


async def _hand_over(store: SqlStore) -> None:
    store.aappend([note("orphan")])


class TestPruning:
    def test_others_write_meanwhile(self, path: Path) -> None:
        """While thousands of records go, appends of others go on, and what they wrote stays."""
        with SqlStore(path) as store:
            for run in range(300):
                store.append([intent("c", f"r{run}"), result("c", f"r{run}"), *[note(at=1) for _ in range(20)]])
            with ThreadPoolExecutor(2) as pool:
                gone = pool.submit(store.prune, NOON.replace(hour=13))
                written = pool.submit(lambda: [store.append([note(f"w{at}", at=9_999)]) for at in range(200)])
                assert 300 * 22 == gone.result(60)
                assert 200 == len(written.result(60))
            assert [f"w{at}" for at in range(200)] == list_ids(store)
