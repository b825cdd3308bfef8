"""Random histories of approvals over two registries on one journal: each effect has used an answer to its own call."""

# Tests of: execution/approvals, journal/stored_approvals, runs/approval_recording

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from attrs import define, field
from clocks import HandClock

from praval_tools import Agent, Allow, Deny, Outcome, ToolCall, ToolRegistry, current_call

PRINCIPALS: dict[str, Callable[[ToolRegistry], Agent]] = {
    "boss": lambda registry: registry.agent("boss"),
    "eve": lambda registry: registry.agent("eve"),
    "helper": lambda registry: registry.agent("helper"),
    "helper for boss": lambda registry: registry.agent("boss").delegate("helper"),
    "helper as boss": lambda registry: registry.agent("boss").delegate("helper", mode="inherit"),
    "helper by boss": lambda registry: registry.agent("boss").delegate("helper", mode="own"),
    "helper for boss, narrowed": lambda registry: registry.agent("boss").delegate("helper", tools=["pay"]),
    "helper for eve": lambda registry: registry.agent("eve").delegate("helper"),
    "helper for eve for boss": lambda registry: registry.agent("boss").delegate("eve").delegate("helper"),
}
"""Who calls; each is somebody else."""


@define
class History:
    """
    Two registries on one journal, and the plain model: which answers stand for which calls.

    Args:
        path: The journal.
        random: What happens.
        answers: The answers that were not used: principal, call id, amount and risk of the call, what it then pays.
        asked: What each request is for.
        paid: The amounts that were paid.
    """

    path: Path
    random: Random
    clock: HandClock = field(factory=HandClock)
    risk: str = "low"
    answers: list[tuple[tuple[str, str, int, str], int | None, object]] = field(factory=list)
    asked: dict[str, tuple[str, str, int, str]] = field(factory=dict)
    paid: list[int] = field(factory=list)

    def open(self) -> ToolRegistry:
        """Return a registry as a process would make it at its start."""
        registry = ToolRegistry(journal=self.path, clock=self.clock)

        @registry.tool("pay", owned_by="boss", shared=True, requires_approval=True)
        def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            call = current_call()
            return "" if call is None else f"{call.agent} for {list(call.on_behalf_of)}"

        return registry

    def call(self, registry: ToolRegistry, who: str) -> None:
        """Make a call, and compare what comes of it with the model."""
        amount, call_id, before = self.random.choice((1, 2)), self.random.choice(("c0", "c0", "c1")), len(self.paid)
        handle = PRINCIPALS[who](registry)
        given = self.random.choice((amount, str(amount)))
        result = handle.execute(ToolCall(call_id, "pay", {"amount": given}))
        key = (who, call_id, amount, self.risk)
        fitting = [one for one in self.answers if one[0] == key and one[2] > self.clock.now()]  # type: ignore[operator]
        if result.outcome is Outcome.APPROVAL_REQUIRED:
            assert [] == fitting
            assert result.approval_id is not None
            assert key == self.asked.setdefault(result.approval_id, key)
        else:
            (answer,) = fitting
            self.answers.remove(answer)
            assert (result.outcome is Outcome.OK) is (answer[1] is not None)
        if result.outcome is Outcome.OK:
            assert [answer[1]] == self.paid[before:]
            assert f"{handle.name} for {list(handle.principal.chain)}" == result.result
        else:
            assert before == len(self.paid)

    def answer(self, registry: ToolRegistry) -> None:
        """Answer one of the requests that wait."""
        waiting = registry.approvals.pending()
        if not waiting:
            return
        request = self.random.choice(waiting)
        key = self.asked[request.id]
        answer = self.random.choice((Allow(), Allow(), Allow({"amount": 7}), Deny("no")))
        registry.approvals.answer(request.id, answer)
        edited = 7 if isinstance(answer, Allow) and answer.arguments is not None else key[2]
        self.answers.append((key, edited if isinstance(answer, Allow) else None, request.expires))


@pytest.mark.parametrize("seed", range(12))
def test_each_effect_has_an_answer_of_its_own(tmp_path: Path, seed: int) -> None:
    """
    A yes is for one call of one principal, its chain and narrowing included, wherever it was asked for and answered.

    Between request and answer the tool changes hands and risk, requests expire, and processes start anew.
    """
    history = History(tmp_path / "runs.db", Random(seed))
    registries, who = [history.open(), history.open()], history.random.sample(sorted(PRINCIPALS), 3)
    try:
        for step in history.random.choices(
            ("call", "answer", "transfer", "risk", "later", "restart"), (12, 9, 2, 1, 1, 1), k=30
        ):
            number = history.random.randrange(2)
            registry = registries[number]
            if step == "call":
                history.call(registry, history.random.choice(who))
            elif step == "answer":
                history.answer(registry)
            elif step == "transfer":
                registry.transfer_ownership("pay", history.random.choice(("boss", "eve", "ann")))
            elif step == "risk":
                history.risk = history.random.choice(("low", "high"))
                registry.configure("pay", risk_level=history.risk)
            elif step == "later":
                history.clock.moment += timedelta(minutes=history.random.choice((20, 61)))
            else:
                registry.close()
                registries[number] = history.open()
    finally:
        for registry in registries:
            registry.close()
