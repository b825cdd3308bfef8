"""What every store promises: order, all or nothing, once, state, counts, reading."""

# Tests of: protocol, memory, sql_store, query, rows

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from journal_rig import NOON, intent, note, record, result
from store_rig import make_location

from praval_tools.errors import JournalError
from praval_tools.journal import Item, Record, RunInfo, StateRow, Status, Store, Uses, open_store


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Each kind of store, empty."""
    with make_location(request.param, tmp_path) as where, closing(open_store(where)) as made:
        yield made


def _statuses(store: Store, *items: Item) -> list[str]:
    return [answer.status for answer in store.append(items)]


def _ids(store: Store, **filters: object) -> list[str]:
    return [one.id for one in store.read(**filters)]  # type: ignore[arg-type]


class TestAppending:
    def test_what_is_appended_is_read_back_as_it_was(self, store: Store) -> None:
        """Every field of a record comes back, text and bytes unharmed, with its two places."""
        given = record("ä\0b", type="t", body=b'{"x":"\xc3\xa4\x00"}', run_id="r", call_id="c", agent="a", tool="x")

        (answer,) = store.append([Item((given,))])

        (found,) = store.read()
        assert (Status.DONE, found.seq, 1) == (answer.status, answer.seq, answer.run_seq)
        expected = Record(
            type="t", body=given.body, id="ä\0b", time=NOON, process="tests", run_id="r", call_id="c", agent="a",
            tool="x", seq=answer.seq, run_seq=1,
        )  # fmt: skip
        assert expected == found

    def test_places_increase_over_the_store_and_have_no_gap_in_a_run(self, store: Store) -> None:
        """`seq` is unique and increasing; `run_seq` counts each run from 1, refused items leaving no gap."""
        for at in range(6):
            store.append([note(run_id="ab"[at % 2]), intent("c", "ab"[at % 2]), note()])

        found = list(store.read())
        assert sorted({one.seq or 0 for one in found}) == [one.seq for one in found]
        for run in "ab":
            places = [one.run_seq for one in store.read(run_id=run)]
            assert list(range(1, len(places) + 1)) == places
        assert {None} == {one.run_seq for one in found if one.run_id is None}

    def test_a_time_of_another_zone_is_the_same_moment(self, store: Store) -> None:
        """Times are compared as moments, to the microsecond."""
        here = datetime.fromisoformat("2026-03-01T14:00:00.000001+02:00")
        store.append([Item((Record(type="t", body=b"", id="i", time=here, process="p"),))])

        assert [NOON + timedelta(microseconds=1)] == [one.time for one in store.read()]

    def test_nothing_to_append_is_answered_by_nothing(self, store: Store) -> None:
        """An empty list of items is not an error."""
        assert [] == store.append([])

    def test_nothing_is_appended_once_all_before_it_is(self, store: Store) -> None:
        """Who appends nothing waits for what was submitted."""
        for _ in range(300):
            store.submit([note()])
        store.append([])

        assert 300 == store.count()


class TestOnce:
    def test_a_call_begins_once_in_a_run(self, store: Store) -> None:
        """A second intent is answered with the attempts that are there, and not written."""
        assert [Status.DONE, Status.DONE] == _statuses(store, intent("c"), result("c"))

        (again,) = store.append([intent("c", body=b"other")])

        assert Status.EXISTS is again.status
        assert ["c-0", "c-1"] == [one.id for one in again.found]
        assert [1, 2] == [one.run_seq for one in again.found]
        assert ["c-0", "c-1"] == _ids(store)

    def test_a_call_ends_once_per_attempt(self, store: Store) -> None:
        """A late second result of an attempt is not written; another attempt's is."""
        assert [Status.DONE] * 3 == _statuses(store, intent("c"), result("c"), result("c", attempt=2))
        assert [Status.EXISTS] == _statuses(store, result("c", attempt=2))

    def test_two_of_one_call_in_one_group(self, store: Store) -> None:
        """The first of two equal intents of one append wins, and their neighbours are written."""
        assert ["done", "exists", "done"] == _statuses(store, intent("c"), intent("c"), intent("d"))
        assert [1, 2] == [one.run_seq for one in store.read(run_id="run")]

    def test_one_id_in_two_runs_is_two_calls(self, store: Store) -> None:
        """Ids of calls are unique within their run only."""
        assert [Status.DONE, Status.DONE] == _statuses(store, intent("c", "one"), intent("c", "two"))

    def test_outside_of_runs_ids_may_repeat(self, store: Store) -> None:
        """Providers repeat `call_0`: without a run, each is a call of its own."""
        assert [Status.DONE, Status.DONE] == _statuses(store, intent("call_0", None), intent("call_0", None))

    def test_call_and_result_as_one_item(self, store: Store) -> None:
        """An item of two records is written as a whole or not at all."""
        both = Item(intent("c").records + result("c").records)
        assert [Status.DONE] == _statuses(store, both)
        assert [Status.DONE] == _statuses(store, intent("d"))

        half = Item(note("extra", run_id="run").records + intent("d").records)

        assert [Status.EXISTS] == _statuses(store, half)
        assert ["c-0", "c-1", "d-0"] == _ids(store)


