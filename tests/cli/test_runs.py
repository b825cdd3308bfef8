"""`runs`: list, show, resolve, replay."""

# Tests of: runs, call_tree

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module

import pytest
from cli_journal_rig import JOURNAL, WORK, fill_journal, list_calls_in_doubt, read_events, run_app
from cli_rig import ENV, App, Run, app, run  # noqa: F401

from praval_tools import ToolCall
from praval_tools.journal import open_journal

APPROVED = """
import os
from praval_tools import Allow, ToolCall, ToolRegistry

registry = ToolRegistry(journal="work.db")

@registry.tool("pay", owned_by="clerk", requires_approval=True)
def pay(to: str) -> str:
    os._exit(9)

call = ToolCall("call-1", "pay", {"to": "ann"}, agent="clerk")
with registry.run("rent"):
    registry.execute(call)
    registry.approvals.answer("call-1", Allow(by="eve"))
    registry.execute(call)
"""


LOST = """
from typing import Annotated
from praval_tools import Secret, ToolInDoubtError, ToolRegistry

def make_registry():
    registry = ToolRegistry(journal=JOURNAL)

    @registry.tool("find", owned_by="ann")
    def find() -> Annotated[str, Secret]:
        "Find it."
        raise ToolInDoubtError("Nobody knows.")

    return registry
"""

STOPPED = """
import asyncio
from praval_tools import ToolRegistry, ToolUsageError

registry = ToolRegistry(journal="work.db")

@registry.tool("pay", owned_by="clerk")
async def pay(to: str) -> str:
    "Pay somebody."
    return to

async def work():
    clerk = registry.agent("clerk")
    with registry.run("r"):
        for to in ("ann", "bob"):
            try:
                clerk.call("pay", to=to)
            except ToolUsageError:
                pass
        await clerk.acall("pay", to="ann")

if __name__ == "__main__":
    asyncio.run(work())
"""


