"""A grant counts a call of a run once, however often it runs."""

# Tests of: runs/recorder, runs/call_writer, journal/replay_entry

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from praval_tools import Agent, ToolCall, ToolRegistry


class Shop:
    """A registry of one life of a program, in which `crew` may pay once, and lends that on to `helper`."""

    def __init__(self, journal: Path, paid: list[int], *, idempotent: bool, stops: int) -> None:
        self.registry = ToolRegistry(journal=journal)
        Agent("crew", registry=self.registry)
        Agent("helper", registry=self.registry)

        @self.registry.tool("pay", owned_by="boss", idempotent=idempotent)
        def pay(amount: int) -> int:
            """Pay."""
            paid.append(amount)
            if len(paid) <= stops:
                raise KeyboardInterrupt
            return amount

        self.own = self.registry.grant("pay", "crew", key="own", max_calls=2, delegable=True)
        self.lent = self.registry.grant("pay", "helper", key="lent", max_calls=1, by="crew")

    def count_left(self) -> tuple[int | None, int | None]:
        """Return what is left of the two grants."""
        return self.registry.uses_left(self.own), self.registry.uses_left(self.lent)


@pytest.mark.parametrize("is_resolved", [False, True])
@pytest.mark.parametrize("stops", [1, 3])
def test_a_call_that_runs_again_is_counted_once(stops: int, tmp_path: Path, *, is_resolved: bool) -> None:
    """Broken promise: each start of an interrupted call was counted, until its grant was spent by that call alone."""
    paid = list[int]()
    for _ in range(stops):
        shop = Shop(tmp_path / "runs.db", paid, idempotent=not is_resolved, stops=stops)
        with shop.registry as registry, pytest.raises(KeyboardInterrupt), registry.run("r") as run:
            if run.in_doubt and is_resolved:
                run.resolve(run.in_doubt[0], rerun=True)
            registry.agent("helper").call("pay", amount=5)
    shop = Shop(tmp_path / "runs.db", paid, idempotent=not is_resolved, stops=stops)
    with shop.registry as registry, registry.run("r") as run:
        if is_resolved:
            run.resolve(run.in_doubt[0], rerun=True)
        assert 5 == registry.agent("helper").call("pay", amount=5)
        assert (1, 0) == shop.count_left()
        assert "forbidden" == registry.agent("helper").execute(ToolCall(name="pay", arguments={"amount": 6})).outcome
        assert 6 == registry.agent("crew").call("pay", amount=6)
    assert (0, 0) == Shop(tmp_path / "runs.db", paid, idempotent=not is_resolved, stops=stops).count_left()


def test_within_one_opening_of_the_run_too(tmp_path: Path) -> None:
    """What was interrupted, and is made again, is the same call."""
    shop = Shop(tmp_path / "runs.db", [], idempotent=True, stops=2)
    call = ToolCall("c1", "pay", {"amount": 5}, "helper")
    with shop.registry as registry, registry.run("r"):
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                registry.execute(call)
        assert "ok" == registry.execute(call).outcome
        assert (1, 0) == shop.count_left()


def test_another_grant_counts_it_anew(tmp_path: Path) -> None:
    """The grant that counted it has ended: the one that permits it now counts it, too."""
    paid = list[int]()
    with Shop(tmp_path / "runs.db", paid, idempotent=True, stops=1).registry as registry:
        with pytest.raises(KeyboardInterrupt), registry.run("r"):
            registry.agent("helper").call("pay", amount=5)
    shop = Shop(tmp_path / "runs.db", paid, idempotent=True, stops=1)
    with shop.registry as registry, registry.run("r"):
        registry.revoke(shop.lent)
        assert "forbidden" == registry.agent("helper").execute(ToolCall(name="pay", arguments={"amount": 5})).outcome
        new = registry.grant("pay", "helper", key="new", max_calls=1)
        assert 5 == registry.agent("helper").call("pay", amount=5)
        assert 0 == registry.uses_left(new)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_start_that_was_not_counted_is_counted_later(steps: int, tmp_path: Path) -> None:
    """Broken promise: the count is exact. A call whose start the store refused as it was cancelled ran uncounted."""
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
