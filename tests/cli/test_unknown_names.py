"""A name that nobody knows is said to be unknown, with similar ones, by every command in the same way."""

# Tests of: entry, change_command, grant_listing, matrix, check

from __future__ import annotations

import json

import pytest
from cli_rig import BANK, App, Run, app, run  # noqa: F401

from praval_tools.journal import open_journal

MISSPELT = """
registry.assign_tool_to_agent("quote", "inter")
registry.assign_tool_to_agent("quote", "zzz")
"""


@pytest.fixture
def bank(app: App) -> str:
    """The bank, with grants to agents that nobody declares, and a journal."""
    open_journal("praval_tools.db").close()
    return f"{app(BANK + MISSPELT)}:registry"


@pytest.mark.parametrize(
    "words",
    [
        "show quot", "call intern quot", "why intern quot", "assign quot intern", "unassign quot intern",
        "block quot intern", "unblock quot intern", "share quot", "unshare quot", "disable quot", "enable quot",
        "transfer quot intern", "revoke quot", "approvals approve quot", "approvals deny quot", "runs show quot",
        "runs resolve quot x --rerun", "tokens revoke quot",
    ],
)  # fmt: skip
def test_ends_with_the_code_of_wrong_usage(run: Run, bank: str, words: str) -> None:
    """Broken promise: one exit code for unknown names. `tokens revoke` had another."""
    code, out, error = run("--app", bank, *words.split())

    assert 2 == code
    assert "quot'" in out + error


@pytest.mark.parametrize(
    ("words", "note"),
    [
        ("grants --tool quot", "no tool 'quot' is registered. Did you mean 'quote'?"),
        ("grants --agent intrn", "no agent 'intrn' is declared. Did you mean 'intern'?"),
        ("unblock quote intrn", "no agent 'intrn' is declared. Did you mean 'intern'?"),
        ("unassign quote carol", "no agent 'carol' is declared."),
        ("matrix --agent carol", "no agent 'carol' is declared."),
    ],
)
def test_is_noted_where_it_may_be_meant(run: Run, bank: str, words: str, note: str) -> None:
    """Of an agent or tool that may be declared later, the note says so in one line, and no more."""
    code, _, error = run("--app", bank, *words.split())

    assert (0, f"Note: {note}") == (code, error.splitlines()[0])


def test_of_an_agent_that_holds_a_grant(run: Run, bank: str) -> None:
    """`agents` and `matrix` show it as undeclared, and `check` says what to do."""
    for command in ("agents", "matrix"):
        out = run("--app", bank, command)[1]
        assert "inter (undeclared)" in out and "zzz (undeclared)" in out

    problems = json.loads(run("--app", bank, "check", "--json")[1])["problems"]
    assert [
        ("undeclared-agent", "inter", "Did you mean 'intern'?"),
        (
            "undeclared-agent",
            "zzz",
            f"Declare 'zzz', or take the tool away: praval-tools --app {bank} unassign quote zzz.",
        ),
    ] == [(problem["kind"], problem["subject"], problem["remedy"]) for problem in problems]

    assert 0 == run("--app", bank, "unassign", "quote", "zzz")[0]
    problems = json.loads(run("--app", bank, "check", "--json")[1])["problems"]
    assert ["inter"] == [problem["subject"] for problem in problems]


def test_an_unassignment_without_effect_says_so(run: Run, bank: str) -> None:
    """It reads as what it is: nothing was there to take, and what holds from now on."""
    text = "zzz could not call wire_money before either; from now on only an assignment gives it."

    assert text in run("--app", bank, "unassign", "wire_money", "zzz")[1]
    assert "wire_money was already taken from zzz." in run("--app", bank, "unassign", "wire_money", "zzz")[1]
