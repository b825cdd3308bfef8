# Tests of: runs/recorder, journal/replay, execution/batch_turns
"""Equal calls that are made at once: each finds its own record again, in whatever order they were answered."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from itertools import count, cycle
from pathlib import Path
from typing import Any, Literal

import pytest

from praval_tools import Allow, ApprovalRequest, Deny, ToolCall, ToolRegistry
from praval_tools.journal import RecordedCall

Match = Literal["content", "id", "position"]
MATCHES: list[Match] = ["content", "id", "position"]

SHOP = '''
import asyncio, os, sys
from praval_tools import Allow, ApprovalRequest, Deny, ToolCall, ToolRegistry

path, match, life, ids = sys.argv[1:]
with ToolRegistry(journal=path) as registry:
    @registry.tool("pay", owned_by="ann", requires_approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        print("paid", flush=True)
        return "receipt"

    @registry.tool("ship", owned_by="ann")
    async def ship(order: str) -> str:
        """Ship."""
        print(f"shipped {order}", flush=True)
        return order

    asked = []

    async def answer(request: ApprovalRequest):
        asked.append(request)
        if len(asked) > 1 or life == "last":
            return Deny("once is enough") if life == "last" else Allow()
        await asyncio.Event().wait()

    registry.set_approval_handler(answer)

    async def order(name):
        ann = registry.agent("ann")
        call = {"tool_call_id": f"call-{name}"} if ids == "ids" else {}
        paid = await ann.aexecute(ToolCall(**call, name="pay", arguments={"amount": 1}))
        if paid.result is None:
            print(f"{name}: {paid.outcome.value}", flush=True)
            return
        await ann.acall("ship", order=name)
        if life != "last":
            os._exit(9)

    async def main():
        async with registry.run("orders", match=match):
            await asyncio.gather(order("first"), order("second"))

    asyncio.run(main())
'''


def run_shop(journal: Path, match: Match, life: str, ids: str = "") -> tuple[list[str], int]:
    """Run one life of the shop; return what it did, and its exit code."""
    command = [sys.executable, "-c", SHOP, str(journal), match, life, ids]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, 9), done.stderr
    return done.stdout.splitlines(), done.returncode


def read_calls(registry: ToolRegistry) -> list[RecordedCall]:
    """Return the calls of the run, as the journal has them."""
    assert registry.journal is not None
    return registry.journal.calls("r")


def open_registry(journal: Path, answers: list[Allow | Deny]) -> ToolRegistry:
    """Return a registry whose handler answers the first request last."""
    registry, received = ToolRegistry(journal=journal), list[str]()
    first_may_go_on = asyncio.Event()

    @registry.tool("pay", owned_by="ann", requires_approval=True)
    async def pay(amount: int) -> int:
        """Pay."""
        return len(received)

    @registry.tool("look", owned_by="ann")
    async def look() -> str:
        """Look."""
        return "seen"

    async def answer(request: ApprovalRequest) -> Allow | Deny:
        received.append(request.id)
        number = len(received)
        if number == 1:
            await first_may_go_on.wait()
        else:
            first_may_go_on.set()
        return answers[number - 1]

    registry.set_approval_handler(answer)
    return registry


class TestApprovals:
    """Approval handlers answer in another order than they are asked."""

    @pytest.mark.parametrize("match", MATCHES)
    @pytest.mark.parametrize("answers", [[Deny("no"), Allow()], [Allow(), Allow()], [Allow(), Deny("no")]])
    def test_each_call_has_its_own_result_again(
        self, match: Match, answers: list[Allow | Deny], tmp_path: Path
    ) -> None:
        """A replay exchanges nothing between equal calls, and asks nobody again."""

        async def pay_twice(registry: ToolRegistry) -> list[Any]:
            ann = registry.agent("ann")
            async with registry.run("r", match=match):
                calls = [ann.aexecute(ToolCall(name="pay", arguments={"amount": 1})) for _ in range(2)]
                return [(one.outcome, one.result) for one in await asyncio.gather(*calls)]

        with open_registry(tmp_path / "j.db", answers) as registry:
            before = asyncio.run(pay_twice(registry))
        with open_registry(tmp_path / "j.db", []) as registry:
            assert before == asyncio.run(pay_twice(registry))

    def test_calls_keep_their_positions(self, tmp_path: Path) -> None:
        """By position, a call that was approved late is still the one that was made first."""

        async def pay_and_look(registry: ToolRegistry) -> list[str]:
            async with registry.run("r", match="position") as run:
                ann = registry.agent("ann")
                await asyncio.gather(ann.acall("pay", amount=1), ann.acall("pay", amount=2), ann.acall("look"))
                return [call.tool_name for call in run.calls]

        with open_registry(tmp_path / "j.db", [Allow(), Allow()]) as registry:
            names = [asyncio.run(pay_and_look(registry))]
        with open_registry(tmp_path / "j.db", []) as registry:
            names += [asyncio.run(pay_and_look(registry)), [one.tool_name for one in read_calls(registry)]]

        assert [["pay", "pay", "look"]] * 3 == names

    @pytest.mark.parametrize(("match", "ids"), [("content", ""), ("content", "ids"), ("position", "")])
    def test_a_call_that_was_asked_about_keeps_its_place(self, match: Match, ids: str, tmp_path: Path) -> None:
        """The process ends while a person looks at the first of two equal calls, and the second has run."""
        journal = tmp_path / "j.db"

        assert (["paid", "shipped second"], 9) == run_shop(journal, match, "first", ids)
        assert (["first: approval_denied"], 0) == run_shop(journal, match, "last", ids)
        assert (["first: approval_denied"], 0) == run_shop(journal, match, "last", ids)


ASK = '''
import os, sys
from praval_tools import ToolCall, ToolRegistry

path, match, amount = sys.argv[1:]
with ToolRegistry(journal=path) as registry:
    @registry.tool("pay", owned_by="ann", requires_approval=True)
    def pay(amount: int) -> int:
        """Pay."""
        return amount

    registry.set_approval_handler(lambda request: os._exit(9))
    with registry.run("r", match=match):
        registry.execute(ToolCall("call-1", "pay", {"amount": int(amount)}, "ann"))
'''


@pytest.mark.parametrize("match", MATCHES)
def test_a_call_that_was_only_asked_about_binds_nothing(match: Match, tmp_path: Path) -> None:
    """Its id and its place are free for another call, and the run has no call of it."""
    command = [sys.executable, "-c", ASK, str(tmp_path / "j.db"), match, "1"]
    assert 9 == subprocess.run(command, capture_output=True, timeout=60, check=False).returncode

    with ToolRegistry(journal=tmp_path / "j.db") as registry:

        @registry.tool("pay", owned_by="ann", requires_approval=True)
        def pay(amount: int) -> int:
            """Pay."""
            return amount

        registry.set_approval_handler(lambda request: Allow())
        assert [] == read_calls(registry)
        with registry.run("r", match=match) as run:
            assert [] == run.calls == run.unused
            results = [
                registry.execute(ToolCall("call-1", "pay", {"amount": amount}, "ann")).result for amount in (2, 2)
            ]
            assert ["call-1"] == [call.tool_call_id for call in run.calls]

    assert [2, 2] == results


DOUBT = """
import os, sys
from praval_tools import ToolCall, ToolRegistry