class TestState:
    def test_changes_are_loaded_as_they_hold_now(self, store: Store) -> None:
        """Put, replace and end: what is loaded is what holds, in the order of the changes."""
        grant, block = StateRow("grant", "g1", "pkg", b"1"), StateRow("block", "b1", "", b"b")
        store.append([Item((record(),), rows=(grant, block), uses=(Uses("g1", 3),))])
        store.append([Item((record(),), rows=(StateRow("grant", "g1", "pkg", b"2"),))])
        store.append([Item((record(),), rows=(StateRow("block", "b1", "", None),))])

        view = store.state()

        assert (3, True) == (view.revision, view.complete)
        assert (StateRow("grant", "g1", "pkg", b"2", 2),) == view.rows
        assert (Uses("g1", 3),) == view.uses
        assert 3 == store.revision()

    def test_one_name_from_two_sources_is_two_changes(self, store: Store) -> None:
        """The source belongs to what stands for a change."""
        two = (StateRow("owner", "csv", "pkg-a", b"a"), StateRow("owner", "csv", "pkg-b", b"b"))
        store.append([Item((record(),), rows=two)])

        assert {b"a", b"b"} == {one.body for one in store.state().rows}

    def test_what_changed_since(self, store: Store) -> None:
        """Only what changed later is returned, the ended changes among it."""
        for key in "abc":
            store.append([Item((record(),), rows=(StateRow("block", key, "", b"x"),), uses=(Uses(key, 1),))])
        known = store.state().revision
        store.append([Item((record(),), rows=(StateRow("block", "a", "", None),), uses=(Uses("a", None),))])

        view = store.state(known)

        assert (known + 1, False) == (view.revision, view.complete)
        assert (StateRow("block", "a", "", None, known + 1),) == view.rows
        assert (Uses("a", None),) == view.uses

    def test_whoever_is_too_far_behind_gets_all(self, store: Store) -> None:
        """Traces of ended changes are forgotten with the old records; then the answer is complete, and says so."""
        store.append([Item((record(),), rows=(StateRow("block", "a", "", b"x"), StateRow("block", "b", "", b"x")))])
        store.append([Item((record(),), rows=(StateRow("block", "a", "", None),))])
        store.prune(NOON)

        view = store.state(1)

        assert (True, ("b",)) == (view.complete, tuple(one.key for one in view.rows))
        assert store.state(2).rows == ()

    def test_a_revision_from_the_future_gets_all(self, store: Store) -> None:
        """Where the store was restored from a backup, what a process knew is worth nothing."""
        store.append([Item((record(),), rows=(StateRow("block", "a", "", b"x"),))])

        assert store.state(99).complete

    def test_a_decision_of_yesterday_is_stale(self, store: Store) -> None:
        """An intent with a revision that the store has left is refused, its neighbours are not."""
        change = Item((record("change"),), rows=(StateRow("block", "a", "", b"x"),))

        answers = store.append([intent("a", revision=0), change, intent("b", revision=0), intent("c", revision=1)])

        assert ["done", "done", "stale", "done"] == [one.status for one in answers]
        assert [0, 1, 1, 1] == [one.revision for one in answers]
        assert ["a-0", "change", "c-0"] == _ids(store)

    def test_a_change_can_be_made_on_condition(self, store: Store) -> None:
        """Of two changes decided at one revision, one is made."""
        row = StateRow("block", "a", "", b"x")
        assert ["done", "stale"] == _statuses(store, *[Item((record(),), revision=0, rows=(row,))] * 2)
        assert 1 == store.revision()

    def test_what_is_there_is_said_before_what_is_stale(self, store: Store) -> None:
        """A redelivered call hears that it exists, though its decision is old and its grant spent."""
        store.append([Item((record(),), uses=(Uses("g", 1),))])
        call = intent("c", revision=1, spend=("g",))
        assert ["done"] == _statuses(store, call)
        store.append([Item((record(),), rows=(StateRow("block", "a", "", b"x"),))])

        assert ["exists"] == _statuses(store, call)


