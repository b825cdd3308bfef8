"""Approvals of the calls of a run: each call that waits has its own, and each answer counts when it is resumed."""

# Tests of: runs/recorder, journal/replay, journal/replay_entry

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from praval_tools import Allow, Ask, Deny, Outcome, ToolCall, ToolContext, ToolInDoubtError, ToolRegistry
from praval_tools.loop import ToolLoop
from praval_tools.testing import fake_model

MODES: Any = ["content", "position", "id"]
ANSWERS: dict[str, tuple[Any, Outcome, list[int]]] = {
    "allow": (Allow(by="eve"), Outcome.OK, [1_000]),
    "deny": (Deny("no", by="eve"), Outcome.APPROVAL_DENIED, []),
    "edit": (Allow({"amount": 9}, by="eve"), Outcome.OK, [9]),
    "none": (None, Outcome.APPROVAL_REQUIRED, []),
}
"""What a person answers, how the call ends then, and what is paid."""


class Bank:
    """A registry whose tool `pay` needs an approval, by its own metadata or by a policy, until that is lifted."""

    def __init__(self, how: str = "tool") -> None:
        self.registry, self.paid, self.is_lifted = ToolRegistry(journal="memory"), list[int](), False

        @self.registry.tool("pay", owned_by="ann", requires_approval=how == "tool")
        def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return "paid"

        if how == "policy":
            self.registry.add_policy(lambda *_: None if self.is_lifted else Ask("money moves"))

    def pay(self, mode: Any, *calls: tuple[str | None, int]) -> list[Outcome]:
        """Make calls with these ids and amounts in the run, and return how they end."""
        with self.registry.run("r", mode):
            return self.call(*calls)

    def call(self, *calls: tuple[str | None, int]) -> list[Outcome]:
        """Make calls where a run is open."""
        made = [ToolCall(call_id, "pay", {"amount": amount}, "ann") for call_id, amount in calls]
        return [self.registry.execute(call).outcome for call in made]

    def answer(self, answer: Any) -> int:
        """Answer each call that waits, and return how many there were."""
        waiting = self.registry.approvals.pending()
        for request in waiting if answer is not None else ():
            self.registry.approvals.answer(request.id, answer)
        return len(waiting)

    def lift(self, how: str) -> None:
        """Let calls run without an approval."""
        self.is_lifted = True
        if how == "tool":
            self.registry.configure("pay", requires_approval=False)


@pytest.mark.parametrize("how", ["tool", "policy"])
@pytest.mark.parametrize("name", ANSWERS)
class TestLifted:
    """Broken promise: an answer that was recorded counts. Once no approval was needed any more, it was passed over."""

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("call_id", ["c1", None])
    def test_in_a_run(self, how: str, name: str, mode: Any, call_id: str | None) -> None:
        """The call that waited ends as the person said, once, and without an answer it waits on."""
        bank, (answer, outcome, paid) = Bank(how), ANSWERS[name]
        assert [Outcome.APPROVAL_REQUIRED] == bank.pay(mode, (call_id, 1_000))
        bank.answer(answer)
        bank.lift(how)

        assert [outcome] == bank.pay(mode, (call_id, 1_000)) == bank.pay(mode, (call_id, 1_000))
        assert paid == bank.paid
        assert [outcome, Outcome.OK] == bank.pay(mode, (call_id, 1_000), ("new", 5))

    def test_in_a_loop(self, how: str, name: str) -> None:
        """So does the call of a loop that is resumed."""
        bank, (answer, outcome, paid) = Bank(how), ANSWERS[name]
        loop = ToolLoop(bank.registry.agent("ann"), fake_model(("pay", {"amount": 1_000}), "Done."))
        loop.run("Go.", "r")
        bank.answer(answer)
        bank.lift(how)

        assert [outcome] == [result.outcome for result in loop.resume("r").results]
        assert paid == bank.paid

    def test_asks_no_handler(self, how: str, name: str) -> None:
        """A handler that was set meanwhile decides about calls that need an approval now."""
        bank, (answer, outcome, paid) = Bank(how), ANSWERS[name]
        bank.pay("content", ("c1", 1_000))
        bank.answer(answer)
        bank.lift(how)
        bank.registry.approvals.handler = lambda _: Deny("the handler says no")

        assert [outcome] == bank.pay("content", ("c1", 1_000))
        assert paid == bank.paid


