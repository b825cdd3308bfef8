"""An approver sees the arguments that run, whatever those did who were shown the request before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hook_rig import HEAD, TRUSTED, log
from plugin_rig import Site, site  # noqa: F401

from praval_tools import Allow, ApprovalRequest, Deny, Outcome, ToolCall, ToolRegistry, load_plugins

CHANGE = "request.arguments.update(amount=1)\n    request.arguments['to'].append('eve')"
GIVEN: dict[str, Any] = {"amount": 99, "to": ["bob"]}
HOOK = f"@hookimpl\ndef praval_tools_approve(request):\n    log.append(request.arguments['amount'])\n    {CHANGE}\n"


@pytest.fixture(params=[None, "memory"])
def registry(request: pytest.FixtureRequest) -> ToolRegistry:
    """A registry without a journal, and with one; `registry.wired` is what its tool did."""
    registry = ToolRegistry(journal=request.param)
    wired: list[tuple[int, list[str]]] = []

    @registry.tool("wire", shared=True, requires_approval=True)
    def wire(amount: int, to: list[str]) -> int:
        """Send money."""
        wired.append((amount, to))
        return amount

    registry.wired = wired  # type: ignore[attr-defined]
    return registry


def change(request: ApprovalRequest) -> None:
    """Do to a request what a careless approver does."""
    request.arguments.update(amount=1)
    request.arguments["to"].append("eve")


def execute(registry: ToolRegistry, *, is_async: bool = False) -> Outcome:
    """Run the call and return its outcome."""
    call = ToolCall("c1", "wire", GIVEN, "ann")
    return (asyncio.run(registry.aexecute(call)) if is_async else registry.execute(call)).outcome


class TestApprovers:
    @pytest.mark.parametrize("is_async", [False, True])
    def test_after_a_hook_that_changes_its_request(self, site: Site, registry: ToolRegistry, is_async: bool) -> None:
        """Broken promise: a plugin that leaves the answer to others changed what they were shown, and 99 ran as 1."""
        site.install("acme", HEAD + HOOK)
        load_plugins(registry, config=TRUSTED)

        assert Outcome.APPROVAL_REQUIRED is execute(registry, is_async=is_async)
        (request,) = registry.approvals.pending()
        assert GIVEN == request.arguments
        registry.approvals.answer(request.id, Allow())
        assert Outcome.OK is execute(registry, is_async=is_async)
        assert [(99, ["bob"])] == registry.wired  # type: ignore[attr-defined]

    def test_after_the_hook_of_another_plugin(self, site: Site, registry: ToolRegistry) -> None:
        """Each plugin is shown the arguments that run, not what the one before it made of them."""
        allow = "    return Allow() if request.arguments['amount'] < 10 else Deny('too much')\n"
        site.install("acme", HEAD + HOOK)
        site.install("zeta", HEAD + f"@hookimpl\ndef praval_tools_approve(request):\n{allow}")
        load_plugins(registry, config={"plugins": {"acme": {"trust": True}, "zeta": {"trust": True}}})

        assert Outcome.APPROVAL_DENIED is execute(registry)
        assert ([99], []) == (log(), registry.wired)  # type: ignore[attr-defined]

    def test_after_one_that_looked_at_what_waits(self, registry: ToolRegistry) -> None:
        """What is done to a request that was listed does not reach the next list."""
        execute(registry)
        for request in registry.approvals.pending():
            change(request)

        assert [GIVEN] == [request.arguments for request in registry.approvals.pending()]

    @pytest.mark.parametrize("is_async", [False, True])
    def test_a_handler_that_changes_its_request(self, registry: ToolRegistry, is_async: bool) -> None:
        """Who wants other arguments says `Allow(arguments)`; a changed request changes neither call nor record."""

        def answer(request: ApprovalRequest) -> Allow | Deny:
            change(request)
            return Allow()

        registry.set_approval_handler(answer)

        assert Outcome.OK is execute(registry, is_async=is_async)
        assert [(99, ["bob"])] == registry.wired  # type: ignore[attr-defined]
        entries = registry.journal.read(type="approval_asked") if registry.journal is not None else ()
        assert all(GIVEN == entry.event.arguments for entry in entries)  # type: ignore[union-attr]
