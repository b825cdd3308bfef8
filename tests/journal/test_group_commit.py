"""Groups of appends: however they are written, they come to what they would come to one by one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_rig import intent, note, record, result
from sqlalchemy import event
from store_rig import clear_database, make_database, open_sql_store

from praval_tools.errors import JournalError
from praval_tools.journal import Answer, Item, MemoryStore, Record, StateRow, Store, Uses
from praval_tools.journal.storage.sql_store import SqlStore

_runs = st.sampled_from(["a", "b", None])
_calls = st.sampled_from(["1", "2", "ä\0", "'); DROP"])
_bodies = st.sampled_from([b"{}", b"", b"\xff\x00", b'{"x":"\\u0000"}', b"x" * 5_000])


@st.composite
def _items(draw: st.DrawFn) -> Item:
    run, call, body = draw(_runs), draw(_calls), draw(_bodies)
    kind = draw(st.sampled_from(["intent", "result", "note", "both", "change", "spend", "stale"]))
    if kind == "note":
        return note("n", run_id=run, body=body, at=draw(st.integers(-5, 5)))
    if kind == "result":
        return result(call, run, draw(st.integers(1, 3)), body=body)
    if kind == "both":
        return Item((*intent(call, run).records, *result(call, run, body=body).records))
    if kind == "change":
        return Item(
            (record("c"),), rows=(StateRow("block", call, "", body),), uses=(Uses("g", draw(st.integers(0, 3))),)
        )
    if kind == "spend":
        return intent(call, run, spend=("g",))
    return intent(call, run, revision=draw(st.integers(0, 2)) if kind == "stale" else None)


_histories = st.lists(st.lists(_items(), min_size=1, max_size=8), max_size=8)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def new_location(request: pytest.FixtureRequest) -> Iterator[Callable[[], Path | str]]:
    """A function that returns where there is a new journal, of each kind of database."""
    if request.param == "sqlite":
        with TemporaryDirectory() as folder:
            names = (Path(folder) / f"{number}.db" for number in count())
            yield lambda: next(names)
    else:
        with make_database() as url:
            yield lambda: clear_database(url)


_NewLocation = Callable[[], "Path | str"]


@contextmanager
def _store(way: str, new_location: _NewLocation) -> Iterator[Store]:
    """Yield an empty store: in memory; in a database; in a database, where groups are never written at once."""
    store = MemoryStore() if way == "memory" else open_sql_store(new_location())
    if way == "slowly" and isinstance(store, SqlStore):
        store._database.max_group_rows = 0
    with closing(store):
        yield store


def _story(
    way: str, new_location: _NewLocation, history: Sequence[Sequence[Item]]
) -> tuple[list[list[Answer]], list[Record], list[Any]]:
    """Return what a store answers, what can be read then, and how it goes on after another process wrote."""
    with _store(way, new_location) as store:
        answers = [store.append(group) for group in history]
        return answers, list(store.read()), [(one.run_id, one.calls, one.last) for one in store.runs()]


class TestOneByOne:
    @given(history=_histories)
    def test_a_group_is_what_its_items_are(self, new_location: _NewLocation, history: list[list[Item]]) -> None:
        """Answers, places, records and runs are those of the store in memory, which knows no groups."""
        expected = _story("memory", new_location, history)

        assert expected == _story("at once", new_location, history)

    @given(history=_histories)
    def test_each_way_of_writing_comes_to_the_same(self, new_location: _NewLocation, history: list[list[Item]]) -> None:
        """So are those of a database that has no statement for a whole group."""
        assert _story("slowly", new_location, history) == _story("at once", new_location, history)

    @given(history=_histories, who=st.lists(st.booleans(), min_size=8, max_size=8))
    def test_two_that_write_into_one_store(
        self, new_location: _NewLocation, history: list[list[Item]], who: list[bool]
    ) -> None:
        """Two writers that take turns are as one: neither goes on from where it was itself."""
        location = new_location()
        with open_sql_store(location) as one, open_sql_store(location) as other:
            answers = [(one if mine else other).append(group) for mine, group in zip(who, history, strict=False)]
            found = list(one.read())

        assert _story("memory", new_location, history)[:2] == (answers, found)

    @pytest.mark.parametrize(
        "change", [Item((record("c"),), rows=(StateRow("block", "c", "", b"{}"),)), intent("call")]
    )
    def test_a_run_that_another_writer_went_on_with(self, new_location: _NewLocation, change: Item) -> None:
        """A run has no gap and no number twice, though this writer knows of another run alone that others wrote."""
        location = new_location()
        with open_sql_store(location) as one, open_sql_store(location) as other:
            one.append([note("1", run_id="a"), note("2", run_id="b")])
            other.append([note("3", run_id="b"), note("4", run_id="b")])
            one.append([note("5", run_id="a")])

            one.append([change, note("6", run_id="b"), Item((record("d"),), rows=(StateRow("block", "d", "", b"{}"),))])

            assert [1, 2, 3, 4] == [found.run_seq for found in one.read(run_id="b")]


def _statements(store: SqlStore) -> list[str]:
    """Return a list that will hold what the writer says to the database."""
    said: list[str] = []
    event.listen(store._database._write_engine, "before_cursor_execute", lambda *given: said.append(given[2]))
    return said


class TestAtOnce:
    def test_a_plain_group_is_one_statement(self, new_location: _NewLocation) -> None:
        """
        A writer that is alone writes and commits a group in one statement, which waits for the disk, too.

        Beside a thread that computes, each statement more waits for its turn of the interpreter.
        """
        with open_sql_store(new_location()) as store:
            store.append([intent("first"), result("first")])
            store.append([intent("second"), result("second")])
            said = _statements(store)

            store.append([*(intent(str(one), revision=0) for one in range(40)), note(), note(run_id="run")])

            assert 1 == len(said)
            assert list(range(1, 46)) == [one.run_seq for one in store.read(run_id="run")]

    def test_stale_and_counted_calls_are_answered_together(self, new_location: _NewLocation) -> None:
        """Calls that a change made old, with results beside them, and calls that a grant counts, are one group too."""
        change = Item((record("c"),), rows=(StateRow("block", "b", "", b"{}"),), uses=(Uses("g", 40),))
        with open_sql_store(new_location()) as store:
            store.append([change, intent("first"), result("first")])
            said = _statements(store)

            old = [intent(str(number), None, revision=0) for number in range(40)]
            answers = store.append([*old, *(result(str(number)) for number in range(40)), intent("first", revision=0)])
            assert ["stale"] * 40 + ["done"] * 40 + ["exists"] == [answer.status for answer in answers]
            counted = [intent(f"c{number}", revision=1, spend=("g",)) for number in range(40)]
            assert {"done"} == {answer.status for answer in store.append(counted)}

            assert 30 > len(said)
            assert (Uses("g", 0),) == store.state().uses

    def test_a_group_beyond_the_limit(self, new_location: _NewLocation) -> None:
        """One that is too large for the statement is written, too."""
        with open_sql_store(new_location()) as store:
            store.append([note()])
            store.append([note()])
            limit = store._database.max_group_rows
            for many in (limit - 1, limit, 2 * limit):
                assert {"done"} == {one.status for one in store.append([note() for _ in range(many)])}
            assert 2 + 4 * limit - 1 == store.count()

    @pytest.mark.parametrize("body", [None, "text", 7])
    def test_what_has_no_body_is_no_row_of_control(self, new_location: _NewLocation, body: Any) -> None:
        """A record with a body that is none fails or is stored, and moves no counter."""
        with open_sql_store(new_location()) as store:
            for _ in range(3):
                store.append([note()])
            bad = Item((record(body=body, run_id=None, type=None, at=1),))  # type: ignore[arg-type]
            with pytest.raises(JournalError):
                store.append([bad])

            (answer,) = store.append([note()])
            assert (4, 4) == (answer.seq, store.count())

    def test_after_a_failure_it_goes_on(self, new_location: _NewLocation) -> None:
        """A group that repeats a call is answered item by item, and the next one is at once again."""
        with open_sql_store(new_location()) as store:
            for one in range(3):
                store.append([intent(str(one))])
            assert ["done", "exists"] == [one.status for one in store.append([intent("x"), intent("0")])]
            store.append([intent("y")])
            said = _statements(store)

            assert "done" == store.append([intent("z")])[0].status
            assert 1 == sum("journal_group" in one for one in said)
            assert [1, 2, 3, 4, 5, 6] == [one.run_seq for one in store.read(run_id="run")]

    def test_many_threads_and_processes_of_turns(self, new_location: _NewLocation) -> None:
        """Two stores on one database and four threads each: nothing is lost, no place is given twice."""
        location = new_location()
        with open_sql_store(location) as one, open_sql_store(location) as other:

            def work(store: SqlStore, name: str) -> None:
                for at in range(30):
                    store.append([intent(f"{name}-{at}"), result(f"{name}-{at}")])

            threads = [threading.Thread(target=work, args=(store, f"{store is one}-{n}"))
                       for store in (one, other) for n in range(4)]  # fmt: skip
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            found = list(one.read(run_id="run"))

        assert 2 * 8 * 30 == len(found)
        assert list(range(1, 481)) == [each.run_seq for each in found]
        assert list(range(1, 481)) == [each.seq for each in found]