path, ids, life = sys.argv[1:]
with ToolRegistry(journal=path) as registry:
    @registry.tool("pay", owned_by="ann")
    def pay() -> str:
        'Pay.'
        if life == "first":
            os._exit(9)
        return "paid"

    calls = [ToolCall(f"pay-{name}" if ids else None, "pay", {}, "ann") for name in "abc"]
    for number in range(2 if life == "last" else 1):
        with registry.run("r") as run:
            results = [registry.execute(call) for call in calls]
            print(*(one.outcome for one in results), len(run.calls))
            for doubtful in run.in_doubt:
                run.resolve(doubtful, result="a receipt")
            print(*(registry.execute(call).result for call in calls if ids))
"""


def test_an_equal_call_of_another_id_is_not_in_doubt(tmp_path: Path) -> None:
    """It runs, and has its own result, also after a person said what became of the other one."""
    command = [sys.executable, "-c", DOUBT, str(tmp_path / "j.db"), "ids"]
    assert 9 == subprocess.run([*command, "first"], capture_output=True, timeout=60, check=False).returncode
    done = subprocess.run([*command, "last"], capture_output=True, text=True, timeout=60, check=False)

    assert ["in_doubt ok ok 3", "a receipt paid paid", "ok ok ok 3", "a receipt paid paid"] == done.stdout.splitlines()


JUDGE = """
import os, sys, threading
from praval_tools import ToolCall, ToolRegistry