class TestSpending:
    def test_a_grant_gives_as_many_calls_as_it_has(self, store: Store) -> None:
        """The count is taken with the intent; without one left the call is refused and says which grant."""
        store.append([Item((record(),), uses=(Uses("g", 2),))])

        answers = store.append([intent(str(at), spend=("g",)) for at in range(4)])

        assert ["done", "done", "exhausted", "exhausted"] == [one.status for one in answers]
        assert [None, None, "g", "g"] == [one.grant for one in answers]
        assert (Uses("g", 0),) == store.state().uses

    def test_all_grants_give_or_none(self, store: Store) -> None:
        """Where the second grant of a chain is spent, the first keeps its call."""
        store.append([Item((record(),), uses=(Uses("a", 5), Uses("b", 0)))])

        (answer,) = store.append([intent("c", spend=("a", "b"))])

        assert ("exhausted", "b") == (answer.status, answer.grant)
        assert {Uses("a", 5), Uses("b", 0)} == set(store.state().uses)

    def test_a_chain_may_name_a_grant_twice(self, store: Store) -> None:
        """Each mention takes one."""
        store.append([Item((record(),), uses=(Uses("a", 3),))])

        assert ["done", "exhausted"] == _statuses(store, *[intent(c, spend=("a", "a")) for c in "xy"])
        assert (Uses("a", 1),) == store.state().uses

    def test_a_grant_that_is_not_counted_gives_nothing(self, store: Store) -> None:
        """What has no count, or none any more, can't be spent."""
        store.append([Item((record(),), uses=(Uses("a", 3),))])
        store.append([Item((record(),), uses=(Uses("a", None),))])

        assert ["exhausted", "exhausted"] == _statuses(store, intent("c", spend=("a",)), intent("d", spend=("b",)))

    def test_spending_is_no_change_of_state(self, store: Store) -> None:
        """The revision stays, else every counted call would make all decisions stale."""
        store.append([Item((record(),), uses=(Uses("g", 2),))])
        store.append([intent("c", spend=("g",), revision=1)])

        assert 1 == store.revision()

    def test_the_counts_alone(self, store: Store) -> None:
        """What is left of each grant now, also for whoever knows the latest revision; of ended grants, nothing."""
        row = StateRow("block", "a", "", b"x")
        store.append([Item((record(),), rows=(row,), uses=(Uses("g", 5), Uses("h", 1), Uses("ended", 2)))])
        store.append([intent("c", spend=("g",)), intent("d", spend=("g",))])
        store.append([Item((record("e2"),), uses=(Uses("ended", None),))])
        view = store.state(store.revision(), counts_only=True)

        assert (store.revision(), ()) == (view.revision, view.rows)
        assert {Uses("g", 3), Uses("h", 1)} == set(view.uses)

    def test_an_existing_call_spends_nothing(self, store: Store) -> None:
        """A refused item leaves no trace, the count included."""
        store.append([Item((record(),), uses=(Uses("g", 5),)), intent("c", spend=("g",))])

        assert ["exists"] == _statuses(store, intent("c", spend=("g",)))
        assert (Uses("g", 4),) == store.state().uses


