"""An approval that another process gave is for the tool as it was, outside of runs as well."""

# Tests of: approvals

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli_rig import ENV, App, Run, app, run  # noqa: F401

PAY = """
import sys
from praval_tools import ToolCall, ToolRegistry

registry = ToolRegistry(journal="work.db")

@registry.tool("pay", owned_by="clerk", requires_approval=True)
def pay({parameters}) -> str:
    "{description}"
    return f"paid {{amount}}"

result = registry.execute(ToolCall("call_0", "pay", {{"amount": 5}}, "clerk"))
print(result.outcome, result.result or "")
registry.close()
"""


def send(name: str) -> str:
    """Have a process of its own send the call, and return what it printed."""
    done = subprocess.run([sys.executable, f"{name}.py"], env=ENV, capture_output=True, timeout=60, text=True)
    assert 0 == done.returncode, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("parameters", "description", "said"),
    [
        ("amount: int", "Pay.", "ok paid 5"),
        ("amount: float", "Pay.", "approval_required"),
        ("amount: int, to: str = 'ann'", "Pay.", "approval_required"),
        ("amount: int", "Pay at once.", "approval_required"),
    ],
    ids=["the same", "another type", "another parameter", "another description"],
)
def test_does_not_count_for_another_version(run: Run, app: App, parameters: str, description: str, said: str) -> None:
    """The next release asks again, where its tool is not what was approved."""
    name = app(PAY.format(parameters="amount: int", description="Pay."))
    assert "approval_required" == send(name)
    assert 0 == run("approvals", "approve", "call_0", "--journal", "work.db")[0]
    Path(f"{name}.py").write_text(PAY.format(parameters=parameters, description=description), encoding="utf-8")

    assert said == send(name)
