# Tests of: runs/recorder, journal/replay
"""A recorded call that is stopped before its tool is entered is the one that its caller makes again."""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from runs_rig import open_bank

from praval_tools import Allow, Deny, ToolCall, ToolContext, ToolRegistry
from praval_tools.errors import JournalError
from praval_tools.runs.call_writer import CallWriter

MODES: Any = ["content", "position", "id"]
Pay = Callable[[], Awaitable[object]]


class Bank:
    """A bank whose first payment ends the process after the effect; each life of the run has a new registry."""

    def __init__(self, where: Path, mode: Any, *, idempotent: bool) -> None:
        self.where, self.mode, self.idempotent, self.keys = where, mode, idempotent, list[str]()

    def live(self, program: Callable[[Pay], Awaitable[object]]) -> object:
        """Run *program* in the run; the operator lets calls in doubt run again, where they would not by themselves."""
        registry = ToolRegistry(journal=self.where)

        @registry.tool("pay", owned_by="ann", idempotent=self.idempotent)
        async def pay(amount: int, context: ToolContext) -> str:
            """Pay."""
            self.keys.append(context.idempotency_key)
            if len(self.keys) == 1:
                raise KeyboardInterrupt
            return "paid"

        async def work() -> object:
            async with registry.run("r", self.mode) as run:
                for call in () if self.idempotent else run.in_doubt:
                    run.resolve(call, rerun=True)
                return await program(lambda: registry.toolset("ann").acall("pay", amount=5))

        try:
            return asyncio.run(work())
        finally:
            registry.close()


async def pay_once(pay: Pay) -> object:
    """Pay."""
    return await pay()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_of_a_cancelled_task(mode: Any, idempotent: bool, steps: int, tmp_path: Path) -> None:
    """Broken promise: the call that was made again got a key of its own, and both had their effect."""
    bank = Bank(tmp_path / "runs.db", mode, idempotent=idempotent)
    with pytest.raises(KeyboardInterrupt):
        bank.live(pay_once)

    async def pay_again(pay: Pay) -> object:
        task = asyncio.ensure_future(pay())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return await pay()

    assert "paid" == bank.live(pay_again)
    for _ in "12":
        assert "paid" == bank.live(pay_once)
    assert 1 == len(set(bank.keys))


