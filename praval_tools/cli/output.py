"""Prints tables, notes and JSON for terminals of any width, for pipes, and without colour."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import NoReturn

from attrs import frozen
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from praval_tools import Decision
from praval_tools.cli.common import EXIT_OK, OutputError, sanitize_text
from praval_tools.report.access_matrix import NO_ACCESS_RULES
from praval_tools.tools.decision import Tried

_UNBOUNDED_WIDTH = 100_000
_RULE_STYLES = {
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


make_plain_console = partial(_Console, highlight=False, markup=False, emoji=False)
"""Makes a console that reads no markup, guesses no highlights, and leaves a broken pipe to the caller."""


def make_console(*, stderr: bool = False, width: int | None = None) -> Console:
    """
    Return a console that, in a pipe, neither colours nor wraps.

    Args:
        stderr: Print to stderr instead of stdout.
        width: Width in a pipe; by default lines are as long as they are.
    """
    console = make_plain_console(stderr=stderr)
    return console if console.is_terminal else make_plain_console(stderr=stderr, width=width or _UNBOUNDED_WIDTH)


def print_parts(console: Console, *parts: RenderableType) -> None:
    """Print *parts*; outside a terminal without spaces at the ends of lines."""
    if console.is_terminal:
        _print_all(console, parts)
        return
    with console.capture() as captured:
        _print_all(console, parts)
    for line in captured.get().splitlines():
        console.file.write(f"{line.rstrip()}\n")


def _print_all(console: Console, parts: Iterable[RenderableType]) -> None:
    for part in parts:  # Rich joins texts, and the joined one wraps
        console.print(part, soft_wrap=isinstance(part, Text) and part.overflow == "ignore")


def unwrap(text: Text) -> Text:
    """Have a terminal break the lines of *text*, so that a command in it can be copied as one line."""
    text.no_wrap, text.overflow = True, "ignore"
    return text


def print_result(*parts: RenderableType) -> None:
    """Print *parts* to stdout."""
    print_parts(make_console(), *parts)


@contextmanager
def report_effect(effect: str, exit_code: int = EXIT_OK) -> Iterator[None]:
    """
    Print inside it what was done.

    Args:
        effect: What was done, in a sentence; printed on stderr where stdout does not take what is printed.
        exit_code: Of the command.

    Raises:
        OutputError: Stdout does not take it.
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        raise OutputError(error, effect, exit_code) from error


def print_message(text: RenderableType, style: str = "") -> None:
    """Print a line to stderr; where stderr does not take it, nobody reads it."""
    with suppress(OSError):
        print_parts(make_console(stderr=True), to_cell(text, style) if isinstance(text, str) else text)


def print_note(text: str) -> None:
    """Print a line to stderr that a person should see and a program need not."""
    print_message(f"Note: {text}", "yellow")


def print_json(value: object) -> None:
    """Print *value* as JSON for programs: ASCII, so that untrusted text cannot control the terminal."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def to_cell(text: object, style: str = "", *, max_length: int | None = None) -> Text:
    """Return *text* sanitized, in a style."""
    return Text(sanitize_text(text, max_length=max_length), style=style)


def make_table(*, gap: int = 2, show_header: bool = True) -> Table:
    """Return an empty table without lines, with *gap* spaces between its columns."""
    return Table(
        box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold", show_edge=False, show_header=show_header
    )


def build_grid(
    titles: Sequence[str], rows: Iterable[Sequence[object]], *, unwrapped_columns: Sequence[int] = (0,)
) -> Table:
    """
    Return a table without lines.

    Args:
        titles: Headings.
        rows: Cells; what is not a `Text` is sanitized.
        unwrapped_columns: Columns that are never wrapped at spaces, so that names can be copied.
    """
    table = make_table()
    for number, title in enumerate(titles):
        table.add_column(title, overflow="fold", no_wrap=number in unwrapped_columns)
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else to_cell(cell) for cell in row))
    return table


def build_key_value_grid(rows: Iterable[tuple[str, object]], *, key_style: str = "dim") -> Table:
    """Return a table of names and values without headings; rows whose value is an empty text are left out."""
    table = build_grid(("", ""), [(to_cell(name, key_style), value) for name, value in rows if value != ""])
    table.show_header = False
    return table


def build_rule_cell(rule: str, allowed: bool, note: str = "") -> Text:
    """Return the rule that decided, coloured by what it means; a dash where no rule gives access."""
    if rule in NO_ACCESS_RULES:
        return Text(f"-{note}", style="dim")
    return Text(f"{rule}{note}", style=_RULE_STYLES.get(rule, "green" if allowed else "red"))


def build_tried_cells(tried: Tried, decision: Decision) -> tuple[Text, Text, Text]:
    """Return rule, answer and explanation of one of the rules that were tried for *decision*."""
    style = "" if tried.holds else "dim"
    return (
        Text(tried.rule, style="bold" if tried.rule == decision.rule else ""),
        Text("yes" if tried.holds else "no", style=style),
        to_cell(tried.why, style),
    )


# ── characters beyond ASCII ──────────────────────────────────────────────────────────────────────


@frozen(kw_only=True)
class Glyphs:
    """The few characters beyond ASCII, or what replaces them where the output cannot encode them."""

    yes: str
    no: str
    change: str
    bullet: str
    levels: str
    bar: str
    axis: str
    inside: str


_UNICODE_GLYPHS = Glyphs(yes="✓", no="✗", change="→", bullet="•", levels=" ▁▂▃▄▅▆▇█", bar="█", axis="│", inside="└ ")
_ASCII_GLYPHS = Glyphs(yes="+", no="x", change=">", bullet="-", levels=" .:-=+*#%", bar="#", axis="|", inside="` ")


def select_glyphs(encoding: str) -> Glyphs:
    """Return the characters that *encoding* can encode."""
    try:
        "✓✗▁▂▃▄▅▆▇█│".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return _ASCII_GLYPHS
    return _UNICODE_GLYPHS
