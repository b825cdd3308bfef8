"""A repetition that an exception ended before its tool was entered: made again, it is the same recorded call."""

# Tests of: runs/recorder, journal/replay

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from write_ahead_rig import CALL, FailingStore

from praval_tools import (
    Allow,
    Deny,
    Outcome,
    ToolCall,
    ToolContext,
    ToolInDoubtError,
    ToolRegistry,
    ToolUsageError,
)
from praval_tools.errors import JournalError, ReplayMismatchError
from praval_tools.journal.storage.sql_store import SqlStore
from praval_tools.loop import ToolLoop
from praval_tools.testing import fake_model

MODES: Any = ["content", "position", "id"]
KINDS = ["in doubt", "rerun", "asked"]
"""What the recorded call is: in doubt and idempotent, let run again by the operator, or approved after it was asked."""


class Rig:
    """A registry over a store that fails at will, which is opened anew for each life of the run."""

    def __init__(self, path: Path, kind: str) -> None:
        self.store, self.kind = FailingStore(SqlStore(path)), kind
        self.keys: list[str | None] = []
        self.registry = self.start()

    def start(self) -> ToolRegistry:
        """Open a registry whose tool is interrupted where no call was made before."""
        registry = ToolRegistry(journal=self.store)
        options: Any = {"in doubt": {"idempotent": True}, "rerun": {}, "asked": {"requires_approval": True}}[self.kind]

        @registry.tool("pay", owned_by="ann", **options)
        async def pay(context: ToolContext, amount: int = 5) -> int:
            """Pay."""
            self.keys.append(context.idempotency_key)
            if len(self.keys) == 1 and self.kind != "asked":
                raise KeyboardInterrupt
            return len(self.keys)

        return registry

    def live(self, mode: Any, program: Callable[[], Any]) -> Any:
        """Run *program* in a new life of the run, and return what it returns."""

        async def work() -> Any:
            async with self.registry.run("r", mode):
                return await program()

        self.registry.close()
        self.registry = self.start()
        return asyncio.run(work())

    async def pay(self, call_id: str | None = None) -> Any:
        """Make the call."""
        result = await self.registry.aexecute(ToolCall(call_id, "pay", {}, "ann"))
        return result.result if result.outcome is Outcome.OK else result.outcome

    async def begin(self, call_id: str | None = None) -> None:
        """Make the call so that it has not ended."""
        if self.kind == "asked":
            assert Outcome.APPROVAL_REQUIRED is await self.pay(call_id)
        else:
            with pytest.raises(KeyboardInterrupt):
                await self.pay(call_id)

    def approve(self) -> None:
        """Approve what waits."""
        for entry in self.registry.approvals.pending():
            self.registry.approvals.answer(entry.id, Allow())

    def prepare(self) -> None:
        """Let the call go on: by an answer, or by the operator's word."""
        self.approve()
        if self.kind == "rerun":
            for found in list(self.registry.journal.events(type="agent_tool_call")):
                self.registry.journal.resolve("r", found.tool_call_id, rerun=True)

    def check_one_effect(self, *, calls: int = 1) -> None:
        """Check that all executions were those of *calls* calls, each of which ran to its end once."""
        assert calls == len(set(self.keys))
        assert calls == len(self.keys) - (self.kind != "asked")


@pytest.fixture(params=KINDS)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    """Give a rig for each kind of recorded call."""
    rig = Rig(tmp_path / "runs.db", request.param)
    yield rig
    rig.registry.close()
    rig.store.store.close()


async def cancel_while_written(rig: Rig, make_call: Callable[[], Any]) -> None:
    """Cancel the call while its start is written."""
    task = asyncio.ensure_future(make_call())

    def cancel(kind: str) -> None:
        if kind == CALL:
            rig.store.before = lambda _: None
            task.cancel()

    rig.store.before = cancel
    with pytest.raises(asyncio.CancelledError):
        await task


