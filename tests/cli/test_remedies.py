"""What `check` says is to be done is said as commands that can be copied."""

# Tests of: check, report/command_line

from __future__ import annotations

import importlib
import json
import re
import shlex
import sys
from pathlib import Path

import click
import pytest
from cli_rig import App, Run, app, run  # noqa: F401

from praval_tools.cli.entry import root_command

DECLARATIONS = '''
from praval_tools import Agent, ToolRegistry

registry = ToolRegistry(journal="runs.db")

def declare(name, *, version=1, **options):
    def body(value: int) -> int:
        """Do it."""
        return value
    registry.tool(name, **options)(body)

VERSION = 1
declare("pay", owned_by="bank")
declare("lonely")
declare("ownerless", owned_by="nobody_at_all")
declare("moved", owned_by="bank")
declare("opened", owned_by="bank")
declare("closed", owned_by="bank", shared=True)
declare("listed", owned_by="bank")
declare("lost", owned_by="bank")
Agent("bank", registry=registry)
Agent("other", registry=registry)
Agent("clerk", tools=["listed", "lost", "missing"], registry=registry)
registry.grant("pay", "clerk", key="daily", max_calls=MAX_CALLS)
'''
KINDS = {"undeclared-agent", "no-owner", "unreachable", "unknown-tool", "grant-differs", "act-waits",
         "act-beats-declaration"}  # fmt: skip
_METHOD_CALL = re.compile(r"\b(?!praval)\w+\([^)]*\)")


def _parse(words: list[str]) -> str:
    """Parse the words of a command, without running it; return its name."""
    context = root_command.make_context("praval-tools", list(words))
    rest = [*context._protected_args, *context.args]
    group: click.Command = root_command
    names = []
    while isinstance(group, click.Group):
        name, command, rest = group.resolve_command(context, rest)
        assert name is not None and command is not None
        names.append(name)
        context, group = command.make_context(name, list(rest), parent=context), command
        rest = [*context._protected_args, *context.args]
    return " ".join(names)


def _list_commands(remedy: str) -> list[list[str]]:
    """Return the words of each command of a remedy."""
    parts = re.split(r"(?<![\w./-])praval-tools ", remedy)[1:]
    return [shlex.split(re.split(r"[.,;](?: |$)| lists them", part)[0]) for part in parts]


GONE = '''
def change():
    for agent, tools in (("stranger", ["pay"]), ("visitor", ["pay", "moved"])):
        for tool in tools:
            registry.grant(tool, agent)
    registry.transfer_ownership("moved", "other")
    registry.share_tool("opened")
    registry.unshare_tool("closed")
    registry.block("listed", "clerk")
    registry.remove_tool_from_agent("lost", "clerk")
    registry.grant("gone", "clerk", max_calls=3)
    registry.share_tool("gone")
    registry.transfer_ownership("gone", "other")
    registry.close()

@registry.tool("gone", owned_by="bank")
def gone(value: int) -> int:
    """Do it."""
    return value
'''


@pytest.fixture
def spec(app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program whose declarations differ from what the operator did before with an earlier version of it."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    name = app((DECLARATIONS + GONE).replace("MAX_CALLS", "5"))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module(name).change()
    text = (DECLARATIONS + GONE).replace("MAX_CALLS", "9").replace("gone(value: int)", "gone(value: str, more: int)")
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    return f"{name}:registry"


@pytest.fixture
def problems(spec: str, run: Run) -> list[dict[str, str]]:
    """What `check` finds in it."""
    code, out, error = run("--app", spec, "check", "--json")
    assert (1, "") == (code, error)
    found: list[dict[str, str]] = json.loads(out)["problems"]
    return found


@pytest.mark.filterwarnings("ignore:Key 'daily':praval_tools.AccessWarning")
class TestRemedies:
    def test_are_commands_that_parse(self, problems: list[dict[str, str]]) -> None:
        """No remedy is a piece of Python, and each command in one is one of the command line."""
        assert set() == KINDS - {problem["kind"] for problem in problems}
        for problem in problems:
            assert not _METHOD_CALL.search(problem["remedy"]), problem
            for words in _list_commands(problem["remedy"]):
                assert _parse(words), problem

    def test_say_how_to_take_back_what_waits_or_differs(self, problems: list[dict[str, str]]) -> None:
        """A grant that waits, or differs from its declaration, or is for nobody, is revoked by its id."""
        for kind, subject in (("grant-differs", "pay"), ("act-waits", "gone"), ("undeclared-agent", "stranger")):
            remedies = [one["remedy"] for one in problems if (one["kind"], one["subject"]) == (kind, subject)]
            assert any("revoke" in [_parse(words) for words in _list_commands(remedy)] for remedy in remedies), kind

    def test_work(self, spec: str, run: Run, problems: list[dict[str, str]]) -> None:
        """Once the revocations that it names are done, no grant waits, differs or is for one nobody declared."""
        for problem in problems:
            for words in _list_commands(problem["remedy"]):
                if _parse(words) == "revoke":
                    assert 0 == run(*words)[0], problem

        rows = json.loads(run("--app", spec, "check", "--json")[1])["problems"]
        assert {"visitor"} == {one["subject"] for one in rows if one["kind"] == "undeclared-agent"}
        assert [] == [one for one in rows if one["kind"] == "grant-differs"]
        assert [] == [one for one in rows if one["kind"] == "act-waits" and "Grant" in one["message"]]
