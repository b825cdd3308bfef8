"""Printing: tables and lines that are readable in a terminal of any width, in a pipe, and without colour."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from attrs import frozen
from rich.console import Console
from rich.table import Table
from rich.text import Text

from praval_tools.cli.common import sanitize_text

_UNBOUNDED_WIDTH = 100_000
RULE_STYLES = {
    "owner": "bold green",
    "listed": "green",
    "shared": "cyan",
    "category": "blue",
    "granted": "yellow",
    "blocked": "red",
    "disabled": "red",
}


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


def make_console(*, stderr: bool = False, width: int | None = None) -> Console:
    """
    Return a console that reads no markup, guesses no highlights, and in a pipe neither colours nor wraps.

    Args:
        stderr: Write there.
        width: Width in a pipe; by default lines are as long as they are.
    """
    stream = sys.stderr if stderr else sys.stdout
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")  # an ASCII pipe gets '?', not a traceback
    console = _Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console = _Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=width or _UNBOUNDED_WIDTH)
    return console


@frozen
class ConsoleSettings:
    """How a console prints, so that another process can print the same."""

    is_terminal: bool
    width: int
    color_system: Any
    encoding: str


def get_console_settings(console: Console) -> ConsoleSettings:
    """Return how *console* prints."""
    return ConsoleSettings(console.is_terminal, console.width, console.color_system, console.encoding)


def make_console_from(look: ConsoleSettings) -> Console:
    """Return a console that prints to this process's output as *look* says."""
    sys.stdout.reconfigure(encoding=look.encoding, errors="replace")  # type: ignore[union-attr]
    return _Console(
        highlight=False, markup=False, emoji=False, width=look.width, force_terminal=look.is_terminal,
        color_system=look.color_system, legacy_windows=False,
    )  # fmt: skip


def to_cell(text: object, style: str = "", *, max_length: int | None = None) -> Text:
    """Return *text* made harmless, in a style."""
    return Text(sanitize_text(text, max_length=max_length), style=style)


def build_grid(
    titles: Sequence[str], rows: Iterable[Sequence[Text | str]], *, unwrapped_columns: Sequence[int] = (0,)
) -> Table:
    """
    Return a table without lines.

    Args:
        titles: Headings.
        rows: Cells; a plain `str` is made harmless.
        keep: Columns that are folded and never cut, so that names can be copied.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    for number, title in enumerate(titles):
        table.add_column(title, overflow="fold", no_wrap=number in unwrapped_columns)
    for row in rows:
        table.add_row(*(one if isinstance(one, Text) else to_cell(one) for one in row))
    return table


def print_parts(console: Console, *parts: Any) -> None:
    """Print *parts*, without spaces at the ends of lines where nobody looks at a terminal."""
    if console.is_terminal:
        for part in parts:
            console.print(part)
        return
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    for line in captured.get().splitlines():
        console.file.write(f"{line.rstrip()}\n")


def print_json(value: Any) -> None:
    """Print *value* as JSON for programs: ASCII, so that no terminal is touched by what strangers wrote."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def build_rule_cell(rule: str, allowed: bool, note: str = "") -> Text:
    """Return the rule that decided, coloured by what it means; a refusal by rule 9 is a dash."""
    word = "-" if rule in {"no-way", "no-agent"} else rule
    style = RULE_STYLES.get(rule, "green" if allowed else "red") if word != "-" else "dim"
    return Text(f"{word}{note}", style=style)
