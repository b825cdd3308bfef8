"""Makes registries of configurations, and puts configurations into force in registries that are there."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TypeAlias, TypeVar

from praval_tools.config.system import JournalConfig
from praval_tools.config_loading.checks import sort_problems
from praval_tools.config_loading.declarations import Declarations, Located
from praval_tools.config_loading.functions import find_function_problems
from praval_tools.config_loading.references import find_names_beside
from praval_tools.config_loading.source import ConfigurationSource, Reading, find_source, read_configuration
from praval_tools.errors import ConfigError, ToolError
from praval_tools.registry.registry import ToolRegistry

RegistryT = TypeVar("RegistryT", bound=ToolRegistry)
Paths = Sequence[str | os.PathLike[str]]
LoadingContext: TypeAlias = Callable[[ToolRegistry], AbstractContextManager[object]]
"""Returns a context in which the files are loaded, if they have no mistakes: it opens a journal before."""


def configure_registry(
    registry: ToolRegistry, paths: Paths, *, watch: bool = False, context: LoadingContext | None = None
) -> ConfigurationSource:
    """
    Put a configuration into force in a registry, again if it is that already; see `ToolRegistry.configure_from`.

    Args:
        registry: The registry.
        paths: The files.
        watch: Load them again when they change.
        context: In which they are loaded: the caller opens the journal there, if the registry has none.

    Raises:
        ConfigError: With every problem; nothing was changed.
    """
    reading = read_configuration(paths)
    known = find_source(registry, reading.files)
    if known is None:
        source = ConfigurationSource(registry, paths, has_journal=context is None or registry.journal is not None)
        with _enter_context(context, registry, reading):
            source.load(reading)
    else:
        source = known
        source.refresh()
    if watch:
        source.watch()
    return source


def build_registry(
    make: Callable[..., RegistryT], paths: Paths, *, watch: bool = False, context: LoadingContext | None = None
) -> RegistryT:
    """
    Return a registry that *make* makes with the options of a configuration, which is in force in it.

    Args:
        make: `ToolRegistry`, or a class of it.
        paths: The files.
        watch: Load them again when they change.
        context: In which they are loaded: the caller opens the journal there, instead of the one that they name.

    Raises:
        ConfigError: With every problem.
    """
    reading = read_configuration(paths)
    open_journal = context is None and not reading.problems
    registry, loading = _make_registry(make, reading, context, open_journal=open_journal)
    try:
        with loading:
            source = ConfigurationSource(registry, paths, has_journal=open_journal)
            source.load(reading)
        if watch:
            source.watch()
    except BaseException:
        registry.close()
        raise
    return registry


def _make_registry(
    make: Callable[..., RegistryT], reading: Reading, context: LoadingContext | None, *, open_journal: bool
) -> tuple[RegistryT, ExitStack]:
    """Return a registry with its journal, and what to leave once it is loaded; no error repeats a secret path."""
    try:
        registry = make(**_build_options(reading.declarations, open_journal=open_journal))
        return registry, _enter_context(context, registry, reading)
    except ToolError as error:
        journal = reading.declarations.journal
        if journal is None or not _is_filled_in(journal) or journal.value.path not in str(error):
            raise
        text = "the journal cannot be opened at this path, with the environment filled in"
        problem = journal.build_problem(text, "path")
    raise ConfigError([problem])  # outside: the error there has the path


def _enter_context(context: LoadingContext | None, registry: ToolRegistry, reading: Reading) -> ExitStack:
    """Return the entered context in which files are loaded; for those with mistakes no journal is opened."""
    stack = ExitStack()
    if context is not None and not reading.problems:
        stack.enter_context(context(registry))
    return stack


def _is_filled_in(journal: Located[JournalConfig]) -> bool:
    """Tell whether the path of a journal came from the environment, at least in part."""
    table = journal.document.data.get("journal")
    return isinstance(table, dict) and table.get("path") != journal.value.path


def _build_options(declarations: Declarations, *, open_journal: bool) -> dict[str, object]:
    """Return the options that a registry has from its beginning."""
    options: dict[str, object] = {}
    if (name := declarations.scalars.get("name")) is not None:
        options["name"] = name.value
    if (journal := declarations.journal) is not None:
        entry = journal.value
        given = {"durability": entry.durability, "journal_errors": entry.errors, "secrets": entry.secrets}
        options |= {key: value for key, value in given.items() if value is not None}
        if open_journal:
            options["journal"] = entry.path
    return options


def check_configuration(paths: Paths, *, is_whole: bool = True) -> ToolRegistry:
    """
    Return a registry with a configuration, of which everything was imported, and nothing connected or opened.

    Args:
        paths: The files.
        is_whole: Whether no tools and agents come from a program: those that are named are to be there.

    Raises:
        ConfigError: With every problem.
    """
    reading = read_configuration(paths)
    registry = ToolRegistry(name="check")
    source = ConfigurationSource(registry, paths, has_journal=False)
    problems = list(reading.problems)
    for tool in reading.declarations.tools:
        problems += find_function_problems(tool, reading.declarations.schemas.get(tool.value.name))
    try:
        source.load(Reading(reading.declarations, tuple(problems)), connect=False)
    except ConfigError as error:
        beside = find_names_beside(reading.declarations, error.problems) if is_whole else ()
        raise ConfigError(sort_problems([*error.problems, *beside])) from None
    if is_whole and (unknown := sort_problems(source.find_unknown_names())):
        raise ConfigError(unknown)
    return registry
