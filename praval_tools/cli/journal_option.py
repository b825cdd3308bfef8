"""Opens the journal: the registry's own, the one that `--journal` names, or the file in the working directory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import click
from attrs import frozen

from praval_tools import ToolRegistry
from praval_tools.cli.app_option import find_app_spec, load_app_registry
from praval_tools.cli.common import DEFAULT_JOURNAL, CommandError, UsageError, get_journal_option
from praval_tools.cli.config_option import select_config
from praval_tools.cli.output import print_note
from praval_tools.cli.plugin_commands import ensure_plugins_loaded, has_plugins_as_program
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
        is_explicit: `--journal` names it; otherwise it is the default.
    """

    path: Path
    is_explicit: bool

    @property
    def exists(self) -> bool:
        """Whether a file with content is there; only opening it shows whether it is a journal."""
        try:
            return self.path.stat().st_size > 0
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def make_missing_error(self) -> CommandError:
        """Return the error for a journal that is not there."""
        folder, fix = (
            ("", "Check the path.") if self.is_explicit else (" in this folder", "Name yours: --journal PATH.")
        )
        return CommandError(f"There is no journal {str(self.path)!r}{folder}. {fix}")


def locate_journal(ctx: click.Context) -> JournalLocation:
    """
    Return the location of the journal for a registry that has none of its own.

    Raises:
        CommandError: `--journal` names no file.
    """
    option = get_journal_option(ctx)
    try:
        path = parse_store_path(option or select_config(ctx).journal_path or DEFAULT_JOURNAL)
    except ToolUsageError as error:
        raise UsageError(str(error)) from error
    if path is None:
        raise UsageError("A journal in memory ends with the command. Name a file: --journal PATH.")
    return JournalLocation(path, option is not None)


def names_journal(ctx: click.Context) -> bool:
    """Tell whether `--journal` or the configuration names a journal, which then is made where there is none yet."""
    return get_journal_option(ctx) is not None or select_config(ctx).journal_path is not None


def open_selected_registry(
    ctx: click.Context, *, is_change: bool = False, create_journal: bool = False
) -> ToolRegistry:
    """
    Return the registry that `--app` names, with its journal: its own, else that of `--journal`, else the default one.

    It has the plugins that the program has in it.

    Args:
        ctx: Of the command; when it ends, a journal that was opened here is closed.
        is_change: The command calls or changes something; otherwise nothing is written to the journal.
        create_journal: Create the journal's file where there is none.

    Raises:
        CommandError: There is no such registry, or no such journal; the text names the fix.
    """
    opened: list[Path] = []

    def find_journal() -> Path | None:
        """Return the journal of calls and changes: what was done to a grant counts before its declaration."""
        location = locate_journal(ctx)
        opened.extend([location.path] if create_journal or location.exists else [])
        return opened[0] if opened else None

    registry = load_app_registry(ctx, find_journal if is_change else None)
    location = locate_journal(ctx)
    if opened:
        ctx.call_on_close(lambda: _detach_journal(registry))
    elif registry.journal is not None:
        name = registry.journal.name
        if location.is_explicit and (
            name == MEMORY_JOURNAL_NAME or os.path.realpath(location.path) != os.path.realpath(name)
        ):
            print_note(f"the registry has a journal of its own, {name}; --journal is not used.")
    elif create_journal or location.exists:
        registry.journal = location.path
        ctx.call_on_close(lambda: _detach_journal(registry))
    elif location.is_explicit:
        raise location.make_missing_error()
    if has_plugins_as_program(registry):
        ensure_plugins_loaded(registry, is_change=is_change)
    return registry


def _detach_journal(registry: ToolRegistry) -> None:
    with suppress(RegistryClosedError):  # its journal is closed as well
        registry.journal = None


def open_selected_journal(ctx: click.Context) -> Journal:
    """
    Return the journal to read: that of `--journal`, else of the registry that `--app` names, else the default one.

    Raises:
        CommandError: There is none; the text names the fix.
        JournalFileError: The file is not a journal; it is left as it is.
    """
    location = locate_journal(ctx)
    if not location.is_explicit and find_app_spec(ctx) is not None:
        own = load_app_registry(ctx).journal
        if own is not None and own.name == MEMORY_JOURNAL_NAME:
            raise CommandError("The registry keeps its journal in memory, which ended. Name a file: --journal PATH.")
        if own is not None:
            return own
    if not location.exists:
        raise location.make_missing_error()
    journal = open_journal(location.path)
    ctx.call_on_close(journal.close)
    return journal