class TestRuns:
    def test_list(self, run: Run, app: App) -> None:
        """
        Each run with its first and last event, its calls, and how many are in doubt.
        """
        run_app(app, "whole")
        run_app(app, "half", crash="last")

        out = run("runs", *JOURNAL)[1].splitlines()
        assert [(line.split()[0], *line.split()[-2:]) for line in out[1:]] == [("whole", "6", "-"), ("half", "5", "1")]
        found = json.loads(run("runs", "--json", *JOURNAL)[1])
        assert [(one["run_id"], one["calls"], one["in_doubt"]) for one in found] == [("whole", 6, 0), ("half", 5, 1)]

    def test_none(self, run: Run, app: App) -> None:
        """
        A journal without runs says so.
        """
        app()
        fill_journal("work.db", 1)

        assert run("runs", *JOURNAL) == (0, "", "No runs are recorded.\n")
        assert run("runs", "--json", *JOURNAL) == (0, "[]\n", "")

    def test_show(self, run: Run, app: App) -> None:
        """
        A run is a tree with ids first: what was called inside a call stands below it, hostile text is escaped.

        Its calls are counted as `runs` counts them: those that began.
        """
        run_app(app, "half", crash="last")
        (doubtful,) = list_calls_in_doubt(run, "half")
        code, out, err = run("runs", "show", "half", *JOURNAL)
        lines = out.splitlines()

        assert (code, err) == (0, "")
        assert lines[0] == "half: 5 calls, 1 refused, 5 with a result to replay, 1 in doubt"
        assert lines[0].split()[1] == run("runs", *JOURNAL)[1].splitlines()[1].split()[-2]
        place = lines[1].index("call") + 2
        assert [line[place:].split("(")[0] for line in lines[2:8]] == [
            "both", "  look", "  pay", "look", "\\x1b[31mevil[red]", "look",
        ]  # fmt: skip
        assert lines[7].split()[0] == doubtful
        assert "[red]no \\x1b[31m such" in out and "\x1b" not in out
        assert (
            f"praval-tools {' '.join(JOURNAL)} runs resolve half {doubtful} --result JSON | --error TEXT | --rerun"
            in out
        )

    def test_a_call_that_was_approved_and_then_interrupted(self, run: Run, app: App) -> None:
        """
        It is in doubt, and nothing says any more that it waits for an approval and did not run.

        Who reads that might let it run a second time.
        """
        name = app(APPROVED)
        assert subprocess.run([sys.executable, f"{name}.py"], env=ENV, timeout=60).returncode == 9

        (shown,) = json.loads(run("runs", "show", "rent", "--json", *JOURNAL)[1])["calls"]
        assert (shown["in_doubt"], shown["outcome"], shown["error"], shown["ended"]) == (True, None, None, None)
        out = run("runs", "show", "rent", *JOURNAL)[1]
        assert " in doubt " in out and "approval" not in out and "did not run" not in out

    def test_show_as_json(self, run: Run, app: App) -> None:
        """
        Each call with arguments, decision, outcome, result, times, and whether it is replayed or in doubt.
        """
        run_app(app, "half", crash="last")
        calls = json.loads(run("runs", "show", "half", "--json", *JOURNAL)[1])["calls"]

        first, last = calls[0], calls[-1]
        assert (first["tool_name"], first["result"], first["replays"]) == ("both", "paid ANN", True)
        assert calls[1]["parent_id"] == first["tool_call_id"]
        assert (last["arguments"], last["outcome"], last["replays"]) == ({"name": "last"}, None, False)

    def test_show_in_a_terminal_of_80_columns(self, app: App) -> None:
        """
        No line of the tree is wider than the terminal; the command below it is one line, to be copied.
        """
        run_app(app, "half", crash="last")
        done = subprocess.run(
            [sys.executable, "-m", "praval_tools", "runs", "show", "half", *JOURNAL],
            env={**ENV, "FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "80"}, capture_output=True, text=True,
            timeout=60,
        )  # fmt: skip
        text = done.stdout
        for code in ("\x1b[1m", "\x1b[2m", "\x1b[0m"):
            text = text.replace(code, "")

        assert "\x1b" not in text
        *tree, command = text.splitlines()
        assert max(map(len, tree)) <= 80
        assert command.startswith("  praval-tools ") and command.endswith(" --rerun")

    @pytest.mark.parametrize("command", ["show {}", "resolve {} c --rerun", "replay {} --dry"])
    def test_unknown_run(self, run: Run, app: App, command: str) -> None:
        """
        A run that is not recorded is wrong usage, and similar ones are named.
        """
        name = run_app(app, "night-1")
        code, out, err = run("runs", *command.format("nigth-1").split(), "--app", f"{name}:registry")

        assert (code, out, err) == (2, "", "Error: No run 'nigth-1' is recorded. Did you mean 'night-1'?\n")

    def test_unknown_command(self, run: Run) -> None:
        """
        A mistyped command of `runs` names the right one.
        """
        assert run("runs", "shwo") == (
            2, "", "Error: No such command 'shwo'. Did you mean 'show'? See: praval-tools runs --help\n"
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("answer", "outcome", "ran"),
        [
            (["--result", '"paid by hand"'], "ok", False),
            (["--error", "the bank \x1b[31mwas closed"], "tool_error", False),
            (["--rerun"], "ok", True),
        ],
    )
    def test_resolve(self, run: Run, app: App, answer: list[str], outcome: str, ran: bool) -> None:
        """
        What was said of a call in doubt is what the next start of the run goes by.
        """
        name = run_app(app, "r", crash="ANN")
        doubtful = list_calls_in_doubt(run, "r")
        assert len(doubtful) == 2  # the payment, and the call around it
        inner = doubtful[-1]
        code, out, err = run("runs", "resolve", "r", inner, *answer, *JOURNAL)

        assert (code, err) == (0, "")
        assert out.startswith(f"Recorded: call {inner} of run r ")
        assert list_calls_in_doubt(run, "r") == doubtful[:1]
        assert run("runs", "resolve", "r", doubtful[0], "--rerun", *JOURNAL)[0] == 0
        done = subprocess.run([sys.executable, f"{name}.py", "r"], env=ENV, capture_output=True, timeout=60)
        assert done.returncode == 0
        calls = json.loads(run("runs", "show", "r", "--json", *JOURNAL)[1])["calls"]
        paid = next(one for one in calls if one["tool_call_id"] == inner)
        assert paid["outcome"] == outcome
        assert (paid["result"] == "paid ANN") is ran

    @pytest.mark.parametrize(("journal", "options"), [(None, JOURNAL), ("work.db", ()), ("work.db", JOURNAL)])
    def test_a_result_with_secrets(
        self, run: Run, app: App, monkeypatch: pytest.MonkeyPatch, journal: str | None, options: tuple[str, ...]
    ) -> None:
        """
        What the tool of the app marks as secret is hidden in it, whichever way the journal is named.
        """
        name = app(LOST.replace("JOURNAL", repr(journal)))
        monkeypatch.syspath_prepend(".")
        with import_module(name).make_registry() as registry:
            registry.journal = "work.db"
            with registry.run("r"):
                registry.execute(ToolCall("c", "find", {}, "ann"))
        code, _, err = run(
            "--app", f"{name}:make_registry", "runs", "resolve", "r", "c", "--result", '"open-sesame"', *options
        )

        assert (code, err) == (0, "")
        (call,) = json.loads(run("runs", "show", "r", "--json", *JOURNAL)[1])["calls"]
        assert call["result"].startswith("[secret ")

    def test_what_cannot_be_resolved(self, run: Run, app: App) -> None:
        """
        A call that is not in doubt is a problem; not exactly one answer, or no JSON, is wrong usage.
        """
        run_app(app, "half", crash="last")
        (doubtful,) = list_calls_in_doubt(run, "half")
        resolve = ("runs", "resolve", "half")

        code, _, err = run(*resolve, "nope", "--rerun", *JOURNAL)
        assert (code, f"in doubt are: '{doubtful}'" in err) == (1, True)
        for options in ([], ["--rerun", "--error", "x"]):
            code, _, err = run(*resolve, doubtful, *options, *JOURNAL)
            assert (code, "Give exactly one of --result JSON, --error TEXT, --rerun." in err) == (2, True)
        for text in ("hello", "NaN", "[" * 100_000):
            code, _, err = run(*resolve, doubtful, "--result", text, *JOURNAL)
            assert (code, "--result is not valid JSON" in err) == (2, True)
        for text in ("1e999", '"\\ud800"', '{"\\ud800": 1}', "[" * 900 + "]" * 900):
            code, _, err = run(*resolve, doubtful, "--result", text, *JOURNAL)
            assert (code, "The result cannot be recorded" in err) == (1, True)
        assert list_calls_in_doubt(run, "half") == [doubtful]

    def test_a_run_that_is_open(self, run: Run, app: App) -> None:
        """
        Of a run that is open somewhere nothing can be resolved; the error says where it is open.
        """
        run_app(app, "half", crash="last")
        (doubtful,) = list_calls_in_doubt(run, "half")
        with open_journal("work.db") as journal, journal.store.open_run("half"):
            code, _, err = run("runs", "resolve", "half", doubtful, "--rerun", *JOURNAL)

        assert code == 1
        assert f"Run 'half' is open in process {os.getpid()}" in err

    def test_dry_replay(self, run: Run, app: App) -> None:
        """
        It says which calls get their recorded result, run again, or stop the run; nothing is run or written.
        """
        name = run_app(app, "idempotent", crash="last")
        run_app(app, "stops", crash="ANN")
        at = ("--app", f"{name}:registry")

        def preview(run_id: str, *options: str) -> tuple[int, list[str]]:
            code, out, _ = run("runs", "replay", run_id, "--dry", "--json", *options)
            return code, [f"{one['tool']}: {one['word']}" for one in json.loads(out)["calls"]][-3:]

        before = len(read_events(run))
        assert preview("idempotent", *at)[0] == 0
        assert preview("idempotent", *at)[1][-1] == "look: runs again"
        assert preview("stops", *at) == (1, ["both: stops", "look: replays", "pay: stops"])
        assert "in doubt, and its tool is not idempotent" in run("runs", "replay", "stops", "--dry", *at)[1]
        assert len(read_events(run)) == before
        changed = WORK.replace('name: str) -> str:\n    "Look s', 'name: str, x: int = 1) -> str:\n    "Look s')
        other = changed.replace('"pay", owned', '"transfer", owned').replace('journal="work.db"', 'name="x"')
        out = run("runs", "replay", "stops", "--dry", "--app", f"{app(other)}:registry", *JOURNAL)[1]
        assert "its definition has changed; the recorded result stays" in out
        assert "in doubt, and there is no tool 'pay' any more" in out

    def test_dry_replay_of_calls_that_were_stopped(self, run: Run, app: App) -> None:
        """Of calls that were stopped before their tool was entered, those run again that were not made again."""
        name = app(STOPPED)
        subprocess.run([sys.executable, f"{name}.py"], env=ENV, check=True, timeout=60)
        code, out, err = run("runs", "replay", "r", "--dry", "--json", "--app", f"{name}:registry")
        assert not err
        previews = [(preview["word"], preview["why"]) for preview in json.loads(out)["calls"]]
        assert code == 0
        assert previews == [
            ("replays", ""),  # the first call, which was made again
            ("runs again", "it was stopped before its tool was entered"),
        ]

    def test_replay_is_the_programs(self, run: Run, app: App) -> None:
        """
        Without --dry it is wrong usage that says who replays; without --app it is, too.
        """
        run_app(app, "r")
        code, _, err = run("runs", "replay", "r", *JOURNAL)
        assert (code, "with registry.run('r'): ..." in err) == (2, True)
        code, _, err = run("runs", "replay", "r", "--dry", *JOURNAL)
        assert (code, "Which registry?" in err) == (2, True)