class TestReading:
    def test_records_are_read_by_their_numbers(self, filled: Store) -> None:
        """In order, without those that there are not, and together with other filters."""
        seqs = [one.seq or 0 for one in filled.read()]
        assert ["1-0", "alone"] == _ids(filled, numbers=[seqs[3], seqs[0], 999])
        assert ["1-0"] == _ids(filled, numbers=seqs, run_id="r2")
        assert ["first"] == _ids(filled, numbers=seqs, type="other", after_seq=seqs[1])
        assert [] == _ids(filled, numbers=[])

    @pytest.fixture
    def filled(self, store: Store) -> Store:
        store.append(
            [
                intent("1", "r1", agent="ann", tool="add", at=1),
                result("1", "r1", agent="ann", tool="add", at=2),
                intent("1", "r2", agent="bob", tool="add", at=3),
                note("alone", agent="ann", tool="wire", at=4),
                note("first", type="other", at=0),
            ]
        )
        return store

    @pytest.mark.parametrize(
        ("filters", "expected"),
        [
            ({}, ["1-0", "1-1", "1-0", "alone", "first"]),
            ({"run_id": "r1"}, ["1-0", "1-1"]),
            ({"run_id": "none"}, []),
            ({"call_id": "1"}, ["1-0", "1-1", "1-0"]),
            ({"call_id": "1", "run_id": "r2"}, ["1-0"]),
            ({"agent": "ann"}, ["1-0", "1-1", "alone"]),
            ({"agent": "ann", "tool": "wire"}, ["alone"]),
            ({"type": "other"}, ["first"]),
            ({"since": NOON + timedelta(seconds=2)}, ["1-1", "1-0", "alone"]),
            ({"until": NOON + timedelta(seconds=2)}, ["1-0", "first"]),
            ({"since": NOON + timedelta(seconds=2), "until": NOON + timedelta(seconds=3)}, ["1-1"]),
            ({"since": NOON + timedelta(seconds=9)}, []),
            ({"run_id": "r1", "since": NOON + timedelta(seconds=2)}, ["1-1"]),
            ({"after_seq": 3}, ["alone", "first"]),
            ({"after_seq": 1, "run_id": "r1"}, ["1-1"]),
            ({"type": "agent_tool_result", "run_id": "r1"}, ["1-1"]),
        ],
    )
    def test_filters(self, filled: Store, filters: dict[str, object], expected: list[str]) -> None:
        """Filters all hold at once; times are compared by value, though they are not in the order of the places."""
        assert expected == _ids(filled, **filters)

    def test_many_records_come_in_order(self, store: Store) -> None:
        """However many there are, and by whatever they are looked for, nothing is left out or returned twice."""
        for at in range(0, 2_500, 500):
            store.append([note(str(one), run_id="ab"[one % 2], call_id="c") for one in range(at, at + 500)])

        assert [str(one) for one in range(2_500)] == _ids(store)
        assert [str(one) for one in range(0, 2_500, 2)] == _ids(store, run_id="a")
        assert [str(one) for one in range(2_500)] == _ids(store, call_id="c")

    def test_records_are_counted(self, store: Store) -> None:
        """
        The number of records is what was appended, less what was forgotten.
        """
        assert 0 == store.count()

        store.append([note(f"n{number}") for number in range(3)])
        assert 3 == store.count()

        store.prune(NOON + timedelta(hours=1))
        assert 0 == store.count()

    def test_no_record_is_after_the_last_seq(self, store: Store) -> None:
        """
        The last `seq` is that of the latest record, 0 before the first one, and never goes back.
        """
        assert 0 == store.last_seq()

        store.append([note(f"n{number}") for number in range(3)])
        last = store.last_seq()
        assert [one.seq for one in store.read()][-1] == last

        store.prune(NOON + timedelta(hours=1))
        assert store.last_seq() >= last

    def test_reading_ends_though_somebody_writes(self, store: Store) -> None:
        """What is appended while reading is not part of it."""
        store.append([note(str(one)) for one in range(3)])
        seen = []
        for one in store.read():
            seen.append(one.id)
            store.append([note("later")])

        assert ["0", "1", "2"] == seen

    def test_a_reading_may_be_left(self, store: Store) -> None:
        """Who stops reading early keeps nothing from others."""
        store.append([note(str(one)) for one in range(2_000)])
        for _ in range(100):
            next(iter(store.read()))
            next(iter(store.runs()), None)

        assert [Status.DONE] == _statuses(store, note())

    def test_runs_in_numbers(self, store: Store) -> None:
        """Each run with its times, its calls, and how many of them have no result."""
        store.append([intent("1", "old", at=1), note(run_id="new", at=6), intent("1", "new", at=3)])
        store.append([result("1", "new", at=9), intent("2", "new", at=5), result("2", "new", attempt=2, at=6)])
        store.append([intent("3", "old", at=7), result("3", "old", at=8), note("outside")])

        old, new = store.runs()

        assert 2_002 == len(list(_with_many_runs(store)))
        assert ("old", 1.0, 8.0, 2, 1) == (old.run_id, *_times(old.first, old.last), old.calls, old.in_doubt)
        assert ("new", 6.0, 9.0, 2, 0) == (new.run_id, *_times(new.first, new.last), new.calls, new.in_doubt)