async def fail_to_write(rig: Rig, make_call: Callable[[], Any]) -> None:
    """Have the store refuse the start of the call."""
    rig.store.fails = {CALL}
    with pytest.raises(JournalError, match="Nothing was run"):
        await make_call()
    rig.store.fails = set()


async def stop_in_loop(rig: Rig, make_call: Callable[[], Any]) -> None:
    """Make the call where an async tool cannot be waited for."""
    with pytest.raises(ToolUsageError, match="event loop"):
        rig.registry.execute(ToolCall(None, "pay", {}, "ann"))


STOPS = [cancel_while_written, fail_to_write, stop_in_loop]


@pytest.mark.parametrize("mode", MODES)
class TestOneEffect:
    @pytest.mark.parametrize("call_id", [None, "x"])
    @pytest.mark.parametrize("stop", STOPS[:2])
    @pytest.mark.parametrize("times", [1, 2])
    def test_the_call_made_again(self, rig: Rig, mode: Any, stop: Any, call_id: str | None, times: int) -> None:
        """However a repetition was stopped: made again, it has the id, the key and the effect of the recorded call."""
        rig.live(mode, lambda: rig.begin(call_id))

        async def try_again() -> Any:
            for _ in range(1 if rig.kind == "asked" and stop is cancel_while_written else times):
                await stop(rig, lambda: rig.pay(call_id))
            return await rig.pay(call_id)

        rig.prepare()
        first = rig.live(mode, try_again)
        if rig.kind == "asked" and first is Outcome.APPROVAL_REQUIRED:  # its start has used the answer
            rig.approve()
            first = rig.live(mode, lambda: rig.pay(call_id))
        assert [first] * 2 == [rig.live(mode, lambda: rig.pay(call_id)) for _ in range(2)]
        rig.check_one_effect()

    def test_a_sync_call_in_an_event_loop(self, rig: Rig, mode: Any) -> None:
        """A call that cannot be waited for is the same call where it is made as it should be."""
        rig.live(mode, rig.begin)

        async def try_again() -> Any:
            await stop_in_loop(rig, rig.pay)
            return await rig.pay()

        rig.prepare()
        rig.live(mode, try_again)
        rig.approve()
        results = [rig.live(mode, rig.pay) for _ in range(3)]
        assert results == [results[0]] * 3
        rig.check_one_effect()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stop", STOPS[:2])
def test_of_a_call_that_an_approver_changed(tmp_path: Path, mode: Any, stop: Any) -> None:
    """Where no approval is needed any more, it does not run with the arguments of its caller, of which nobody knew."""
    rig = Rig(tmp_path / "runs.db", "asked")
    rig.live(mode, rig.begin)
    for entry in rig.registry.approvals.pending():
        rig.registry.approvals.answer(entry.id, Allow({"amount": 7}))
    paid = list[Any]()

    async def try_again() -> Any:
        await stop(rig, rig.pay)
        return await lift_and_pay()

    async def lift_and_pay() -> Any:
        @rig.registry.tool("pay", owned_by="ann", replace=True, requires_approval=True)
        async def pay(context: ToolContext, amount: int = 5) -> int:
            """Pay."""
            paid.append(amount)
            return amount

        rig.registry.configure("pay", requires_approval=False)
        return await rig.pay()

    results = [rig.live(mode, try_again), *(rig.live(mode, lift_and_pay) for _ in range(2))]
    assert results in ([7] * 3, [Outcome.APPROVAL_REQUIRED] * 3)
    assert paid in ([7], [])
    rig.registry.close()
    rig.store.store.close()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stop", STOPS[:2])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("kind", ["in doubt", "rerun"])
