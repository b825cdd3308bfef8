"""Shared by all commands, and fast to import: exit codes, common options, text that is safe to print."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import click

from praval_tools.cli.program import find_program
from praval_tools.lazy_import import load
from praval_tools.names import suggest_names
from praval_tools.report.command_line import CommandLine
from praval_tools.report.text import format_arguments as format_arguments
from praval_tools.report.text import sanitize_text as sanitize_text

EXIT_OK, EXIT_PROBLEM, EXIT_USAGE, EXIT_REFUSED, EXIT_NOT_WRITTEN = 0, 1, 2, 3, 4
EXIT_BROKEN_PIPE = 141

DEFAULT_JOURNAL = "praval_tools.db"
"""The journal of a registry that names none: a file in the working directory."""

_APP_KEY, _JOURNAL_KEY = "praval_tools.cli.app_option", "praval_tools.cli.journal"
_CONFIG_KEY = "praval_tools.cli.config_option"
JsonObject: TypeAlias = dict[str, Any]
F = TypeVar("F", bound=Callable[..., object])


class CommandError(Exception):
    """A command cannot continue; printed as one line, with its exit code."""

    def __init__(self, message: str, exit_code: int = EXIT_PROBLEM) -> None:
        super().__init__(message, exit_code)
        self.message, self.exit_code = message, exit_code

    def __str__(self) -> str:
        return self.message


class UsageError(CommandError):
    """A command was called with arguments that cannot be right."""

    def __init__(self, message: str) -> None:
        super().__init__(message, EXIT_USAGE)


class OutputError(CommandError):
    """
    Stdout does not take what a command prints; no text for a reader who left early.

    Args:
        error: What writing raised.
        effect: What the command did before it printed; always printed, so that nobody does it twice.
        exit_code: Of the command, if it is not a success.
    """

    def __init__(self, error: OSError, effect: str = "", exit_code: int = EXIT_OK) -> None:
        is_broken_pipe = isinstance(error, BrokenPipeError)
        text = f"The output could not be written: {error.strerror or error}."
        super().__init__(
            f"{effect} {text}" if effect else "" if is_broken_pipe else text,
            exit_code or (EXIT_BROKEN_PIPE if is_broken_pipe else EXIT_NOT_WRITTEN),
        )


def _make_context_option(name: str, metavar: str, key: str, help: str) -> Callable[[F], F]:
    """Return an option that may stand before and after the command's name; its value is kept in the context."""

    def store_value(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
        if value:
            ctx.meta[key] = value

    return click.option(name, metavar=metavar, expose_value=False, callback=store_value, help=help)


def app_option(command: F) -> F:
    """Add `--app`, which may stand before and after the command's name."""
    text = (
        "Where your registry is: a module, and in it a ToolRegistry or a function that returns one; "
        "the module alone means the default registry."
    )
    return _make_context_option("--app", "MODULE[:REGISTRY]", _APP_KEY, text)(command)


def config_option(command: F) -> F:
    """Add `--config`, which may be repeated, and stand before and after the command's name."""

    def store_values(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> None:
        ctx.meta[_CONFIG_KEY] = (*ctx.meta.get(_CONFIG_KEY, ()), *values)

    text = "A file that declares tools, servers, agents, grants; may be repeated. By default those of this folder."
    option = click.option(
        "--config", metavar="FILE", multiple=True, expose_value=False, callback=store_values, help=text
    )
    return option(command)


def journal_option(command: F) -> F:
    """Add `--journal`, which may stand before and after the command's name."""
    text = f"The journal of a registry that has none of its own; by default {DEFAULT_JOURNAL} in this folder."
    return _make_context_option("--journal", "PATH", _JOURNAL_KEY, text)(command)


def traceback_option(command: F) -> F:
    """Add `--traceback`; `main` reads it from the arguments, so that it works for errors of every stage."""
    return click.option("--traceback", is_flag=True, expose_value=False, help="Show full Python tracebacks.")(command)


def json_option(command: F) -> F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(command)


def get_app_option(ctx: click.Context) -> str | None:
    """Return the value of `--app`, wherever it stood."""
    value: str | None = ctx.meta.get(_APP_KEY)
    return value


def set_app_option(ctx: click.Context, value: str) -> None:
    """Take *value* for that of `--app`."""
    ctx.meta[_APP_KEY] = value


def get_config_option(ctx: click.Context) -> tuple[str, ...]:
    """Return the values of `--config`, wherever they stood."""
    values: tuple[str, ...] = ctx.meta.get(_CONFIG_KEY, ())
    return values


def set_journal_option(ctx: click.Context, value: str) -> None:
    """Take *value*, an argument of the command, for that of `--journal`."""
    ctx.meta[_JOURNAL_KEY] = value


def get_journal_option(ctx: click.Context) -> str | None:
    """Return the value of `--journal`, wherever it stood."""
    value: str | None = ctx.meta.get(_JOURNAL_KEY)
    return value


class CommandGroup(click.Group):
    """A group of commands that suggests similar names for a mistyped one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            names = self.list_commands(ctx)
            fix = suggest_names(args[0], names) or f" The commands are {', '.join(names)}."
            raise click.UsageError(f"No such command {args[0]!r}.{fix}", ctx)
        return super().resolve_command(ctx, args)


def find_command_line(ctx: click.Context, *, journal: str | None = None) -> CommandLine:
    """
    Return how a command to go on with begins: with the options of this one that say what it is about.

    Args:
        ctx: Of this command.
        journal: The journal, where this command names none.
    """
    journal = get_journal_option(ctx) or journal
    if journal is not None:  # a command is shown to others, who need no password
        journal = load("praval_tools.journal.storage.open_store").get_store_name(journal)
    options = [("--app", get_app_option(ctx)), *(("--config", path) for path in get_config_option(ctx))]
    options.append(("--journal", journal))
    named = [word for option, value in options if value is not None for word in (option, value)]
    return CommandLine(named, find_program())
