# Tests of: integrations/framework_calls, journal/stored_approvals
"""An operator's edit counts as it was written, also where its call needs no approval any more and holds secrets."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from praval_tools import Allow, ToolCall, ToolRegistry
from praval_tools.integrations.framework_calls import execute_approved

MARKER = "[secret " + "0" * 32 + "]"
CALL = ToolCall("c1", "pay", {"order": {"amount": 1000, "note": MARKER}, "token": "tok-AAAAAAAA"})


def make_registry(journal: str | None, got: list[Any]) -> ToolRegistry:
    """Return a registry in which a clerk may pay, once somebody has approved it."""
    registry = ToolRegistry(journal=journal)

    @registry.tool("pay", owned_by="clerk", requires_approval=True)
    def pay(order: dict[str, Any], token: str) -> None:
        """Pay."""
        got.append((order, token))

    return registry


@pytest.mark.parametrize("journal", [None, "memory", "runs.db"])
@pytest.mark.parametrize("lifted", [True, False])
def test_a_text_like_a_marker_is_a_text(journal: str | None, lifted: bool, tmp_path: Path) -> None:
    """Broken promise: the tool got the model's own argument where what the operator wrote held such a text."""
    got = list[Any]()
    registry = make_registry(str(tmp_path / journal) if journal == "runs.db" else journal, got)
    clerk = registry.toolset("clerk")
    clerk.execute(CALL)
    order = {"amount": 9, "note": MARKER}
    registry.approvals.answer("c1", Allow({"order": order, "token": "tok-AAAAAAAA"}, by="eve"))
    if lifted:
        registry.configure("pay", requires_approval=False)

    assert "ok" == asyncio.run(execute_approved(registry, clerk, CALL, "a framework")).outcome
    assert [(order, "tok-AAAAAAAA")] == got
    registry.close()


@pytest.mark.parametrize("lifted", [True, False])
@pytest.mark.parametrize(("token", "amounts"), [("tok-AAAAAAAA", [9]), ("tok-BBBBBBBB", [])])
def test_another_process_does_not_mix_what_two_wrote(
    token: str, amounts: list[int], lifted: bool, tmp_path: Path
) -> None:
    """Broken promise: the tool got some arguments of the operator and the secret ones of the model."""
    got = list[Any]()
    asking, resuming = (make_registry(str(tmp_path / "runs.db"), got) for _ in "12")
    call = ToolCall("c1", "pay", {"order": {"amount": 1000}, "token": "tok-AAAAAAAA"})
    asking.toolset("clerk").execute(call)
    asking.approvals.answer("c1", Allow({"order": {"amount": 9}, "token": token}, by="eve"))
    if lifted:
        resuming.configure("pay", requires_approval=False)

    run = partial(execute_approved, resuming, resuming.toolset("clerk"), call, "a framework")
    assert "ok" == asyncio.run(run()).outcome if amounts else "approval_denied" == asyncio.run(run()).outcome
    assert amounts == [order["amount"] for order, _ in got]
    asking.close()
    resuming.close()
