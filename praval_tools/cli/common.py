"""What every command shares and what must stay light: options, exit codes, and making hostile text harmless."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from praval_tools.names import find_similar_names

EXIT_OK, EXIT_PROBLEM, EXIT_USAGE, EXIT_REFUSED = 0, 1, 2, 3

DEFAULT_JOURNAL = "praval_tools.db"
"""Where the command line keeps what has no other place: a file in the working directory."""

_APP_KEY, _JOURNAL_KEY = "praval_tools.cli.app_option", "praval_tools.cli.journal"
_UNSAFE_CHARACTERS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)

F = TypeVar("F", bound=Callable[..., Any])


class CommandError(Exception):
    """A command cannot go on; printed as one line, with its exit code."""

    def __init__(self, message: str, exit_code: int = EXIT_PROBLEM) -> None:
        super().__init__(message, exit_code)
        self.message, self.exit_code = message, exit_code

    def __str__(self) -> str:
        return self.message


def sanitize_text(text: object, *, keep_line_breaks: bool = False, max_length: int | None = None) -> str:
    """
    Return *text* safe for a terminal: control characters, escape sequences and invisible marks are spelled out.

    Args:
        text: Anything; a name or description may come from a stranger.
        lines: Keep line breaks; without, they become spaces.
        most: Cut to so many characters.
    """
    plain = str(text)
    if not keep_line_breaks:
        plain = " ".join(plain.split())
    safe = _UNSAFE_CHARACTERS.sub(lambda match: match[0] if match[0] == "\n" else _escape_character(match[0]), plain)
    return safe if max_length is None or len(safe) <= max_length else f"{safe[: max_length - 1]}…"


def _escape_character(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def _store_option(key: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def store_value(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value:
            ctx.meta[key] = value

    return store_value


def app_option(command: F) -> F:
    """Add `--app`, which is taken before and after the command's name."""
    return click.option(
        "--app", metavar="MODULE[:REGISTRY]", expose_value=False, callback=_store_option(_APP_KEY),
        help="Where your registry is: a module, and in it a ToolRegistry or a function that returns one; "
        "the module alone means the default registry.",
    )(command)  # fmt: skip


def journal_option(command: F) -> F:
    """Add `--journal`, which is taken before and after the command's name."""
    return click.option(
        "--journal", metavar="PATH", expose_value=False, callback=_store_option(_JOURNAL_KEY),
        help=f"The journal of a registry that has none of its own; by default {DEFAULT_JOURNAL} in this folder.",
    )(command)  # fmt: skip


def traceback_option(command: F) -> F:
    """Add `--traceback`; `main` reads it from the arguments, since it is for errors of any stage."""
    return click.option("--traceback", is_flag=True, expose_value=False, help="Show whole Python errors.")(command)


def json_option(command: F) -> F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(command)


def get_app_option(ctx: click.Context) -> str | None:
    """Return what `--app` said, in whichever place."""
    chosen: str | None = ctx.meta.get(_APP_KEY)
    return chosen


def get_journal_option(ctx: click.Context) -> str | None:
    """Return what `--journal` said, in whichever place."""
    chosen: str | None = ctx.meta.get(_JOURNAL_KEY)
    return chosen


def reject_unknown_command(ctx: click.Context, arguments: list[str], commands: Iterable[str]) -> None:
    """Refuse a command that does not exist, and name those that were meant."""
    commands = tuple(commands)
    if arguments and arguments[0] not in commands and not arguments[0].startswith("-"):
        fix = " or ".join(find_similar_names(arguments[0], commands)) or ", ".join(commands)
        raise click.UsageError(f"No such command {arguments[0]!r}; there is {fix}.", ctx)


class CommandGroup(click.Group):
    """A command that has commands of its own."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        reject_unknown_command(ctx, args, self.commands)
        return super().resolve_command(ctx, args)
