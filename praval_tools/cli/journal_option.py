"""Finding the journal: the registry's own, the one that `--journal` names, or the file in the working directory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import click
from attrs import frozen

from praval_tools import ToolRegistry
from praval_tools.cli.app_option import app_registry
from praval_tools.cli.common import DEFAULT_JOURNAL, PROBLEM, USAGE, Failure, chosen_app, chosen_journal
from praval_tools.cli.output import cell, print_all, screen
from praval_tools.cli.plugin_commands import fill
from praval_tools.errors import RegistryClosedError, ToolUsageError
from praval_tools.journal import Journal, open_journal
from praval_tools.journal.storage.open_store import path_of

MEMORY = "memory"


@frozen
class Place:
    """
    The file of a journal.

    Args:
        path: Where it is, or would be.
        given: Somebody named it; else it is the default.
    """

    path: Path
    given: bool

    @property
    def there(self) -> bool:
        """Whether there is something at it; whether that is a journal, opening it will tell."""
        try:
            return self.path.stat().st_size > 0
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def missing(self) -> Failure:
        """Return what to say where there is nothing."""
        fix = "Check the path." if self.given else "Name yours: --journal PATH."
        return Failure(f"There is no journal {str(self.path)!r}{'' if self.given else ' in this folder'}. {fix}")


def place_of(ctx: click.Context) -> Place:
    """
    Return the place of the journal for a registry that has none of its own.

    Raises:
        Failure: `--journal` names nothing that outlasts the command.
    """
    chosen = chosen_journal(ctx)
    try:
        path = path_of(chosen or DEFAULT_JOURNAL)
    except ToolUsageError as error:
        raise Failure(str(error), USAGE) from error
    if path is None:
        raise Failure("A journal in memory ends with the command. Name a file: --journal PATH.", USAGE)
    return Place(path, chosen is not None)


def registry_of(ctx: click.Context, *, make: bool = False) -> ToolRegistry:
    """
    Return the registry that `--app` names, with its journal: its own, else that of `--journal`, else the default one.

    The installed plugins are loaded into it, unless it has them.

    Args:
        ctx: Of the command; at its end a journal that was opened here is closed.
        make: Make the file of the journal where there is none.

    Raises:
        Failure: There is no such registry, or no such journal; the text names the fix.
    """
    registry = app_registry(ctx)
    place = place_of(ctx)
    if registry.journal is not None:
        if place.given and not same_file(place.path, registry.journal.name):
            own = f"Note: the registry keeps a journal of its own, {registry.journal.name}; --journal is not used."
            print_all(screen(stderr=True), cell(own, "yellow"))
    elif make or place.there:
        registry.journal = place.path
        ctx.call_on_close(lambda: _detach(registry))
    elif place.given:
        raise place.missing()
    fill(registry)
    return registry


def _detach(registry: ToolRegistry) -> None:
    with suppress(RegistryClosedError):  # its journal is closed as well
        registry.journal = None


def same_file(path: Path, name: str) -> bool:
    """Tell whether *name*, of a store, is the file at *path*."""
    return name != MEMORY and os.path.realpath(path) == os.path.realpath(name)


def journal_of(ctx: click.Context) -> Journal:
    """
    Return the journal to read: that of `--journal`, else of the registry that `--app` names, else the default one.

    Raises:
        Failure: There is none; the text names the fix.
        JournalFileError: The file is no journal; it is left as it is.
    """
    place = place_of(ctx)
    if not place.given and chosen_app(ctx) is not None:
        own = app_registry(ctx).journal
        if own is not None:
            if own.name == MEMORY:
                text = "The registry keeps its journal in memory, so that nothing of it is left. Name a file: --journal"
                raise Failure(f"{text} PATH.", PROBLEM)
            return own
    if not place.there:
        raise place.missing()
    journal = open_journal(place.path)
    ctx.call_on_close(journal.close)
    return journal
