"""A bar for what takes longer than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from praval_tools.cli.output import screen

T = TypeVar("T")

_PATIENCE = 1.0
_EACH = 500


def watched(items: Iterable[T], total: int | None, text: str) -> Iterator[T]:
    """
    Yield *items*; after a second a bar on stderr says how far that is, if stderr is a terminal.

    Args:
        items: What is gone through.
        total: How many there are at most; None: nobody knows.
        text: What is being done.
    """
    if not sys.stderr.isatty():
        yield from items
        return
    began, bar, task = time.monotonic(), _bar(), None
    try:
        for number, item in enumerate(items):
            if number % _EACH == 0 and time.monotonic() - began > _PATIENCE:
                if task is None:
                    bar.start()
                    task = bar.add_task(text, total=total)
                bar.update(task, completed=number)
            yield item
    finally:
        if task is not None:
            bar.stop()


def _bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=screen(stderr=True), transient=True)
