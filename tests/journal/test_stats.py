"""Usage statistics: exact counts under threads, quantiles within one per cent, files that are never lost."""

# Tests of: usage, quantile_sketch

from __future__ import annotations

import json
import math
import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from journal_strategies import NOON, every_event

from praval_tools import Outcome
from praval_tools.errors import StatsWarning
from praval_tools.journal.events import AgentToolResult, CallRefused, LateResult
from praval_tools.journal.quantile_sketch import QuantileSketch
from praval_tools.journal.stats import UsageStats

UNCOUNTED = {Outcome.UNKNOWN_TOOL, Outcome.APPROVAL_REQUIRED}
MILLION = 1_000_000

agents = st.none() | st.sampled_from(["ann", "bob"])
tools = st.sampled_from(["add", "wire money", "\ud800"])
moments = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
durations = st.none() | st.floats(0, 1e9)
calls = st.lists(st.tuples(agents, tools, st.sampled_from(Outcome), durations, moments), max_size=30)

Call = tuple[str | None, str, Outcome, float | None, datetime]


def counted(made: Iterable[Call], **options: Any) -> UsageStats:
    """Return the statistics of these calls."""
    stats = UsageStats(**options)
    for agent, tool, outcome, duration, when in made:
        stats.record(agent, tool, outcome, duration_ms=duration, when=when)
    return stats


def figures(stats: UsageStats) -> Any:
    """Return everything that can be asked of *stats*."""
    return stats.get_all_stats(), stats.get_agent_stats()


def events(made: Iterable[Call]) -> list[Any]:
    """Return the events that a journal holds of these calls: a result of what ran, a refusal of what did not."""
    found: list[Any] = []
    for number, (agent, tool, outcome, duration, when) in enumerate(made):
        head = {"id": f"e{number}", "time": when, "tool_call_id": f"c{number}", "tool_name": tool, "agent": agent}
        if duration is None and outcome is not Outcome.OK:
            found.append(CallRefused(**head, outcome=outcome))
        else:
            found.append(AgentToolResult(**head, outcome=outcome, latency_ms=duration))
    return found


class TestCounting:
    @given(calls)
    def test_against_a_plain_count(self, made: list[Call]) -> None:
        """Uses, successes, failures by outcome, times and durations are what counting them one by one gives."""
        stats = counted(made)
        for name in {tool for _, tool, *_ in made}:
            mine = [one for one in made if one[1] == name and one[2] not in UNCOUNTED]
            if not mine:
                assert None is stats.get_stats(name)
                continue
            found = stats.get_stats(name)
            assert found is not None
            good = [one for one in mine if one[2] is Outcome.OK]
            total = sum(int(one[3] * 1e6 + 0.5) for one in good if one[3] is not None) / 1e6

            assert (len(mine), len(good), len(mine) - len(good)) == (
                found["uses"], found["successes"], found["failures"]
            )  # fmt: skip
            assert dict(Counter(one[2].value for one in mine)) == found["outcomes"]
            assert min(one[4] for one in mine).isoformat() == found["first_used"]
            assert max(one[4] for one in mine).isoformat() == found["last_used"]
            assert total == found["total_duration_ms"]
            assert (total / len(good) if good else None) == found["avg_duration_ms"]

    @given(calls)
    def test_agents_add_up_to_the_tool(self, made: list[Call]) -> None:
        """Every call counts for its tool and for its agent; the host program is `operator`."""
        stats = counted(made)
        by_agent = stats.get_agent_stats()

        for name, whole in stats.get_all_stats().items():
            parts = [found[name] for found in by_agent.values() if name in found]
            assert whole["uses"] == sum(one["uses"] for one in parts)
            total = sum(one["total_duration_ms"] for one in parts)
            assert math.isclose(whole["total_duration_ms"], total, abs_tol=1e-5)
        for agent, found in by_agent.items():
            assert found == {name: stats.get_stats(name, agent) for name in found}

    @given(calls)
    def test_rebuilt_from_the_journal(self, made: list[Call]) -> None:
        """What the journal's events add up to, in any order, is what was counted live."""
        recorded = events(made)
        live = UsageStats()
        for one in recorded:
            live.record_event(one)
        shuffled = random.Random(len(made)).sample(recorded, len(recorded))
        rebuilt = counted([(None, "old", Outcome.OK, 1.0, NOON)])
        rebuilt.rebuild(shuffled)

        assert figures(live) == figures(rebuilt)
        assert figures(live) == figures(counted((*one[:3], one[3], one[4]) for one in made))

    @given(st.lists(every_event, max_size=5))
    def test_every_event_is_taken(self, recorded: list[Any]) -> None:
        """Any event may be passed; only ends of calls count, and a late result is not an end."""
        stats = UsageStats()
        stats.rebuild(recorded)
        ends = [one for one in recorded if isinstance(one, AgentToolResult | CallRefused)]

        assert len([one for one in ends if one.outcome not in UNCOUNTED]) == sum(
            one["uses"] for one in stats.get_all_stats().values()
        )

    def test_late_results_and_made_up_names(self) -> None:
        """A late result changes no figure; names that a model makes up take no memory."""
        stats = UsageStats()
        head = {"id": "e", "time": NOON, "tool_call_id": "c"}
        stats.record_event(LateResult(**head, tool_name="add", outcome="ok", latency_ms=5.0))
        for number in range(5_000):
            stats.record_event(CallRefused(**head, tool_name=f"junk{number}", outcome=Outcome.UNKNOWN_TOOL))

        assert {} == stats.get_all_stats()

    def test_switched_off(self) -> None:
        """`track_usage=False` counts nothing; it can be switched on at any time."""
        stats = UsageStats(track_usage=False)
        stats.update_stats("add", True)
        stats.track_usage = True
        stats.update_stats("add", False)

        assert {"tool_error": 1} == (stats.get_stats("add") or {})["outcomes"]

    @pytest.mark.parametrize("duration", [-1.0, -1e-9, float("nan"), float("inf"), -float("inf")])
    def test_clocks_that_go_astray(self, duration: float) -> None:
        """An impossible duration does not fail a call that has ended; the figures stay finite."""
        stats = counted([("ann", "add", Outcome.OK, duration, NOON)])
        found = stats.get_stats("add")

        assert found is not None and all(math.isfinite(found[name]) for name in ("total_duration_ms", "p99_ms"))
        json.dumps(stats.get_all_stats(), allow_nan=False)