def _with_many_runs(store: Store) -> Iterator[RunInfo]:
    store.append([intent("c", f"many-{at}") for at in range(2_000)])
    found = list(store.runs())
    assert {(1, 1)} == {(one.calls, one.in_doubt) for one in found[2:]}
    return iter(found)


def _times(*moments: datetime) -> list[float]:
    return [(one - NOON).total_seconds() for one in moments]


class TestFailing:
    def test_a_bad_item_fails_alone(self, store: Store) -> None:
        """A naive time can't be stored: that item fails, its neighbours are written, the error tells of each."""
        bad = Item((Record(type="t", body=b"", id="bad", time=datetime(2026, 1, 1), process="p", run_id="run"),))

        with pytest.raises(JournalError) as caught:
            store.append([intent("a"), bad, intent("b")])

        assert ["done", "failed", "done"] == [one.status for one in caught.value.answers]
        assert [1, 2] == [one.run_seq for one in store.read(run_id="run")]
        assert [Status.DONE] == _statuses(store, note())

    def test_an_item_without_a_record_fails(self, store: Store) -> None:
        """A change without an event would be a hole in the audit trail."""
        with pytest.raises(JournalError, match="at least one record"):
            store.append([Item((), rows=(StateRow("block", "a", "", b"x"),))])
        assert 0 == store.revision()

    def test_others_in_the_group_are_not_touched(self, store: Store) -> None:
        """Of many threads' appends at once, only those of bad items raise."""
        naive = Item((Record(type="t", body=b"", id="bad", time=datetime(2026, 1, 1), process="p"),))
        with ThreadPoolExecutor(16) as pool:
            waiting = [pool.submit(store.append, [naive if at % 7 == 0 else note(str(at))]) for at in range(70)]

        failed = [at for at, one in enumerate(waiting) if one.exception() is not None]
        assert list(range(0, 70, 7)) == failed
        assert 60 == len(_ids(store))

    def test_the_error_survives_pickling(self, store: Store) -> None:
        """Errors cross processes, with the answers."""
        with pytest.raises(JournalError) as caught:
            store.append([note(), Item(())])

        copy = pickle.loads(pickle.dumps(caught.value))

        assert (str(caught.value), "journal") == (str(copy), copy.code)
        assert ["done", "failed"] == [one.status for one in copy.answers]
