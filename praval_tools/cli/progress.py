"""A bar for what takes longer than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from praval_tools.cli.output import make_console

T = TypeVar("T")

_DELAY_SECONDS = 1.0
_ITEMS_PER_UPDATE = 500


def track_progress(items: Iterable[T], total: int | None, text: str) -> Iterator[T]:
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
    began, bar, task = time.monotonic(), _make_progress_bar(), None
    try:
        for number, item in enumerate(items):
            if number % _ITEMS_PER_UPDATE == 0 and time.monotonic() - began > _DELAY_SECONDS:
                if task is None:
                    bar.start()
                    task = bar.add_task(text, total=total)
                bar.update(task, completed=number)
            yield item
    finally:
        if task is not None:
            bar.stop()


def _make_progress_bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=make_console(stderr=True), transient=True)
