"""
A process that sends one call that needs an approval: `python approval_driver.py MODE FOLDER RUN [JOURNAL]`.

Modes: `send` it once; `wait` for the answer and send it again; `wait_async` in async code; `loop` in a model's loop.
It prints `asked ID` once it waits, and how it ended. RUN `-` is none.
JOURNAL is a file or a URL; without it, FOLDER/runs.db. Each effect is a line of FOLDER/effects.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import nullcontext
from pathlib import Path

from praval_tools import ToolCall, ToolRegistry
from praval_tools.loop import ToolLoop
from praval_tools.testing import fake_model

CALL = ToolCall("call_0", "pay", {"to": "bob", "amount": 5}, "clerk")


def declare(folder: Path, journal: str | Path) -> ToolRegistry:
    """Return the registry that each of these processes has."""
    registry = ToolRegistry(journal=journal)

    @registry.tool("pay", owned_by="clerk", requires_approval=True)
    def pay(to: str, amount: int) -> str:
        """Pay."""
        with (folder / "effects").open("a") as file:
            file.write(f"{amount} to {to}\n")
        return f"{amount} to {to}"

    return registry


def send_and_wait(registry: ToolRegistry, mode: str) -> str:
    """Send the call, wait for its answer, send it again; return how that ended."""
    result = registry.execute(CALL)
    if mode == "send" or result.approval_id is None:
        return str(result.outcome)
    print("asked", result.approval_id, flush=True)
    wait, wait_async = registry.approvals.wait, registry.approvals.wait_async
    answer = wait("call_0", 60) if mode == "wait" else asyncio.run(wait_async(result.approval_id, 60))
    print("answered by", answer.by if answer is not None else "nobody", flush=True)
    return str(registry.execute(CALL).outcome)


def run_loop(registry: ToolRegistry, run_id: str) -> str:
    """Let a model call the tool, wait for the answer, and go on."""
    loop = ToolLoop(registry.agent("clerk"), fake_model(("pay", dict(CALL.arguments)), "Paid."))
    ended = loop.run("Pay Bob.", run_id)
    print("asked", ended.results[-1].approval_id, flush=True)
    answer = registry.approvals.wait(ended.waiting[0], 60)
    print("answered by", answer.by if answer is not None else "nobody", flush=True)
    return loop.resume(run_id).text


if __name__ == "__main__":
    mode, folder, run_id = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    os.chdir(folder)
    registry = declare(folder, sys.argv[4] if len(sys.argv) > 4 else folder / "runs.db")
    with nullcontext() if run_id == "-" or mode == "loop" else registry.run(run_id):
        print(run_loop(registry, run_id) if mode == "loop" else send_and_wait(registry, mode), flush=True)
