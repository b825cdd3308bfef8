"""Calls leave nothing behind in memory, however many there are."""

# Tests of: execution/executor, journal/journal

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from praval_tools import Deny, ToolCall, ToolRegistry


def count_blocks_left(call: Callable[[int], object], number: int) -> int:
    """Return how many blocks of memory *number* calls leave behind, after others that filled the caches."""
    for index in range(500):
        call(index)
    gc.collect()
    before = sys.getallocatedblocks()
    for index in range(500, 500 + number):
        call(index)
    gc.collect()
    return sys.getallocatedblocks() - before


@pytest.mark.parametrize("journal", [None, "runs.db"])
@pytest.mark.parametrize("kind", ["ok", "failed", "refused", "denied", "invalid", "unknown"])
def test_calls_of_every_outcome(tmp_path: Path, journal: str | None, kind: str) -> None:
    """A service may run for months: a call leaves not a fifth of a block on average."""
    number = 5_000 if journal is None else 1_000
    with ToolRegistry(journal=None if journal is None else tmp_path / journal) as registry:

        @registry.tool(owned_by="clerk")
        def divide(number: int, by: int) -> float:
            """Divide."""
            return number / by

        @registry.tool(owned_by="clerk", requires_approval=True)
        def pay(amount: int) -> int:
            """Pay."""
            return amount

        registry.set_approval_handler(lambda request: Deny("too much"))
        calls: dict[str, Callable[[str, int], ToolCall]] = {
            "ok": lambda id, index: ToolCall(id, "divide", {"number": index, "by": 7}, "clerk"),
            "failed": lambda id, index: ToolCall(id, "divide", {"number": index, "by": 0}, "clerk"),
            "refused": lambda id, index: ToolCall(id, "divide", {"number": index, "by": 7}, "bob"),
            "denied": lambda id, index: ToolCall(id, "pay", {"amount": index}, "clerk"),
            "invalid": lambda id, index: ToolCall(id, "pay", {"amount": f"{index}x"}, "clerk"),
            "unknown": lambda id, index: ToolCall(id, f"divide_{index}", {}, "clerk"),
        }
        make = calls[kind]
        left = count_blocks_left(lambda index: registry.execute(make(str(index), index)), number)

        assert left < number / 5
