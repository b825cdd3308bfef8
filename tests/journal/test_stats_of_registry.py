"""The statistics of a registry: counted live, rebuilt from the journal, saved, and shown with a tool."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from store_rig import make_location

from praval_tools import Allow, Deny, Outcome, RetryableToolError, ToolCall, ToolContext, ToolRegistry
from praval_tools.errors import ToolUsageError
from praval_tools.journal.stats import UsageStats
from praval_tools.journal.storage.memory import MemoryStore

pytestmark = pytest.mark.usefixtures("recording_path")


class Load:
    """A registry with tools that end in all ways, and many calls of them."""

    def __init__(self, **options: Any) -> None:
        self.gate = threading.Event()
        self.tries = dict[str, int]()
        self.names = itertools.count()
        self.registry = ToolRegistry(retry_wait=0, **options)
        self._declare(self.registry)

    def _declare(self, registry: ToolRegistry) -> None:
        gate, tries = self.gate, self.tries

        @registry.tool("add", owned_by="ann", shared=True)
        def add(x: int, y: int = 1) -> int:
            """Add."""
            return x + y

        @registry.tool("later", owned_by="ann", shared=True)
        async def later(x: int) -> int:
            """Add later."""
            await asyncio.sleep(0)
            return x

        @registry.tool("broken", owned_by="ann")
        def broken(x: int) -> int:
            """Fail."""
            raise ValueError(x)

        @registry.tool("again", owned_by="ann", retries=2)
        def again(context: ToolContext) -> int:
            """Succeed the third time."""
            count = tries[context.tool_call_id] = tries.get(context.tool_call_id, 0) + 1
            if count < 3:
                raise RetryableToolError("not yet")
            return count

        @registry.tool("slow", owned_by="ann", timeout=0.02)
        def slow() -> None:
            """Take its time."""
            gate.wait(30)

        @registry.tool("careful", owned_by="ann", requires_approval=True)
        def careful(x: int) -> int:
            """Wait for a person."""
            return x

        @registry.tool("off", owned_by="ann")
        def off() -> None:
            """Be off."""

        @registry.tool("odd", owned_by="ann")
        def odd() -> Any:
            """Give what has no JSON form."""
            return object()

        registry.disable("off")
        registry.limits.set(agent="cid", tool="add", per_minute=1)
        registry.set_approval_handler(lambda request: Allow() if request.arguments["x"] else Deny("no"))

    def calls(self) -> list[ToolCall]:
        """Return calls that end in all ways."""
        named = [
            ("add", {"x": 1}, "ann"),
            ("add", {"x": 2}, "bob"),
            ("add", {"x": "no"}, "ann"),
            ("later", {"x": 1}, "bob"),
            ("broken", {"x": 1}, "ann"),
            ("broken", {"x": 1}, "bob"),
            ("nope", {}, "ann"),
            ("off", {}, "ann"),
            ("careful", {"x": 1}, "ann"),
            ("careful", {"x": 0}, "ann"),
            ("add", {"x": 1}, None),
            ("add", {"x": 1}, "cid"),
            ("again", {}, "ann"),
        ]
        return [ToolCall(f"c{next(self.names)}", tool, arguments, agent) for tool, arguments, agent in named]

    def run(self) -> None:
        """Make the calls from threads, from async code, one by one and in batches, and as the operator."""
        registry = self.registry
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(registry.execute, self.calls() * 4))
        asyncio.run(registry.aexecute_batch(self.calls() * 2))
        registry.execute_batch(self.calls())
        registry.execute("", "add", {"x": 1})
        registry.execute(ToolCall(None, "slow", {}, "ann"))
        registry.execute(ToolCall(None, "odd", {}, "ann"))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Where a journal of each kind is."""
    monkeypatch.setenv("PRAVAL_TOOLS_KEY", "a key that all processes share")
    with make_location(request.param, tmp_path) as where:
        yield MemoryStore() if request.param == "memory" else where


def figures(stats: UsageStats) -> Any:
    """Return everything that statistics say."""
    return stats.get_all_stats(), stats.get_agent_stats()


def outcomes(registry: ToolRegistry, tool: str, agent: str | None = None) -> dict[str, int]:
    """Return how often calls of a tool ended how."""
    found = registry.stats.get_stats(tool, agent)
    return {} if found is None else found["outcomes"]


