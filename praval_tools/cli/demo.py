"""The command `demo`: the main job, on real input."""

from __future__ import annotations

import os
from pathlib import Path

import click

from praval_tools.cli.common import PROBLEM, USAGE, Failure, traceback_option
from praval_tools.cli.output import screen
from praval_tools.cli.show import Show, working
from praval_tools.demo.play import perform
from praval_tools.demo.question import Question, ask
from praval_tools.demo.reading import UnreadableDataError
from praval_tools.errors import ToolUsageError

_PIPED = 80
_LARGE = 50_000


@click.command("demo")
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--measure", metavar="COLUMN", help="The column to average: numbers, or yes and no.")
@click.option("--by", metavar="COLUMN", help="The column whose values are compared.")
@traceback_option
def demo_command(path: Path | None, *, measure: str | None, by: str | None) -> None:
    """
    Watch four agents answer a question about real data.

    PATH is a CSV file of yours, a text file, or a folder of text or code; left out: 7,033 flights of a week with a
    blizzard, shipped with the package. Nothing is installed, sent or written.
    """
    console = screen(width=_PIPED)
    with working(console, "Reading the data"):
        question = _asked(path, measure=measure, by=by)
    with working(console, "The agents are at work", when=len(question.table) > _LARGE):
        perform(question, Show(console))


def _asked(path: Path | None, *, measure: str | None, by: str | None) -> Question:
    try:
        return ask(path, measure=measure, by=by)
    except UnreadableDataError as error:
        missing = path is not None and not os.path.exists(path)
        raise Failure(str(error), USAGE if missing else PROBLEM) from error
    except ToolUsageError as error:
        raise Failure(str(error), USAGE) from error
