"""
A program whose agent of a framework runs twice in a journaled run, books and mails, and is killed in the middle.

Its arguments: the framework, the journal, the file of effects, and `kill` where it dies inside the second tool.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from framework_contract import ModelCall, script
from framework_list import load_framework

from praval_tools import ToolRegistry


def main(name: str, journal: str, effects: str, how: str) -> None:
    """Run the agent."""
    framework, registry = load_framework(name), ToolRegistry(journal=journal)

    def note(effect: str) -> None:
        with Path(effects).open("a", encoding="utf-8") as file:
            file.write(f"{effect}\n")

    @registry.tool("book", owned_by="clerk")
    def book(number: int) -> str:
        """Book something."""
        note(f"book {number}")
        return f"booked {number}"

    @registry.tool("mail", owned_by="clerk", idempotent=True)
    def mail(to: str) -> str:
        """Send a mail."""
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        note(f"mail {to}")
        return f"mailed {to}"

    first = script([ModelCall("book", {"number": 1}, "call_0"), ModelCall("book", {"number": 2}, "call_1")], "Done.")
    calls = [ModelCall("book", {"number": 1}, "call_0"), ModelCall("book", {"number": 3}, "call_1")]
    second = script(calls, [ModelCall("mail", {"to": "ann"}, "call_0")], [ModelCall("book", {"number": 1})], "Done.")
    with registry, registry.run("order-1"):
        for model in (first, second):  # ids of calls are repeated from one to the other, as models do
            agent = framework.make_agent(framework.make_adapter(registry), "clerk", model)
            outcome = asyncio.run(framework.run(agent))
            print(outcome.text, [answer.text for request in model.requests for answer in request.answers])


if __name__ == "__main__":
    main(*sys.argv[1:])
