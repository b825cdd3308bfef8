"""Runs the demo in subprocesses, which crash or finish, and passes on what they print."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Generator
from pathlib import Path
from typing import IO, Literal, cast

from attrs import frozen
from rich.console import Console

import praval_tools
from praval_tools.cli.common import CommandError
from praval_tools.cli.demo.files import DemoFiles
from praval_tools.cli.demo.report.page import ReportBuilder
from praval_tools.cli.demo.terminal import StepPrinter
from praval_tools.cli.output import make_plain_console
from praval_tools.demo.effects import CRASH_EXIT_CODE, CrashPoint
from praval_tools.demo.question import Question
from praval_tools.demo.scenario import RunFiles, run_demo
from praval_tools.demo.steps import Step

CRASH_POINTS = (CrashPoint("note", 2), CrashPoint("publish", 1))
"""Where the processes crash: in a call that may run again with its key, and in one that may not."""

_SUBPROCESS_CODE = f"import sys; sys.path.append(sys.argv[1]); from {__name__} import run_task_from_stdin as run; run()"
_CRASH_EXIT_CODES = {CRASH_EXIT_CODE, -getattr(signal, "SIGKILL", CRASH_EXIT_CODE)}
_ColorSystem = Literal["auto", "standard", "256", "truecolor", "windows"]


@frozen
class ConsoleSettings:
    """How a console prints, so that another process can print in the same way."""

    is_terminal: bool
    width: int
    color_system: _ColorSystem | None
    encoding: str

    @classmethod
    def from_console(cls, console: Console) -> ConsoleSettings:
        """Return how *console* prints."""
        color_system = cast("_ColorSystem | None", console.color_system)
        return cls(console.is_terminal, console.width, color_system, console.encoding)

    def make_console(self) -> Console:
        """Return a console that prints to this process's stdout in that way."""
        sys.stdout.reconfigure(encoding=self.encoding, errors="replace")  # type: ignore[union-attr]
        return make_plain_console(
            width=self.width, force_terminal=self.is_terminal, color_system=self.color_system, legacy_windows=False
        )


@frozen
class ProcessTask:
    """
    What one process has to do.

    Args:
        question: What the agents are to find out.
        files: Where its files are.
        crash_point: Where it crashes; None: it finishes, and writes the report.
        console_settings: How it prints.
    """

    question: Question
    files: DemoFiles
    crash_point: CrashPoint | None
    console_settings: ConsoleSettings


def run_in_subprocess(task: ProcessTask) -> Generator[str, None, None]:
    """
    Run *task* in a process of its own, and yield the lines that it prints.

    Raises:
        CommandError: It did not end as it should.
    """
    package_parent = str(Path(praval_tools.__file__).parent.parent)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stderr:
        child = subprocess.Popen(  # noqa: S603 - this interpreter, this package
            [sys.executable, "-P", "-c", _SUBPROCESS_CODE, package_parent],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
        assert child.stdin is not None and child.stdout is not None
        try:
            try:
                child.stdin.write(pickle.dumps(task))
                child.stdin.close()
            except BrokenPipeError:  # it ended before it read the task; its exit code says how
                pass
            for line in child.stdout:
                yield line.decode(task.console_settings.encoding, errors="replace").replace(os.linesep, "\n")
            child.wait()
        finally:  # the reader may have stopped early: the process must not outlive it
            child.kill()
            child.wait()
            child.stdin.close()
            child.stdout.close()
        _check_exit(child.returncode, stderr, expects_crash=task.crash_point is not None)


def _check_exit(code: int, stderr: IO[str], *, expects_crash: bool) -> None:
    stderr.seek(0)
    output = stderr.read()
    if code in _CRASH_EXIT_CODES if expects_crash else code == 0:
        sys.stderr.write(output)
        return
    last_line = output.strip().rpartition("\n")[2]
    error = CommandError(f"The demo could not go on: {last_line or f'exit code {code}'}")
    error.add_note(output)
    raise error


def run_task_from_stdin() -> None:
    """Run the task that is pickled on stdin; the last line on stderr says what went wrong."""
    try:
        _run_task(pickle.load(sys.stdin.buffer))  # noqa: S301 - written by `run_in_subprocess`, and by nobody else
    except Exception as error:  # reported to the other process
        traceback.print_exc()
        print(" ".join(str(error).split()) or type(error).__name__, file=sys.stderr)
        sys.exit(1)


def _run_task(task: ProcessTask) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends this one
    printer, report = StepPrinter(task.console_settings.make_console()), ReportBuilder(task.question)

    def handle_step(step: Step) -> None:
        printer(step)
        sys.stdout.flush()  # a crash flushes nothing
        report(step)

    files = task.files
    run_files = RunFiles(journal=files.journal, effects=files.effects, crash_point=task.crash_point)
    run_demo(task.question, handle_step, run_files)
    files.report.write_text(report.build_page(), encoding="utf-8")
