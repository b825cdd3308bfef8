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
from praval_tools.cli.common import Failure
from praval_tools.cli.demo_files import Draft
from praval_tools.cli.demo_output import Show
from praval_tools.cli.demo_report.page import Reporter
from praval_tools.cli.output import Look, screen_of
from praval_tools.demo.effects import DEAD, Fatal
from praval_tools.demo.question import Question
from praval_tools.demo.scenario import Workplace, perform
from praval_tools.demo.steps import Step

DEATHS = (Fatal("note", 2), Fatal("publish", 1))
"""Where the processes die: in a call that may run again with its key, and in one that may not."""

_START = "import sys; sys.path.append(sys.argv[1]); from praval_tools.cli.demo_processes import act; act()"
_KILLED = {DEAD, -getattr(signal, "SIGKILL", DEAD)}


@frozen
class Part:
    """
    What one process has to play.

    Args:
        question: What the agents are to find out.
        draft: Where its files are.
        fatal: Where it dies; None: it comes to the end, and writes the report.
        look: How it prints.
    """

    question: Question
    draft: Draft
    fatal: Fatal | None
    look: Look


def played(part: Part) -> Generator[str, None, None]:
    """
    Play *part* in a process of its own, and yield the lines that it prints.

    Raises:
        Failure: It ended in another way than it was to.
    """
    home = str(Path(praval_tools.__file__).parent.parent)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints:
        child = subprocess.Popen(  # noqa: S603 - this interpreter, this package
            [sys.executable, "-P", "-c", _START, home],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints,
        )  # fmt: skip
        try:
            yield from _said(child, part)
        finally:  # whoever watches may have left: nobody plays on for an empty house
            child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    stream.close()
        _check(child.returncode, complaints, dies=part.fatal is not None)


def _said(child: subprocess.Popen[bytes], part: Part) -> Iterator[str]:
    assert child.stdin is not None and child.stdout is not None
    try:
        child.stdin.write(pickle.dumps(part))
        child.stdin.close()
    except BrokenPipeError:  # it ended before it read that; its exit code says how
        pass
    for line in child.stdout:
        yield line.decode(part.look.encoding, errors="replace").replace(os.linesep, "\n")
    child.wait()


def _check(code: int, complaints: IO[str], *, dies: bool) -> None:
    complaints.seek(0)
    told = complaints.read()
    if code in _KILLED if dies else code == 0:
        sys.stderr.write(told)
        return
    last = told.strip().rpartition("\n")[2] or f"exit code {code}"
    failure = Failure(f"The demo could not go on: {last}")
    failure.add_note(told)
    raise failure


def act() -> None:
    """Play the part that stands on the standard input; what goes wrong stands in the last line of the errors."""
    try:
        _act(pickle.load(sys.stdin.buffer))  # noqa: S301 - written by `played`, and by nobody else
    except Exception as error:  # the seam between two processes
        traceback.print_exc()
        print(" ".join(str(error).split()) or type(error).__name__, file=sys.stderr)
        sys.exit(1)


def _act(part: Part) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that is watched ends this one
    show, reporter = Show(screen_of(part.look)), Reporter(part.question)

    def tell(step: Step) -> None:
        show(step)
        sys.stdout.flush()  # who dies flushes nothing
        reporter(step)

    draft = part.draft
    perform(part.question, tell, Workplace(journal=draft.journal, effects=draft.effects, fatal=part.fatal))
    draft.report.write_text(reporter.page(), encoding="utf-8")
