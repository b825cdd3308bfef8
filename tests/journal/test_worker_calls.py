# Tests of: worker_calls, 0005_worker_calls
"""Calls that workers run: begun by one at a time, as often as allowed, never after they ended or were given up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from store_rig import make_location, open_sql_store

from praval_tools.journal.storage.worker_calls import CallState, CallStatus, WorkerCallTable


@pytest.fixture(params=["sqlite", "postgres"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WorkerCallTable]:
    """The table of a journal."""
    with make_location(request.param, tmp_path) as where:
        store = open_sql_store(where)
        yield store.worker_calls
        store.close()


def read_state(table: WorkerCallTable, call_id: str) -> CallStatus:
    """Return how far a call is."""
    (status,) = table.read([call_id])
    return status


class TestClaims:
    def test_of_many_at_once(self, table: WorkerCallTable) -> None:
        """One of them gets the call, with what was asked."""
        table.add("a", b"request", 3, 60)
        with ThreadPoolExecutor(8) as pool:
            found = [one for one in pool.map(lambda number: table.claim("a", f"w{number}", 60), range(16)) if one]
        assert [(b"request", 1)] == [(bytes(one.request), one.attempt) for one in found]
        assert CallState.RUNNING is read_state(table, "a").state

    def test_of_a_call_that_is_not_there(self, table: WorkerCallTable) -> None:
        """There is nothing to begin, nor to end."""
        assert table.claim("nobody", "w", 60) is None
        assert not table.end("nobody", 1, b"answer")
        assert [] == table.read(["nobody"])

    def test_of_a_lost_call(self, table: WorkerCallTable) -> None:
        """It is begun again as often as its caller allows, and an earlier attempt ends nothing."""
        table.add("a", b"request", 2, 60)
        table.claim("a", "first", 60)
        assert table.claim("a", "second", 60) is None
        table.release("a", "somebody else")
        assert not read_state(table, "a").is_lost
        table.release("a", "first")
        assert (True, True) == (read_state(table, "a").is_lost, read_state(table, "a").can_run_again)
        again = table.claim("a", "second", 60)
        assert again is not None and again.attempt == 2
        assert not table.end("a", 1, b"late")
        table.release("a", "second")
        assert table.claim("a", "third", 60) is None
        assert not read_state(table, "a").can_run_again

    def test_last_as_long_as_they_are_renewed(self, table: WorkerCallTable) -> None:
        """A lease ends by itself; renewing it, by the worker that has it, extends it."""
        table.add("a", b"request", 1, 60)
        table.claim("a", "w", 0.05)
        table.renew([("a", "somebody else")], 60)
        while not read_state(table, "a").is_lost:
            threading.Event().wait(0.01)
        table.renew([("a", "w")], 60)
        assert not read_state(table, "a").is_lost

    def test_of_a_call_whose_time_to_begin_is_over(self, table: WorkerCallTable) -> None:
        """Its caller may be gone; one that is there extends the time for another attempt."""
        table.add("a", b"request", 2, 0)
        assert table.claim("a", "w", 60) is None
        table.add("b", b"request", 2, 60)
        table.claim("b", "first", 60)
        table.release("b", "first")
        table.extend("b", 0)
        assert table.claim("b", "second", 60) is None
        table.extend("b", 60)
        assert table.claim("b", "second", 60) is not None


class TestEnds:
    def test_with_an_answer(self, table: WorkerCallTable) -> None:
        """It is kept until the caller has it; nothing else ends the call."""
        table.add("a", b"request", 3, 60)
        table.claim("a", "w", 60)
        assert table.end("a", 1, b"answer")
        status = read_state(table, "a")
        assert (CallState.ENDED, b"answer", False) == (status.state, bytes(status.answer or b""), status.is_lost)
        assert not table.end("a", 1, b"another")
        assert table.claim("a", "w", 60) is None
        assert not any(table.give_up("a", state) for state in (CallState.WAITING, CallState.RUNNING))
        table.delete(["a"])
        assert [] == table.read(["a"])

    def test_of_a_caller_that_gives_up(self, table: WorkerCallTable) -> None:
        """What waited never begins, and what runs has no end that counts."""
        for name in ("waits", "runs"):
            table.add(name, b"request", 3, 60)
        table.claim("runs", "w", 60)
        assert not table.give_up("runs", CallState.WAITING)
        assert table.give_up("waits", CallState.WAITING)
        assert table.give_up("runs", CallState.RUNNING)
        assert table.claim("waits", "w", 60) is None
        assert not table.end("runs", 1, b"answer")

    def test_of_old_calls(self, table: WorkerCallTable) -> None:
        """What callers left behind is deleted after some time."""
        table.add("a", b"request", 1, 60)
        assert 0 == table.delete_older(60)
        while not table.delete_older(0):
            threading.Event().wait(0.001)
        assert [] == table.read(["a"])


def test_of_two_stores_are_the_same(tmp_path: Path) -> None:
    """Each process has a connection of its own, and all see one table."""
    path = tmp_path / "runs.db"
    first, second = open_sql_store(path), open_sql_store(path)
    first.worker_calls.add("a", b"request", 1, 60)
    assert second.worker_calls.claim("a", "w", 60) is not None
    assert first.worker_calls.claim("a", "v", 60) is None
    first.close()
    second.close()
