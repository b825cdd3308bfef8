# Tests of: execution/replay_order, journal/replay_turns, runs/open_run
"""Workers beside each other, which all ask for the next order, ship no order twice, whatever their run waits for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from praval_tools import Allow, ToolRegistry

SHOP = """
import asyncio, os, sys
from pathlib import Path
from praval_tools import (
    ToolApprovalError, ToolExecutionError, ToolInDoubtError, ToolRegistry, current_call, current_agent
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
        add("shipped", order)
        if case == "resolved" and life == 1 and worker == "bob":
            await asyncio.Event().wait()
        if (case, life, order) == ("resolved", 2, 4):
            os._exit(9)
        return "shipped"

    async def work(worker, place=""):
        while (order := await clerk.acall("next_order", place=place)) < 8:
            await clerk.acall("ship", worker=worker, order=order)

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

    @registry.tool(shared=True, requires_approval=case == "approval")
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
            if call.in_doubt and call.tool_name == "announce":
                registry.journal.resolve("r", call.tool_call_id, result="announced")


@pytest.mark.parametrize(
    ("case", "exit_codes"),
    [
        pytest.param("resolved", [9, 9, 0], id="a new result came first, and last in the next life"),
        pytest.param("approval", [0, 0, 0], id="a call was approved after its caller had gone on"),
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
        if number == len(exit_codes) - 2 + (case in ("approval", "cancelled")):
            settle(tmp_path / "shop.db")

    assert exit_codes == codes
    shipped = (tmp_path / "shipped").read_text().splitlines()
    assert sorted(set(shipped)) == sorted(shipped)
    assert {"1", "2", "3", "4", "5", "6", "7"} == set(shipped)