path, life = sys.argv[1:]
with ToolRegistry(journal=path) as registry:
    has_run = threading.Event()

    def look(agent, tool, arguments):
        if arguments["number"] == 1 and life == "first":
            has_run.wait(0.5)
            os._exit(9)

    registry.add_policy(look)

    @registry.tool("pay", owned_by="ann")
    def pay(number: int) -> int:
        'Pay.'
        has_run.set()
        return number

    calls = [ToolCall(None, "pay", {"number": number}, "ann") for number in (1, 2)]
    with registry.run("r", match="position") as run:
        print(*(f"{one.outcome} {one.result}" for one in registry.execute_batch(calls)))
"""


Step = Literal["call", "deadline", "task", "batch", "inside"]
STEPS: list[Step] = ["call", "deadline", "task", "batch", "inside"]


async def work(agent: Any, name: str, steps: list[Step], got: list[tuple[str, Any]]) -> None:
    """Take tickets, one after another, in several ways."""
    for step in steps:
        if step == "batch":
            results = await agent.aexecute_batch([ToolCall(None, "ticket")] * 3, max_parallel=2)
            got.append((name, [result.result for result in results]))
        elif step == "deadline":
            got.append((name, await asyncio.wait_for(agent.acall("ticket"), 60)))
        elif step == "task":
            got.append((name, await asyncio.create_task(agent.acall("ticket"))))
        else:
            got.append((name, await agent.acall("ticket" if step == "call" else "two_tickets")))


@pytest.mark.parametrize(
    ("workers", "durations"),
    [
        ([["call"] * 3] * 3, [0]),
        ([["call"] * 4, ["call"] * 4], [4, 0, 1, 2, 0]),
        ([["deadline", "task"] * 2] * 2, [2, 0, 3, 1]),
        ([["inside", "batch"]] * 2, [1, 3, 0, 5, 2]),
    ],
    ids=["quick", "slow and quick", "by way of tasks", "several at once"],
)
def test_workers_beside_each_other_find_their_own_calls_again(
    workers: list[list[Step]], durations: list[int], tmp_path: Path
) -> None:
    """Broken promise: a worker that came to its calls sooner than in the first life had those of the others."""
    lives, times, numbers = list[list[tuple[str, Any]]](), cycle(durations), count()
    with ToolRegistry(journal=tmp_path / "tickets.db") as registry:

        @registry.tool("ticket", shared=True)
        async def ticket() -> int:
            """Take the next number."""
            number = next(numbers)
            for _ in range(next(times)):  # as long as a thread takes
                await asyncio.to_thread(int)
            return number

        @registry.tool("two_tickets", shared=True)
        async def two_tickets() -> list[int]:
            """Take two numbers."""
            agent = registry.agent("ann")
            return list(await asyncio.gather(agent.acall("ticket"), agent.acall("ticket")))

        async def live() -> None:
            agent, got = registry.agent("ann"), list[tuple[str, Any]]()
            async with registry.run("r"):
                await asyncio.gather(*(work(agent, str(name), steps, got) for name, steps in enumerate(workers)))
            lives.append(sorted(got, key=lambda item: item[0]))

        asyncio.run(live())
        made = next(numbers)
        asyncio.run(live())
        assert lives[0] == lives[1]
        assert made + 1 == next(numbers)


@pytest.mark.parametrize("call_id", [None, "c"])
def test_a_caller_that_leaves_before_its_recorded_result_comes(call_id: str | None, tmp_path: Path) -> None:
    """Equal calls keep their own results; that of the call is there for the one that comes last."""
    numbers = count()

    def open_numbered_registry() -> ToolRegistry:
        registry = ToolRegistry(journal=tmp_path / "left.db")

        @registry.tool("ticket", shared=True)
        async def ticket() -> int:
            """Take the next number."""
            return next(numbers)

        return registry

    async def take(registry: ToolRegistry, given: str | None = None) -> Any:
        return (await registry.agent("ann").aexecute(ToolCall(given, "ticket"))).result

    async def live(registry: ToolRegistry) -> list[Any]:
        async with registry.run("r"):
            return [*await asyncio.gather(take(registry, call_id), take(registry)), await take(registry)]

    async def leave(registry: ToolRegistry) -> list[Any]:
        async with registry.run("r"):
            first = asyncio.create_task(take(registry, call_id))
            await asyncio.sleep(0)
            first.cancel()
            return [*[await take(registry) for _ in range(2)], await take(registry, call_id)]

    with open_numbered_registry() as registry:
        assert [0, 1, 2] == asyncio.run(live(registry))
    with open_numbered_registry() as registry:
        assert [2, 1, 0] == asyncio.run(leave(registry))


class TestBatches:
    """Batches in threads."""

    @pytest.mark.parametrize("match", MATCHES)
    @pytest.mark.parametrize("is_approved", [False, True])
    def test_equal_calls_have_their_own_results_again(self, match: Match, is_approved: bool, tmp_path: Path) -> None:
        """In whatever order the threads run them."""
        results = list[list[object]]()
        for _ in range(3):
            with ToolRegistry(journal=tmp_path / "j.db") as registry:
                numbers = iter(range(100))

                @registry.tool("draw", owned_by="ann", requires_approval=is_approved)
                def draw() -> int:
                    """Draw a number."""
                    return next(numbers)  # called while the registry is open

                registry.set_approval_handler(lambda request: Allow())
                with registry.run("r", match=match):
                    calls = [ToolCall(name="draw") for _ in range(12)]
                    results.append([one.result for one in registry.agent("ann").execute_batch(calls)])

        assert sorted(results[0], key=str) == sorted(range(12), key=str)
        assert results[0] == results[1] == results[2]

    def test_a_call_that_is_judged_keeps_its_place(self, tmp_path: Path) -> None:
        """No call after it has begun when the process ends while a slow policy looks at it."""
        command = [sys.executable, "-c", JUDGE, str(tmp_path / "j.db")]
        assert 9 == subprocess.run([*command, "first"], capture_output=True, timeout=60, check=False).returncode
        done = subprocess.run([*command, "last"], capture_output=True, text=True, timeout=60, check=False)

        assert "ok 1 ok 2" == done.stdout.strip(), done.stderr

    def test_calls_of_no_run_do_not_wait_for_each_other(self, tmp_path: Path) -> None:
        """While another run is open, calls outside of it that need each other go on."""
        barrier = threading.Barrier(3)
        with ToolRegistry(journal=tmp_path / "j.db") as registry:

            @registry.tool("meet", owned_by="ann")
            def meet() -> int:
                """Wait for the others."""
                return barrier.wait(30)

            with registry.run("r"):
                inside = registry.agent("ann").execute_batch([ToolCall(name="meet") for _ in range(3)])
                outside = list[object]()

                def run_batch() -> None:
                    calls = [ToolCall(name="meet") for _ in range(3)]
                    outside.extend(one.result for one in registry.agent("ann").execute_batch(calls))

                thread = threading.Thread(target=run_batch)
                thread.start()
                thread.join()

        assert [0, 1, 2] == sorted(one.result for one in inside) == sorted(outside, key=str)
