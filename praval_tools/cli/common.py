"""What every command shares and what must stay light: options, exit codes, and making hostile text harmless."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from praval_tools.names import near

OK, PROBLEM, USAGE, REFUSED = 0, 1, 2, 3

DEFAULT_JOURNAL = "praval_tools.db"
"""Where the command line keeps what has no other place: a file in the working directory."""

_APP, _JOURNAL = "praval_tools.cli.app_option", "praval_tools.cli.journal"
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)

F = TypeVar("F", bound=Callable[..., Any])


class Failure(Exception):
    """A command cannot go on; printed as one line, with its exit code."""

    def __init__(self, message: str, exit_code: int = PROBLEM) -> None:
        super().__init__(message, exit_code)
        self.message, self.exit_code = message, exit_code

    def __str__(self) -> str:
        return self.message


def shown(text: object, *, lines: bool = False, most: int | None = None) -> str:
    """
    Return *text* safe for a terminal: control characters, escape sequences and invisible marks are spelled out.

    Args:
        text: Anything; a name or description may come from a stranger.
        lines: Keep line breaks; without, they become spaces.
        most: Cut to so many characters.
    """
    plain = str(text)
    if not lines:
        plain = " ".join(plain.split())
    safe = _UNSAFE.sub(lambda match: match[0] if match[0] == "\n" else _spelled(match[0]), plain)
    return safe if most is None or len(safe) <= most else f"{safe[: most - 1]}…"


def _spelled(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def _remember(key: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def keep(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value:
            ctx.meta[key] = value

    return keep


def app_option(command: F) -> F:
    """Add `--app`, which is taken before and after the command's name."""
    return click.option(
        "--app", metavar="MODULE[:REGISTRY]", expose_value=False, callback=_remember(_APP),
        help="Where your registry is: a module, and in it a ToolRegistry or a function that returns one; "
        "the module alone means the default registry.",
    )(command)  # fmt: skip


def journal_option(command: F) -> F:
    """Add `--journal`, which is taken before and after the command's name."""
    return click.option(
        "--journal", metavar="PATH", expose_value=False, callback=_remember(_JOURNAL),
        help=f"The journal of a registry that has none of its own; by default {DEFAULT_JOURNAL} in this folder.",
    )(command)  # fmt: skip


def traceback_option(command: F) -> F:
    """Add `--traceback`; `main` reads it from the arguments, since it is for errors of any stage."""
    return click.option("--traceback", is_flag=True, expose_value=False, help="Show whole Python errors.")(command)


def json_option(command: F) -> F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(command)


def chosen_app(ctx: click.Context) -> str | None:
    """Return what `--app` said, in whichever place."""
    chosen: str | None = ctx.meta.get(_APP)
    return chosen


def chosen_journal(ctx: click.Context) -> str | None:
    """Return what `--journal` said, in whichever place."""
    chosen: str | None = ctx.meta.get(_JOURNAL)
    return chosen


def refuse_unknown(ctx: click.Context, arguments: list[str], commands: Iterable[str]) -> None:
    """Refuse a command that does not exist, and name those that were meant."""
    commands = tuple(commands)
    if arguments and arguments[0] not in commands and not arguments[0].startswith("-"):
        fix = " or ".join(near(arguments[0], commands)) or ", ".join(commands)
        raise click.UsageError(f"No such command {arguments[0]!r}; there is {fix}.", ctx)


class Branch(click.Group):
    """A command that has commands of its own."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        refuse_unknown(ctx, args, self.commands)
        return super().resolve_command(ctx, args)