class TestLiveAndRebuilt:
    def test_they_are_equal(self, store: Any) -> None:
        """After a mixed load every figure is the same, whether counted as it happened or read from the journal."""
        load = Load(journal=store)
        load.run()

        with load.registry as registry:
            assert registry.journal is not None
            assert figures(registry.stats) == figures(registry.journal.stats())
            assert {"ok": 16, "invalid_arguments": 7, "forbidden": 7, "limited": 6} == outcomes(registry, "add")
            assert {"ok": 7} == outcomes(registry, "again")
            assert {"tool_error": 7} == outcomes(registry, "broken", "ann")
            assert {"forbidden": 7} == outcomes(registry, "broken", "bob")
            assert {"ok": 7, "approval_denied": 7} == outcomes(registry, "careful")
            assert ({"disabled": 7}, {}) == (outcomes(registry, "off"), outcomes(registry, "nope"))
            assert ({"timeout": 1}, {"tool_error": 1}) == (outcomes(registry, "slow"), outcomes(registry, "odd"))
            load.gate.set()

    def test_another_start_reads_the_same(self, tmp_path: Path) -> None:
        """What the journal says at the next start is what was counted in the last process."""
        load = Load(journal=tmp_path / "runs.db")
        load.run()
        load.gate.set()
        load.registry.close()
        expected = figures(load.registry.stats)

        with ToolRegistry(journal=tmp_path / "runs.db") as registry:
            assert registry.journal is not None
            assert expected == figures(registry.journal.stats())

    def test_replays_count_nothing(self, store: Any) -> None:
        """A result that is given back does not count as a use of the tool, live or rebuilt."""
        load = Load(journal=store)
        with load.registry as registry:
            for _ in range(3):
                with registry.run("r"):
                    registry.execute(ToolCall(None, "add", {"x": 1}, "ann"))
                    registry.execute(ToolCall(None, "broken", {"x": 1}, "ann"))
            assert registry.journal is not None
            assert figures(registry.stats) == figures(registry.journal.stats())
            assert [1, 1] == [registry.stats.get_all_stats()[tool]["uses"] for tool in ("add", "broken")]

    def test_a_late_result_counts_nothing(self, store: Any) -> None:
        """A function that ends after its time was counted as a time-out."""
        load = Load(journal=store)
        registry = load.registry
        registry.execute(ToolCall(None, "slow", {}, "ann"))
        load.gate.set()
        registry.drain()

        assert registry.journal is not None
        assert {"timeout": 1} == outcomes(registry, "slow")
        assert figures(registry.stats) == figures(registry.journal.stats())
        registry.close()

    def test_waiting_for_an_approval_is_no_use(self, store: Any) -> None:
        """A call that waits has not ended; answered and sent again it counts once."""
        load = Load(journal=store)
        with load.registry as registry:
            registry.set_approval_handler(None)
            call = ToolCall("c1", "careful", {"x": 1}, "ann")
            assert Outcome.APPROVAL_REQUIRED is registry.execute(call).outcome
            assert {} == outcomes(registry, "careful")
            registry.approvals.answer("c1", Allow())
            assert Outcome.OK is registry.execute(call).outcome
            assert registry.journal is not None
            assert {"ok": 1} == outcomes(registry, "careful")
            assert figures(registry.stats) == figures(registry.journal.stats())

    def test_a_call_that_was_cancelled(self, store: Any) -> None:
        """It counts as that, live and rebuilt."""
        registry = ToolRegistry(journal=store)

        async def play() -> None:
            inside = asyncio.Event()

            @registry.tool("wait", owned_by="ann")
            async def wait() -> None:
                """Wait for ever."""
                inside.set()
                await asyncio.Event().wait()

            task = asyncio.create_task(registry.agent("ann").aexecute(ToolCall(None, "wait", {})))
            await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(play())
        assert registry.journal is not None
        assert figures(registry.journal.stats()) == figures(registry.stats)
        assert {"cancelled": 1} == outcomes(registry, "wait")
        registry.close()