class TestSeed:
    def test_names_and_figures_of_the_seed(self) -> None:
        """`update_stats(tool_name, success, duration_ms, request_id)` gives the seed's figures under its names."""
        stats = UsageStats()
        stats.update_stats("calculator", True, 10.0, "request-1")
        stats.update_stats("calculator", success=True, duration_ms=20.0)
        stats.update_stats(tool_name="calculator", success=False, duration_ms=99.0)
        found = stats.get_stats("calculator")
        assert found is not None

        assert {
            "uses": 3, "successes": 2, "failures": 1, "total_duration_ms": 30.0, "avg_duration_ms": 15.0,
        }.items() <= found.items()  # fmt: skip
        assert found["first_used"] <= found["last_used"]
        assert {"calculator": found} == stats.get_all_stats()
        assert None is stats.get_stats("nobody")

    @pytest.mark.parametrize("duration", [-1, float("nan"), float("inf"), "5", True])
    def test_durations_that_a_caller_makes_up(self, duration: Any) -> None:
        """The host program's own durations are checked where they are given."""
        with pytest.raises(ValueError, match="duration_ms"):
            UsageStats().update_stats("add", True, duration)


class TestThreads:
    def test_no_call_is_lost(self) -> None:
        """Eight threads record while two ask: in the end every call counts once, and no figure ever went back."""
        stats, each, seen = UsageStats(), 20_000, [list[int](), list[int]()]
        start, done = threading.Barrier(10), threading.Event()

        def work(number: int) -> None:
            start.wait()
            for turn in range(each):
                when = NOON + timedelta(microseconds=turn)
                outcome = Outcome.OK if turn % 4 else Outcome.TOOL_ERROR
                stats.record(f"agent{number}", "add", outcome, duration_ms=turn % 7 + 1.0, when=when)

        def ask(uses: list[int]) -> None:
            start.wait()
            while not done.is_set():
                found = stats.get_stats("add")
                if found is not None:
                    assert found["uses"] == sum(found["outcomes"].values())
                    uses.append(found["uses"])

        workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        askers = [threading.Thread(target=ask, args=(uses,)) for uses in seen]
        for one in (*workers, *askers):
            one.start()
        for one in workers:
            one.join()
        done.set()
        for one in askers:
            one.join()
        found = stats.get_stats("add")
        assert found is not None

        assert (8 * each, 6 * each) == (found["uses"], found["successes"])
        assert seen == [sorted(uses) for uses in seen]
        assert 8 == len(stats.get_agent_stats())
        assert {each} == {one["add"]["uses"] for one in stats.get_agent_stats().values()}
        good = [turn % 7 + 1.0 for turn in range(each) if turn % 4]
        assert 8 * sum(good) == found["total_duration_ms"]

    def test_recording_waits_for_nobody(self) -> None:
        """While a reader holds everything up, calls are recorded all the same, and none is lost."""
        stats = UsageStats()
        with stats._fold_lock:
            for _ in range(5_000):
                stats.update_stats("add", True, 1.0)

        assert 5_000 == (stats.get_stats("add") or {})["uses"]

    def test_what_waits_stays_small(self) -> None:
        """Records do not pile up where nobody ever asks."""
        stats = UsageStats()
        for _ in range(100_000):
            stats.update_stats("add", True, 1.0)

        assert len(stats._pending) <= 1_024

    def test_saving_while_others_record(self, tmp_path: Path) -> None:
        """Each saved file is a whole one, whatever is recorded meanwhile."""
        stats, done = UsageStats(tmp_path / "s.json"), threading.Event()

        def work() -> None:
            while not done.is_set():
                stats.update_stats("add", True, 1.0)

        worker = threading.Thread(target=work)
        worker.start()
        uses = []
        for _ in range(20):
            other = UsageStats(stats.save_stats())
            assert other.load_stats()
            uses.append((other.get_stats("add") or {"uses": 0})["uses"])
        done.set()
        worker.join()

        assert sorted(uses) == uses