def test_in_the_run_in_which_it_came_to_be_in_doubt(
    tmp_path: Path, mode: Any, stop: Any, times: int, kind: str
) -> None:
    """Broken promise: the stopped repetition was made again as a call of its own, and the first one ran, too."""
    rig = Rig(tmp_path / "runs.db", kind)

    async def work() -> Any:
        async with rig.registry.run("r", mode) as run:
            await rig.begin()
            run.resolve(run.in_doubt[0], rerun=True)
            for _ in range(times):
                await stop(rig, rig.pay)
            return await rig.pay()

    assert [2] * 3 == [asyncio.run(work()), *(rig.live(mode, rig.pay) for _ in range(2))]
    rig.check_one_effect()
    rig.registry.close()
    rig.store.store.close()


@pytest.mark.parametrize("mode", ["content", "position"])
@pytest.mark.parametrize("answer", [Allow(), Deny("no")], ids=["yes", "no"])
def test_that_a_person_answered_where_it_came_to_be_in_doubt(tmp_path: Path, mode: Any, answer: Any) -> None:
    """Broken promise: what a person said of the repetition was lost where that was stopped, and it was asked anew."""
    store, entered = FailingStore(SqlStore(tmp_path / "runs.db")), list[str]()
    registry = ToolRegistry(journal=store)

    @registry.tool("pay", owned_by="ann", requires_approval=True)
    async def pay() -> str:
        """Pay."""
        entered.append("pay")
        if len(entered) == 1:
            raise ToolInDoubtError("the line broke")
        return "paid"

    async def make_call() -> str:
        return (await registry.aexecute(ToolCall(None, "pay", {}, "ann"))).outcome.value

    def answer_request(answer: Any) -> None:
        (request,) = registry.approvals.pending()
        registry.approvals.answer(request.id, answer)

    async def work() -> list[str]:
        async with registry.run("r", mode) as run:
            outcomes = [await make_call()]
            answer_request(Allow())
            outcomes.append(await make_call())
            run.resolve(run.in_doubt[0], rerun=True)
            outcomes.append(await make_call())
            answer_request(answer)
            task = asyncio.ensure_future(make_call())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            outcomes.append(await make_call())
        async with registry.run("r", mode):
            return [*outcomes, await make_call()]

    last = "approval_required" if isinstance(answer, Allow) else "approval_denied"  # the stopped start has used the yes
    assert ["approval_required", "in_doubt", "approval_required", last, last] == asyncio.run(work())
    assert 1 == len({event.tool_call_id for event in registry.journal.events() if hasattr(event, "tool_call_id")})
    assert 1 == len(entered)
    registry.close()
    store.store.close()


@pytest.mark.parametrize("mode", ["content", "position"])
@pytest.mark.parametrize("stop", STOPS[:2])
def test_a_loop_that_is_begun_again(tmp_path: Path, mode: Any, stop: Any) -> None:
    """A resumed loop that was stopped, and begun again, makes the call that is in doubt, not another one."""
    rig = Rig(tmp_path / "runs.db", "in doubt")

    async def run_loop() -> Any:
        def reply(request: Any) -> Any:
            is_first = not any(message.get("role") == "tool" for message in request.messages)
            return [ToolCall("call_1", "pay", {"amount": 5})] if is_first else "Done."

        result = await ToolLoop(rig.registry.agent("ann"), fake_model(reply, reply)).arun("Go.")
        return [one.result for one in result.results]

    async def begin_again() -> Any:
        await stop(rig, run_loop)
        return await run_loop()

    with pytest.raises(KeyboardInterrupt):
        rig.live(mode, run_loop)
    assert [[2]] * 3 == [rig.live(mode, begin_again), *(rig.live(mode, run_loop) for _ in range(2))]
    rig.check_one_effect()
    rig.registry.close()
    rig.store.store.close()


@pytest.fixture
def doubt(tmp_path: Path) -> Iterator[Rig]:
    """Give a rig whose recorded call is in doubt and idempotent."""
    rig = Rig(tmp_path / "runs.db", "in doubt")
    yield rig
    rig.registry.close()
    rig.store.store.close()


