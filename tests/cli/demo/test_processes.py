"""The demo is killed twice and resumed: every effect happens once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from demo_rig import DemoOutput, demo_output, empty_folder, flights, run_demo_into  # noqa: F401

from praval_tools.cli.common import CommandError
from praval_tools.cli.demo.files import DemoFiles
from praval_tools.cli.demo.processes import ConsoleSettings, ProcessTask
from praval_tools.cli.demo.processes import run_in_subprocess as played_apart
from praval_tools.demo.effects import CrashPoint, Effect, EffectLog
from praval_tools.demo.question import Question
from praval_tools.journal import open_journal


class TestSurvival:
    def test_is_killed_twice_and_goes_on(self, demo_output: DemoOutput) -> None:
        """
        Two processes are killed, in a call that may run again and in one that may not; the third comes to the end.
        """
        assert re.findall(r"SIGKILL during (\w+):", demo_output.out) == ["note", "publish"]
        assert re.findall(r"In doubt: (\w+) by (\w+) started", demo_output.out) == [
            ("note", "statistician"),
            ("publish", "reporter"),
        ]
        assert "Process 3 opens the run again" in demo_output.out

    def test_every_effect_happens_once(self, demo_output: DemoOutput) -> None:
        """
        As many effects as calls that make one, each of another call: nothing twice, nothing missing.
        """
        done = [one["call"] for one in demo_output.effects]
        with open_journal(demo_output.folder / "journal.db") as journal:
            made = [one.tool_call_id for one in journal.calls("demo")
                    if one.tool_name in ("note", "publish") and one.outcome == "ok"]  # fmt: skip

        assert [one["tool"] for one in demo_output.effects] == ["note"] * 4 + ["publish"]
        assert done == made
        assert len({one["key"] for one in demo_output.effects}) == len(made)
        assert "Nothing happened twice, nothing is missing." in " ".join(demo_output.out.split())

    def test_ends_with_what_happened_and_where_to_look_at_it(self, demo_output: DemoOutput) -> None:
        """
        The last lines say what was answered, what was refused, what the kills did, and which command shows it.
        """
        pattern = r"(?=Answered: |Refused: |2 kills, |Look at it )"
        closing = re.split(pattern, " ".join(demo_output.out.split()))[-4:]
        answered, refused, kills, command = (line.strip() for line in closing)

        assert answered.startswith("Answered: JetBlue Airways stands out")
        assert refused == "Refused: read_rows to analyst, publish to reporter, publish to analyst."
        assert kills == "2 kills, 0 repeated effects."
        assert command == f"Look at it as its operator: praval-tools ui {demo_output.folder / 'journal.db'}"

    def test_journal_tells_it_afterwards(self, demo_output: DemoOutput) -> None:
        """
        The journal is readable: three processes, refusals with their rule, the approval, and nothing in doubt.
        """
        with open_journal(demo_output.folder / "journal.db") as journal:
            events, calls = list(journal.events(run_id="demo")), journal.calls("demo")

        assert len({one.process for one in events}) == 3
        assert [(one.agent, one.tool_name, one.decision.rule) for one in calls if one.outcome == "forbidden"] == [
            ("analyst", "read_rows", "out-of-bounds"),
            ("reporter", "publish", "no-way"),
            ("analyst", "publish", "no-way"),
        ]
        assert [one.type for one in events].count("approval_answered") == 1
        assert not any(one.in_doubt for one in calls)

    def test_a_call_inside_of_another_is_shown_there(self, demo_output: DemoOutput) -> None:
        """
        The timeline is a tree: what publish calls stands under it, with outcome and latency.
        """
        lines = demo_output.out.splitlines()
        at = next(number for number, line in enumerate(lines) if "in doubt, resolved" in line)

        assert re.fullmatch(r"  16  reporter      └ describe_data  ok +\d+\.\d", lines[at + 1])

    def test_nothing_that_ran_runs_again(self, demo_output: DemoOutput) -> None:
        """
        The resumed processes answer by the journal what the earlier ones recorded, and the grant keeps its count.
        """
        assert re.findall(r"(\d+) calls get their results from the journal", demo_output.out) == ["8", "14"]
        assert "granted (1 left)" in demo_output.out

    def test_says_the_same_every_time(self, demo_output: DemoOutput, tmp_path: Path) -> None:
        """
        Two demos of the same data print the same, but for latencies and the folder.
        """
        again = run_demo_into(tmp_path / "out")

        assert _timeless(again) == _timeless(demo_output)

    def test_an_effect_of_the_same_key_happens_once(self, tmp_path: Path) -> None:
        """
        What is done under a key is found by it, also by another process.
        """
        file, effect = tmp_path / "effects.jsonl", Effect(tool="note", by="a", call="c", key="k", text="<b>\n\x1b")

        assert [EffectLog(file).add_once(effect) for _ in range(3)] == [1, 1, 1]
        assert EffectLog(file).read_all() == [effect]
        assert EffectLog(file).has_effect("c")


def _timeless(left: DemoOutput) -> str:
    text = re.sub(r" +", " ", re.sub(r" +\d+\.\d( |$)", r" …\1", left.out, flags=re.MULTILINE))
    return re.sub(r"^(Report: |Journal: |praval-tools ui ).*$", "", text, flags=re.MULTILINE)


class TestProcesses:
    def test_that_fail_say_why_in_one_line(self, flights: Question, tmp_path: Path) -> None:
        """
        An error in a process of the demo is the error of the command; its traceback is there for --traceback.
        """
        nowhere = DemoFiles(tmp_path / "gone", tmp_path / "out")
        part = ProcessTask(
            flights, nowhere, None, ConsoleSettings(is_terminal=False, width=80, color_system=None, encoding="utf-8")
        )

        with pytest.raises(CommandError, match=r"^The demo could not go on: .*gone") as caught:
            list(played_apart(part))
        assert "Traceback" in caught.value.__notes__[0]

    def test_that_do_not_die_are_found_out(self, flights: Question, tmp_path: Path) -> None:
        """
        A process that was to be killed and comes to its end all the same is an error: the proof would be none.
        """
        draft = DemoFiles(tmp_path, tmp_path / "out")
        look = ConsoleSettings(is_terminal=False, width=80, color_system=None, encoding="utf-8")

        with pytest.raises(CommandError, match="exit code 0"):
            list(played_apart(ProcessTask(flights, draft, CrashPoint("note", 99), look)))
