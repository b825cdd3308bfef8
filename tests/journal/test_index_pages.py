"""Pages of runs and their calls, and statistics, from the index of a journal."""

# Tests of: run_pages, usage

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from index_rig import IndexRig, open_index_rig
from journal_rig import intent, result

from praval_tools.journal.index import run_pages
from praval_tools.journal.index.run_pages import (
    OpenCall,
    find_run,
    list_runs,
    read_call_page,
    read_latest_calls,
)
from praval_tools.journal.index.usage import (
    find_quantile,
    list_durations,
    rank_names,
    rank_partners,
    sum_all,
    sum_by_day,
)


@pytest.fixture(params=["sqlite", "postgres"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[IndexRig]:
    """A rig with two runs, over each kind of SQL store."""
    with open_index_rig(request.param, tmp_path) as rig:
        for run in ("first", "second"):
            with rig.registry.run(run):
                for number in range(3):
                    rig.call(number=number, call_id=f"c{number}")
                rig.call("fail", call_id="f")
                rig.call(agent="bob", call_id="b")
        rig.index.catch_up()
        yield rig


class TestRuns:
    def test_runs_are_listed_by_what_happened_last(self, rig: IndexRig) -> None:
        """With their counts; pages go on below the last number."""
        with rig.registry.run("first"):
            rig.call(number=9, call_id="late")
        rig.index.catch_up()
        first, second = list_runs(rig.index)
        assert ["first", "second"] == [first.run_id, second.run_id]
        assert (4, 1, 1, 0) == (second.calls, second.failed, second.refused, second.open_calls)
        assert ["second"] == [run.run_id for run in list_runs(rig.index, before=first.latest_seq)]
        assert ["second"] == [run.run_id for run in list_runs(rig.index, words="sec")]
        assert find_run(rig.index, "none") is None

    @pytest.mark.parametrize("whole", [1_000, 0])
    def test_a_run_is_read_in_pages_of_calls(self, rig: IndexRig, whole: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each call once, complete and numbered, whether the run is read as a whole or call by call."""
        monkeypatch.setattr(run_pages, "_MAX_WHOLE_RUN", whole)
        run, start, calls = find_run(rig.index, "second"), 0, list[tuple[int, str, str]]()
        assert run is not None
        while True:
            page = read_call_page(rig.index, rig.journal, run, start=start, limit=2)
            calls += [(call.number, call.record.tool_call_id, call.outcome) for call in page.history.calls]
            if page.next_start is None:
                break
            start = page.next_start
        assert [
            (1, "c0", "ok"), (2, "c1", "ok"), (3, "c2", "ok"), (4, "f", "tool_error"), (5, "b", "forbidden"),
        ] == calls  # fmt: skip

    def test_the_latest_calls_are_those_of_the_latest_events(self, rig: IndexRig) -> None:
        """And the number after which to go on."""
        history, seq = read_latest_calls(rig.journal, limit=3)
        assert ["f", "b"] == [call.record.tool_call_id for call in history.calls]
        assert rig.store.last_seq() == seq
        assert () == read_latest_calls(rig.journal, after_seq=seq)[0].calls

    def test_a_call_runs_as_long_as_its_process_does(self) -> None:
        """Of this machine; of others nothing is known."""
        fields = {"run_id": "r", "call_id": "c", "agent": None, "tool": "t", "seq": 1, "may_rerun": False}
        host, now = socket.gethostname(), datetime.now(UTC)
        for process, is_running in (
            (f"{host}:{os.getpid()}", True), (f"{host}:999999999", False), (f"other:{os.getpid()}", False), ("", False),
        ):  # fmt: skip
            call = OpenCall(**fields, started=now, process=process)  # type: ignore[arg-type]
            assert is_running is call.is_running

    def test_a_run_with_a_call_in_doubt_says_so(self, rig: IndexRig) -> None:
        """The count of calls without a result goes with the run."""
        rig.store.append([intent("a", "third", tool="t"), intent("b", "third", tool="t"), result("b", "third")])
        rig.index.catch_up()
        run = find_run(rig.index, "third")
        assert run is not None
        assert 1 == run.open_calls


class TestStatistics:
    def test_days_tools_and_agents_add_up(self, rig: IndexRig) -> None:
        """The same calls, by day, by tool, by agent, and of a tool by agent."""
        today = datetime.now(UTC).date()
        since = today - timedelta(days=1)
        assert 10 == sum_all(rig.index).calls
        assert 10 == sum(day.calls for day in sum_by_day(rig.index, since=since, until=today))
        assert [] == sum_by_day(rig.index, since=since - timedelta(days=9), until=since - timedelta(days=8))
        tools = {sums.name: sums for sums in rank_names(rig.index, "tool")}
        assert (6, 0, 2) == (tools["double"].ok, tools["double"].failed, tools["double"].refused)
        assert [("ann", 8), ("bob", 2)] == [
            (sums.name, sums.calls) for sums in rank_names(rig.index, "agent", since=since, until=today)
        ]
        assert [("ann", 6), ("bob", 2)] == [(sums.name, sums.calls) for sums in rank_partners(rig.index, tool="double")]
        assert [("double", 6), ("fail", 2)] == [
            (sums.name, sums.calls) for sums in rank_partners(rig.index, agent="ann")
        ]
        assert tools["double"].average_ms is not None
        assert tools["fail"].average_ms is None
        assert "fail" == rank_names(rig.index, "tool", order="failed", limit=1)[0].name

    def test_durations_are_those_of_the_latest_calls_that_ended_well(self, rig: IndexRig) -> None:
        """Sorted, so that a quantile is an entry."""
        durations = list_durations(rig.index, "double")
        assert 6 == len(durations)
        assert sorted(durations) == durations
        assert [] == list_durations(rig.index, "fail")
        assert durations[3] == find_quantile(durations, 0.5)
        assert find_quantile([], 0.5) is None
