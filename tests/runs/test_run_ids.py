"""The run of a call is named by its result, as by its errors and events."""

# Tests of: recorder, recorded_results

from __future__ import annotations

import asyncio
import pickle

import pytest

from praval_tools import Outcome, ToolCall, ToolRegistry


@pytest.fixture
def registry() -> ToolRegistry:
    """A journaled registry with a tool of `ann`, and one that fails."""
    registry = ToolRegistry(journal="memory")

    @registry.tool("add", owned_by="ann")
    def add(x: int) -> int:
        """Add."""
        return x

    @registry.tool("fail", owned_by="ann")
    def fail() -> int:
        """Fail."""
        raise ValueError("no")

    return registry


def make_calls() -> list[ToolCall]:
    """Return calls that end in every way: ok, failed, with wrong arguments, refused."""
    return [
        ToolCall(None, "add", {"x": 1}, "ann"),
        ToolCall(None, "fail", {}, "ann"),
        ToolCall(None, "add", {"x": "one"}, "ann"),
        ToolCall(None, "nope", {}, "ann"),
        ToolCall(None, "add", {"x": 1}, "eve"),
    ]


class TestRunIds:
    def test_of_a_run_live_and_replayed(self, registry: ToolRegistry) -> None:
        """Every result of a run names it, however the call ended, and when it is replayed too."""
        with registry.run("nightly"):
            live = [registry.execute(call) for call in make_calls()]
        with registry.run("nightly"):
            replayed = [registry.execute(call) for call in make_calls()]

        assert ["nightly"] * 5 == [result.run_id for result in live]
        assert [result.run_id for result in live] == [result.run_id for result in replayed]
        assert all(result.replayed for result in replayed)

    def test_of_async_calls(self, registry: ToolRegistry) -> None:
        """Calls from async code name the run as well, and so do batches."""

        async def call_all() -> list[str | None]:
            async with registry.run("nightly"):
                first = [await registry.aexecute(call) for call in make_calls()]
                return [result.run_id for result in first + await registry.aexecute_batch(make_calls())]

        assert ["nightly"] * 10 == asyncio.run(call_all())

    def test_outside_of_runs(self, registry: ToolRegistry) -> None:
        """Outside runs there is none, with a journal or without."""
        assert {None} == {registry.execute(call).run_id for call in make_calls()}
        assert {None} == {ToolRegistry().execute(call).run_id for call in make_calls()}

    def test_survives_pickling(self, registry: ToolRegistry) -> None:
        """A result that crosses processes keeps it."""
        with registry.run("nightly"):
            result = registry.execute(make_calls()[0])

        assert (Outcome.OK, "nightly") == (result.outcome, pickle.loads(pickle.dumps(result)).run_id)
