"""Makes registries of configurations, and puts configurations into force in registries that are there."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from praval_tools.config_loading.checks import sort_problems
from praval_tools.config_loading.declarations import Declarations
from praval_tools.config_loading.functions import find_import_problems
from praval_tools.config_loading.source import ConfigurationSource, Reading, find_source, read_configuration
from praval_tools.config_loading.watcher import watch_files
from praval_tools.errors import ConfigError, ToolError
from praval_tools.registry.registry import ToolRegistry

RegistryT = TypeVar("RegistryT", bound=ToolRegistry)
Paths = Sequence[str | os.PathLike[str]]


def configure_registry(registry: ToolRegistry, paths: Paths, *, watch: bool = False) -> ConfigurationSource:
    """
    Put a configuration into force in a registry, again if it is that already; see `ToolRegistry.configure_from`.

    Raises:
        ConfigError: With every problem; nothing was changed.
    """
    reading = read_configuration(paths)
    known = find_source(registry, reading.files)
    if known is None:
        source = ConfigurationSource(registry, paths)
        source.load(reading)
    else:
        source = known
        source.refresh()
    if watch and not source.is_watched:
        source.set_watcher(watch_files(source))
    return source


def build_registry(
    make: Callable[..., RegistryT],
    paths: Paths,
    *,
    watch: bool = False,
    open_journal: bool = True,
    find_journal: Callable[[], Path | None] | None = None,
) -> RegistryT:
    """
    Return a registry that *make* makes with the options of a configuration, which is in force in it.

    Args:
        make: `ToolRegistry`, or a class of it.
        paths: The files.
        watch: Load them again when they change.
        open_journal: Open the journal that the configuration names; otherwise the caller looks after that.
        find_journal: Returns another journal to open, before anything is loaded, where the files have no mistakes.

    Raises:
        ConfigError: With every problem.
    """
    reading = read_configuration(paths)
    open_journal = open_journal and not reading.problems
    if find_journal is not None and not reading.problems and (journal := find_journal()) is not None:
        make = partial(make, journal=journal)
    registry = _make_registry(make, reading.declarations, open_journal)
    source = ConfigurationSource(registry, paths, has_journal=open_journal)
    try:
        source.load(reading)
        if watch:
            source.set_watcher(watch_files(source))
    except BaseException:
        registry.close()
        raise
    return registry


def _make_registry(make: Callable[..., RegistryT], declarations: Declarations, open_journal: bool) -> RegistryT:
    """Return a registry with its journal; an error does not repeat a path that came from the environment."""
    try:
        return make(**_build_options(declarations, open_journal=open_journal))
    except ToolError:
        journal = declarations.journal
        table = None if journal is None else journal.document.data.get("journal")
        if journal is None or not isinstance(table, dict) or table.get("path") == journal.value.path:
            raise
        text = "the journal cannot be opened at this path, with the environment filled in"
        problem = journal.build_problem(text, "path")
    raise ConfigError([problem])


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
        is_whole: Whether no other tools come from a program: a tool that an agent lists is to be there.

    Raises:
        ConfigError: With every problem.
    """
    reading = read_configuration(paths)
    registry = ToolRegistry(name="check")
    source = ConfigurationSource(registry, paths, has_journal=False)
    problems = list(reading.problems)
    for tool in reading.declarations.tools:
        problems += find_import_problems(tool)
    source.load(Reading(reading.declarations, tuple(problems)), connect=False)
    if is_whole and (unknown := sort_problems(source.find_unknown_tools())):
        raise ConfigError(unknown)
    return registry
