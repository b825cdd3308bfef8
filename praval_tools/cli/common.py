"""What every command shares and what must stay light: options, exit codes, and making hostile text harmless."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

OK, PROBLEM, USAGE, REFUSED = 0, 1, 2, 3

_APP = "praval_tools.cli.app"
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
