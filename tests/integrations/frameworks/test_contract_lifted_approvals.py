# Tests of: integrations/framework_calls, integrations/langchain, integrations/openai_agents, integrations/pydantic_ai
"""What the operator answered in the registry counts also where the call needs no approval any more, and once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from framework_contract import Framework, ModelCall, script

from praval_tools import Allow, Ask, Deny, ToolInDoubtError, ToolRegistry
from praval_tools.tools.decision import ApprovalAnswer

Payments = list[int]
ANSWERS: dict[str, tuple[ApprovalAnswer, Payments]] = {
    "allow": (Allow(by="eve"), [1000]),
    "edit": (Allow({"amount": 9}, by="eve"), [9]),
    "deny": (Deny("no", by="eve"), []),
}


def by_flag(registry: ToolRegistry) -> tuple[Callable[[], object], Callable[[], object]]:
    """Have all calls need an approval; return how to lift that, and how to restore it."""
    registry.configure("pay", requires_approval=True)
    return (
        lambda: registry.configure("pay", requires_approval=False),
        lambda: registry.configure("pay", requires_approval=True),
    )


def by_policy(registry: ToolRegistry) -> tuple[Callable[[], object], Callable[[], object]]:
    """Have a policy ask; return how to lift that, and how to restore it."""
    asks = [True]
    registry.add_policy(lambda *_: Ask("it is much") if asks[0] else None)
    return lambda: asks.__setitem__(0, False), lambda: asks.__setitem__(0, True)


@pytest.fixture
def paid() -> Payments:
    """What was paid."""
    return []


@pytest.fixture(params=[None, "memory", "runs.db"])
def registry(request: pytest.FixtureRequest, paid: Payments, tmp_path: Path) -> Iterator[ToolRegistry]:
    """A registry in which a clerk may pay."""
    journal = str(tmp_path / request.param) if request.param == "runs.db" else request.param
    registry = ToolRegistry(journal=journal)

    @registry.tool("pay", owned_by="clerk")
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    yield registry
    registry.close()


@pytest.mark.parametrize("require", [by_flag, by_policy])
@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("person", [True, False, {"amount": 7}], ids=str)
def test_the_operators_answer_counts(
    framework: Framework, registry: ToolRegistry, paid: Payments, require: Any, answer: str, person: Any
) -> None:
    """Broken promise: a call that the operator had denied or changed ran as the model made it, and again later."""
    if isinstance(person, dict) and not framework.can_edit:
        pytest.skip(f"{framework.name} has no way to change the arguments of a call")
    lift, restore = require(registry)
    model = script([ModelCall("pay", {"amount": 1000})], *["Done."] * 4)
    agent = framework.make_agent(framework.make_adapter(registry), "clerk", model)
    waiting = asyncio.run(framework.run(agent))
    given, expected = ANSWERS[answer]
    registry.approvals.answer(registry.approvals.pending()[0].id, given)
    if person is False and framework.name != "langchain":  # their tools are not called then
        expected = []

    lift()
    asyncio.run(framework.resume(agent, waiting, {"call_0": person}))
    assert expected == paid
    restore()
    asyncio.run(framework.resume(agent, waiting, {"call_0": True}))
    assert len(paid) <= 1 and (paid == [] or answer != "deny")


@pytest.mark.parametrize("require", [by_flag, by_policy])
def test_a_call_runs_once_where_a_handler_was_set_meanwhile(
    framework: Framework, registry: ToolRegistry, paid: Payments, require: Any
) -> None:
    """Broken promise: a request was left waiting where its approval was lifted, and a yes let the call pass twice."""
    lift, restore = require(registry)
    agent = framework.make_agent(
        framework.make_adapter(registry), "clerk", script([ModelCall("pay", {"amount": 1000})], *["Done."] * 4)
    )
    waiting = asyncio.run(framework.run(agent))
    registry.set_approval_handler(lambda request: Allow(by="handler"))
    lift()
    asyncio.run(framework.resume(agent, waiting, {"call_0": True}))
    assert [1000] == paid
    assert [] == registry.approvals.pending()

    registry.set_approval_handler(None)
    restore()
    asyncio.run(framework.resume(agent, waiting, {"call_0": True}))
    assert [1000] == paid


@pytest.mark.parametrize("answer", ANSWERS)
def test_the_operators_answer_is_used_where_a_handler_was_set_meanwhile(
    framework: Framework, registry: ToolRegistry, paid: Payments, answer: str
) -> None:
    """Broken promise: a person's edit went to the handler, and the operator's yes let the call pass once more."""
    if not framework.can_edit:
        pytest.skip(f"{framework.name} has no way to change the arguments of a call")
    by_flag(registry)
    agent = framework.make_agent(
        framework.make_adapter(registry), "clerk", script([ModelCall("pay", {"amount": 1000})], *["Done."] * 4)
    )
    waiting = asyncio.run(framework.run(agent))
    given, expected = ANSWERS[answer]
    registry.approvals.answer(registry.approvals.pending()[0].id, given)
    registry.set_approval_handler(lambda request: Allow(by="handler"))
    asyncio.run(framework.resume(agent, waiting, {"call_0": {"amount": 7}}))
    assert expected == paid

    registry.set_approval_handler(None)
    asyncio.run(framework.resume(agent, waiting, {"call_0": True}))
    assert expected == paid


STATES = ["asked", "lifted", "handler"]


@pytest.mark.parametrize("ends", ["returned", "in doubt"])
@pytest.mark.parametrize("first", STATES)
@pytest.mark.parametrize("second", STATES)
def test_an_edit_of_a_call_of_a_run_counts_once(
    framework: Framework, paid: Payments, first: str, second: str, ends: str
) -> None:
    """Broken promise: resumed in its run, such a call was taken for another one where its approval was lifted."""
    if not framework.can_edit:
        pytest.skip(f"{framework.name} has no way to change the arguments of a call")
    with ToolRegistry(journal="memory") as registry:
        agent = make_payer(framework, registry, paid, fails=ends == "in doubt")
        waiting = asyncio.run(resume_run(registry, framework.run(agent)))
        for state in (first, second, second):
            enter_state(registry, state)
            asyncio.run(resume_run(registry, framework.resume(agent, waiting, {"call_0": {"amount": 7}})))
            assert [7] == paid


@pytest.mark.parametrize("state", ["lifted", "handler"])
@pytest.mark.parametrize("person", [False, {"amount": 7}, True], ids=str)
def test_a_call_that_was_asked_about_before_the_run(
    framework: Framework, paid: Payments, person: Any, state: str
) -> None:
    """
    Broken promise: a person's no counts. It was not read in LangGraph, whose run did not know the request.

    Where nobody is asked any more, the run finds the call again that it made. In LangGraph it refuses any answer, which
    was to a request of outside the run.
    """
    if isinstance(person, dict) and not framework.can_edit:
        pytest.skip(f"{framework.name} has no way to change the arguments of a call")
    expected = [] if person is False or framework.name == "langchain" else [1000 if person is True else 7]
    with ToolRegistry(journal="memory") as registry:
        agent = make_payer(framework, registry, paid)
        waiting = asyncio.run(framework.run(agent))
        enter_state(registry, state)
        for _ in range(2):
            asyncio.run(resume_run(registry, framework.resume(agent, waiting, {"call_0": person})))
            assert expected == paid


def make_payer(framework: Framework, registry: ToolRegistry, paid: Payments, *, fails: bool = False) -> Any:
    """Return an agent that pays, once a person has approved it."""

    @registry.tool("pay", owned_by="clerk", requires_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        if fails:
            raise ToolInDoubtError("the line broke")
        return "paid"

    model = script([ModelCall("pay", {"amount": 1000})], *["Done."] * 4)
    return framework.make_agent(framework.make_adapter(registry), "clerk", model)


def enter_state(registry: ToolRegistry, state: str) -> None:
    """Have calls need a person's approval, or none, or that of a handler."""
    registry.configure("pay", requires_approval=state != "lifted")
    registry.set_approval_handler((lambda request: Allow(by="handler")) if state == "handler" else None)


async def resume_run(registry: ToolRegistry, work: Awaitable[Any]) -> Any:
    """Await *work* inside the run."""
    async with registry.run("r"):
        return await work
