"""The command `demo`: the main job, on real input, through two deaths of its process."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import click
from rich.console import Console

from praval_tools.cli.common import PROBLEM, USAGE, Failure, shown, traceback_option
from praval_tools.cli.demo_files import JOURNAL, REPORT, Draft, draft
from praval_tools.cli.demo_output import Show, working
from praval_tools.cli.demo_processes import DEATHS, Part, played
from praval_tools.cli.output import look_of, screen
from praval_tools.demo.input_files import UnreadableDataError
from praval_tools.demo.plugin_scene import PACKAGE, installed
from praval_tools.demo.question import Question, ask
from praval_tools.demo.steps import Closed, Died, Resumed
from praval_tools.errors import ToolUsageError

_PIPED = 80
_LARGE = 50_000


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
    console = screen(width=_PIPED)
    show = Show(console)
    with working(console, "Reading the data"):
        question = _asked(path, measure=measure, by=by)
    with draft(out) as files:
        with working(console, "The agents are at work", when=len(question.table) > _LARGE):
            _play(console, show, question, files)
        files.leave()
    show(Closed(question, own=path is not None, missing="" if installed() else PACKAGE))
    for title, name in (("Journal: ", JOURNAL), ("Report:  ", REPORT)):  # as they are, so that they can be copied
        console.out(f"{title}{shown(files.place / name, lines=True)}", highlight=False)


def _play(console: Console, show: Show, question: Question, files: Draft) -> None:
    """Have the whole of it played by one process after the other, until one comes to the end."""
    for number, fatal in enumerate((*DEATHS, None), start=1):
        if number > 1:
            show(Resumed(number))
        with closing(played(Part(question, files, fatal, look_of(console)))) as lines:
            for line in lines:
                console.out(line, end="", highlight=False)
        if fatal is not None:
            show(Died(fatal.tool))


def _asked(path: Path | None, *, measure: str | None, by: str | None) -> Question:
    try:
        return ask(path, measure=measure, by=by)
    except UnreadableDataError as error:
        missing = path is not None and not os.path.exists(path)
        raise Failure(str(error), USAGE if missing else PROBLEM) from error
    except ToolUsageError as error:
        raise Failure(str(error), USAGE) from error
