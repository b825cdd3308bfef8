"""A call of a run counts once under a limit of calls per run, however often the run is opened."""

# Tests of: execution/limits, runs/recorder, runs/run

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from runs_rig import open_bank

from praval_tools import Allow, ToolCall, ToolRegistry

MODES: Any = ["content", "position", "id"]
KINDS = ["idempotent", "rerun", "stopped", "asked", "done"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_is_made_again_counts_once(mode: Any, kind: str, tmp_path: Path) -> None:
    """Broken promise: it was limited, and the refusal was its recorded end, though it was the only call of its run."""
    paid = list[str]()

    def open_registry() -> ToolRegistry:
        registry = ToolRegistry(journal=tmp_path / "runs.db")

        @registry.tool("pay", owned_by="ann", idempotent=kind == "idempotent", requires_approval=kind == "asked")
        async def pay(to: str) -> str:
            """Pay."""
            paid.append(to)
            if len(paid) == 1 and kind in ("idempotent", "rerun"):
                raise KeyboardInterrupt
            return "paid"

        registry.limits.set(tool="pay", per_run=1)
        return registry

    async def pay(registry: ToolRegistry, to: str, *, stops: bool = False) -> str:
        async with registry.run("r", mode):
            task = asyncio.ensure_future(registry.aexecute(ToolCall(to, "pay", {"to": to}, "ann")))
            if stops:
                await asyncio.sleep(0)
                task.cancel()
            return (await task).outcome.value

    with open_registry() as registry:
        if kind == "asked":
            assert "approval_required" == asyncio.run(pay(registry, "bob"))
            registry.approvals.answer(registry.approvals.pending()[0].id, Allow(by="eve"))
        elif kind == "done":
            assert "ok" == asyncio.run(pay(registry, "bob"))
        else:
            with pytest.raises(asyncio.CancelledError if kind == "stopped" else KeyboardInterrupt):
                asyncio.run(pay(registry, "bob", stops=kind == "stopped"))
        if kind == "rerun":
            registry.journal.resolve("r", "bob", rerun=True)  # type: ignore[union-attr]
    for _ in range(2):
        with open_registry() as registry:
            assert "ok" == asyncio.run(pay(registry, "bob"))
    with open_registry() as registry:
        if mode == "position":
            asyncio.run(pay(registry, "bob"))
        else:
            assert "limited" == asyncio.run(pay(registry, "eve"))
    assert {"bob"} == set(paid)


@pytest.mark.parametrize("mode", MODES)
def test_a_call_in_doubt_counts(mode: Any, tmp_path: Path) -> None:
    """It may have done its work: another call would be one too many."""
    paid = list[str]()
    for _ in range(2):
        with ToolRegistry(journal=tmp_path / "runs.db") as registry:

            @registry.tool("pay", owned_by="ann")
            def pay(to: str) -> None:
                """Pay."""
                paid.append(to)
                raise KeyboardInterrupt

            registry.limits.set(tool="pay", per_run=1)
            with registry.run("r", mode):
                if not paid:
                    with pytest.raises(KeyboardInterrupt):
                        registry.execute(ToolCall("c1", "pay", {"to": "bob"}, "ann"))
                else:
                    assert "in_doubt" == registry.execute(ToolCall("c1", "pay", {"to": "bob"}, "ann")).outcome
                    assert "limited" == registry.execute(ToolCall("c2", "pay", {"to": "eve"}, "ann")).outcome
    assert ["bob"] == paid


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call_id", ["c1", None])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_call_that_was_stopped_and_asked_about_again_counts_once(
    mode: Any, call_id: str | None, steps: int, tmp_path: Path
) -> None:
    """It had been approved, was stopped before its tool was entered, and waited again: it was limited for ever."""
    paid = list[int]()

    def open_registry() -> ToolRegistry:
        registry = open_bank(tmp_path / "runs.db", paid, is_async=True, requires_approval=True)
        registry.limits.set(tool="pay", per_run=1)
        return registry

    async def pay(registry: ToolRegistry, *, stops: bool = False) -> str:
        async with registry.run("r", mode):
            task = asyncio.ensure_future(registry.aexecute(ToolCall(call_id, "pay", {"amount": 5}, "ann")))
            for _ in range(steps if stops else 0):
                await asyncio.sleep(0)
            if stops:
                task.cancel()
            await asyncio.wait([task])
            return "cancelled" if task.cancelled() else task.result().outcome.value

    outcomes = list[str]()
    for stops in (False, True, False, False, False):
        with open_registry() as registry:
            outcomes.append(asyncio.run(pay(registry, stops=stops)))
            for request in registry.approvals.pending():
                registry.approvals.answer(request.id, Allow(by="eve"))
    assert "ok" == outcomes[-1]
    assert [5] == paid
