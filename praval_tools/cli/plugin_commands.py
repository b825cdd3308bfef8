"""Plugins on the command line: loading them into the registry, and the commands that they add."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Container, Iterable
from contextlib import redirect_stdout

import click

from praval_tools import PluginReport, PluginWarning, ToolRegistry, autoload, plugin_reports
from praval_tools.cli.common import CommandError, sanitize_text
from praval_tools.cli.output import print_note
from praval_tools.config.plugins import read_plugins_config
from praval_tools.errors import ConfigError
from praval_tools.plugins import cli_commands

_MAX_NOTE_LENGTH = 400


def ensure_plugins_loaded(registry: ToolRegistry, *, quiet: bool = False) -> None:
    """
    Load the installed plugins, unless the registry has them, and say on stderr what went wrong, unless *quiet*.

    Raises:
        CommandError: The configuration has problems.
    """
    is_first_load = not plugin_reports(registry)
    try:
        with redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore", PluginWarning)
            reports = autoload(registry)
    except ConfigError as error:
        raise CommandError(str(error)) from error
    if is_first_load and not quiet:
        _print_plugin_notes(reports)


def _print_plugin_notes(reports: Iterable[PluginReport]) -> None:
    for report in reports:
        if report.error is not None:
            text = f"{report.error} (more: praval-tools plugins)"
        elif report.changed:
            text = f"{report.distribution} {report.version} changed {format_changes(report)}."
        else:
            continue
        print_note(sanitize_text(text, max_length=_MAX_NOTE_LENGTH))


def format_changes(report: PluginReport) -> str:
    """Return the tools that a new version of a plugin changed, and since which version."""
    since = f" since {report.upgraded_from}" if report.upgraded_from else ""
    return f"{', '.join(report.changed)}{since}"


def load_plugin_commands(taken: Container[str]) -> dict[str, click.Command]:
    """Return the commands of plugins by name; one that fails is reported on stderr, and the others stay."""
    try:
        with redirect_stdout(sys.stderr):
            commands, failures = cli_commands.load_plugin_commands(taken, read_plugins_config())
    except ConfigError as error:  # the help must work all the same
        print_note(f"no commands of plugins: {error}")
        return {}
    _print_plugin_notes(failures)
    return commands
