"""`call` of a tool that needs an approval: what to do is said, and the approved call is made once, by any process."""

# Tests of: cli/repeated_call

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from cli_rig import ENV, App, app  # noqa: F401

BANK = """
from datetime import timedelta
from typing import Annotated
from attrs import field, frozen
from praval_tools import Agent, Secret, ToolCall, ToolRegistry

registry = ToolRegistry(OPTIONS)
Agent("clerk", registry=registry)

@registry.tool("pay", owned_by="clerk", requires_approval=True, approval_reason="it moves money")
def pay(to: str, amount: int = 10) -> str:
    "Pay somebody."
    with open("payments.txt", "a") as file:
        file.write(f"{amount} to {to}\\n")
    return f"{amount} to {to}"

@frozen
class Price:
    cents: int = field(converter=lambda value: value * 100)

@registry.tool("charge", owned_by="clerk", requires_approval=True)
def charge(price: Price) -> int:
    "Charge a price."
    return price.cents

@registry.tool("split", owned_by="clerk", requires_approval=True)
def split(amount: int) -> str:
    "Pay an amount in two."
    half = ToolCall(None, "split", {"amount": amount // 2}, "clerk")
    return str(amount) if amount < 2 else registry.execute(half).for_model()

@registry.tool("sign", owned_by="clerk", requires_approval=True)
def sign(text: str, pin: Annotated[str, Secret]) -> str:
    "Sign a text."
    return f"{text}, signed"
"""


def run(*words: str) -> tuple[int, str, str]:
    """Run a command in a process of its own; return exit code, stdout and stderr."""
    command = [sys.executable, "-m", "praval_tools", *words]
    done = subprocess.run(command, env=ENV, capture_output=True, timeout=60, text=True)
    return done.returncode, done.stdout, done.stderr


def follow(line: str) -> tuple[int, str, str]:
    """Run the command that a line names after its colon."""
    program, *words = shlex.split(line.partition(": ")[2])
    assert "praval-tools" == program
    return run(*words)


def read_payments() -> str:
    """Return what was paid."""
    path = Path("payments.txt")
    return path.read_text() if path.exists() else ""


@pytest.fixture
def bank(app: App) -> tuple[str, str]:
    """The options that name the app, which has no journal of its own."""
    return "--app", f"{app(BANK.replace('OPTIONS', ''))}:registry"


