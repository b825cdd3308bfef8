"""A grant counts each start of a call of a run, also where the store refused an earlier one."""

# Tests of: runs/recorder, runs/call_writer

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from praval_tools import Agent, ToolCall, ToolRegistry


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_start_that_was_not_counted_is_counted_later(steps: int, tmp_path: Path) -> None:
    """The count is exact, also where the store refused the start of a call that was cancelled."""
    paid = list[int]()

    def start() -> ToolRegistry:
        registry = ToolRegistry(journal=tmp_path / "runs.db")
        Agent("crew", registry=registry)

        @registry.tool("pay", owned_by="boss")
        async def pay(amount: int) -> int:
            """Pay."""
            paid.append(amount)
            return amount

        registry.grant("pay", "crew", key="own", max_calls=1)
        return registry

    async def begin(registry: ToolRegistry) -> None:
        async with registry.run("r"):
            task = asyncio.ensure_future(registry.agent("crew").acall("pay", amount=1))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    with start() as registry, start() as other:
        other.block("pay", "somebody else")  # the start is refused, as its decision is out of date
        asyncio.run(begin(registry))
    with start() as registry, registry.run("r"):
        for amount in (1, 2):
            registry.execute(ToolCall(name="pay", arguments={"amount": amount}, agent="crew"))
    assert len(paid) <= 1


def test_a_call_that_runs_again_meets_narrower_terms(tmp_path: Path) -> None:
    """Nothing that an earlier start spent lets a call run that is not allowed now."""
    paid = list[int]()

    def start(where: dict[str, object] | None) -> ToolRegistry:
        registry = ToolRegistry(journal=tmp_path / "runs.db")
        Agent("crew", registry=registry)

        @registry.tool("pay", owned_by="boss", idempotent=True)
        def pay(amount: int) -> int:
            """Pay."""
            paid.append(amount)
            raise KeyboardInterrupt

        registry.grant("pay", "crew", key="own", max_calls=1, where=where)
        return registry

    with start(None) as registry, pytest.raises(KeyboardInterrupt), registry.run("r"):
        registry.agent("crew").call("pay", amount=900)
    with start({"amount": {"maximum": 100}}) as registry, registry.run("r"):
        call = ToolCall(name="pay", arguments={"amount": 900}, agent="crew")
        assert "forbidden" == registry.execute(call).outcome
    assert [900] == paid
