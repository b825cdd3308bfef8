"""What the tests of the commands on a journal share: an app that works and crashes, and a journal of any length."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from cli_rig import ENV, App, Run, app, run  # noqa: F401

from praval_tools.journal import Item, Record, open_store

WORK = """
import os, sys
from praval_tools import Agent, ToolCall, ToolRegistry

registry = ToolRegistry(journal="work.db")
clerk = Agent("clerk", registry=registry)

@registry.tool("pay", owned_by="clerk")
def pay(to: str) -> str:
    "Pay somebody."
    if os.environ.get("CRASH") == to:
        os._exit(9)
    return f"paid {to}"

@registry.tool("look", owned_by="clerk", idempotent=True)
def look(name: str) -> str:
    "Look somebody up."
    if os.environ.get("CRASH") == name:
        os._exit(9)
    if name == "nobody":
        raise ValueError("[red]no \\x1b[31m such")
    return name.upper()

@registry.tool("both", owned_by="clerk")
def both(name: str) -> str:
    "Look, then pay."
    return clerk.call("pay", to=clerk.call("look", name=name))

def work(run):
    with registry.run(run):
        for tool, arguments in (
            ("both", {"name": "ann"}), ("look", {"name": "nobody"}), ("\\x1b[31mevil[red]", {}),
            ("look", {"name": "last"}), ("pay", {"to": "last"}),
        ):
            clerk.execute(ToolCall(name=tool, arguments=arguments))

if __name__ == "__main__":
    work(sys.argv[1])
"""


JOURNAL = ("--journal", "work.db")


def run_app(app: App, run_id: str, crash: str = "") -> str:
    """Have a process of its own do its work in a run, and be killed at the call that *crash* says; returns the app."""
    name = app(WORK)
    env = {**ENV, "CRASH": crash}
    done = subprocess.run([sys.executable, f"{name}.py", run_id], env=env, capture_output=True, timeout=60)
    assert done.returncode == (9 if crash else 0), done.stderr
    return name


def list_calls_in_doubt(run: Run, run_id: str) -> list[str]:
    """Return the ids of the calls of a run that are in doubt."""
    calls = json.loads(run("runs", "show", run_id, "--json", *JOURNAL)[1])["calls"]
    return [one["tool_call_id"] for one in calls if one["in_doubt"]]


def read_events(run: Run, *options: str) -> list[dict[str, object]]:
    """Return what `audit --json` prints."""
    code, out, err = run("audit", "--json", *JOURNAL, *options)
    assert code == 0, err
    return [json.loads(one) for one in out.splitlines()]


def fill_journal(path: str, count: int, size: int = 10) -> None:
    """Write so many results into a journal, one a second from the beginning of 2026, each of so many bytes more."""
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def items() -> Iterator[Item]:
        for number in range(count):
            when = start + timedelta(seconds=number)
            body = {
                "v": 1, "type": "agent_tool_result", "id": f"e{number}", "time": when.isoformat(), "process": "p",
                "tool_call_id": f"c{number}", "tool_name": "look", "agent": "clerk", "outcome": "ok",
                "result": "x" * size, "error": None, "latency_ms": float(number % 100),
            }  # fmt: skip
            yield Item((
                Record(
                    type="agent_tool_result", body=json.dumps(body).encode(), id=f"e{number}", time=when, process="p",
                    call_id=f"c{number}", agent="clerk", tool="look", attempt=1,
                ),
            ))  # fmt: skip

    store = open_store(path)
    store.append(list(items()))
    store.close()
