# Tests of: integrations/pydantic_ai, integrations/langchain, integrations/openai_agents, integrations/framework_calls
"""A call that needs approval pauses an agent of any framework by the framework's own means, and runs once at most."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from changing_classes import Mail
from clocks import HandClock
from framework_contract import Framework, ModelCall, Outcome, Script, script

from praval_tools import Agent, Allow, Ask, Deny, ToolCall, ToolContext, ToolRegistry, ToolResult
from praval_tools.access.state import AccessState
from praval_tools.access.store import StateStore
from praval_tools.integrations.framework_calls import answer_request, asks_for_approval, execute_approved, list_waiting


@pytest.fixture
def paid() -> list[tuple[str, int]]:
    """What was paid to whom."""
    return []


@pytest.fixture
def registry(paid: list[tuple[str, int]]) -> ToolRegistry:
    """A bank in which paying needs approval."""
    registry = ToolRegistry()

    @registry.tool("pay", owned_by="clerk", requires_approval=True, risk_level="high", approval_reason="it moves money")
    def pay(to: str, amount: int = 10) -> str:
        """Pay somebody."""
        paid.append((to, amount))
        return f"paid {amount} to {to}"

    return registry


@pytest.fixture
def model() -> Script:
    """A model that pays bob, and ends; what it replies when it is asked again and again is the same."""
    ends: list[str] = ["Done."] * 8
    return script([ModelCall("pay", {"to": "bob"})], *ends)


@pytest.fixture
def pause(framework: Framework, registry: ToolRegistry, model: Script) -> Callable[[], tuple[object, Outcome]]:
    """Returns an agent, and how it waits for the approval of its call."""

    def pause() -> tuple[object, Outcome]:
        agent = framework.make_agent(framework.make_adapter(registry), "clerk", model)
        return agent, asyncio.run(framework.run(agent))

    return pause


Pause = Callable[[], tuple[object, Outcome]]


SHOWN_DEFAULTS = {"langchain": {"amount": 10}}
"""LangGraph shows what the tool gets; the others show the call of their own model."""


class TestApproval:
    def test_is_asked_for_the_call(
        self, framework: Framework, registry: ToolRegistry, paid: list[tuple[str, int]], pause: Pause
    ) -> None:
        """The run waits, says for what, and so does the registry; nothing was paid."""
        _, outcome = pause()

        assert outcome.text is None and [] == paid
        shown = {"to": "bob", **SHOWN_DEFAULTS.get(framework.name, {})}
        assert [("pay", shown)] == [(call.name, call.arguments) for call in outcome.waiting]
        (request,) = registry.approvals.pending()
        assert ("clerk", "pay", {"to": "bob", "amount": 10}) == (request.agent, request.tool, request.arguments)

    def test_runs_the_call_once(self, framework: Framework, paid: list[tuple[str, int]], pause: Pause) -> None:
        """An approved call runs as it was approved; one saved state that is resumed again asks again."""
        agent, waiting = pause()
        ended = asyncio.run(framework.resume(agent, waiting, {"call_0": True}))
        again = asyncio.run(framework.resume(agent, waiting, {"call_0": True}))

        assert "Done." == ended.text and [("bob", 10)] == paid
        assert again.text is None or "Done." == again.text

    def test_runs_the_call_once_in_two_resumes_at_once(
        self, framework: Framework, paid: list[tuple[str, int]], pause: Pause
    ) -> None:
        """Two programs that resume one saved state at the same time pay once."""
        agent, waiting = pause()

        async def main() -> None:
            await asyncio.gather(*(framework.resume(agent, waiting, {"call_0": True}) for _ in range(2)))

        asyncio.run(main())

        assert [("bob", 10)] == paid

    def test_that_is_denied_runs_nothing(
        self, framework: Framework, model: Script, paid: list[tuple[str, int]], pause: Pause
    ) -> None:
        """A denial reaches the model, and the run goes on."""
        agent, waiting = pause()
        ended = asyncio.run(framework.resume(agent, waiting, {"call_0": False}))

        assert "Done." == ended.text and [] == paid
        assert "paid" not in model.requests[1].get_answer().text

    @pytest.mark.parametrize("lift", [
        lambda registry: registry.configure("pay", requires_approval=False),
        lambda registry: registry.set_approval_handler(lambda request: Allow()),
    ], ids=["configured", "handler"])  # fmt: skip
    @pytest.mark.parametrize(
        ("answer", "runs"), [(False, []), (True, [("bob", 10)]), ({"to": "eve", "amount": 1}, [("eve", 1)])]
    )
    def test_counts_where_it_is_not_needed_any_more(
        self, framework: Framework, registry: ToolRegistry, paid: list[tuple[str, int]], pause: Pause, lift: Any,
        answer: Any, runs: list[tuple[str, int]],
    ) -> None:  # fmt: skip
        """Broken promise: a call that a person rejected ran, or as it was, if the operator had lifted the approval."""
        if isinstance(answer, dict) and not framework.can_edit:
            pytest.skip(f"{framework.name} has no way to change the arguments of a call")
        agent, waiting = pause()
        lift(registry)
        asyncio.run(framework.resume(agent, waiting, {"call_0": answer}))

        assert runs == paid

    def test_may_change_the_arguments(self, framework: Framework, paid: list[tuple[str, int]], pause: Pause) -> None:
        """A person may have the call run with other arguments, where the framework has that."""
        if not framework.can_edit:
            pytest.skip(f"{framework.name} has no way to change the arguments of a call")
        agent, waiting = pause()
        asyncio.run(framework.resume(agent, waiting, {"call_0": {"to": "bob", "amount": 3}}))

        assert [("bob", 3)] == paid

    def test_may_change_a_number_into_its_equal(self, framework: Framework) -> None:
        """To Python, `1` is `true`; to a person and a tool it is something else."""
        if not framework.can_edit:
            pytest.skip(f"{framework.name} has no way to change the arguments of a call")
        registry, got = ToolRegistry(), list[object]()

        @registry.tool("set", owned_by="clerk", requires_approval=True)
        def set_value(value: Any) -> None:
            """Set something."""
            got.append(value)

        model = script([ModelCall("set", {"value": 1})], "Done.")
        agent = framework.make_agent(framework.make_adapter(registry), "clerk", model)
        waiting = asyncio.run(framework.run(agent))
        asyncio.run(framework.resume(agent, waiting, {"call_0": {"value": True}}))

        assert [True] == got and got[0] is True
        assert [] == registry.approvals.pending()

    def test_is_not_of_altered_arguments(self, framework: Framework, paid: list[tuple[str, int]], pause: Pause) -> None:
        """Arguments that were altered in what the framework stored were never approved."""
        agent, waiting = pause()
        altered = framework.alter_arguments(waiting, "call_0", {"to": "mallory", "amount": 9_999})
        asyncio.run(framework.resume(agent, altered, {"call_0": True}))

        assert [] == paid

    def test_is_not_of_another_call_with_its_id(
        self, framework: Framework, registry: ToolRegistry, paid: list[tuple[str, int]], pause: Pause
    ) -> None:
        """A call that has the id of an approved one, later in the conversation, is asked about itself."""
        agent = framework.make_agent(
            framework.make_adapter(registry),
            "clerk",
            script([ModelCall("pay", {"to": "bob"})], [ModelCall("pay", {"to": "mallory"})], "Done."),
        )
        waiting = asyncio.run(framework.run(agent))
        again = asyncio.run(framework.resume(agent, waiting, {"call_0": True}))

        assert [("bob", 10)] == paid
        shown = {"to": "mallory", **SHOWN_DEFAULTS.get(framework.name, {})}
        assert [shown] == [call.arguments for call in again.waiting]

    def test_of_one_agent_is_not_anothers(
        self, framework: Framework, registry: ToolRegistry, model: Script, paid: list[tuple[str, int]], pause: Pause
    ) -> None:
        """A saved state that another agent resumes does not approve that call."""
        registry.assign_tool_to_agent("pay", "boss")
        _, waiting = pause()
        boss = framework.make_agent(framework.make_adapter(registry), "boss", model)
        asyncio.run(framework.resume(boss, waiting, {"call_0": True}))

        assert [] == paid

    def test_does_not_outlive_the_permission(
        self, framework: Framework, registry: ToolRegistry, paid: list[tuple[str, int]], pause: Pause
    ) -> None:
        """A tool that was revoked meanwhile does not run, and the run goes on."""
        agent, waiting = pause()
        registry.block("pay", "clerk")
        ended = asyncio.run(framework.resume(agent, waiting, {"call_0": True}))

        assert "Done." == ended.text and [] == paid

    def test_of_the_operator_is_no_less(
        self, framework: Framework, registry: ToolRegistry, paid: list[tuple[str, int]], pause: Pause
    ) -> None:
        """What the operator denied in the registry stays denied."""
        agent, waiting = pause()
        registry.approvals.answer(registry.approvals.pending()[0].id, Deny("no", by="eve"))
        asyncio.run(framework.resume(agent, waiting, {"call_0": True}))

        assert [] == paid

    def test_is_not_needed_where_the_registry_has_a_handler(
        self, framework: Framework, registry: ToolRegistry, paid: list[tuple[str, int]], pause: Pause
    ) -> None:
        """A registry that asks by itself pauses nothing."""
        registry.set_approval_handler(lambda request: Allow(by="eve"))
        _, outcome = pause()

        assert "Done." == outcome.text and [("bob", 10)] == paid

    def test_given_by_code_of_a_tool_is_none(
        self, framework: Framework, registry: ToolRegistry, model: Script, paid: list[tuple[str, int]], pause: Pause
    ) -> None:
        """Code that runs in a tool cannot approve for a person."""
        agent, waiting = pause()

        @registry.tool("resume", owned_by="boss")
        async def resume() -> str:
            """Resume the clerk."""
            await framework.resume(agent, waiting, {"call_0": True})
            return "resumed"

        asyncio.run(Agent("boss", registry=registry).acall("resume"))

        assert [] == paid


class TestSavedStates:
    """A program that resumes a saved state again and again, each time with the yes of one person to one call."""

    @pytest.mark.parametrize("resumption", ["as it was", "altered", "by another agent", "denied by the operator"])
    def test_run_the_call_once_at_most(
        self, framework: Framework, registry: ToolRegistry, model: Script, paid: list[tuple[str, int]], pause: Pause,
        resumption: str,
    ) -> None:  # fmt: skip
        """What one resumption was refused for does not wait for the next one."""
        registry.assign_tool_to_agent("pay", "boss")
        agent, waiting = pause()
        if resumption == "altered":
            waiting = framework.alter_arguments(waiting, "call_0", {"to": "mallory", "amount": 9_999})
        elif resumption == "by another agent":
            agent = framework.make_agent(framework.make_adapter(registry), "boss", model)
        elif resumption == "denied by the operator":
            registry.approvals.answer(registry.approvals.pending()[0].id, Deny("no", by="eve"))
        for _ in range(4):
            asyncio.run(framework.resume(agent, waiting, {"call_0": True}))

        assert ([("bob", 10)] if resumption == "as it was" else []) == paid

    def test_run_the_call_once_in_many_resumes_at_once(
        self, framework: Framework, paid: list[tuple[str, int]], pause: Pause
    ) -> None:
        """However many programs resume it at the same time, and again."""
        agent, waiting = pause()

        async def main() -> None:
            for _ in range(2):
                await asyncio.gather(*(framework.resume(agent, waiting, {"call_0": True}) for _ in range(4)))

        asyncio.run(main())

        assert [("bob", 10)] == paid

    @pytest.mark.parametrize("state", ["as it was", "altered"])
    @pytest.mark.parametrize("other", ["waits", "is rejected", "is allowed in the registry"])
    def test_use_no_request_of_another_conversation(
        self, framework: Framework, registry: ToolRegistry, paid: list[tuple[str, int]], other: str, state: str
    ) -> None:
        """Broken promise: a used approval let an equal call of another conversation pass, which had its id."""

        def pause(amount: int) -> tuple[object, Outcome]:
            call = ModelCall("pay", {"to": "bob", "amount": amount})
            agent = framework.make_agent(framework.make_adapter(registry), "clerk", script([call], *["Done."] * 4))
            return agent, asyncio.run(framework.run(agent))

        def resume(agent: object, waiting: Outcome, *, answer: bool) -> None:
            asyncio.run(framework.resume(agent, waiting, {"call_0": answer}))

        agent, saved = pause(10)
        if state == "as it was":
            resume(agent, saved, answer=True)
        else:
            saved = framework.alter_arguments(saved, "call_0", {"to": "bob", "amount": 9_999})
        asked_before = {request.id for request in registry.approvals.pending()}
        other_agent, other_saved = pause(10 if state == "as it was" else 9_999)
        if other == "is rejected":
            resume(other_agent, other_saved, answer=False)
        elif other == "is allowed in the registry":
            (request,) = [asked for asked in registry.approvals.pending() if asked.id not in asked_before]
            registry.approvals.answer(request.id, Allow(by="eve"))
        before = list(paid)
        resume(agent, saved, answer=True)

        assert before == paid
        if other != "is rejected":
            resume(other_agent, other_saved, answer=True)
            assert [*before, ("bob", 10 if state == "as it was" else 9_999)] == paid

    def test_that_is_refused_lets_the_model_ask_anew(
        self, framework: Framework, registry: ToolRegistry, paid: list[tuple[str, int]], pause: Pause
    ) -> None:
        """A call whose request is unknown is denied, and that of the next reply waits for a person."""
        calls = [[ModelCall("pay", {"to": "bob"})], [ModelCall("pay", {"to": "bob"}, "call_1")], "Done."]
        agent = framework.make_agent(framework.make_adapter(registry), "clerk", script(*calls))
        waiting = asyncio.run(framework.run(agent))
        registry.approvals.answer(registry.approvals.pending()[0].id, Deny("no", by="eve"))
        again = asyncio.run(framework.resume(agent, waiting, {"call_0": True}))
        (call,) = again.waiting
        asyncio.run(framework.resume(agent, again, {call.id: True}))

        assert [("bob", 10)] == paid


CALL = ToolCall("call_0", "pay", {"to": "bob"})


class TestExecuteApproved:
    """What all frameworks share, without one: a call that waits in the registry, and was approved in a framework."""

    @staticmethod
    def approve(registry: ToolRegistry, call: ToolCall = CALL, **options: Any) -> ToolResult:
        """Execute a call of the clerk that a person approved."""
        return asyncio.run(execute_approved(registry, registry.toolset("clerk"), call, "Frame", **options))

    def test_a_call_that_waits_runs_once(self, registry: ToolRegistry, paid: list[tuple[str, int]]) -> None:
        """A call that never waited is denied, and so is one that is approved again: nobody was shown its request."""
        assert ("approval_denied", []) == (self.approve(registry).outcome, paid)
        assert "approval_required" == registry.toolset("clerk").execute(CALL).outcome
        assert ["ok", "approval_denied"] == [self.approve(registry).outcome for _ in range(2)]
        assert [("bob", 10)] == paid

    @pytest.mark.parametrize(
        ("answer", "outcome", "effects"),
        [(Deny("no", by="eve"), "approval_denied", []), (Allow(by="eve"), "ok", [("bob", 10)])],
        ids=["denied", "allowed"],
    )
    def test_the_operators_answer_counts(
        self, registry: ToolRegistry, paid: list[tuple[str, int]], answer: Any, outcome: str, effects: Any
    ) -> None:
        """What was answered in the registry meanwhile is used, and used up: approved again, the call is denied."""
        registry.toolset("clerk").execute(CALL)
        registry.approvals.answer(registry.approvals.pending()[0].id, answer)

        assert [outcome, "approval_denied"] == [self.approve(registry).outcome for _ in range(2)]
        assert effects == paid

    @pytest.mark.parametrize(
        ("answer", "outcome"), [(Deny("no", by="eve"), "approval_denied"), (Allow(by="eve"), "ok")]
    )
    def test_an_answer_that_comes_first_counts(self, registry: ToolRegistry, answer: Any, outcome: str) -> None:
        """An operator who answers between the look at the request and the framework's answer is not overruled."""
        tools = registry.toolset("clerk")
        result, waiting = tools.execute(CALL), list_waiting(registry)
        registry.approvals.answer(result.approval_id, answer)

        other = Deny("no", by="Frame") if outcome == "ok" else Allow(by="Frame")
        assert answer_request(registry, result, waiting, other)
        assert outcome == tools.execute(CALL).outcome

    def test_an_expired_request_is_not_approved(self) -> None:
        """The call is denied; made again, it is asked about anew, and that may be approved."""
        clock = HandClock()
        registry, done = ToolRegistry(clock=clock), list[str]()

        @registry.tool("pay", owned_by="clerk", requires_approval=True)
        def pay(to: str) -> None:
            """Pay somebody."""
            done.append(to)

        tools = registry.toolset("clerk")
        tools.execute(CALL)
        clock.moment += timedelta(hours=2)
        assert ("approval_denied", []) == (self.approve(registry).outcome, done)
        tools.execute(CALL)
        assert ("ok", ["bob"]) == (self.approve(registry).outcome, done)

    @pytest.mark.parametrize(
        ("answer", "outcome"), [(Deny("no", by="eve"), "approval_denied"), (Allow(by="eve"), "ok")]
    )
    def test_a_handler_decides_instead(
        self, registry: ToolRegistry, paid: list[tuple[str, int]], answer: Any, outcome: str
    ) -> None:
        """Where the registry has got a handler meanwhile, that is asked, and the framework's approval is none."""
        registry.toolset("clerk").execute(CALL)
        registry.set_approval_handler(lambda request: answer)

        assert outcome == self.approve(registry).outcome
        assert ([("bob", 10)] if outcome == "ok" else []) == paid

    def test_what_was_changed_runs_where_nobody_need_be_asked_any_more(
        self, registry: ToolRegistry, paid: list[tuple[str, int]]
    ) -> None:
        """Broken promise: the call ran as the model made it, when the operator had lifted the approval meanwhile."""
        registry.toolset("clerk").execute(CALL)
        registry.configure("pay", requires_approval=False)

        for _ in "12":  # also where the same state is resumed again
            assert "ok" == self.approve(registry, edited={"to": "eve"}).outcome
        assert ["eve"] * 2 == [name for name, _ in paid]
        assert [] == registry.approvals.pending()

    def test_a_class_that_changes_what_was_written_is_refused_then_too(self) -> None:
        """Broken promise: where the approval was lifted meanwhile, the tool got what a person had taken out."""
        registry, done = ToolRegistry(journal="memory"), list[dict[str, str]]()

        @registry.tool("pay", owned_by="clerk", requires_approval=True)
        def pay(mail: Mail) -> None:
            """Pay somebody."""
            done.append(mail.headers)

        call = ToolCall("c1", "pay", {"mail": {"headers": {"to": "bob"}}})
        registry.toolset("clerk").execute(call)
        registry.configure("pay", requires_approval=False)

        approve = partial(execute_approved, registry, registry.toolset("clerk"), call, "a framework")
        result = asyncio.run(approve(edited={"mail": {"headers": {"to": "eve"}}}))
        assert ("forbidden", []) == (result.outcome, done)
        assert "ok" == asyncio.run(approve(edited={"mail": {"headers": {"to": "eve", "bcc": "ann"}}})).outcome

    @pytest.mark.parametrize("edited", [None, {"to": "eve"}])
    def test_deps_reach_the_approved_call(self, edited: dict[str, object] | None) -> None:
        """The tool gets what the framework injects, and the arguments as the person changed them."""
        registry = ToolRegistry()

        @registry.tool("pay", owned_by="clerk", requires_approval=True)
        def pay(to: str, context: ToolContext[dict[str, str]]) -> str:
            """Pay somebody."""
            return f"{to} by {context.deps['bank']}"

        registry.toolset("clerk").execute(CALL, deps={"bank": "acme"})
        result = self.approve(registry, edited=edited, deps={"bank": "acme"})
        assert ("ok", "eve by acme" if edited else "bob by acme") == (result.outcome, result.result)


def test_whether_a_call_is_asked_about_is_read_of_one_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken promise: a call that needed approval before a change and after it was found to need none during it."""
    registry, read_state = ToolRegistry(), StateStore.get_fresh_state

    @registry.tool("pay", owned_by="clerk")
    def pay(to: str) -> None:
        """Pay somebody."""

    remove_policy = registry.add_policy(lambda agent, tool, arguments: Ask("it moves money"))
    toolset, reads = registry.toolset("clerk"), list[AccessState]()

    def read_before_change(store: StateStore) -> AccessState:
        reads.append(read_state(store))
        if len(reads) == 1:
            registry.configure("pay", requires_approval=True)
            remove_policy()
        return reads[-1]

    monkeypatch.setattr(StateStore, "get_fresh_state", read_before_change)

    assert asks_for_approval(toolset, "pay")
