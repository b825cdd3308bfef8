"""The key by which an idempotent tool knows that it did the work of a call already."""

from __future__ import annotations

import pytest

from praval_tools import Agent, RetryableToolError, ToolCall, ToolContext, ToolRegistry


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

    def test_of_two_runs_differ_whatever_the_ids_hold(self, registry: ToolRegistry, keys: list[str]) -> None:
        """
        Models choose the ids of calls: none makes the key of another run's call, which would then not be paid.
        """
        for run, call_id in (("bills", "7/call_0"), ("bills/7", "call_0"), ("bills%2F7", "call_0")):
            with registry.run(run):
                registry.execute(ToolCall(call_id, "pay", {"amount": 5}, "clerk"))

        assert 3 == len(set(keys))

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

    def test_is_that_of_the_entry_in_a_run(self, registry: ToolRegistry, keys: list[str]) -> None:
        """
        A call that an older version recorded runs again with the key that it had: the run, and the id there.
        """
        with registry.run("today"):
            registry.execute(ToolCall("call_0", "pay", {"amount": 5}, "clerk"))

        assert ["today/call_0"] == keys


class TestKeyOutsideOfRuns:
    @pytest.mark.parametrize(("journal", "run_id"), [(None, None), (None, "claimed"), ("memory", None)])
    def test_is_of_one_call(self, journal: str | None, run_id: str | None) -> None:
        """
        Two principals, tools or arguments never share a key, whatever ids and runs their models name; sent again, the
        same call has the same key.
        """
        keys, registry = list[str](), ToolRegistry(journal=journal)

        def pay(amount: int, context: ToolContext) -> None:
            """Pay an amount."""
            keys.append(context.idempotency_key)

        for name in ("pay", "refund"):
            registry.tool(name, shared=True)(pay)
        for tool, amount in (("pay", 1), ("pay", 2), ("refund", 1)):
            for agent, delegators in (("ann", ()), ("bob", ()), ("ann", ("bob",))):
                for _ in range(2):
                    call = ToolCall("call_0", tool, {"amount": amount}, agent, run_id, delegators)
                    assert registry.execute(call).success
        registry.close()

        assert keys[::2] == keys[1::2]
        assert 9 == len(set(keys))

    @pytest.mark.parametrize("journal", [None, "memory"])
    def test_stays_when_the_call_is_tried_again(self, journal: str | None) -> None:
        """
        A call that is retried has the key of its first attempt, also where nobody gave it an id.
        """
        keys, registry = list[str](), ToolRegistry(journal=journal, retry_wait=0)

        @registry.tool("pay", shared=True, retries=1, idempotent=True)
        def pay(context: ToolContext) -> int:
            """Pay."""
            keys.append(context.idempotency_key)
            if len(keys) == 1:
                raise RetryableToolError("try again")
            return len(keys)

        assert 2 == registry.agent("ann").call("pay")
        registry.close()
        assert keys[0] == keys[1]

    def test_stays_from_version_to_version(self) -> None:
        """
        The same call has the same key in every version, so that what was paid before an upgrade is not paid again.
        """
        keys, registry = list[str](), ToolRegistry()

        @registry.tool("pay", shared=True)
        def pay(amount: int, to: str, context: ToolContext) -> None:
            """Pay an amount."""
            keys.append(context.idempotency_key)

        for delegators in ((), ("bob",)):
            call = ToolCall("call_0", "pay", {"amount": 5, "to": "Zoë"}, "ann", "today", delegators)
            assert registry.execute(call).success

        assert ["da7c7f1877c39087e616b1f6f8f295eb", "bd2607853bc12d86bf9d186adb5b6e61"] == keys
