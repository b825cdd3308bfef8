"""A retry gets the arguments of the first attempt, whatever anybody did to their own copies meanwhile."""

from __future__ import annotations

import json
from typing import Any

import pytest

from praval_tools import RetryableToolError, ToolCall, ToolRegistry


@pytest.mark.parametrize("in_run", [False, True], ids=["plain", "in a run"])
@pytest.mark.parametrize("changed_by", ["caller", "tool"])
def test_every_attempt_gets_the_same(changed_by: str, in_run: bool) -> None:
    """Broken promise: what is judged is what runs; a retry read what the caller or the tool had made of its own."""
    registry = ToolRegistry(journal="memory", retry_wait=0)
    sent: dict[str, Any] = {"order": {"parts": [1]}, "rows": [[1]]}
    got: list[str] = []

    @registry.tool(owned_by="ann", retries=2)
    def pay(order: dict[str, list[int]], rows: list[list[int]]) -> int:
        """Pay."""
        got.append(json.dumps([order, rows]))
        for mine, theirs in ((order, sent["order"]), (rows, sent["rows"])):
            assert mine is not theirs
        parts = sent["order"]["parts"] if changed_by == "caller" else order["parts"]
        parts.append(99)
        (sent["rows"] if changed_by == "caller" else rows)[0].append(99)
        if len(got) < 3:
            raise RetryableToolError("again")
        return 1

    call = ToolCall("1", "pay", sent, "ann")
    if in_run:
        with registry.run("r"):
            result = registry.execute(call)
    else:
        result = registry.execute(call)

    assert (True, 3) == (result.success, result.attempts)
    assert ['[{"parts": [1]}, [[1]]]'] * 3 == got