class TestEqualCalls:
    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("call_id", ["c1", None])
    def test_of_two_ids_wait_each(self, mode: Any, call_id: str | None) -> None:
        """
        Broken promise: the answer to one counts for it. Two calls with ids shared a request; one was never asked.

        One without an id took the place of one with an id by position, and the unchanged program was refused for ever.
        """
        bank, calls = Bank(), ((call_id, 2), ("c2", 2), ("c3", 1))
        assert [Outcome.APPROVAL_REQUIRED] * 3 == bank.pay(mode, *calls)
        assert 3 == bank.answer(Allow(by="eve"))
        for _ in range(2):
            assert [Outcome.OK] * 3 == bank.pay(mode, *calls)
        assert [2, 2, 1] == bank.paid

    @pytest.mark.parametrize("mode", MODES)
    def test_of_one_id_and_of_none_wait_each(self, mode: Any) -> None:
        """Broken promise: one without an id ran on the yes to another, such as one over MCP, in the same opening."""
        bank = Bank()
        with bank.registry.run("r", mode):
            assert [Outcome.APPROVAL_REQUIRED] == bank.call(("c1", 2))
            assert 1 == bank.answer(Allow(by="eve"))
            assert [Outcome.APPROVAL_REQUIRED, Outcome.OK] == bank.call((None, 2), ("c1", 2))
        assert [2] == bank.paid

    @pytest.mark.parametrize("mode", ["content", "position"])
    def test_of_no_id_is_made_again_under_the_id_that_it_got(self, mode: Any) -> None:
        """Who gives the id of a result means the call of that result."""
        bank = Bank()
        with bank.registry.run("r", mode):
            bank.call((None, 2))
            (request,) = bank.registry.approvals.pending()
            bank.registry.approvals.answer(request.id, Allow(by="eve"))
            assert [Outcome.OK] == bank.call((request.tool_call_id, 2))
        assert [2] == bank.paid

    @pytest.mark.parametrize("mode", MODES)
    def test_of_two_ids_are_answered_while_the_run_is_open(self, mode: Any) -> None:
        """Each has its own answer, whichever is made again first."""
        bank, calls = Bank(), (("c1", 2), ("c2", 2))
        with bank.registry.run("r", mode):
            assert [Outcome.APPROVAL_REQUIRED] * 2 == bank.call(*calls)
            first, second = bank.registry.approvals.pending()
            assert ("c1", "c2") == (first.tool_call_id, second.tool_call_id)
            bank.registry.approvals.answer(second.id, Allow(by="eve"))
            assert [Outcome.OK, Outcome.APPROVAL_REQUIRED] == bank.call(*reversed(calls))
        assert [Outcome.APPROVAL_REQUIRED, Outcome.OK] == bank.pay(mode, *calls)
        assert [2] == bank.paid

    @pytest.mark.parametrize("mode", ["content", "position"])
    def test_of_new_ids_find_what_has_ended(self, mode: Any) -> None:
        """One that still waits when the run is resumed does not stand before an equal one that ran."""
        bank = Bank()
        with bank.registry.run("r", mode):
            bank.call(("c1", 2), ("c2", 2))
            _, second = bank.registry.approvals.pending()
            bank.registry.approvals.answer(second.id, Allow(by="eve"))
            bank.call(("c2", 2))
        for ids in (("d1", "d2"), ("e1", "e2"), (None, None)):
            outcomes = bank.pay(mode, *((call_id, 2) for call_id in ids))
            is_second = ids[0] is not None or mode == "position"
            assert [Outcome.APPROVAL_REQUIRED, Outcome.OK if is_second else Outcome.APPROVAL_REQUIRED] == outcomes
        assert 1 == bank.answer(Allow(by="eve"))
        assert [Outcome.OK, Outcome.OK] == bank.pay(mode, ("f1", 2), ("f2", 2))
        assert [2, 2] == bank.paid

    @pytest.mark.parametrize("call_ids", [(None,) * 4, ("c1", "c2", "c3", "c4")])
    def test_by_position_keep_their_places(self, call_ids: tuple[str | None, ...]) -> None:
        """Broken promise: the same calls in the same order. Equal ones that waited took one place, and none went on."""
        bank, calls = Bank(), tuple(zip(call_ids, (1, 1, 2, 1), strict=True))
        with bank.registry.run("r", "position"):
            assert [Outcome.APPROVAL_REQUIRED] * 4 == bank.call(*calls)
            assert 4 == bank.answer(Allow(by="eve"))
            assert [Outcome.OK] * 2 == bank.call(*calls[:2])
        for _ in range(2):
            assert [Outcome.OK] * 4 == bank.pay("position", *calls)
        assert [1, 1, 2, 1] == bank.paid

    @pytest.mark.parametrize("mode", ["content", "id"])
    def test_without_an_id_are_one_that_is_made_again(self, mode: Any) -> None:
        """A program that tries until it may asks one person once."""
        bank = Bank()
        with bank.registry.run("r", mode):
            assert [Outcome.APPROVAL_REQUIRED] * 3 == bank.call(*[(None, 2)] * 3)
            assert 1 == bank.answer(Allow(by="eve"))
            assert [Outcome.OK] == bank.call((None, 2))
        assert [2] == bank.paid


