"""Shows a progress bar for what takes longer than a second."""

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
    Yield *items*; after a second a bar shows the progress, if stderr is a terminal.

    Args:
        items: What is iterated over.
        total: How many there are at most, or None if that is unknown.
        text: What is being done.
    """
    if not sys.stderr.isatty():
        yield from items
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=make_console(stderr=True), transient=True)
    start, task = time.monotonic(), None
    try:
        for number, item in enumerate(items):
            if number % _ITEMS_PER_UPDATE == 0 and time.monotonic() - start > _DELAY_SECONDS:
                if task is None:
                    bar.start()
                    task = bar.add_task(text, total=total)
                bar.update(task, completed=number)
            yield item
    finally:
        if task is not None:
            bar.stop()
