"""Opens the journal: the registry's own, the one that `--journal` names, or the file in the working directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import click
from attrs import frozen

from praval_tools import ToolRegistry
from praval_tools.cli.app_option import find_app_spec, load_app_registry
from praval_tools.cli.common import DEFAULT_JOURNAL, CommandError, UsageError, get_app_option, get_journal_option
from praval_tools.cli.config_option import select_config
from praval_tools.cli.output import print_note
from praval_tools.cli.plugin_commands import ensure_plugins_loaded, has_plugins_as_program
from praval_tools.errors import RegistryClosedError, ToolUsageError
from praval_tools.journal import Journal
from praval_tools.journal.storage.open_store import get_store_name, is_database_url, open_store, parse_store_path
from praval_tools.plugins.click_contexts import call_on_close
from praval_tools.registry.registry import get_runtime
from praval_tools.runs.given_results import make_result_encoder
from praval_tools.runs.registry_journal import make_call_plans

MEMORY_JOURNAL_NAME = "memory"


@frozen
class JournalLocation:
    """
    Where a journal is.

    Args:
        place: The path where its file is, or would be; or the URL of its database.
        is_explicit: `--journal` names it; otherwise it is the default.
    """

    place: Path | str
    is_explicit: bool

    @property
    def name(self) -> str:
        """The path, or the URL without secrets."""
        return get_store_name(self.place)

    @property
    def exists(self) -> bool:
        """Whether a file with content is there; only opening it, or a database, shows whether it is a journal."""
        if isinstance(self.place, str):
            return True
        try:
            return self.place.stat().st_size > 0
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def make_missing_error(self) -> CommandError:
        """Return the error for a journal that is not there."""
        folder, fix = (
            ("", "Check the path.") if self.is_explicit else (" in this folder", "Name yours: --journal PATH.")
        )
        return CommandError(f"There is no journal {self.name!r}{folder}. {fix}")


def locate_journal(ctx: click.Context) -> JournalLocation:
    """
    Return the location of the journal for a registry that has none of its own.

    Raises:
        CommandError: `--journal` names no file.
    """
    option = get_journal_option(ctx)
    return JournalLocation(
        parse_place(option or select_config(ctx).journal_path or DEFAULT_JOURNAL), option is not None
    )


def parse_place(text: str) -> Path | str:
    """
    Return the path or the URL that *text* names.

    Raises:
        CommandError: It names no place that outlives the command.
    """
    if is_database_url(text):
        return text
    try:
        path = parse_store_path(text)
    except ToolUsageError as error:
        raise UsageError(str(error)) from error
    if path is None:
        raise UsageError("A journal in memory ends with the command. Name a file: --journal PATH.")
    return path


def names_journal(ctx: click.Context) -> bool:
    """Tell whether `--journal` or the configuration names a journal, which then is made where there is none yet."""
    return get_journal_option(ctx) is not None or select_config(ctx).journal_path is not None


def names_memory(ctx: click.Context) -> bool:
    """Tell whether the configuration keeps its journal in memory, and `--journal` names no other."""
    return get_journal_option(ctx) is None and select_config(ctx).journal_path == MEMORY_JOURNAL_NAME


def open_selected_registry(
    ctx: click.Context, *, is_change: bool = False, create_journal: bool = False
) -> ToolRegistry:
    """
    Return the registry that `--app` names, with its journal: its own, else that of `--journal`, else the default one.

    It has the plugins that the program has in it. Its journal is opened before files of a configuration are loaded.

    Args:
        ctx: Of the command; when it ends, a journal that was opened here is closed.
        is_change: The command calls or changes something; otherwise nothing is written to the journal.
        create_journal: Create the journal's file where there is none.

    Raises:
        CommandError: There is no such registry, or no such journal; the text names the fix.
    """
    is_open = False

    @contextmanager
    def open_before_loading(registry: ToolRegistry) -> Iterator[None]:
        nonlocal is_open
        is_open = True
        _open_journal(ctx, registry, create=create_journal)
        with nullcontext() if is_change else _keep_changes_here(registry):
            yield

    registry = load_app_registry(ctx, open_before_loading)
    if not is_open:
        _open_journal(ctx, registry, create=create_journal)
    if has_plugins_as_program(registry):
        ensure_plugins_loaded(registry, ctx, is_change=is_change)
    return registry


def _open_journal(ctx: click.Context, registry: ToolRegistry, *, create: bool) -> None:
    """Give a registry that has no journal of its own the one of the command, if it is there or to be created."""
    if registry.journal is None and names_memory(ctx):
        registry.journal = MEMORY_JOURNAL_NAME
        return
    location = locate_journal(ctx)
    if registry.journal is not None:
        name = registry.journal.name
        if location.is_explicit and (
            name == MEMORY_JOURNAL_NAME or os.path.realpath(location.name) != os.path.realpath(name)
        ):
            print_note(f"the registry has a journal of its own, {name}; --journal is not used.")
    elif create or location.exists:
        registry.journal = location.place
        call_on_close(ctx, lambda: _detach_journal(registry))
    elif location.is_explicit:
        raise location.make_missing_error()


@contextmanager
def _keep_changes_here(registry: ToolRegistry) -> Iterator[None]:
    """Write nothing of what is changed inside to the journal: a look does not record what files declare."""
    store = get_runtime(registry).access_store
    persistence, store.persistence = store.persistence, None
    try:
        yield
    finally:
        store.persistence = persistence


def open_declared_registry(ctx: click.Context) -> ToolRegistry:
    """
    Return the registry as the app and the configuration declare it, with its plugins.

    The journal of the working directory does not count, so that the result is the same on every machine; that of
    `--journal` does.

    Raises:
        CommandError: There is no such registry, or no such journal; the text names the fix.
    """
    if get_journal_option(ctx) is not None:
        return open_selected_registry(ctx)
    registry = load_app_registry(ctx)
    if has_plugins_as_program(registry):
        ensure_plugins_loaded(registry, ctx)
    return registry


def _detach_journal(registry: ToolRegistry) -> None:
    with suppress(RegistryClosedError):  # its journal is closed as well
        registry.journal = None


def open_selected_journal(ctx: click.Context, *, knows_tools: bool = False) -> Journal:
    """
    Return the journal to read: that of `--journal`, else of the registry that `--app` names, else the default one.

    Args:
        ctx: Of the command.
        knows_tools: It knows what the tools of that registry mark as secret, and what they return.

    Raises:
        CommandError: There is none; the text names the fix.
        JournalFileError: The file is not a journal; it is left as it is.
    """
    location, registry, find_plan, encode_result = locate_journal(ctx), None, None, None
    if not location.is_explicit and find_app_spec(ctx) is not None:
        registry = load_app_registry(ctx)
        if (own := registry.journal) is not None and own.name == MEMORY_JOURNAL_NAME:
            raise CommandError("The registry keeps its journal in memory, which ended. Name a file: --journal PATH.")
        if own is not None:
            return own
    if not location.exists:
        raise location.make_missing_error()
    store = open_store(location.place)
    call_on_close(ctx, store.close)
    if knows_tools and (registry is not None or get_app_option(ctx) is not None):
        runtime = get_runtime(registry or load_app_registry(ctx))
        find_plan = make_call_plans(runtime, store).get_redaction_plan_by_name
        encode_result = make_result_encoder(runtime)
    return Journal(store, find_plan=find_plan, encode_result=encode_result)
