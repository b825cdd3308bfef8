"""The command `demo`: the main job, on real input, through two deaths of its process."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import click
from rich.console import Console

from praval_tools.cli.common import EXIT_PROBLEM, EXIT_USAGE, CommandError, sanitize_text, traceback_option
from praval_tools.cli.demo.files import JOURNAL_FILE, REPORT_FILE, DemoFiles, prepare_files
from praval_tools.cli.demo.processes import CRASH_POINTS, ProcessTask, run_in_subprocess
from praval_tools.cli.demo.terminal import StepPrinter, show_spinner
from praval_tools.cli.output import get_console_settings, make_console
from praval_tools.demo.input_files import UnreadableDataError
from praval_tools.demo.plugin_scene import PACKAGE_NAME, is_package_available
from praval_tools.demo.question import Question, load_question
from praval_tools.demo.steps import ClosingStep, CrashStep, ResumeStep
from praval_tools.errors import ToolUsageError

_PIPE_WIDTH = 80
_MIN_SPINNER_ROWS = 50_000


@click.command("demo")
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--measure", metavar="COLUMN", help="The column to average: numbers, or yes and no.")
@click.option("--by", metavar="COLUMN", help="The column whose values are compared.")
@click.option(
    "--out", metavar="DIR", type=click.Path(path_type=Path),
    help="Where the report and the journal go: a folder that is new, empty, or an earlier demo's. "
    "Default: praval-demo, here.",
)  # fmt: skip
@traceback_option
def demo_command(path: Path | None, *, measure: str | None, by: str | None, out: Path | None) -> None:
    """
    Watch four agents answer a question about real data, while their process is killed twice.

    PATH is a CSV file of yours, a text file, or a folder of text or code; left out: 7,033 flights of a week with a
    blizzard, shipped with the package. Nothing is installed or sent; a report and the journal are written.
    """
    console = make_console(width=_PIPE_WIDTH)
    show = StepPrinter(console)
    with show_spinner(console, "Reading the data"):
        question = _load_question(path, measure=measure, by=by)
    with prepare_files(out) as files:
        with show_spinner(console, "The agents are at work", is_enabled=len(question.table) > _MIN_SPINNER_ROWS):
            _run_processes(console, show, question, files)
        files.move_to_target()
    show(
        ClosingStep(
            question, has_own_data=path is not None, missing_package="" if is_package_available() else PACKAGE_NAME
        )
    )
    for title, name in (
        ("Journal: ", JOURNAL_FILE),
        ("Report:  ", REPORT_FILE),
    ):  # as they are, so that they can be copied
        console.out(f"{title}{sanitize_text(files.target_folder / name, keep_line_breaks=True)}", highlight=False)


def _run_processes(console: Console, show: StepPrinter, question: Question, files: DemoFiles) -> None:
    """Have the whole of it played by one process after the other, until one comes to the end."""
    for number, fatal in enumerate((*CRASH_POINTS, None), start=1):
        if number > 1:
            show(ResumeStep(number))
        with closing(run_in_subprocess(ProcessTask(question, files, fatal, get_console_settings(console)))) as lines:
            for line in lines:
                console.out(line, end="", highlight=False)
        if fatal is not None:
            show(CrashStep(fatal.tool))


def _load_question(path: Path | None, *, measure: str | None, by: str | None) -> Question:
    try:
        return load_question(path, measure=measure, by=by)
    except UnreadableDataError as error:
        missing = path is not None and not os.path.exists(path)
        raise CommandError(str(error), EXIT_USAGE if missing else EXIT_PROBLEM) from error
    except ToolUsageError as error:
        raise CommandError(str(error), EXIT_USAGE) from error
