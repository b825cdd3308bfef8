"""What can go wrong with a journaled call: approvals, time-outs, cancellation, odd results; sync and async."""

# Tests of: approval_recording

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from journaled_rig import (
    JournaledRig,
    rig,  # noqa: F401
)

from praval_tools import (
    Allow,
    ApprovalRequest,
    Deny,
    Outcome,
    ToolCall,
    ToolRegistry,
)
from praval_tools.clock import SystemClock
from praval_tools.journal.events import AgentToolCall, ApprovalAnswered, CallRefused


class Hand(SystemClock):
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at = datetime(2030, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Return the moment to which it was moved."""
        return self.at


class TestApprovals:
    def test_a_handler_that_raises(self, rig: JournaledRig) -> None:
        """It is a no, written down as one."""

        def handler(request: ApprovalRequest) -> Any:
            raise RuntimeError("out to lunch")

        rig.ask(handler)

        assert Outcome.APPROVAL_DENIED is rig.call("pay", {"to": "bob"}).outcome
        assert [] == rig.ran
        assert ["approval_asked", "approval_answered", "call_refused"] == rig.types()
        assert "deny" == rig.events(ApprovalAnswered)[0].answer

    def test_an_answer_that_comes_late(self, tmp_path: Path) -> None:
        """An allow after the request has expired is a no."""
        for driver in ("sync", "async"):
            clock = Hand()
            rig = JournaledRig(tmp_path / f"{driver}.db", driver, clock=clock)

            def handler(request: ApprovalRequest, clock: Hand = clock) -> Any:
                clock.at += timedelta(hours=2)
                return Allow()

            rig.ask(handler)
            assert Outcome.APPROVAL_DENIED is rig.call("pay", {"to": "bob"}).outcome
            assert ([], "deny") == (rig.ran, rig.events(ApprovalAnswered)[0].answer)
            rig.registry.close()

    def test_an_answer_that_is_none(self, rig: JournaledRig) -> None:
        """None is a no."""
        rig.ask(lambda request: None)

        assert Outcome.APPROVAL_DENIED is rig.call("pay", {"to": "bob"}).outcome
        assert [] == rig.ran

    def test_edited_out_of_bounds(self, rig: JournaledRig) -> None:
        """Edited arguments are decided again: outside of the bounds of the grant the call is forbidden."""
        rig.registry.assign_tool_to_agent("pay", "bob", where={"amount": {"maximum": 10}}, max_calls=5)
        rig.ask(lambda request: Allow({"to": "bob", "amount": 11}, "boss"))

        assert Outcome.FORBIDDEN is rig.call("pay", {"to": "bob", "amount": 1}, "bob").outcome
        assert [] == rig.ran
        assert {"to": "bob", "amount": 11} == rig.events(ApprovalAnswered)[0].arguments
        assert 5 == rig.registry.uses_left(rig.registry.grants(agent="bob")[0])

    def test_edited_to_what_does_not_fit(self, rig: JournaledRig) -> None:
        """Nor do they get past the schema."""
        rig.ask(lambda request: Allow({"to": "bob", "amount": "many"}, "boss"))

        assert Outcome.INVALID_ARGUMENTS is rig.call("pay", {"to": "bob"}).outcome
        assert [] == rig.ran

    def test_edited_arguments_are_what_is_recorded(self, rig: JournaledRig) -> None:
        """The call event says what the tool got, the answer who changed it."""
        rig.ask(lambda request: Allow({"to": "eve", "amount": 2}, "boss"))

        assert 2 == rig.call("pay", {"to": "bob"}).result
        assert {"to": "eve", "amount": 2} == rig.events(AgentToolCall)[0].arguments
        assert "boss" == rig.events(ApprovalAnswered)[0].by
        assert ["approval_asked", "approval_answered", "agent_tool_call", "agent_tool_result"] == rig.types()

    def test_a_revocation_while_it_waits(self, rig: JournaledRig) -> None:
        """Whoever lost the tool meanwhile does not run it, however the answer is; no use is spent."""
        rig.registry.assign_tool_to_agent("pay", "bob", max_calls=2)

        def handler(request: ApprovalRequest) -> Any:
            rig.registry.remove_tool_from_agent("pay", "bob")
            return Allow()

        rig.ask(handler)

        assert Outcome.FORBIDDEN is rig.call("pay", {"to": "bob"}, "bob").outcome
        assert [] == rig.ran
        assert [] == rig.events(AgentToolCall)
        assert 1 == len(rig.events(CallRefused))

    def test_a_change_by_another_process_while_it_waits(self, rig: JournaledRig) -> None:
        """A block that somebody else sets between decision and start counts."""
        with ToolRegistry(journal=rig.path) as other:

            def handler(request: ApprovalRequest) -> Any:
                other.block("pay", "ann")
                return Allow()

            rig.ask(handler)

            assert Outcome.FORBIDDEN is rig.call("pay", {"to": "bob"}).outcome
            assert [] == rig.ran
            assert [] == rig.events(AgentToolCall)


class TestRecordedAnswers:
    """A call of a run waits; the answer is recorded, the process ends, and the next one asks again."""

    def begin(self, rig: JournaledRig, answer: Any, **options: Any) -> JournaledRig:
        """Let a call wait, answer it, and start anew."""
        with rig.registry.run("r"):
            assert Outcome.APPROVAL_REQUIRED is rig.call("pay", {"to": "bob"}, name="c1").outcome
        rig.registry.approvals.answer("c1", answer)
        return rig.reopen(**options)

    def test_it_survives_and_is_used_once(self, rig: JournaledRig) -> None:
        """The call passes with the recorded answer, and is replayed from then on; a second such call asks again."""
        second = self.begin(rig, Allow(None, "boss"))
        with second.registry.run("r"):
            assert Outcome.OK is second.call("pay", {"to": "bob"}, name="c1").outcome
            assert second.call("pay", {"to": "bob"}, name="c1").replayed
            assert Outcome.APPROVAL_REQUIRED is second.call("pay", {"to": "bob"}, name="c2").outcome
        assert [("bob", 1)] == second.ran
        third = second.reopen()
        with third.registry.run("r"):
            assert third.call("pay", {"to": "bob"}, name="c1").replayed
            assert Outcome.APPROVAL_REQUIRED is third.call("pay", {"to": "bob"}, name="c2").outcome
        assert [] == third.ran
        third.registry.close()

    def test_a_no_survives(self, rig: JournaledRig) -> None:
        """So does a recorded no."""
        second = self.begin(rig, Deny("too much", "boss"))
        with second.registry.run("r"):
            result = second.call("pay", {"to": "bob"}, name="c1")
        assert (Outcome.APPROVAL_DENIED, []) == (result.outcome, second.ran)
        assert "too much" in str(result.error)
        second.registry.close()

    def test_edits_survive(self, rig: JournaledRig) -> None:
        """What the answer changed is what the tool gets."""
        second = self.begin(rig, Allow({"to": "eve", "amount": 3}, "boss"))
        with second.registry.run("r"):
            assert 3 == second.call("pay", {"to": "bob"}, name="c1").result
        assert [("eve", 3)] == second.ran
        second.registry.close()

    @pytest.mark.parametrize(
        ("arguments", "agent"), [({"to": "eve"}, "ann"), ({"to": "bob", "amount": 2}, "ann"), ({"to": "bob"}, "cid")]
    )
    def test_it_is_bound_to_arguments_and_agent(self, rig: JournaledRig, arguments: Any, agent: str) -> None:
        """Another call does not pass with it."""
        second = self.begin(rig, Allow(None, "boss"))
        second.registry.assign_tool_to_agent("pay", "cid")
        with second.registry.run("r"):
            assert Outcome.APPROVAL_REQUIRED is second.call("pay", arguments, agent).outcome
        assert [] == second.ran
        second.registry.close()

    def test_it_is_bound_to_the_definition(self, rig: JournaledRig) -> None:
        """A tool that is another one by now asks again."""
        second = self.begin(rig, Allow(None, "boss"))
        second.registry.unregister_tool("pay")

        @second.registry.tool("pay", owned_by="ann", requires_approval=True)
        def pay(to: str, amount: int = 1, currency: str = "EUR") -> int:
            """Pay in another way."""
            second.ran.append(to)
            return amount

        with second.registry.run("r"):
            assert Outcome.APPROVAL_REQUIRED is second.call("pay", {"to": "bob"}, name="c1").outcome
        assert [] == second.ran
        second.registry.close()

    def test_it_expires(self, tmp_path: Path) -> None:
        """An answer that nobody used in its time counts no more."""
        for driver in ("sync", "async"):
            clock = Hand()
            rig = JournaledRig(tmp_path / f"{driver}.db", driver, clock=clock)
            second = self.begin(rig, Allow(None, "boss"), clock=clock)
            clock.at += timedelta(hours=2)
            with second.registry.run("r"):
                assert Outcome.APPROVAL_REQUIRED is second.call("pay", {"to": "bob"}, name="c1").outcome
            assert [] == second.ran
            second.registry.close()


class TestGrantsThatAnotherProcessUsesUp:
    @pytest.mark.parametrize("handled", [False, True])
    def test_ask_nobody(self, tmp_path: Path, handled: bool) -> None:
        """Broken promise: the uses of a grant count at once. A person was asked about what no yes could allow."""
        asked = list[str]()

        def open_registry() -> ToolRegistry:
            registry = ToolRegistry(journal=tmp_path / "runs.db")
            registry.tool("pay", owned_by="boss", requires_approval=True, description="Pay.")(lambda: "paid")
            registry.grant("pay", "ann", max_calls=2, key="pay")
            return registry

        def handler(request: ApprovalRequest) -> Allow:
            asked.append(request.tool_call_id)
            return Allow()

        def pay(registry: ToolRegistry, call_id: str) -> Outcome:
            result = registry.execute(ToolCall(call_id, "pay", {}, "ann"))
            if result.outcome is Outcome.APPROVAL_REQUIRED:
                asked.append(call_id)
                registry.approvals.answer(call_id, Allow())
                return registry.execute(ToolCall(call_id, "pay", {}, "ann")).outcome
            return result.outcome

        with open_registry() as here, open_registry() as there:
            if handled:
                there.set_approval_handler(handler)
            assert [Outcome.OK] * 2 == [pay(here, "1"), pay(there, "2")]
            assert Outcome.FORBIDDEN is pay(here, "3")
            assert [Outcome.FORBIDDEN] * 2 == [pay(there, "4"), pay(there, "5")]
            assert [] == there.approvals.pending()
            assert "its grant is spent" in there.explain("ann", "pay").reason
        with open_registry() as here, open_registry() as there:
            there.set_approval_handler(handler if handled else None)
            here.grant("pay", "ann", max_calls=1)
            assert Outcome.OK is pay(here, "6")
            assert Outcome.FORBIDDEN is pay(there, "7")
            assert [] == there.approvals.pending()
        assert ["1", "2", "6"] == asked
