# Tests of: execution/replay_order, journal/replay_turns, journal/equal_calls, runs/calling_tasks, runs/open_run
"""Workers beside each other, which all ask for the next order, ship no order twice, whatever their run waits for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from praval_tools import Allow, ToolRegistry

SHOP = """
import asyncio, os, sys
from contextlib import suppress
from pathlib import Path
from praval_tools import (
    ToolApprovalError, ToolExecutionError, ToolInDoubtError, ToolRegistry, current_call
)

folder, case, life = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])

def read(name):
    return (folder / name).read_text().splitlines() if (folder / name).exists() else []

def add(name, line):
    with (folder / name).open("a") as file:
        print(line, file=file)

with ToolRegistry(journal=folder / "shop.db") as registry:
    clerk = registry.agent("clerk")

    @registry.tool(shared=True)
    async def next_order(place: str) -> int:
        'Take the next order.'
        if case == "resolved" and life == 1 and len(read("orders")) == 2:
            os._exit(9)
        add("orders", current_call().tool_call_id)
        return len(read("orders"))

    @registry.tool(shared=True)
    async def ship(worker: str, order: int) -> str:
        'Ship an order.'
        if case == "again" and order in (3, 6):
            raise ValueError("no such order")
        add("shipped", order)
        if case == "doubtful" and order % 3 == 1:
            raise ToolInDoubtError("the line broke")
        if case == "resolved" and life == 1 and worker == "bob":
            await asyncio.Event().wait()
        if (case, life, order) == ("resolved", 2, 4):
            os._exit(9)
        return "shipped"

    async def work(worker, place=""):
        while (order := await clerk.acall("next_order", place=place)) < 10:
            with suppress(ToolInDoubtError):
                call = clerk.acall("ship", worker=worker, order=order)
                await (asyncio.wait_for(call, 60) if case == "doubtful" else call)

    @registry.tool(shared=True, idempotent=True)
    async def run_depot(place: str) -> None:
        'Ship all orders.'
        await asyncio.gather(*(work(worker + place, place) for worker in ("ann", "bob", "cid")))
        if life == 1 and place != "north":
            await others_have_ended.wait()
            os._exit(9)

    @registry.tool(shared=True)
    async def look_up(text: str) -> str:
        'Look up.'
        await asyncio.sleep(0.05)
        return text

    @registry.tool(shared=True, requires_approval=case in ("approval", "note"))
    async def announce() -> str:
        'Announce a sale.'
        if case == "doubt" and life == 1:
            os._exit(9)
        if case == "cancelled":
            await asyncio.Event().wait()
        return "announced"

    async def announce_and_work(worker):
        try:
            await asyncio.wait_for(clerk.acall("announce"), 0.1 if case == "cancelled" else None)
            if case == "note":
                await clerk.acall("look_up", text="announced")
        except (ToolApprovalError, ToolInDoubtError, ToolExecutionError, TimeoutError):
            pass
        await work(worker)

    async def run_before(call):
        await call
        others_have_ended.set()

    others_have_ended = asyncio.Event()

    async def main():
        async with registry.run("r") as run:
            for call in run.in_doubt:
                has_run = call.tool_name == "ship" or call.tool_call_id in read("orders")
                if call.tool_name in ("ship", "next_order"):
                    run.resolve(call, **({"result": "shipped"} if has_run else {"rerun": True}))
            if case == "inside":
                other = run_before(clerk.acall("look_up", text="x"))
                await asyncio.gather(clerk.acall("run_depot", place=""), other)
            elif case == "beside":
                other = run_before(clerk.acall("run_depot", place="north"))
                await asyncio.gather(clerk.acall("run_depot", place="south"), other)
            elif case == "again":
                for _ in range(3):
                    with suppress(ExceptionGroup):
                        async with asyncio.TaskGroup() as group:
                            for worker in ("ann", "bob", "cid"):
                                group.create_task(work(worker))
                        break
            else:
                await asyncio.gather(announce_and_work("ann"), work("bob"))

    asyncio.run(main())