def exact(values: list[float], share: float) -> float:
    """Return the nearest-rank quantile of sorted *values*."""
    return values[max(math.ceil(share * len(values) - 1e-9), 1) - 1]


def sketch(values: Iterable[float]) -> QuantileSketch:
    """Return the sketch of *values*."""
    made = QuantileSketch()
    for one in values:
        made.add(one)
    return made


def mixed(chance: random.Random) -> float:
    """Draw from a cache: mostly microseconds, sometimes minutes."""
    return chance.expovariate(1 / 0.004) if chance.random() < 0.97 else chance.gauss(60_000, 9_000)


DISTRIBUTIONS: dict[str, Callable[[random.Random], float]] = {
    "uniform": lambda chance: chance.uniform(0.5, 1000),
    "normal": lambda chance: abs(chance.gauss(50, 5)) + 1e-3,
    "log-normal": lambda chance: chance.lognormvariate(2, 1.5),
    "exponential": lambda chance: chance.expovariate(1 / 30) + 1e-5,
    "pareto": lambda chance: chance.paretovariate(1.1),
    "two modes": mixed,
    "constant": lambda chance: 12.5,
    "whole": lambda chance: float(chance.randint(1, 20)),
}


class TestSketch:
    @pytest.mark.parametrize("name", DISTRIBUTIONS)
    def test_a_million_values(self, name: str) -> None:
        """p50, p95 and p99 of a million values are within one per cent, in at most four kilobytes."""
        chance = random.Random(name)
        values = [max(DISTRIBUTIONS[name](chance), 1e-5) for _ in range(MILLION)]
        made = sketch(values)
        values.sort()

        assert MILLION == made.count
        for share in (0.5, 0.95, 0.99):
            found = made.quantile(share)
            assert found is not None
            assert abs(found - exact(values, share)) <= 0.01 * exact(values, share), (name, share)
        assert sys.getsizeof(made) <= 4096

    @given(st.lists(st.floats(1e-4, 1e4), min_size=1), st.floats(0, 1))
    @example([1.0], 0.0)
    def test_any_values_in_the_window(self, values: list[float], share: float) -> None:
        """Every quantile of values within a factor of 10⁸ is within one per cent."""
        found = sketch(values).quantile(share)
        wanted = exact(sorted(values), share)

        assert found is not None and abs(found - wanted) <= 0.01 * wanted

    @given(st.lists(st.floats() | st.sampled_from([0.0, 1e-300, 1e300, 5e-7]), max_size=50), st.randoms())
    def test_order_does_not_count(self, values: list[float], chance: random.Random) -> None:
        """Equal values in another order give an equal sketch, whatever floats they are; it stays small."""
        made = sketch(values)

        assert made == sketch(chance.sample(values, len(values)))
        assert len(values) == made.count
        assert sys.getsizeof(made) <= 4096
        assert made == QuantileSketch.from_dict(json.loads(json.dumps(made.to_dict())))

    @given(st.lists(st.floats(1e-9, 1e14), min_size=1))
    def test_great_values_are_exact_however_small_others_are(self, values: list[float]) -> None:
        """The greatest value is within one per cent, even where smaller ones had to share a bucket."""
        found = sketch(values).quantile(1.0)

        assert found is not None and abs(found - max(*values, 1e-6, 1e-6)) <= 0.01 * max(*values, 1e-6, 1e-6)

    def test_nothing(self) -> None:
        """Without values there is no quantile."""
        assert (None, 0) == (QuantileSketch().quantile(0.99), QuantileSketch().count)