@pytest.mark.parametrize("ticks", [1, 2])
@pytest.mark.parametrize("mode", MODES)
def test_a_task_that_is_cancelled_early(doubt: Rig, mode: Any, ticks: int) -> None:
    """Wherever a task is cancelled before the tool is entered, the call made again is the recorded one."""
    doubt.live(mode, doubt.begin)

    async def try_again() -> Any:
        task = asyncio.ensure_future(doubt.pay())
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert 1 == len(doubt.keys)
        return await doubt.pay()

    assert [2, 2] == [doubt.live(mode, try_again), doubt.live(mode, doubt.pay)]
    doubt.check_one_effect()


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("mode", MODES)
def test_a_second_call(doubt: Rig, mode: Any, stop: Any) -> None:
    """An equal call after the one that was made again is another call."""
    doubt.live(mode, doubt.begin)

    async def try_again() -> Any:
        await stop(doubt, doubt.pay)
        return await doubt.pay()

    async def pay_twice() -> Any:
        return [await doubt.pay(), await doubt.pay()]

    assert 2 == doubt.live(mode, try_again)
    assert [[2, 3]] * 2 == [doubt.live(mode, pay_twice) for _ in range(2)]
    doubt.check_one_effect(calls=2)


@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_is_given_up(doubt: Rig, mode: Any) -> None:
    """A program that goes on with other calls is not refused; the call that it gave up runs when it is requested."""

    async def pay_more() -> Any:
        return (await doubt.registry.aexecute(ToolCall(None, "pay", {"amount": 6}, "ann"))).result

    async def begin() -> Any:
        await doubt.begin()
        return await pay_more()

    async def give_up() -> Any:
        await fail_to_write(doubt, doubt.pay)
        return await pay_more()

    async def make_calls() -> Any:
        return [await doubt.pay(), await pay_more()]

    assert [2, 2] == [doubt.live(mode, begin), doubt.live(mode, give_up)]
    assert [[3, 2]] * 2 == [doubt.live(mode, make_calls) for _ in range(2)]
    doubt.check_one_effect(calls=2)


@pytest.mark.parametrize("order", ["xy", "yx"])
def test_another_id_meanwhile(doubt: Rig, order: str) -> None:
    """Where a call of another id stood for the one that was stopped, that one is another call: none is lost."""
    doubt.live("content", lambda: doubt.begin("x"))

    async def try_again() -> Any:
        await fail_to_write(doubt, lambda: doubt.pay("x"))
        return [await doubt.pay(call_id) for call_id in order]

    assert [2, 3] == doubt.live("content", try_again)
    doubt.check_one_effect(calls=2)


@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_was_entered(doubt: Rig, mode: Any) -> None:
    """A repetition whose tool was entered is in doubt; an equal call in the same life is another call."""
    doubt.live(mode, doubt.begin)

    async def try_again() -> Any:
        doubt.keys.clear()
        with pytest.raises(KeyboardInterrupt):
            await doubt.pay()
        return await doubt.pay()

    assert 2 == doubt.live(mode, try_again)
    assert 2 == len(set(doubt.keys))


@pytest.mark.parametrize("mode", MODES)
def test_a_changed_tool(doubt: Rig, mode: Any) -> None:
    """A call that is refused since its tool has changed is refused again, and does not run as another one."""
    doubt.live(mode, doubt.begin)

    async def try_twice() -> None:
        @doubt.registry.tool("pay", owned_by="ann", replace=True)
        async def pay(context: ToolContext, amount: int = 5, note: str = "") -> None:
            """Pay in another way."""
            doubt.keys.append(context.idempotency_key)

        async with doubt.registry.run("r", mode, strict_fingerprint=True):
            for _ in range(2):
                with pytest.raises(ReplayMismatchError):
                    await doubt.pay()

    doubt.registry.close()
    doubt.registry = doubt.start()
    asyncio.run(try_twice())
    assert 1 == len(doubt.keys)