class TestWithoutAJournal:
    def test_nothing_is_counted_by_itself(self) -> None:
        """Unless it is switched on."""
        load = Load()
        load.registry.execute(load.calls()[0])

        assert {} == load.registry.stats.get_all_stats()
        load.registry.close()

    def test_switched_on_it_counts_as_a_journal_does(self) -> None:
        """The same load gives the same counts by tool, agent and outcome; switched off, it stops."""
        counts = []
        for options in ({}, {"journal": "memory"}):
            load = Load(**options)
            load.registry.stats.track_usage = True
            load.run()
            counts.append(
                {
                    (agent, tool): one["outcomes"]
                    for agent, tools in load.registry.stats.get_agent_stats().items()
                    for tool, one in tools.items()
                    if tool != "odd"  # a result without a JSON form is an error only where it is written down
                }
            )
            load.gate.set()
            load.registry.close()

        assert counts[0] == counts[1]

    def test_switched_off_again(self) -> None:
        """What was counted stays."""
        load = Load()
        for on in (True, False, True, False):
            load.registry.stats.track_usage = on
            load.registry.execute(load.calls()[0])

        assert {"ok": 2} == outcomes(load.registry, "add")
        load.registry.close()

    def test_calls_under_way_when_it_is_switched_on(self) -> None:
        """Prepared fast paths do not pass it by: the very next call counts."""
        load = Load()
        with load.registry as registry:
            tools = registry.agent("ann").tools
            for _ in range(5):
                tools.call("add", x=1)
            registry.stats.track_usage = True
            tools.call("add", x=1)

            assert {"ok": 1} == outcomes(registry, "add")


class TestFiles:
    def test_saved_and_loaded(self, tmp_path: Path) -> None:
        """Another registry that loads the file says the same."""
        load = Load(journal="memory")
        load.run()
        load.gate.set()
        load.registry.stats.storage_path = tmp_path / "stats.json"
        load.registry.stats.save_stats()
        with load.registry as registry, ToolRegistry() as other:
            assert other.stats.load_stats(tmp_path / "stats.json")
            assert figures(registry.stats) == figures(other.stats)

    def test_counting_goes_on_after_loading(self, tmp_path: Path) -> None:
        """What is loaded is added to."""
        path = tmp_path / "stats.json"
        for total in (1, 2, 3):
            load = Load()
            with load.registry as registry:
                registry.stats.load_stats(path)
                registry.stats.track_usage = True
                registry.execute(load.calls()[0])
                registry.stats.save_stats(path)
                assert {"ok": total} == outcomes(registry, "add")


class TestToolInfo:
    def test_everything_about_a_tool(self) -> None:
        """Definition, metadata and figures in one dict, of JSON values."""
        load = Load(journal="memory")
        with load.registry as registry:
            registry.execute(load.calls()[0])
            info = registry.get_tool_info("add")

            assert info is not None
            assert {"name": "add", "description": "Add.", "parameters": registry.get_tool("add").parameters} == (  # type: ignore[union-attr]
                info["definition"]
            )
            assert ("ann", True) == (info["metadata"]["owned_by"], info["metadata"]["shared"])
            assert registry.stats.get_stats("add") == info["usage_stats"]
            assert 1 == info["usage_stats"]["uses"]

    def test_a_tool_that_was_never_used(self) -> None:
        """Its figures are None, counted or not."""
        load = Load()
        with load.registry as registry:
            info = registry.get_tool_info("add")
            assert info is not None and info["usage_stats"] is None

    def test_no_such_tool(self) -> None:
        """None, as the seed says."""
        with ToolRegistry() as registry:
            assert registry.get_tool_info("nope") is None


class TestStorage:
    def test_a_file_named_by_text_is_loaded_and_saved(self, tmp_path: Path) -> None:
        """
        `storage_path` takes a text: counts are saved on close, in a folder made for them, and there at the next start.

        Broken before: a text was stored as it was and failed when statistics were saved.
        """
        path = str(tmp_path / "new" / "x.json")
        for uses in (1, 2):
            with ToolRegistry() as registry:
                registry.tool("add", shared=True, description="Add.")(lambda: 1)
                registry.stats.storage_path = path
                registry.stats.track_usage = True
                registry.execute(ToolCall(name="add"))
                assert registry.stats.get_stats("add")["uses"] == uses


class TestJournalOptions:
    @pytest.mark.parametrize("options", [{"durability": "half"}, {"journal_errors": "ignore"}])
    @pytest.mark.parametrize("journal", [None, "memory"])
    def test_checked_with_and_without_a_journal(self, options: dict[str, Any], journal: str | None) -> None:
        """
        A value that means nothing is refused, also where no journal needs it yet.
        """
        with pytest.raises(ToolUsageError, match="use durability='full' or 'intent'"):
            ToolRegistry(journal=journal, **options)