WHEN = NOON.isoformat()
FIGURES = {"outcomes": {"ok": 1}, "total_duration_ns": 5, "first_used": WHEN, "last_used": WHEN}
SKETCH = {"first": 0, "counts": [1]}
BROKEN_TOOLS = [
    5, {}, {"agents": {}, "sketch": SKETCH}, {"agents": {"ann": 5}, "sketch": SKETCH}, {"agents": {"ann": FIGURES}},
    *({"agents": {"ann": FIGURES}, "sketch": one}
      for one in ([], {}, {"first": 0}, {**SKETCH, "counts": [1.5]}, {**SKETCH, "counts": [0] * 961})),
    *({"agents": {"ann": {**FIGURES, **wrong}}, "sketch": SKETCH}
      for wrong in ({"outcomes": {"okay": 1}}, {"outcomes": {"ok": -1}}, {"outcomes": {}}, {"outcomes": 5},
                    {"first_used": None}, {"last_used": "now"}, {"first_used": "2026-01-01T00:00:00"},
                    {"total_duration_ns": 0.5}, {"total_duration_ns": -1})),
]  # fmt: skip
BROKEN = [
    b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"v": 2, "tools": {}}', b'{"v": 1}', b'{"v": true}', b"[" * 100_000,
    *(json.dumps({"v": 1, "tools": {"add": one}}).encode() for one in BROKEN_TOOLS),
]  # fmt: skip


class TestFiles:
    @given(calls)
    def test_saved_and_loaded(self, made: list[Call]) -> None:
        """A saved file gives back every figure, quantiles included."""
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            stats = counted(made, storage_path=Path(folder) / "data" / "tool_stats.json")
            path = stats.save_stats()
            other = UsageStats(path)

            assert other.load_stats()
            assert figures(stats) == figures(other)
            assert [path.name] == os.listdir(path.parent)

    def test_counting_goes_on_after_loading(self, tmp_path: Path) -> None:
        """A new process counts on from where the file stands."""
        first = UsageStats(tmp_path / "s.json")
        first.update_stats("add", True, 5.0)
        first.save_stats()
        second = UsageStats(tmp_path / "s.json")
        second.load_stats()
        second.update_stats("add", True, 15.0)
        found = second.get_stats("add") or {}

        assert (2, 10.0) == (found["uses"], found["avg_duration_ms"])

    def test_a_file_of_its_own(self, tmp_path: Path) -> None:
        """A path given to the method comes before the default; without both the error says what to do."""
        stats = UsageStats()
        stats.update_stats("add", True)

        assert tmp_path / "x.json" == stats.save_stats(tmp_path / "x.json")
        assert stats.load_stats(tmp_path / "x.json")
        assert not stats.load_stats(tmp_path / "none.json")
        with pytest.raises(ValueError, match="storage_path"):
            stats.save_stats()

    @pytest.mark.parametrize("content", BROKEN, ids=range(len(BROKEN)))
    def test_broken_files_are_set_aside(self, tmp_path: Path, content: bytes) -> None:
        """A file that cannot be read is kept under another name with a warning; what was counted stays."""
        path = tmp_path / "s.json"
        path.write_bytes(content)
        stats = UsageStats(path)
        stats.update_stats("add", True)

        with pytest.warns(StatsWarning, match="set aside as s.json.broken-"):
            assert not stats.load_stats()
        (aside,) = tmp_path.iterdir()
        assert content == aside.read_bytes()
        assert 1 == (stats.get_stats("add") or {})["uses"]

    def test_saving_over_a_broken_file(self, tmp_path: Path) -> None:
        """Saving never destroys what it cannot read: that is set aside first, each time under a new name."""
        stats = UsageStats(tmp_path / "s.json")
        for turn in range(3):
            (tmp_path / "s.json").write_text(f"not mine {turn}")
            with pytest.warns(StatsWarning):
                stats.save_stats()

        aside = sorted(one.read_text() for one in tmp_path.iterdir() if "broken" in one.name)
        assert ["not mine 0", "not mine 1", "not mine 2"] == aside
        assert stats.load_stats()

    def test_a_write_that_fails(self, tmp_path: Path) -> None:
        """Where the file cannot be written the old one stays, and nothing is left behind."""
        stats = UsageStats(tmp_path / "s.json")
        (tmp_path / "s.json").mkdir()
        with pytest.raises(OSError):
            stats.save_stats()

        assert ["s.json"] == os.listdir(tmp_path)
