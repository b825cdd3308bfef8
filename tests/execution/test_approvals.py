"""Approvals: who is asked, what an answer means, and what it is bound to; from sync and from async code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from clocks import HandClock
from execution_rig import ran  # noqa: F401

from praval_tools import (
    Allow,
    ApprovalRequest,
    Ask,
    Deny,
    NotOwnerError,
    Outcome,
    Tool,
    ToolApprovalError,
    ToolCall,
    ToolRegistry,
    ToolResult,
    ToolUsageError,
)

Execute = Callable[[ToolCall], ToolResult]


@pytest.fixture
def registry(clock: HandClock, ran: list[Any]) -> ToolRegistry:
    """A registry with a tool that needs an approval, sync and async."""
    made = ToolRegistry(clock=clock)

    @made.tool("pay", owned_by="ann", requires_approval=True, risk_level="high", approval_reason="money")
    def pay(to: str, amount: int = 1) -> int:
        """Pay."""
        ran.append((to, amount))
        return amount

    @made.tool("apay", owned_by="ann", requires_approval=True)
    async def apay(to: str, amount: int = 1) -> int:
        """Pay later."""
        ran.append((to, amount))
        return amount

    return made


def call(name: str = "pay", call_id: str | None = "1", agent: str = "ann", **arguments: Any) -> ToolCall:
    """Return a call."""
    return ToolCall(call_id, name, {"to": "bob", **arguments}, agent)


@pytest.mark.parametrize("name", ["pay", "apay"])
class TestHandler:
    def test_receives_what_it_decides_on(self, registry: ToolRegistry, execute: Execute, name: str) -> None:
        """It gets agent, tool, risk, reason and the repaired arguments, and an id where the call has none."""
        asked: list[ApprovalRequest] = []
        registry.configure(name, risk_level="high", approval_reason="money")
        registry.set_approval_handler(lambda request: asked.append(request) or Allow(by="eve"))
        result = execute(call(name, None, amount="5"))

        (one,) = asked
        assert (name, "ann", {"to": "bob", "amount": 5}) == (one.tool, one.agent, one.arguments)
        assert ("high", "money") == (one.risk_level, one.reason)
        assert (Outcome.OK, 5, one.tool_call_id) == (result.outcome, result.result, result.tool_call_id)

    @pytest.mark.parametrize("answer", [None, True, "yes", 1, {"allow": True}, Deny("no"), Allow])
    def test_all_but_an_explicit_allow_is_a_denial(
        self, registry: ToolRegistry, execute: Execute, ran: list[Any], name: str, answer: Any
    ) -> None:
        """None, a truth value, a text or a class does not approve."""
        registry.set_approval_handler(lambda _: answer)
        assert (Outcome.APPROVAL_DENIED, []) == (execute(call(name)).outcome, ran)

    def test_that_raises(self, registry: ToolRegistry, execute: Execute, ran: list[Any], name: str) -> None:
        """A handler that raises denies, and the text names its error."""
        registry.set_approval_handler(lambda _: 1 / 0)
        result = execute(call(name))
        assert (Outcome.APPROVAL_DENIED, []) == (result.outcome, ran)
        assert "ZeroDivisionError" in str(result.error)

    @pytest.mark.parametrize("is_async", [False, True])
    def test_whose_wait_is_cancelled(
        self, registry: ToolRegistry, execute: Execute, name: str, ran: list[Any], *, is_async: bool
    ) -> None:
        """Broken promise: a handler whose future somebody cancelled ended the caller, and left None in a batch."""

        async def wait(_: object = None) -> Allow:
            closed = asyncio.get_running_loop().create_future()
            closed.cancel()
            return Allow(by=await closed)

        registry.set_approval_handler(wait if is_async else lambda _: asyncio.run(wait()))
        outcomes = [execute(call(name)).outcome]
        outcomes += [one.outcome for one in asyncio.run(registry.aexecute_batch([call(name), call(name, "2")]))]
        assert [Outcome.APPROVAL_DENIED] * 3 == outcomes
        assert not ran

    def test_that_is_async(self, registry: ToolRegistry, execute: Execute, name: str) -> None:
        """An async handler works from sync and from async code."""

        async def handler(request: ApprovalRequest) -> Allow:
            await asyncio.sleep(0)
            return Allow()

        registry.set_approval_handler(handler)
        assert Outcome.OK is execute(call(name)).outcome

    def test_answers_late(
        self, registry: ToolRegistry, execute: Execute, clock: HandClock, ran: list[Any], name: str
    ) -> None:
        """An answer after the request has expired is a denial."""

        def slow(request: ApprovalRequest) -> Allow:
            clock.moment += timedelta(hours=2)
            return Allow()

        registry.set_approval_handler(slow)
        assert (Outcome.APPROVAL_DENIED, []) == (execute(call(name)).outcome, ran)

    def test_edits_the_arguments(self, registry: ToolRegistry, execute: Execute, ran: list[Any], name: str) -> None:
        """Edited arguments are what runs, bound and decided again."""
        registry.set_approval_handler(lambda request: Allow({**request.arguments, "amount": "3"}))
        assert 3 == execute(call(name, amount=9)).result
        registry.set_approval_handler(lambda request: Allow({"amount": 3}))
        assert Outcome.INVALID_ARGUMENTS is execute(call(name)).outcome
        registry.grant(name, "cid", where={"amount": {"maximum": 5}})
        registry.set_approval_handler(lambda request: Allow({**request.arguments, "amount": 6}))
        assert Outcome.FORBIDDEN is execute(call(name, agent="cid")).outcome
        registry.add_policy(lambda agent, tool, arguments: "too much" if arguments["amount"] > 5 else None)
        assert Outcome.FORBIDDEN is execute(call(name)).outcome
        assert [("bob", 3)] == ran

    def test_sends_the_arguments_back(
        self, registry: ToolRegistry, execute: Execute, ran: list[Any], name: str
    ) -> None:
        """What is approved as it was shown is not repaired."""
        schema = {"type": "object", "properties": {"size": {"type": "integer", "default": "007"}}}
        tool = Tool("draw", "Draw.", schema, lambda **given: ran.append(given), owned_by="ann", requires_approval=True)
        registry.register_tool(tool)
        registry.set_approval_handler(lambda request: Allow(dict(request.arguments)))

        assert Outcome.OK is execute(ToolCall("c", "draw", {}, "ann")).outcome
        assert [{"size": "007"}] == ran

    def test_a_revocation_while_it_thinks(
        self, registry: ToolRegistry, execute: Execute, ran: list[Any], name: str
    ) -> None:
        """What is taken away while somebody is asked is gone."""

        def taking(request: ApprovalRequest) -> Allow:
            registry.block(name, "ann")
            return Allow()

        registry.set_approval_handler(taking)
        assert (Outcome.FORBIDDEN, []) == (execute(call(name)).outcome, ran)

    def test_is_the_host(self, registry: ToolRegistry, execute: Execute, name: str) -> None:
        """The handler runs as the operator, and only the operator sets one."""

        def lending(request: ApprovalRequest) -> Allow:
            registry.disable(tool="apay" if name == "pay" else "pay")
            return Allow()

        registry.set_approval_handler(lending)
        assert Outcome.OK is execute(call(name)).outcome

        @registry.tool("sneak", owned_by="ann")
        def sneak() -> None:
            """Try."""
            registry.set_approval_handler(lambda _: Allow())

        with pytest.raises(NotOwnerError):
            sneak_as_ann(registry)


def sneak_as_ann(registry: ToolRegistry) -> None:
    """Call the tool and raise what its body was refused with."""
    result = registry.execute(ToolCall("1", "sneak", {}, "ann"))
    assert result.exception is not None
    raise result.exception


class TestLater:
    def test_waits_and_passes_once(self, registry: ToolRegistry, execute: Execute, ran: list[Any]) -> None:
        """Without a handler the call waits; answered, it passes when it is sent again, once."""
        assert Outcome.APPROVAL_REQUIRED is execute(call()).outcome
        assert ["1"] == [one.tool_call_id for one in registry.approvals.pending()]
        registry.approvals.answer("1", Allow(by="eve"))
        assert [] == ran
        assert Outcome.OK is execute(call()).outcome
        assert Outcome.APPROVAL_REQUIRED is execute(call()).outcome
        assert [("bob", 1)] == ran

    def test_a_no(self, registry: ToolRegistry, execute: Execute, ran: list[Any]) -> None:
        """A call that was denied says so when it is sent again."""
        execute(call())
        registry.approvals.answer("1", Deny("too much", by="eve"))
        result = execute(call())
        assert (Outcome.APPROVAL_DENIED, []) == (result.outcome, ran)
        assert "too much" in str(result.error)

    def test_is_bound_to_what_was_asked(self, registry: ToolRegistry, execute: Execute, ran: list[Any]) -> None:
        """Other arguments, another agent, another tool or id are not what was approved, and use no answer up."""
        registry.grant("pay", "cid")
        registry.approvals.answer(str(execute(call()).approval_id), Allow())
        for other in (call(amount=2), call(agent="cid"), call("apay"), call(call_id="2")):
            assert Outcome.APPROVAL_REQUIRED is execute(other).outcome
        assert [] == ran
        assert Outcome.OK is execute(call()).outcome

    def test_another_definition(self, registry: ToolRegistry, execute: Execute) -> None:
        """A tool that was replaced by another definition needs another approval."""
        execute(call())
        registry.approvals.answer("1", Allow())

        @registry.tool("pay", owned_by="ann", requires_approval=True, replace=True)
        def pay(to: str, amount: int = 2) -> int:
            """Pay otherwise."""
            return amount

        assert Outcome.APPROVAL_REQUIRED is execute(call()).outcome

    @pytest.mark.parametrize(
        "safety",
        [{"risk_level": "critical"}, {"destructive": True}, {"read_only": True}, {"open_world": True}],
        ids=str,
    )
    def test_another_safety(self, registry: ToolRegistry, execute: Execute, safety: dict[str, Any]) -> None:
        """A tool that says something else of its safety needs another approval."""

        def declare(**changes: Any) -> None:
            @registry.tool("pay", owned_by="ann", requires_approval=True, replace=True, **changes)
            def pay(to: str, amount: int = 1) -> int:
                """Pay."""
                return amount

        declare()
        for call_id, changes, outcome in (("1", {}, Outcome.OK), ("2", safety, Outcome.APPROVAL_REQUIRED)):
            execute(call(call_id=call_id))
            registry.approvals.answer(call_id, Allow())
            declare(**changes)
            assert outcome is execute(call(call_id=call_id)).outcome

    def test_expires(self, registry: ToolRegistry, execute: Execute, clock: HandClock) -> None:
        """A request and its answer are over after an hour."""
        execute(call())
        clock.moment += timedelta(hours=1)
        assert [] == registry.approvals.pending()
        with pytest.raises(ToolUsageError, match="waits"):
            registry.approvals.answer("1", Allow())
        execute(call())
        registry.approvals.answer("1", Allow())
        clock.moment += timedelta(hours=1)
        assert Outcome.APPROVAL_REQUIRED is execute(call()).outcome

    def test_odd_answers(self, registry: ToolRegistry, execute: Execute) -> None:
        """An answer to nothing, a second one, or one that is none is an error."""
        with pytest.raises(ToolUsageError, match="pending"):
            registry.approvals.answer("1", Allow())
        execute(call())
        with pytest.raises(ToolUsageError, match="Allow"):
            registry.approvals.answer("1", True)  # type: ignore[arg-type]
        registry.approvals.answer("1", Deny(by="eve"))
        with pytest.raises(ToolUsageError, match="eve"):
            registry.approvals.answer("1", Allow())

    def test_by_call(self, registry: ToolRegistry) -> None:
        """`toolset.call` raises, with the request's id in its result."""
        with pytest.raises(ToolApprovalError) as caught:
            registry.agent("ann").call("pay", to="bob")
        (one,) = registry.approvals.pending()
        assert one.tool_call_id == caught.value.result.tool_call_id

    def test_a_policy_that_asks(self, registry: ToolRegistry, execute: Execute, ran: list[Any]) -> None:
        """A policy that asks needs an approval like any other, and one `Allow` answers all policies."""
        registry.configure("pay", requires_approval=False)
        registry.add_policy(lambda *_: Ask("first"))
        registry.add_policy(lambda *_: Ask("second"))
        registry.set_approval_handler(lambda _: Allow())
        assert (Outcome.OK, [("bob", 1)]) == (execute(call()).outcome, ran)


@pytest.mark.parametrize("journal", [None, "memory"])
def test_a_decimal_is_text_in_the_request(journal: str | None, clock: HandClock) -> None:
    """Broken promise: a request is JSON; a tool with a `Decimal` crashed the call where it asked for an approval."""
    registry = ToolRegistry(clock=clock, journal=journal)

    @registry.tool(owned_by="ann", requires_approval=True)
    def transfer(amount: Decimal, parts: list[Decimal], fee: Decimal = Decimal("0.10")) -> str:
        """Transfer."""
        return str(amount + fee)

    sent = ToolCall("1", "transfer", {"amount": "1.20", "parts": ["2"]}, "ann")
    other = ToolCall("1", "transfer", {"amount": "1.200", "parts": ["2"]}, "ann")
    assert Outcome.APPROVAL_REQUIRED is registry.execute(sent).outcome
    (request,) = registry.approvals.pending()
    assert {"amount": "1.20", "parts": ["2"], "fee": "0.10"} == request.arguments
    registry.approvals.answer(request.id, Allow())
    assert Outcome.APPROVAL_REQUIRED is registry.execute(other).outcome
    assert "1.30" == registry.execute(sent).result
