"""The index of a journal: what is in it, how it follows other writers, and what it does when events are deleted."""

# Tests of: index, tables, counting

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from index_rig import IndexRig, open_index_rig
from journal_rig import NOON, intent, note, record, result
from mcp_client_rig import wait_until

from praval_tools.journal import Item, Record, open_store
from praval_tools.journal.index.index import JournalIndex
from praval_tools.journal.index.run_pages import count_open_calls, find_run, list_open_calls
from praval_tools.journal.index.search import EventQuery, search_events
from praval_tools.journal.index.usage import sum_all


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[IndexRig]:
    """A rig over each kind of store."""
    with open_index_rig(request.param, tmp_path) as rig:
        yield rig


class TestFollowing:
    def test_everything_that_was_there_and_that_comes_is_indexed(self, rig: IndexRig) -> None:
        """Each event is in the index once, whether it was written before the index began or after."""
        rig.call()
        rig.index.catch_up()
        rig.call(number=2)
        rig.index.catch_up()
        rig.index.catch_up()

        page = search_events(rig.index, rig.store, EventQuery())
        assert [event.seq for event in reversed(list(rig.store.read()))] == [event.seq for event in page.records]
        assert rig.index.progress.is_complete
        assert 100 == rig.index.progress.percent

    def test_a_thread_follows_and_tells_of_news_alone(self, rig: IndexRig) -> None:
        """A listener gets the records that are written from then on, and none that were there before."""
        rig.call(call_id="old")
        rig.index.catch_up()
        news, has_result = list[Record](), threading.Event()

        def listen(records: object) -> None:
            news.extend(records)  # type: ignore[arg-type]
            if any(event.type == "agent_tool_result" for event in news):
                has_result.set()

        rig.index.add_listener(listen)
        rig.index.start()
        rig.call(call_id="new")

        assert has_result.wait(30)
        assert {"new"} == {event.call_id for event in news}

    def test_a_store_that_cannot_be_read_is_reported(self, tmp_path: Path) -> None:
        """The error is shown in the progress; the index stays as it is."""
        store = open_store(str(tmp_path / "runs.db"))
        index = JournalIndex(store)
        with closing(index):
            store.close()
            index.start()
            wait_until(lambda: index.progress.error)
            assert "closed" in index.progress.error

    def test_the_folder_is_for_this_user_alone_and_goes_with_the_index(self, tmp_path: Path) -> None:
        """Nobody else reads the index, and nothing of it stays."""
        with closing(open_store(str(tmp_path / "runs.db"))) as store:
            index = JournalIndex(store, tmp_path)
            (folder,) = (path for path in tmp_path.iterdir() if "index" in path.name)
            assert stat.S_IRWXU == stat.S_IMODE(folder.stat().st_mode)

            index.close()
            index.close()
            assert not folder.exists()


class TestDeletedEvents:
    def test_what_is_pruned_leaves_the_index(self, tmp_path: Path) -> None:
        """After a prune the index is made anew, and counts what is left."""
        with closing(open_store(str(tmp_path / "runs.db"))) as store, closing(JournalIndex(store)) as index:
            store.append([intent("c", "old"), result("c", "old"), note(at=10_000)])
            index.catch_up()
            assert find_run(index, "old") is not None

            store.prune(NOON + timedelta(seconds=5_000))
            index.drop_pruned()
            assert find_run(index, "old") is None
            assert 1 == len(search_events(index, store, EventQuery()).records)


class TestDamagedEvents:
    def test_an_event_that_cannot_be_decoded_is_indexed_by_its_columns(self, tmp_path: Path) -> None:
        """A damaged body hides neither the event nor those after it."""
        with closing(open_store(str(tmp_path / "runs.db"))) as store, closing(JournalIndex(store)) as index:
            damaged = record("d", type="agent_tool_call", body=b"\xff{", call_id="c", agent="ann", tool="t")
            store.append([Item((damaged,)), intent("e", "run")])
            index.catch_up()
            page = search_events(index, store, EventQuery(agent="ann"))
            assert ["d"] == [event.id for event in page.records]


