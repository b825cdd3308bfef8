"""Plugins on the command line: they fill the registry, and bring commands of their own."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Container
from contextlib import redirect_stdout

import click
from rich.text import Text

from praval_tools import PluginReport, PluginWarning, ToolRegistry, autoload, plugin_reports
from praval_tools.cli.common import PROBLEM, Failure, shown
from praval_tools.cli.output import print_all, screen
from praval_tools.config.plugins import plugins_config
from praval_tools.errors import ConfigError
from praval_tools.plugins.cli_commands import plugin_commands


def fill(registry: ToolRegistry, *, quiet: bool = False) -> tuple[PluginReport, ...]:
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
        raise Failure(str(error), PROBLEM) from error
    if fresh and not quiet:
        _tell(reports)
    return reports


def _tell(reports: tuple[PluginReport, ...]) -> None:
    console = screen(stderr=True)
    for one in reports:
        if one.error is not None:
            print_all(console, Text(shown(f"Note: {one.error} (more: praval-tools plugins)", most=400), style="yellow"))
        elif one.changed:
            since = f" since {one.upgraded_from}" if one.upgraded_from else ""
            text = f"Note: {one.distribution} {one.version} changed {', '.join(one.changed)}{since}."
            print_all(console, Text(shown(text, most=400), style="yellow"))


def commands(taken: Container[str]) -> dict[str, click.Command]:
    """Return the commands of plugins by name; one that fails is told on stderr, and harms no other."""
    try:
        with redirect_stdout(sys.stderr):
            found, failed = plugin_commands(taken, plugins_config())
    except ConfigError as error:  # no help is kept from anybody for that
        print_all(screen(stderr=True), Text(shown(f"Note: no commands of plugins: {error}"), style="yellow"))
        return {}
    _tell(tuple(failed))
    return found
