"""Plugins on the command line: they fill the registry, and bring commands of their own."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Container
from contextlib import redirect_stdout

import click
from rich.text import Text

from praval_tools import PluginReport, PluginWarning, ToolRegistry, autoload, plugin_reports
from praval_tools.cli.common import EXIT_PROBLEM, CommandError, sanitize_text
from praval_tools.cli.output import make_console, print_parts
from praval_tools.config.plugins import read_plugins_config
from praval_tools.errors import ConfigError
from praval_tools.plugins.cli_commands import load_plugin_commands as load_all_plugin_commands


def ensure_plugins_loaded(registry: ToolRegistry, *, quiet: bool = False) -> tuple[PluginReport, ...]:
    """
    Load the installed plugins, unless the registry has them, and tell on stderr what went wrong, unless *quiet*.

    Raises:
        Failure: The configuration has problems.
    """
    fresh = not plugin_reports(registry)
    try:
        with redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore", PluginWarning)
            reports = autoload(registry)
    except ConfigError as error:
        raise CommandError(str(error), EXIT_PROBLEM) from error
    if fresh and not quiet:
        _print_plugin_notes(reports)
    return reports


def _print_plugin_notes(reports: tuple[PluginReport, ...]) -> None:
    console = make_console(stderr=True)
    for one in reports:
        if one.error is not None:
            print_parts(
                console,
                Text(sanitize_text(f"Note: {one.error} (more: praval-tools plugins)", max_length=400), style="yellow"),
            )
        elif one.changed:
            since = f" since {one.upgraded_from}" if one.upgraded_from else ""
            text = f"Note: {one.distribution} {one.version} changed {', '.join(one.changed)}{since}."
            print_parts(console, Text(sanitize_text(text, max_length=400), style="yellow"))


def load_plugin_commands(taken: Container[str]) -> dict[str, click.Command]:
    """Return the commands of plugins by name; one that fails is told on stderr, and harms no other."""
    try:
        with redirect_stdout(sys.stderr):
            found, failed = load_all_plugin_commands(taken, read_plugins_config())
    except ConfigError as error:  # no help is kept from anybody for that
        print_parts(
            make_console(stderr=True), Text(sanitize_text(f"Note: no commands of plugins: {error}"), style="yellow")
        )
        return {}
    _print_plugin_notes(tuple(failed))
    return found
