"""Commands that change access do what the library does, also where a part of it is done already, or waits."""

# Tests of: change_command, grants, grant_listing, tool_state

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_rig import BANK, Run, run  # noqa: F401
from state_rig import grew

from praval_tools import Outcome, ToolCall, ToolRegistry

JOURNAL = ("--journal", "g.db")
OTHER = BANK.replace('"quote", category', '"quote", risk_level="high", category')
"""A release that says something else of the safety of `quote`: what was given of it waits."""
GONE = BANK.replace('@tool("quote"', '@tool("price"')

Change = Callable[..., tuple[int, str, str]]


@pytest.fixture
def change(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Change:
    """Return a function that runs a command on a release of the app."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # releases of one size, written within a second

    def run_on(source: str, command: str) -> tuple[int, str, str]:
        Path("app_bank.py").write_text(source)
        return run(*command.split(), "--app", "app_bank:registry", *JOURNAL)

    return run_on


def count_events() -> int:
    """Return how many events the journal has."""
    with ToolRegistry(journal="g.db") as registry:
        return grew(registry)


class TestWhatWaits:
    def test_unshare(self, change: Change) -> None:
        """Broken promise: `unshare` did nothing where the sharing waited, and the release before was shared."""
        change(BANK, "share quote")
        code, out, _ = change(OTHER, "unshare quote")

        assert (code, out) == (0, "Ended the sharing of quote that waited.\n")
        assert change(OTHER, "unshare quote")[1] == "quote is not shared.\n"
        assert change(BANK, "why treasurer quote")[0] == 3

    @pytest.mark.parametrize("source", [OTHER, GONE], ids=["changed", "gone"])
    def test_unassign(self, change: Change, source: str) -> None:
        """Broken promise: `unassign` did nothing where the grant waited, and the release before had it."""
        change(BANK, "unassign quote intern")
        change(BANK, "assign quote intern")
        assert change(source, "unassign quote intern")[0] == 0

        assert change(source, "unassign quote intern")[1] == "quote was already taken from intern.\n"
        assert change(BANK, "why intern quote")[0] == 3

    def test_unassign_of_a_tool_that_is_gone(self, change: Change) -> None:
        """Broken promise: where nothing but a grant that waits is recorded of a tool, `unassign` did not know it."""
        change(BANK, "assign quote treasurer")

        assert change(GONE, "unassign quote treasurer")[0] == 0
        assert change(BANK, "why treasurer quote")[0] == 3

    def test_unassign_of_a_tool_that_comes_later(self, change: Change) -> None:
        """Broken promise: `unassign` did not know a tool that the agent lists and that is not there yet."""
        assert change(GONE, "unassign quote intern")[0] == 0
        assert change(BANK, "why intern quote")[0] == 3

    def test_revoke(self, change: Change) -> None:
        """Broken promise: `revoke` did not know a grant that waits, though `check` says to revoke it."""
        change(BANK, "assign quote treasurer")
        grant = json.loads(change(BANK, "grants --json")[1])[0]["id"]

        assert change(OTHER, f"revoke {grant}")[:2] == (0, "Revoked the grant of quote to treasurer.\n")
        assert change(OTHER, f"revoke {grant}")[1] == f"The grant {grant} had ended before.\n"
        assert change(BANK, "why treasurer quote")[0] == 3

    def test_assign_with_a_key_that_has_ended(self, change: Change) -> None:
        """Broken promise: where its bounds do not fit the tool any more, `assign` said that there is no grant."""
        change(BANK, """assign quote treasurer --key k --where {"symbol":{"enum":["a"]}}""")
        change(BANK, "unassign quote treasurer")
        code, _, err = change(BANK.replace("symbol", "ticker"), "assign quote treasurer --key k")

        assert code == 3
        assert err.startswith("Error: The grant with key 'k' has ended.")


def test_unassign_where_only_a_block_is_left(change: Change) -> None:
    """Of a tool that is gone nothing is taken, and that is said."""
    change(BANK, "block quote treasurer")
    written = count_events()

    assert change(GONE, "unassign quote treasurer")[1] == "There is no quote to take from treasurer.\n"
    assert written == count_events()


def load_file(*, is_disabled: bool) -> Outcome:
    """Write a file, and return how a call ends in a program that loads it."""
    tool = {"name": "pay", "module": "sums", "function": "pay", "owned_by": "boss", "category": "money"}
    categories = {"money": {"enabled": False}} if is_disabled else {}
    config = {"tools": [tool], "journal": {"path": "g.db"}, "categories": categories}
    Path("tools.yml").write_text(json.dumps(config))
    with ToolRegistry.from_config("tools.yml") as registry:
        return registry.execute(ToolCall(None, "pay", {"amount": 1}, "boss")).outcome


def test_disable_what_a_file_disables(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken promise: `disable` recorded nothing, and once the file said it no more, the category was enabled."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("sums.py").write_text('def pay(amount: int) -> str:\n    "Pay."\n    return "paid"\n')
    assert load_file(is_disabled=True) is Outcome.DISABLED

    assert run("disable", "money", "--kind", "category")[:2] == (0, "Disabled the category money.\n")
    assert run("disable", "money", "--kind", "category")[1] == "The category money is disabled already.\n"
    assert load_file(is_disabled=False) is Outcome.DISABLED
    assert run("enable", "money", "--kind", "category")[:2] == (0, "Enabled the category money.\n")
    assert load_file(is_disabled=False) is Outcome.OK
