"""Loads the installed plugins for the command line, and the commands that they add to it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Container, Iterable
from contextlib import redirect_stdout

import click

from praval_tools import PluginReport, PluginWarning, ToolRegistry, autoload, get_tool_registry, plugin_reports
from praval_tools.cli.common import CommandError, find_command_line, sanitize_text
from praval_tools.cli.output import print_note
from praval_tools.config.app import read_app_config
from praval_tools.config.plugins import read_plugins_config
from praval_tools.errors import ConfigError
from praval_tools.plugins import cli_commands
from praval_tools.plugins.loader import autoload_unrecorded

_MAX_NOTE_LENGTH = 400


def has_plugins_as_program(registry: ToolRegistry) -> bool:
    """
    Whether the command line loads the installed plugins into *registry*: the default one, which has them in programs.

    Another registry has what its app loads into it; `autoload = true` in the configuration says that the app does.

    Raises:
        CommandError: The configuration has problems.
    """
    try:
        is_default = registry is get_tool_registry() and read_plugins_config().autoload
        return is_default or read_app_config().autoload
    except ConfigError as error:
        raise CommandError(str(error)) from error


def ensure_plugins_loaded(
    registry: ToolRegistry, ctx: click.Context | None = None, *, is_change: bool = False
) -> None:
    """
    Load the installed plugins, unless the registry has them, and say on stderr what went wrong.

    Args:
        registry: The registry.
        ctx: Of the command; None: nothing is said.
        is_change: The command changes something: the journal records the plugins; looking at them writes nothing.

    Raises:
        CommandError: The configuration has problems.
    """
    is_first_load = not plugin_reports(registry)
    try:
        with redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore", PluginWarning)
            reports = autoload(registry) if is_change else autoload_unrecorded(registry)
    except ConfigError as error:
        raise CommandError(str(error)) from error
    if is_first_load and ctx is not None:
        _print_plugin_notes(ctx, reports)


def _print_plugin_notes(ctx: click.Context, reports: Iterable[PluginReport]) -> None:
    for report in reports:
        if report.error is not None:
            text = f"{report.error} (more: {find_command_line(ctx).write('plugins')})"
        elif report.changed:
            text = f"{report.distribution} {report.version} changed {format_changes(report)}."
        else:
            continue
        print_note(sanitize_text(text, max_length=_MAX_NOTE_LENGTH))


def format_changes(report: PluginReport) -> str:
    """Return the tools that a new version of a plugin changed, and since which version."""
    since = f" since {report.upgraded_from}" if report.upgraded_from else ""
    return f"{', '.join(report.changed)}{since}"


def load_plugin_commands(ctx: click.Context, taken: Container[str]) -> dict[str, click.Command]:
    """Return the commands of plugins by name; one that fails is reported on stderr, and the others stay."""
    try:
        with redirect_stdout(sys.stderr):
            commands, failures = cli_commands.load_plugin_commands(taken, read_plugins_config())
    except ConfigError as error:  # the help must work all the same
        print_note(f"no commands of plugins: {error}")
        return {}
    _print_plugin_notes(ctx, failures)
    return commands
