"""`praval-tools advise` prints what was not needed, its evidence, and the commands; it changes nothing."""

# Tests of: advise

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from cli_rig import App, Run, app, run  # noqa: F401

from praval_tools import ToolCall
from praval_tools.journal import open_journal

SOURCE = '''
from praval_tools import Agent, ToolRegistry

registry = ToolRegistry(journal="runs.db")

@registry.tool(owned_by="bank")
def add(x: int) -> int:
    """Add."""
    return x

Agent("ann", registry=registry)
'''


@pytest.fixture
def program(app: App, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A program in whose journal there is a grant that was used, one that was not, and refusals."""
    name = app(SOURCE)
    monkeypatch.syspath_prepend(".")
    with import_module(name).registry as registry:
        registry.grant("add", "ann")
        registry.grant("add", "bob")
        for agent, times in (("ann", 2), ("eve", 3)):
            for number in range(times):
                registry.execute(ToolCall(None, "add", {"x": number}, agent))
    yield f"{name}:registry"


class TestAdvise:
    def test_prints_findings_and_commands(self, run: Run, program: str) -> None:
        """Each with its evidence; the journal stays as it is."""
        with open_journal(Path("runs.db")) as before:
            seq = before.store.last_seq()
        code, out, _ = run("advise", "--app", program)
        assert 0 == code
        for text in (
            "'bob' never used its grant of 'add'.", f"praval-tools --app {program} revoke ",
            "'eve' was refused 'add' 3 times: is a grant wanted?",
            f"praval-tools --app {program} assign add eve --max-calls 3",
        ):  # fmt: skip
            assert text in out
        with open_journal(Path("runs.db")) as after:
            assert seq == after.store.last_seq()

    def test_marks_of_direction_are_spelled_out(self, run: Run, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
        """A model could turn the order of what an operator reads by its arguments."""
        name = app(SOURCE.replace("x: int", "x: str"))
        monkeypatch.syspath_prepend(".")
        with import_module(name).registry as registry:
            registry.grant("add", "ann")
            for _ in range(20):
                registry.execute(ToolCall(None, "add", {"x": "\u202eevil"}, "ann"))

        out = run("advise", "--app", f"{name}:registry")[1]
        assert "evil" in out and "\u202e" not in out

    def test_json(self, run: Run, program: str) -> None:
        """For programs: kinds, terms, evidence, commands."""
        _, out, _ = run("advise", "--app", program, "--json")
        kinds = {one["kind"]: one for one in json.loads(out)}
        assert {"unused-grant", "narrower-grant", "wanted-grant"} == set(kinds)
        assert 2 == kinds["narrower-grant"]["terms"]["max_calls"]
        assert kinds["narrower-grant"]["first"] <= kinds["narrower-grant"]["last"]

    def test_filters(self, run: Run, program: str) -> None:
        """By agent, by tool, and by time."""
        assert "bob" not in run("advise", "--app", program, "--agent", "eve")[1]
        assert "Nothing to advise" in "".join(run("advise", "--app", program, "--tool", "nope")[1:])
        code, _, err = run("advise", "--app", program, "--since", "1s", "--until", "2026-01-01")
        assert (2, True) == (code, "is not before --until" in err)

    def test_without_an_app(self, run: Run, app: App) -> None:
        """It asks for the registry, without which nobody knows who may call what."""
        app()
        code, _, err = run("advise")
        assert (2, True) == (code, "--app" in err)
