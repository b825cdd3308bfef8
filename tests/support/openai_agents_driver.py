"""
A program whose agent pays, which needs approval; it stores the state of its run, and another process resumes it.

Its arguments: the journal, the file of the state, the file of payments, and `pause` or `resume`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agents import Runner, RunState
from framework_contract import ModelCall, script
from framework_openai_agents import RUN_CONFIG, make_model

from praval_tools import ToolRegistry
from praval_tools.integrations.openai_agents import RegistryAgent


async def main(journal: str, state: str, payments: str, how: str) -> None:
    """Run the agent until it waits, or resume it."""
    registry = ToolRegistry(journal=journal)

    @registry.tool("pay", owned_by="clerk", requires_approval=True)
    def pay(to: str) -> str:
        """Pay somebody."""
        with Path(payments).open("a", encoding="utf-8") as file:
            file.write(f"{to}\n")
        return f"paid {to}"

    replies = script([ModelCall("pay", {"to": "bob"})], "Done.") if how == "pause" else script("Done.")
    agent = RegistryAgent(name="clerk", model=make_model(replies), registry=registry)
    with registry:
        if how == "pause":
            paused = await Runner.run(agent, "Pay bob.", run_config=RUN_CONFIG)
            Path(state).write_text(paused.to_state().to_string(), encoding="utf-8")
            return
        restored = await RunState.from_string(agent, Path(state).read_text(encoding="utf-8"))
        for item in restored.get_interruptions():
            restored.approve(item)
        await Runner.run(agent, restored, run_config=RUN_CONFIG)
        print([answer.text for answer in replies.requests[0].answers])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
