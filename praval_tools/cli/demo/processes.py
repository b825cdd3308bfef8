"""The demo's processes: the one that is watched starts others, which play, die and go on."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO

from attrs import frozen

import praval_tools
from praval_tools.cli.common import CommandError
from praval_tools.cli.demo.files import DemoFiles
from praval_tools.cli.demo.report.page import ReportBuilder
from praval_tools.cli.demo.terminal import StepPrinter
from praval_tools.cli.output import ConsoleSettings, make_console_from
from praval_tools.demo.effects import CRASH_EXIT_CODE, CrashPoint
from praval_tools.demo.question import Question
from praval_tools.demo.scenario import RunFiles, run_demo
from praval_tools.demo.steps import Step

CRASH_POINTS = (CrashPoint("note", 2), CrashPoint("publish", 1))
"""Where the processes die: in a call that may run again with its key, and in one that may not."""

_SUBPROCESS_CODE = "import sys; sys.path.append(sys.argv[1]); from praval_tools.cli.demo.processes import run_task_from_stdin as run; run()"
_CRASH_EXIT_CODES = {CRASH_EXIT_CODE, -getattr(signal, "SIGKILL", CRASH_EXIT_CODE)}


@frozen
class ProcessTask:
    """
    What one process has to play.

    Args:
        question: What the agents are to find out.
        draft: Where its files are.
        fatal: Where it dies; None: it comes to the end, and writes the report.
        look: How it prints.
    """

    question: Question
    files: DemoFiles
    crash_point: CrashPoint | None
    console_settings: ConsoleSettings


def run_in_subprocess(part: ProcessTask) -> Generator[str, None, None]:
    """
    Play *part* in a process of its own, and yield the lines that it prints.

    Raises:
        Failure: It ended in another way than it was to.
    """
    home = str(Path(praval_tools.__file__).parent.parent)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints:
        child = subprocess.Popen(  # noqa: S603 - this interpreter, this package
            [sys.executable, "-P", "-c", _SUBPROCESS_CODE, home],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints,
        )  # fmt: skip
        try:
            yield from _stream_output(child, part)
        finally:  # whoever watches may have left: nobody plays on for an empty house
            child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    stream.close()
        _check_exit(child.returncode, complaints, expects_crash=part.crash_point is not None)


def _stream_output(child: subprocess.Popen[bytes], part: ProcessTask) -> Iterator[str]:
    assert child.stdin is not None and child.stdout is not None
    try:
        child.stdin.write(pickle.dumps(part))
        child.stdin.close()
    except BrokenPipeError:  # it ended before it read that; its exit code says how
        pass
    for line in child.stdout:
        yield line.decode(part.console_settings.encoding, errors="replace").replace(os.linesep, "\n")
    child.wait()


def _check_exit(code: int, complaints: IO[str], *, expects_crash: bool) -> None:
    complaints.seek(0)
    told = complaints.read()
    if code in _CRASH_EXIT_CODES if expects_crash else code == 0:
        sys.stderr.write(told)
        return
    last = told.strip().rpartition("\n")[2] or f"exit code {code}"
    failure = CommandError(f"The demo could not go on: {last}")
    failure.add_note(told)
    raise failure


def run_task_from_stdin() -> None:
    """Play the part that stands on the standard input; what goes wrong stands in the last line of the errors."""
    try:
        _run_task(pickle.load(sys.stdin.buffer))  # noqa: S301 - written by `played`, and by nobody else
    except Exception as error:  # the seam between two processes
        traceback.print_exc()
        print(" ".join(str(error).split()) or type(error).__name__, file=sys.stderr)
        sys.exit(1)


def _run_task(part: ProcessTask) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that is watched ends this one
    show, reporter = StepPrinter(make_console_from(part.console_settings)), ReportBuilder(part.question)

    def handle_step(step: Step) -> None:
        show(step)
        sys.stdout.flush()  # who dies flushes nothing
        reporter(step)

    draft = part.files
    run_demo(
        part.question, handle_step, RunFiles(journal=draft.journal, effects=draft.effects, crash_point=part.crash_point)
    )
    draft.report.write_text(reporter.build_page(), encoding="utf-8")