class Crashing:
    """A registry whose tool `send` needs an approval, and ends the process when it first runs; it notes its keys."""

    def __init__(self, mode: Any, *, idempotent: bool) -> None:
        self.registry, self.keys = ToolRegistry(journal="memory"), list[str]()
        self.mode, self.idempotent = mode, idempotent

        @self.registry.tool("send", owned_by="ann", requires_approval=True, idempotent=idempotent)
        def send(context: ToolContext, amount: int = 1) -> int:
            """Send."""
            self.keys.append(context.idempotency_key)
            if len(self.keys) == 1:
                raise KeyboardInterrupt
            return len(self.keys)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Open the run; the operator lets calls in doubt run again, where they would not by themselves."""
        with self.registry.run("r", self.mode) as run:
            for doubtful in () if self.idempotent else run.in_doubt:
                run.resolve(doubtful, rerun=True)
            yield

    def call(self, call_id: str | None = None, amount: int = 1) -> Outcome:
        """Call the tool where the run is open."""
        return self.registry.execute(ToolCall(call_id, "send", {"amount": amount}, "ann")).outcome

    def call_in_run(self, call_id: str | None = None) -> Outcome:
        """Open the run for one call."""
        with self.open():
            return self.call(call_id)

    def answer(self, answer: Any) -> int:
        """Answer each call that waits, and return how many there were."""
        waiting = self.registry.approvals.pending()
        for request in waiting:
            self.registry.approvals.answer(request.id, answer)
        return len(waiting)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("idempotent", [True, False])
class TestToRunAgain:
    """A call that was approved, and whose process ended inside its tool, needs an approval to run again."""

    def test_has_one_effect_for_each_answer(self, mode: Any, idempotent: bool) -> None:
        """Broken promise: one effect. By position it was asked about twice, and each answer let it run once."""
        bank = Crashing(mode, idempotent=idempotent)
        with bank.open():
            assert (Outcome.APPROVAL_REQUIRED, 1) == (bank.call(), bank.answer(Allow(by="eve")))
            with pytest.raises(KeyboardInterrupt):
                bank.call()
        with bank.open():
            assert Outcome.APPROVAL_REQUIRED is bank.call()
            assert (1, Outcome.OK) == (bank.answer(Allow(by="eve")), bank.call())
        assert {Outcome.OK} == {bank.call_in_run() for _ in range(2)}
        assert (2, 1, 0) == (len(bank.keys), len(set(bank.keys)), bank.answer(Allow(by="eve")))

    @pytest.mark.parametrize("call_id", ["c1", None])
    @pytest.mark.parametrize("between", ["nothing", "lifted", "blocked"])
    def test_that_is_denied_ends(self, mode: Any, idempotent: bool, call_id: str | None, between: str) -> None:
        """Broken promise: a no counts. It was forgotten, so that the call ran once its approval was lifted."""
        bank = Crashing(mode, idempotent=idempotent)
        bank.call_in_run(call_id)
        bank.answer(Allow(by="eve"))
        with pytest.raises(KeyboardInterrupt):
            bank.call_in_run(call_id)
        assert Outcome.APPROVAL_REQUIRED is bank.call_in_run(call_id)
        if between == "blocked":
            bank.registry.block("send", "ann")
            assert Outcome.FORBIDDEN is bank.call_in_run(call_id)
            bank.registry.unblock("send", "ann")
        assert 1 == bank.answer(Deny("no", by="eve"))
        if between == "blocked":
            bank.registry.configure("send", requires_approval=False)
        assert Outcome.APPROVAL_DENIED is bank.call_in_run(call_id)
        if between == "lifted":
            bank.registry.configure("send", requires_approval=False)

        assert {Outcome.APPROVAL_DENIED} == {bank.call_in_run(call_id) for _ in range(2)}
        assert (1, 0) == (len(bank.keys), bank.answer(Allow(by="eve")))
        assert [0] == [run.in_doubt for run in bank.registry.journal.runs()]

    def test_that_is_denied_leaves_others_their_places(self, mode: Any, idempotent: bool) -> None:
        """Broken promise: the same calls in the same order. An equal one took the place of the call that was denied."""
        bank, calls = Crashing(mode, idempotent=idempotent), (("c1", 2), ("c2", 2), ("c3", 1))
        with bank.open():
            assert [Outcome.APPROVAL_REQUIRED] * 3 == [bank.call(*call) for call in calls]
        bank.answer(Allow(by="eve"))
        with bank.open(), pytest.raises(KeyboardInterrupt):
            bank.call(*calls[0])
        with bank.open():
            assert Outcome.APPROVAL_REQUIRED is bank.call(*calls[0])
            bank.answer(Deny("no", by="eve"))
            ended = [bank.call(*call) for call in calls]
        with bank.open():
            assert [Outcome.APPROVAL_DENIED, Outcome.OK, Outcome.OK] == ended == [bank.call(*call) for call in calls]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("by_handler", [False, True])
@pytest.mark.parametrize("is_left", [False, True], ids=["in one opening", "in the next one"])
def test_a_call_that_an_approver_changed_is_asked_about_to_run_again(
    mode: Any, by_handler: bool, is_left: bool
) -> None:
    """Broken promise: what was approved runs. Where the approval was lifted, it ran with the model's arguments."""
    registry, paid = ToolRegistry(journal="memory"), list[int]()
    call = ToolCall("c" if mode == "id" else None, "pay", {"amount": 1_000}, "ann")

    @registry.tool("pay", owned_by="ann", requires_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        if len(paid) == 1:
            raise ToolInDoubtError("the line broke")
        return "paid"

    if by_handler:
        registry.set_approval_handler(lambda _: Allow({"amount": 9}))

    def lift(run: Any) -> Outcome:
        run.resolve(run.in_doubt[0], rerun=True)
        registry.set_approval_handler(None)
        registry.configure("pay", requires_approval=False)
        return registry.execute(call).outcome

    with registry.run("r", mode) as run:
        if not by_handler:
            registry.execute(call)
            registry.approvals.answer(registry.approvals.pending()[0].id, Allow({"amount": 9}))
        assert Outcome.IN_DOUBT is registry.execute(call).outcome
        if not is_left:
            assert Outcome.APPROVAL_REQUIRED is lift(run)
    if is_left:
        with registry.run("r", mode) as run:
            assert Outcome.APPROVAL_REQUIRED is lift(run)
    assert [9] == paid
    (request,) = registry.approvals.pending()
    assert {"amount": 1_000} == request.arguments
    registry.approvals.answer(request.id, Allow())
    for _ in range(2):
        with registry.run("r", mode):
            assert Outcome.OK is registry.execute(call).outcome
    assert [9, 1_000] == paid
