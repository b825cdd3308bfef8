"""Finding the journal: the registry's own, the one that `--journal` names, or the file in the working directory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import click
from attrs import frozen

from praval_tools import ToolRegistry
from praval_tools.cli.app_option import load_app_registry
from praval_tools.cli.common import (
    DEFAULT_JOURNAL,
    EXIT_PROBLEM,
    EXIT_USAGE,
    CommandError,
    get_app_option,
    get_journal_option,
)
from praval_tools.cli.output import make_console, print_parts, to_cell
from praval_tools.cli.plugin_commands import ensure_plugins_loaded
from praval_tools.errors import RegistryClosedError, ToolUsageError
from praval_tools.journal import Journal, open_journal
from praval_tools.journal.storage.open_store import parse_store_path

MEMORY_JOURNAL_NAME = "memory"


@frozen
class JournalLocation:
    """
    The file of a journal.

    Args:
        path: Where it is, or would be.
        given: Somebody named it; else it is the default.
    """

    path: Path
    is_explicit: bool

    @property
    def exists(self) -> bool:
        """Whether there is something at it; whether that is a journal, opening it will tell."""
        try:
            return self.path.stat().st_size > 0
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def make_missing_error(self) -> CommandError:
        """Return what to say where there is nothing."""
        fix = "Check the path." if self.is_explicit else "Name yours: --journal PATH."
        return CommandError(
            f"There is no journal {str(self.path)!r}{'' if self.is_explicit else ' in this folder'}. {fix}"
        )


def locate_journal(ctx: click.Context) -> JournalLocation:
    """
    Return the place of the journal for a registry that has none of its own.

    Raises:
        Failure: `--journal` names nothing that outlasts the command.
    """
    chosen = get_journal_option(ctx)
    try:
        path = parse_store_path(chosen or DEFAULT_JOURNAL)
    except ToolUsageError as error:
        raise CommandError(str(error), EXIT_USAGE) from error
    if path is None:
        raise CommandError("A journal in memory ends with the command. Name a file: --journal PATH.", EXIT_USAGE)
    return JournalLocation(path, chosen is not None)


def open_selected_registry(ctx: click.Context, *, create_journal: bool = False) -> ToolRegistry:
    """
    Return the registry that `--app` names, with its journal: its own, else that of `--journal`, else the default one.

    The installed plugins are loaded into it, unless it has them.

    Args:
        ctx: Of the command; at its end a journal that was opened here is closed.
        make: Make the file of the journal where there is none.

    Raises:
        Failure: There is no such registry, or no such journal; the text names the fix.
    """
    registry = load_app_registry(ctx)
    place = locate_journal(ctx)
    if registry.journal is not None:
        if place.is_explicit and not is_same_file(place.path, registry.journal.name):
            own = f"Note: the registry keeps a journal of its own, {registry.journal.name}; --journal is not used."
            print_parts(make_console(stderr=True), to_cell(own, "yellow"))
    elif create_journal or place.exists:
        registry.journal = place.path
        ctx.call_on_close(lambda: _detach_journal(registry))
    elif place.is_explicit:
        raise place.make_missing_error()
    ensure_plugins_loaded(registry)
    return registry


def _detach_journal(registry: ToolRegistry) -> None:
    with suppress(RegistryClosedError):  # its journal is closed as well
        registry.journal = None


def is_same_file(path: Path, name: str) -> bool:
    """Tell whether *name*, of a store, is the file at *path*."""
    return name != MEMORY_JOURNAL_NAME and os.path.realpath(path) == os.path.realpath(name)


def open_selected_journal(ctx: click.Context) -> Journal:
    """
    Return the journal to read: that of `--journal`, else of the registry that `--app` names, else the default one.

    Raises:
        Failure: There is none; the text names the fix.
        JournalFileError: The file is no journal; it is left as it is.
    """
    place = locate_journal(ctx)
    if not place.is_explicit and get_app_option(ctx) is not None:
        own = load_app_registry(ctx).journal
        if own is not None:
            if own.name == MEMORY_JOURNAL_NAME:
                text = "The registry keeps its journal in memory, so that nothing of it is left. Name a file: --journal"
                raise CommandError(f"{text} PATH.", EXIT_PROBLEM)
            return own
    if not place.exists:
        raise place.make_missing_error()
    journal = open_journal(place.path)
    ctx.call_on_close(journal.close)
    return journal