class TestOpenCalls:
    def test_a_call_without_a_result_is_open_until_it_has_one(self, tmp_path: Path) -> None:
        """Calls of runs that started are open, also over several batches; calls outside runs are not in doubt."""
        with closing(open_store(str(tmp_path / "runs.db"))) as store, closing(JournalIndex(store)) as index:
            store.append([intent("a", tool="t"), intent("b", tool="t"), intent("c", None, tool="t"), result("b")])
            index.catch_up()
            assert ["a"] == [call.call_id for call in list_open_calls(index)]
            assert 1 == count_open_calls(index)

            store.append([result("a")])
            index.catch_up()
            assert [] == list_open_calls(index)

    def test_a_result_that_says_nothing_of_the_work_leaves_the_call_open(self, tmp_path: Path) -> None:
        """A cancelled call has a result without an attempt: it stays in doubt."""
        with closing(open_store(str(tmp_path / "runs.db"))) as store, closing(JournalIndex(store)) as index:
            cancelled = record(
                "x", type="agent_tool_result", run_id="run", call_id="a", body=b'{"outcome":"cancelled"}'
            )
            store.append([intent("a", tool="t"), Item((cancelled,))])
            index.catch_up()
            assert ["a"] == [call.call_id for call in list_open_calls(index)]

    @pytest.mark.parametrize("in_one_batch", [True, False])
    @pytest.mark.parametrize("outcome", ["cancelled", "engine_lost", "in_doubt"])
    def test_a_call_that_ended_in_doubt_does_not_run(self, tmp_path: Path, outcome: str, in_one_batch: bool) -> None:
        """Though its process lives: somebody is asked about it at once; until it starts again."""
        with closing(open_store(str(tmp_path / "runs.db"))) as store, closing(JournalIndex(store)) as index:
            process = f"{socket.gethostname()}:{os.getpid()}"
            begin: dict[str, Any] = {
                "type": "agent_tool_call",
                "run_id": "run",
                "call_id": "a",
                "tool": "t",
                "process": process,
            }
            end: dict[str, Any] = {"type": "agent_tool_result", "run_id": "run", "call_id": "a", "process": process}
            store.append([Item((record("1", **begin),))])
            if not in_one_batch:
                index.catch_up()
                assert [True] == [call.is_running for call in list_open_calls(index)]
            store.append([Item((record("2", **end, body=f'{{"outcome":"{outcome}"}}'.encode()),))])
            index.catch_up()
            assert [False] == [call.is_running for call in list_open_calls(index)]

            rerun = record("3", type="call_rerun", run_id="run", call_id="a", tool="t")
            store.append([Item((rerun,)), Item((record("4", **begin),))])
            index.catch_up()
            assert [True] == [call.is_running for call in list_open_calls(index)]

    def test_a_call_that_may_run_again_is_not_open_until_it_starts_again(self, tmp_path: Path) -> None:
        """Who resolved a call by `rerun` is not asked again; a second crash asks again, with another number."""
        with closing(open_store(str(tmp_path / "runs.db"))) as store, closing(JournalIndex(store)) as index:
            store.append([intent("a", tool="t")])
            index.catch_up()
            (first,) = list_open_calls(index)
            store.append([Item((record("r", type="call_rerun", run_id="run", call_id="a", tool="t"),))])
            index.catch_up()
            assert [] == list_open_calls(index)

            again = record("a-again", type="agent_tool_call", run_id="run", call_id="a", tool="t")
            store.append([Item((again,))])
            index.catch_up()
            (second,) = list_open_calls(index)
            assert second.seq > first.seq


class TestSums:
    def test_calls_are_counted_as_the_statistics_of_the_registry_count_them(self, rig: IndexRig) -> None:
        """Ended well, failed, refused; unknown tools and calls that wait are not counted."""
        for tool, agent in (("double", "ann"), ("double", "ann"), ("fail", "ann"), ("double", "bob"), ("none", "ann")):
            rig.call(tool, agent=agent)
        rig.call("double", number="many")
        rig.index.catch_up()

        sums = sum_all(rig.index)
        assert (2, 1, 2) == (sums.ok, sums.failed, sums.refused)
        uses = rig.journal.stats().get_all_stats()
        assert sums.calls == sum(int(str(figures["uses"])) for figures in uses.values())
