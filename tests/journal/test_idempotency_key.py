"""The key by which an idempotent tool knows that it did the work of a call already."""

from __future__ import annotations

import pytest

from praval_tools import Agent, ToolCall, ToolContext, ToolRegistry


@pytest.fixture
def keys() -> list[str]:
    """The keys that the tool was given."""
    return []


@pytest.fixture
def registry(keys: list[str]) -> ToolRegistry:
    """A registry with a journal, and a tool that is interrupted once, by a negative amount."""
    registry = ToolRegistry(journal="memory")

    @registry.tool("pay", owned_by="clerk", idempotent=True)
    def pay(amount: int, context: ToolContext) -> int:
        """Pay an amount."""
        keys.append(context.idempotency_key)
        if len(keys) == 1 and amount < 0:
            raise KeyboardInterrupt
        return amount

    return registry


class TestKey:
    def test_of_two_runs_differ(self, registry: ToolRegistry, keys: list[str]) -> None:
        """
        Providers give the same ids again and again; a payment of tomorrow's run is not taken for one of today's.
        """
        for run in ("today", "tomorrow"):
            with registry.run(run):
                registry.execute(ToolCall("call_0", "pay", {"amount": 5}, "clerk"))

        assert len(set(keys)) == 2

    def test_is_the_same_when_the_call_runs_again(self, registry: ToolRegistry, keys: list[str]) -> None:
        """
        A call that was interrupted runs again with the key that it had.
        """
        clerk = Agent("clerk", registry=registry)
        with pytest.raises(KeyboardInterrupt), registry.run("today"):
            clerk.call("pay", amount=-5)
        with registry.run("today"):
            clerk.call("pay", amount=-5)

        assert len(keys) == 2
        assert len(set(keys)) == 1