class TestApprovedCall:
    def test_runs_once_with_its_arguments(self, bank: tuple[str, str]) -> None:
        """The lines that are printed, followed to the letter by other processes, approve the call and make it once."""
        code, out, err = run("call", "clerk", "pay", "to=bob o'neill", *bank, "--journal", "work.db")
        assert (3, "") == (code, out)
        said, approve, again = err.splitlines()
        assert "approval_required: Tool 'pay' needs an approval (it moves money) and did not run." == said
        code, _, err = follow(again)
        assert (3, [approve, again], "") == (code, err.splitlines()[1:], read_payments())

        assert 0 == follow(approve)[0]
        assert (0, "10 to bob o'neill\n", "") == follow(again)
        assert "10 to bob o'neill\n" == read_payments()

        code, out, err = follow(again)
        assert (2, "") == (code, out)
        assert "it ran already" in err
        assert "10 to bob o'neill\n" == read_payments()

    def test_with_other_arguments_is_denied(self, bank: tuple[str, str]) -> None:
        """What was approved is these arguments of this agent's call; others neither run nor wait nor use the answer."""
        at = (*bank, "--journal", "work.db")
        first = json.loads(run("call", "clerk", "pay", "to=bob", "--json", *at)[1])
        approve, again = first["commands"]
        assert (f"praval-tools {shlex.join(at)} approvals approve {first['approval_id']}") == approve
        follow(f": {approve}")

        code, _, err = run("call", "clerk", "pay", "to=eve", "--id", first["tool_call_id"], *at)
        assert (3, True) == (code, "was made with other arguments" in err)
        assert (2, "") == run("call", "clerk", "sign", "--id", first["tool_call_id"], *at)[:2]
        assert [] == json.loads(run("approvals", "--json", *at)[1])
        assert "" == read_payments()
        assert (0, "10 to bob\n", "") == run("call", "clerk", "pay", "to=bob", "--id", first["tool_call_id"], *at)

    @pytest.mark.parametrize("answer", ["approve", "deny", ""])
    def test_whose_approval_is_lifted(self, bank: tuple[str, str], answer: str) -> None:
        """Broken promise: once, with its arguments. Where no approval was needed any more, it ran denied, and again."""
        at = (*bank, "--journal", "work.db")
        first = json.loads(run("call", "clerk", "pay", "to=bob", "--json", *at)[1])
        if answer:
            assert 0 == run("approvals", answer, first["approval_id"], *at)[0]
        source = Path(f"{bank[1].partition(':')[0]}.py")
        source.write_text(source.read_text().replace("requires_approval=True", "requires_approval=False"))
        again = ("--id", first["tool_call_id"], *at)

        code, _, err = run("call", "clerk", "pay", "to=eve", *again)
        assert (3, True) == (code, "was made with other arguments" in err)
        codes = [run("call", "clerk", "pay", *again)[0] for _ in range(2)]
        assert {"approve": [0, 2], "deny": [3, 2], "": [3, 3]}[answer] == codes
        assert ("10 to bob\n" if answer == "approve" else "") == read_payments()

    def test_whose_approval_is_lifted_asks_about_none_inside(self, bank: tuple[str, str]) -> None:
        """Calls that its tool makes need what the registry says now, also those of the same tool."""
        at = (*bank, "--journal", "work.db")
        first = json.loads(run("call", "clerk", "split", "amount=3", "--json", *at)[1])
        assert 0 == run("approvals", "approve", first["approval_id"], *at)[0]
        source = Path(f"{bank[1].partition(':')[0]}.py")
        source.write_text(source.read_text().replace("requires_approval=True", "requires_approval=False"))

        assert (0, "1\n") == run("call", "clerk", "split", "--id", first["tool_call_id"], *at)[:2]

    def test_of_a_class_that_makes_other_values(self, bank: tuple[str, str]) -> None:
        """Broken promise: the printed command, which makes a call again, made one with other arguments: denied."""
        at = (*bank, "--journal", "work.db")
        _, approve, again = run("call", "clerk", "charge", '{"price": {"cents": "2"}}', *at)[2].splitlines()
        assert 3 == follow(again)[0]
        assert 0 == follow(approve)[0]
        assert (0, "200\n", "") == follow(again)

    def test_denied(self, bank: tuple[str, str]) -> None:
        """A call that was denied stays denied."""
        at = (*bank, "--journal", "work.db")
        first = json.loads(run("call", "clerk", "pay", "to=bob", "--json", *at)[1])
        run("approvals", "deny", first["approval_id"], "--reason", "too much", *at)

        code, out, err = run("call", "clerk", "pay", "--id", first["tool_call_id"], *at)

        assert (3, "") == (code, out)
        assert "approval_denied: The approval of tool 'pay' was denied: too much.\n" == err
        assert "" == read_payments()

    def test_expired(self, app: App) -> None:
        """An approval that has expired runs nothing, and the call is said to wait no more."""
        source = BANK.replace("OPTIONS", 'journal="work.db"')
        at = ("--app", f"{app(source + 'registry.approvals.lifetime = timedelta(0)')}:registry")
        first = json.loads(run("call", "clerk", "pay", "to=bob", "--json", *at)[1])

        code, _, err = run("call", "clerk", "pay", "--id", first["tool_call_id"], *at)

        assert (2, True, "") == (code, "has expired" in err, read_payments())

    def test_secrets_are_given_again(self, bank: tuple[str, str]) -> None:
        """Arguments with secrets, which no journal keeps, are given again; another secret is not the approved one."""
        at = (*bank, "--journal", "work.db")
        first = json.loads(run("call", "clerk", "sign", "text=yes", "pin=4711-4711", "--json", *at)[1])
        assert first["commands"][1].endswith(f" call clerk sign ARGUMENTS --id {first['tool_call_id']}")
        run("approvals", "approve", first["approval_id"], *at)
        again = ("call", "clerk", "sign", "--id", first["tool_call_id"], *at)

        code, _, err = run(*again)
        assert (2, True) == (code, "give all arguments again" in err)
        assert 3 == run(*again, "text=yes", "pin=4711-4712")[0]
        assert (0, "yes, signed\n", "") == run(*again, "text=yes", "pin=4711-4711")

    def test_needs_a_journal(self, bank: tuple[str, str]) -> None:
        """Without a journal the error names the command that has one; `--id` says that there is none."""
        code, _, err = run("call", "clerk", "pay", "to=bob", *bank)
        assert (3, "") == (code, read_payments())
        said, needed = err.splitlines()
        assert needed.startswith("An approval needs a journal, which keeps the request: praval-tools --app ")
        assert needed.endswith(" --journal praval_tools.db call clerk pay to=bob")
        assert "To approve it" in follow(needed)[2]

        Path("praval_tools.db").rename("other.db")
        code, _, err = run("call", "clerk", "pay", "--id", "1", *bank)
        assert (2, True) == (code, "Name it: --journal PATH" in err)

    def test_in_memory(self, app: App) -> None:
        """A journal in memory keeps nothing for the next command, and the error says so."""
        name = app(BANK.replace("OPTIONS", "journal='memory'"))
        at = ("--app", f"{name}:registry")

        code, _, err = run("call", "clerk", "pay", "to=bob", *at)

        assert (3, True) == (code, "needs a journal in a file, and that of this registry is in memory." in err)
