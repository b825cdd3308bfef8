"""`approvals`: list what waits, approve and deny it, from another process than the one that asked."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest
from cli_journal_rig import read_events
from cli_rig import ENV, App, Run, app, run  # noqa: F401

BANK = """
import sys
from typing import Annotated
from praval_tools import Agent, Secret, ToolCall, ToolRegistry

registry = ToolRegistry(journal="work.db")
Agent("clerk", registry=registry)

@registry.tool("pay", owned_by="clerk", requires_approval=True, risk_level="high", approval_reason="it moves money")
def pay(to: str, amount: int, pin: Annotated[str, Secret]) -> str:
    "Pay somebody."
    return f"{amount} to {to} with {pin}"

for text in sys.argv[1:]:
    to, amount = text.split("=")
    arguments = {"to": to, "amount": int(amount), "pin": "4711-4711"}
    result = registry.execute(ToolCall("call_0", "pay", arguments, "clerk"))
    print(result.outcome, result.result or "")
registry.close()
"""
SHOP = """
from dataclasses import dataclass, field
from praval_tools import ToolCall, ToolRegistry

registry = ToolRegistry(journal="work.db")

@dataclass
class Order:
    amount: int
    total: int = field(init=False)

    def __post_init__(self) -> None:
        self.total = self.amount * 1000

@registry.tool("pay", owned_by="clerk", requires_approval=True)
def pay(order: Order, note: str = "") -> str:
    "Pay an order."
    return f"{order.total} {note}"

result = registry.execute(ToolCall("call_0", "pay", {"order": {"amount": 1}}, "clerk"))
print(result.outcome, result.result or "")
registry.close()
"""
AT = ("--journal", "work.db")


def send(name: str, *calls: str) -> list[str]:
    """Have a process of its own send calls, and return what it printed of each."""
    done = subprocess.run([sys.executable, f"{name}.py", *calls], env=ENV, capture_output=True, timeout=60, text=True)
    assert done.returncode == 0, done.stderr
    return [line.strip() for line in done.stdout.splitlines()]


class TestApprovals:
    def test_list_and_approve(self, run: Run, app: App) -> None:
        """
        What one process asked is listed without its secrets and approved here; sent again, the call runs once.
        """
        bank = app(BANK)
        assert ["approval_required"] == send(bank, "bob=5")
        for command in (["approvals"], ["approvals", "list"]):
            code, out, err = run(*command, *AT)
            assert (code, err) == (0, "")
            assert all(part in out for part in ("clerk", "pay", '"to": "bob"', "high", "it moves money", "call_0"))
            assert "4711" not in out
        shown = out.splitlines()[1].split()[0]
        (request,) = json.loads(run("approvals", "--json", *AT)[1])
        assert ("clerk", "pay", "bob", 5) == (
            request["agent"], request["tool"], request["arguments"]["to"], request["arguments"]["amount"]
        )  # fmt: skip

        assert shown == request["id"]  # the first word of the second line, for `cut` and people alike

        code, out, err = run("approvals", "approve", request["id"], "--reason", "fine", "--by", "eve", *AT)
        assert (code, out, err) == (0, f"Approved: clerk calls pay, request {request['id']}.\n", "")
        assert (0, "", "No call waits for an approval.\n") == run("approvals", *AT)
        assert ["ok 5 to bob with 4711-4711", "approval_required"] == send(bank, "bob=5", "bob=5")
        (answered,) = [event for event in read_events(run) if event["type"] == "approval_answered"]
        assert ("eve", "fine", request["id"]) == (answered["by"], answered["reason"], answered["approval_id"])

    def test_deny_by_the_id_of_the_call(self, run: Run, app: App) -> None:
        """
        The id of the call will do where one request alone waits under it; with several, all are named.
        """
        bank = app(BANK)
        send(bank, "bob=5")
        code, out, _ = run("approvals", "deny", "call_0", "--reason", "too much", "--json", *AT)
        assert (0, "denied") == (code, json.loads(out)["answer"])
        assert ["approval_denied"] == send(bank, "bob=5")

        send(bank, "bob=5", "bob=6")
        ids = [one["id"] for one in json.loads(run("approvals", "--json", *AT)[1])]
        code, out, err = run("approvals", "approve", "call_0", *AT)
        assert (1, "") == (code, out)
        assert all(one in err for one in ids)

    def test_edit(self, run: Run, app: App) -> None:
        """
        An edit changes what it names and keeps the rest, secrets too; a secret itself is not edited.
        """
        bank = app(BANK)
        send(bank, "bob=5")
        code, _, err = run("approvals", "approve", "call_0", "--edit", '{"pin": "1234"}', *AT)
        assert code == 1
        assert "'pin'" in err
        assert 0 == run("approvals", "approve", "call_0", "--edit", '{"amount": 3}', *AT)[0]
        assert ["ok 3 to bob with 4711-4711"] == send(bank, "bob=5")

    def test_edit_beside_fields_that_a_class_makes(self, run: Run, app: App) -> None:
        """
        Broken promise: an edit of a note refused the call for a field of another argument, which nobody can write.
        """
        shop = app(SHOP)
        send(shop)
        assert 0 == run("approvals", "approve", "call_0", "--edit", '{"note": "checked"}', *AT)[0]
        assert ["ok 1000 checked"] == send(shop)

    @pytest.mark.parametrize(
        ("arguments", "code", "text"),
        [
            (("approve", "nothing"), 2, f"praval-tools {shlex.join(AT)} approvals lists"),
            (("deny", "nothing"), 2, f"praval-tools {shlex.join(AT)} approvals lists"),
            (("approve", "call_0", "--edit", "{"), 2, "not valid JSON"),
            (("approve", "call_0", "--edit", "[1]"), 2, "takes an object"),
            (("approve", "call_0", "--edit", "NaN"), 2, "not valid JSON"),
            (("approve", "call_0", "--edit", '{"amount": 1, "amount": 2}'), 2, "'amount' twice"),
            (("aprove", "call_0"), 2, "approve"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
    )
    def test_wrong_usage(self, run: Run, app: App, arguments: tuple[str, ...], code: int, text: str) -> None:
        """
        What cannot be answered says why and what to do, and leaves the request as it is.
        """
        send(app(BANK), "bob=5")
        ended, out, err = run("approvals", *arguments, *AT)
        assert (code, "") == (ended, out)
        assert text in err
        assert 1 == len(json.loads(run("approvals", "--json", *AT)[1]))

    def test_answered_twice(self, run: Run, app: App) -> None:
        """
        The first answer stands.
        """
        send(app(BANK), "bob=5")
        run("approvals", "deny", "call_0", "--by", "eve", *AT)
        code, out, err = run("approvals", "approve", "call_0", *AT)
        assert (1, "") == (code, out)
        assert "answered already, by eve" in err

    def test_hostile_texts(self, run: Run, app: App) -> None:
        """
        Arguments come from models: what they print is safe for a terminal.
        """
        send(app(BANK), "\x1b[31mbob=5")
        assert "\x1b" not in run("approvals", *AT)[1] + run("approvals", "--json", *AT)[1]
