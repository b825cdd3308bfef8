"""What the tests of the demo share: its question, its steps, and a demo that ran in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from cli_rig import ENV

from praval_tools.cli import main
from praval_tools.demo.question import Question, load_flights_question
from praval_tools.demo.scenario import run_demo
from praval_tools.demo.steps import (
    Step,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def flights() -> Question:
    """The question about the flights, read once."""
    return load_flights_question()


@pytest.fixture(autouse=True)
def empty_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a folder of its own, for what the demo leaves."""
    folder = tmp_path_factory.mktemp("here")
    monkeypatch.chdir(folder)
    return folder


class DemoOutput(NamedTuple):
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


def run_demo_into(folder: Path, *arguments: str) -> DemoOutput:
    """Run the demo in a process of its own, piped."""
    done = run_process("demo", "--out", str(folder), *arguments, cwd=folder.parent)
    assert (done.returncode, done.stderr) == (0, "")
    return DemoOutput(done.stdout, folder)


@pytest.fixture(scope="module")
def demo_output(tmp_path_factory: pytest.TempPathFactory) -> DemoOutput:
    """A demo on the shipped data, played once."""
    return run_demo_into(tmp_path_factory.mktemp("whole") / "out")


def collect_steps(question: Question) -> list[Step]:
    """Return every step of the play."""
    steps: list[Step] = []
    run_demo(question, steps.append)
    return steps


@pytest.fixture(scope="module")
def steps(flights: Question) -> list[Step]:
    """Every step of the play on the shipped data."""
    return collect_steps(flights)


def select_steps(steps: list[Step], kind: type) -> list:
    """Return the steps of one kind."""
    return [step for step in steps if isinstance(step, kind)]


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the command line in this process; returns exit code, stdout and stderr."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def run_process(*arguments: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "praval_tools", *arguments],
        env={**ENV, **env},
        cwd=cwd,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )
