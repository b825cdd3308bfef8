"""A run that a tool opens is resumed like any other, though the call that opens it again is another one."""

# Tests of: runs/matching, journal/replay, runs/model_log

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from praval_tools import Agent, Outcome, ToolCall, ToolRegistry, current_call
from praval_tools.loop import ModelRequest, ToolLoop
from praval_tools.testing import fake_model


class Death(BaseException):
    """Ends a program as a signal would, with what it had begun."""


class Program:
    """
    A program that is started again and again: its tool `order` opens a run, and pays there.

    Args:
        path: The journal.
        order: What `order` does.
        is_journaled: Whether the calls of `order` are in the journal of the payments.
    """

    def __init__(self, path: Path, order: Callable[[Program], object], *, is_journaled: bool = True) -> None:
        self._path, self._order, self._is_journaled = path, order, is_journaled
        self.paid, self.dies = list[int](), False

    @contextmanager
    def start(self) -> Iterator[ToolRegistry]:
        """Lend the registry of `order`."""
        with ToolRegistry(journal=self._path) as self.bank, ToolRegistry() as other:
            shop = self.bank if self._is_journaled else other
            for name, registry in (("payer", self.bank), ("clerk", shop), ("courier", other)):
                Agent(name, registry=registry)

            @self.bank.tool("pay", owned_by="payer")
            def pay(amount: int) -> str:
                """Pay."""
                self.paid.append(amount)
                return f"payment {len(self.paid)}"

            @self.bank.tool("pay_twice", owned_by="payer", idempotent=True)
            def pay_twice(amount: int) -> list[Any]:
                """Pay two amounts by calls from inside."""
                parts = [self.bank.agent("payer").call("pay", amount=amount + at) for at in range(2)]
                self.die()
                return parts

            @other.tool("carry", owned_by="courier")
            def carry() -> Any:
                """Carry a payment."""
                return self.bank.agent("payer").call("pay", amount=1)

            @self.bank.tool("send", owned_by="payer")
            def send() -> Any:
                """Send a courier."""
                return other.agent("courier").call("carry")

            @shop.tool("order", owned_by="clerk", idempotent=True)
            def order() -> Any:
                """Order."""
                return self._order(self)

            yield shop

    def die(self) -> None:
        """End, where this start is to end early."""
        if self.dies:
            raise Death

    def run(self, *, dies: bool = False, call_id: str | None = None) -> Any:
        """Start the program, have it order, and return what came of it."""
        self.dies = dies
        with self.start() as registry:
            return registry.execute(ToolCall(call_id, "order", {}, "clerk")).result


def pay_in_run(program: Program, tool: str = "pay", **options: Any) -> object:
    """Pay three amounts in a run, in the name of another agent."""
    with program.bank.run("payments", **options):
        results = [program.bank.agent("payer").call(tool, amount=amount) for amount in (1, 2, 2)]
        program.die()
    return results


def pay_by_position(program: Program) -> object:
    """Pay in a run whose calls are made in the same order again."""
    return pay_in_run(program, match="position")


def pay_inside(program: Program) -> object:
    """Pay by calls that a call of the run makes."""
    with program.bank.run("payments"):
        return program.bank.agent("payer").call("pay_twice", amount=1)


def pay_in_a_run_of_a_run(program: Program) -> object:
    """Pay in a run that is opened inside another one, whose name changes."""
    with program.bank.run(f"outer {len(program.paid)}"):
        return pay_in_run(program)


def pay_as_a_model_says(program: Program) -> object:
    """Pay by the calls of a model, in a run of the loop's own."""

    def reply(request: ModelRequest) -> str | list[ToolCall]:
        if any(message.get("role") == "tool" for message in request.messages):
            program.die()
            return "paid"
        return [ToolCall(f"call_{at}", "pay", {"amount": amount}) for at, amount in enumerate((1, 2, 2))]

    loop = ToolLoop(program.bank.agent("payer"), fake_model(reply, reply))
    return loop.run("Pay.", run_id="payments").text


WAYS = [pay_in_run, pay_by_position, pay_inside, pay_in_a_run_of_a_run, pay_as_a_model_says]


class TestResumedRuns:
    """
    Broken was: killed at any moment, an effect is never repeated in silence.

    A call of the run was looked for below the call inside which the run was opened, which has another id each time.
    """

    @pytest.mark.parametrize("is_journaled", [True, False], ids=["one registry", "two registries"])
    @pytest.mark.parametrize("order", WAYS, ids=lambda way: way.__name__)
    def test_repeat_no_effect(self, tmp_path: Path, order: Callable[[Program], object], is_journaled: bool) -> None:
        """What was paid before the program died is given back, in whichever call the run is opened again."""
        program = Program(tmp_path / "runs.db", order, is_journaled=is_journaled)
        with pytest.raises(Death):
            program.run(dies=True)
        paid = list(program.paid)
        assert paid
        first, second = program.run(), program.run()
        assert paid == program.paid
        assert first == second

    def test_may_be_opened_outside_of_calls_later(self, tmp_path: Path) -> None:
        """It is the same run wherever it is opened."""
        program = Program(tmp_path / "runs.db", pay_in_run)
        with pytest.raises(Death):
            program.run(dies=True, call_id="order 7")
        program.dies = False
        with program.start():
            assert ["payment 1", "payment 2", "payment 3"] == pay_in_run(program)
        assert [1, 2, 2] == program.paid

    def test_keep_the_order_of_calls_through_another_registry(self, tmp_path: Path) -> None:
        """A call that comes back from another registry belongs to the call of the run inside which it is made."""

        def relay(program: Program) -> object:
            payer = program.bank.agent("payer")
            with program.bank.run("payments", match="position"):
                results = [payer.call("send"), payer.call("pay", amount=2)]
                program.die()
            return results

        program = Program(tmp_path / "runs.db", relay)
        with pytest.raises(Death):
            program.run(dies=True)
        assert ["payment 1", "payment 2"] == program.run()
        assert [1, 2] == program.paid

    def test_are_recorded_with_the_call_that_opened_them(self, tmp_path: Path) -> None:
        """The record says inside which call each one was made, also where that is not of the run."""
        outer = list[str | None]()

        def order(program: Program) -> object:
            call = current_call()
            outer.append(None if call is None else call.tool_call_id)
            return pay_in_run(program)

        program = Program(tmp_path / "runs.db", order)
        program.run()
        with ToolRegistry(journal=tmp_path / "runs.db") as registry:
            assert registry.journal is not None
            calls = registry.journal.calls("payments")
        assert [(Outcome.OK, outer[0])] * 3 == [(call.outcome, call.parent_id) for call in calls]