"""


def settle(journal: Path) -> None:
    """Say yes to what waits for an approval, and what became of what is in doubt, as a person does between lives."""
    with ToolRegistry(journal=journal) as registry:
        for request in registry.approvals.pending():
            registry.approvals.answer(request.id, Allow(by="eve"))
        assert registry.journal is not None
        for call in registry.journal.calls("r"):
            if call.in_doubt and call.tool_name in ("announce", "ship"):
                registry.journal.resolve("r", call.tool_call_id, result="done")


@pytest.mark.parametrize(
    ("case", "exit_codes"),
    [
        pytest.param("resolved", [9, 9, 0], id="a new result came first, and last in the next life"),
        pytest.param("approval", [0, 0, 0], id="a call was approved after its caller had gone on"),
        pytest.param("note", [0, 0, 0], id="a call is new since another one was approved"),
        pytest.param("doubtful", [0, 0, 0], id="calls with a deadline were resolved after their callers had gone on"),
        pytest.param("again", [0, 0, 0], id="workers are tried again where one of them failed"),
        pytest.param("doubt", [9, 0, 0, 0], id="a call was resolved after its caller had gone on"),
        pytest.param("cancelled", [0, 0, 0], id="a caller went on when its time was over"),
        pytest.param("inside", [9, 0, 0], id="the workers of a tool begin later than its caller's other calls"),
        pytest.param("beside", [9, 0, 0], id="two tools with workers run beside each other"),
    ],
)
def test_no_order_is_shipped_twice(case: str, exit_codes: list[int], tmp_path: Path) -> None:
    """Broken promise: a worker got the order of another one from the journal, and shipped it again."""
    command, codes = [sys.executable, "-c", SHOP, str(tmp_path), case], list[int]()
    for number in range(1, len(exit_codes) + 1):
        codes.append(subprocess.run([*command, str(number)], timeout=60, check=False).returncode)
        if number == len(exit_codes) - 2 + (case in ("approval", "cancelled", "note", "doubtful")):
            settle(tmp_path / "shop.db")

    assert exit_codes == codes
    shipped = (tmp_path / "shipped").read_text().splitlines()
    assert sorted(set(shipped)) == sorted(shipped)
    assert 7 <= len(shipped)


STANDSTILL = """
import asyncio, sys
from praval_tools import Allow, ToolApprovalError, ToolRegistry

life = int(sys.argv[2])
with ToolRegistry(journal=sys.argv[1]) as registry:
    clerk, lock, has_read = registry.agent("clerk"), asyncio.Lock(), asyncio.Event()

    @registry.tool(shared=True)
    async def read(page: int) -> int:
        'Read a page.'
        return page

    @registry.tool(shared=True, requires_approval=True)
    async def publish() -> str:
        'Publish.'
        await has_read.wait()
        async with lock:
            return "published"

    async def ask(request):
        await clerk.acall("read", page=100 + life)
        return Allow()

    async def publish_it():
        try:
            print(await clerk.acall("publish"))
        except ToolApprovalError:
            print("waits")
        await clerk.acall("read", page=1)

    async def read_pages():
        async with lock:
            for page in range(5):
                await asyncio.wait_for(clerk.acall("read", page=page), 5)
        has_read.set()

    async def main():
        async with registry.run("r"):
            await asyncio.gather(publish_it(), read_pages())

    if life > 1:
        registry.set_approval_handler(ask)
    asyncio.run(main())
"""


def test_no_result_waits_for_a_call_that_needs_its_caller(tmp_path: Path) -> None:
    """Broken promise: recorded results, and new ones, waited for an approved call, which waited for their callers."""
    command = [sys.executable, "-c", STANDSTILL, str(tmp_path / "j.db")]
    lives = [subprocess.run([*command, life], timeout=60, check=False, capture_output=True, text=True) for life in "12"]

    assert [(0, "waits\n"), (0, "published\n")] == [(life.returncode, life.stdout) for life in lives], lives