@pytest.mark.parametrize("mode", MODES)
def test_of_an_approved_call_that_cannot_be_written(mode: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken promise: a person was asked again, and the first answer let the call pass once more at the next start."""
    paid = list[int]()

    def fail(*_: object) -> None:
        raise JournalError("runs.db", "it is locked", "Nothing was run.")

    def call(registry: ToolRegistry) -> object:
        return registry.execute(ToolCall(None, "pay", {"amount": 5}, "ann")).outcome

    def live(program: Callable[[ToolRegistry], object]) -> object:
        with open_bank(tmp_path / "runs.db", paid, requires_approval=True) as registry, registry.run("r", mode):
            return program(registry)

    def approve_and_fail(registry: ToolRegistry) -> object:
        call(registry)
        registry.approvals.answer(registry.approvals.pending()[0].id, Allow())
        with monkeypatch.context() as patch, pytest.raises(JournalError):
            patch.setattr(CallWriter, "write_start", fail)
            call(registry)
        return call(registry)

    assert "ok" == live(approve_and_fail)
    assert "ok" == live(call)
    assert [5] == paid


@pytest.mark.parametrize("mode", ["content", "position"])
def test_a_call_that_was_approved_meanwhile(mode: Any, tmp_path: Path) -> None:
    """Broken promise: in its position, it was asked about again, and each answer let it pass at the next start."""
    paid = list[int]()

    def live(*answers: bool) -> list[object]:
        outcomes = list[object]()
        with open_bank(tmp_path / "runs.db", paid, requires_approval=True) as registry, registry.run("r", mode):
            for is_answered in answers:
                for request in registry.approvals.pending() if is_answered else ():
                    registry.approvals.answer(request.id, Allow())
                outcomes.append(registry.execute(ToolCall(None, "pay", {"amount": 5}, "ann")).outcome)
        return outcomes

    assert ["approval_required", "approval_required", "ok"] == live(False, False, True)
    assert ["ok"] == live(True)
    assert [5] == paid


class InterruptAt:
    """Raises a KeyboardInterrupt at one of the places where Python handles signals while a call is matched."""

    _NAMES = frozenset((
        "find_or_create_entry", "_find_match", "_find_by_content", "_find_by_position", "_build_idempotency_key",
    ))  # fmt: skip

    def __init__(self, number: int) -> None:
        self._left = number

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event in ("call", "c_return") and frame.f_code.co_name in self._NAMES:
            self._left -= 1
            if self._left == 0:
                sys.setprofile(None)
                raise KeyboardInterrupt


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("idempotent", [True, False])
def test_of_an_interrupt_anywhere(mode: Any, idempotent: bool, tmp_path: Path) -> None:
    """Broken promise: one key. Ctrl-C while the recorded call was looked up made the next one another call."""
    for number in itertools.count(1):
        bank = Bank(tmp_path / f"{number}.db", mode, idempotent=idempotent)
        with pytest.raises(KeyboardInterrupt):
            bank.live(pay_once)
        was_interrupted = []

        async def pay_again(pay: Pay, number: int = number, done: list[bool] = was_interrupted) -> object:
            sys.setprofile(InterruptAt(number))
            try:
                result = await pay()
            except KeyboardInterrupt:
                done.append(True)
                result = await pay()
            finally:
                sys.setprofile(None)
            return result

        assert "paid" == bank.live(pay_again) == bank.live(pay_once)
        assert 1 == len(set(bank.keys)), number
        if not was_interrupted:
            break
    assert number > 5


@pytest.mark.parametrize(("mode", "call_id"), [("content", "c1"), ("id", "c1"), ("position", None), ("content", None)])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_while_a_start_is_refused(mode: Any, call_id: str | None, steps: int, tmp_path: Path) -> None:
    """Broken promise: of a call that was cancelled as its start was out of date, no record said what it was."""
    path, paid = tmp_path / "runs.db", list[int]()

    async def program(registry: ToolRegistry, *, cancels: bool) -> None:
        async with registry.run("r", mode):
            first = asyncio.ensure_future(registry.aexecute(ToolCall(call_id, "pay", {"amount": 5}, "ann")))
            for _ in range(steps if cancels else 0):
                await asyncio.sleep(0)
            if cancels:
                first.cancel()
            await asyncio.wait([first])
            last_id = None if call_id is None else "c2"
            assert (await registry.aexecute(ToolCall(last_id, "pay", {"amount": 7}, "ann"))).success

    with open_bank(path, paid) as registry, open_bank(path, paid) as office:  # which stands for another process
        office.share_tool("pay")
        asyncio.run(program(registry, cancels=True))
    for _ in range(2):
        with open_bank(path, paid) as registry:
            asyncio.run(program(registry, cancels=False))
    assert [7, 5] == paid


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("steps", [1, 2, 3, 4])
@pytest.mark.parametrize("pause", [1, 2])
def test_by_a_scope_that_cancels_at_each_await(mode: Any, steps: int, pause: int, tmp_path: Path) -> None:
    """Broken promise: cancelled again while its start was confirmed, the call was in doubt for ever, as in anyio."""
    path, paid = tmp_path / "runs.db", list[int]()

    async def cancel(registry: ToolRegistry) -> None:
        async with registry.run("r", mode) as run:
            task = asyncio.ensure_future(registry.aexecute(ToolCall(None, "pay", {"amount": 5}, "ann")))
            for _ in range(steps):
                await asyncio.sleep(0)
            while not task.done():
                task.cancel()
                for _ in range(pause):
                    await asyncio.sleep(0)
            assert [] == paid
            assert [] == run.in_doubt
            if steps % 2:
                assert (await registry.aexecute(ToolCall(None, "pay", {"amount": 5}, "ann"))).success

    async def pay_anew(registry: ToolRegistry) -> None:
        async with registry.run("r", mode) as run:
            assert [] == run.in_doubt
            assert (await registry.aexecute(ToolCall(None, "pay", {"amount": 5}, "ann"))).success

    with open_bank(path, paid) as registry:
        asyncio.run(cancel(registry))
    with open_bank(path, paid) as registry:
        asyncio.run(pay_anew(registry))
    assert 1 <= len(paid) <= (2 if mode == "id" and steps % 2 else 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call_id", ["c1", None])
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4])
def test_of_a_call_that_waits_for_an_approval(mode: Any, call_id: str | None, steps: int, tmp_path: Path) -> None:
    """Broken promise: by position, one without an id was another call once it was stopped as it was made again."""
    asked = list[str]()

    def open_registry() -> ToolRegistry:
        registry = ToolRegistry(journal=tmp_path / "runs.db")

        @registry.tool("ask", owned_by="ann", requires_approval=True)
        async def ask() -> str:
            """Ask."""
            asked.append("asked")
            return "asked"

        @registry.tool("mail", owned_by="ann")
        async def mail() -> str:
            """Mail."""
            return "mailed"

        return registry

    async def program(*, stops: bool = False) -> str:
        async with open_registry() as registry, registry.run("r", mode):
            call = ToolCall(call_id, "ask", {}, "ann")
            if stops:
                task = asyncio.ensure_future(registry.aexecute(call))
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                if not task.cancelled():
                    return task.result().outcome.value
            result = await registry.aexecute(call)
            if result.success:
                assert (await registry.aexecute(ToolCall(None, "mail", {}, "ann"))).success
            return result.outcome.value

    assert ["approval_required"] * 2 == [asyncio.run(program()), asyncio.run(program(stops=True))]
    with open_registry() as registry:
        (request,) = registry.approvals.pending()
        registry.approvals.answer(request.id, Allow(by="eve"))
    for _ in range(2):
        assert "ok" == asyncio.run(program())
    assert ["asked"] == asked


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("steps", [0, 1, 2, 3])
@pytest.mark.parametrize("cancels", [1, 2, 3])
def test_that_was_denied_stays_denied(mode: Any, steps: int, cancels: int, tmp_path: Path) -> None:
    """Broken promise: a No that was being recorded as the call was cancelled twice was lost, and it was asked anew."""
    paid = list[int]()

    def open_registry() -> ToolRegistry:
        registry = open_bank(tmp_path / "runs.db", paid, is_async=True, requires_approval=True)
        registry.add_policy(lambda *_: time.sleep(0.02))  # the store writes meanwhile
        return registry

    async def program(*, stops: bool = False) -> str:
        call = ToolCall("c1", "pay", {"amount": 5}, "ann")
        async with open_registry() as registry, registry.run("r", mode):
            if stops:
                task = asyncio.ensure_future(registry.aexecute(call))
                for _ in range(steps):
                    await asyncio.sleep(0)
                for _ in range(cancels):
                    task.cancel()
                    await asyncio.sleep(0)
                await asyncio.wait([task])
            return (await registry.aexecute(call)).outcome.value

    assert "approval_required" == asyncio.run(program())
    with open_registry() as registry:
        registry.approvals.answer(registry.approvals.pending()[0].id, Deny("no", by="eve"))
    assert ["approval_denied"] * 2 == [asyncio.run(program(stops=True)), asyncio.run(program())]
    with open_registry() as registry:
        assert [] == registry.approvals.pending()
    assert [] == paid
