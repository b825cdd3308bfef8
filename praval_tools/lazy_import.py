"""Imports a module of this package on first use: the only place that imports own modules by name."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Final

from praval_tools.forks import FIRST_USE_LOCK

LAZY_MODULES: Final = (
    "praval_tools.access.bounds",  # only grants with bounds need it
    "praval_tools.cli",  # one module per command, imported when the command runs
    "praval_tools.formats",  # only exports to providers need it
    "praval_tools.journal.storage",  # brings SQLAlchemy, Alembic and drivers, which take longer than all the rest
    "praval_tools.runs.registry_journal",  # only registries with a journal or with statistics need it
    "praval_tools.schema.type_table",  # its rows look up the types inside a type, so it imports who needs it
)
"""The modules that may be loaded by name; a package stands for its modules."""


_PREFIXES: Final = tuple(f"{module}." for module in LAZY_MODULES)


def load(name: str) -> ModuleType:
    """
    Import a module of this package that is not needed in every program.

    An import of this kind is invisible to type checkers and to the checks of the layers, so the list stays short.

    Args:
        name: The full name, such as `praval_tools.formats`.

    Returns:
        The module; annotate what you take from it.

    Raises:
        ValueError: The module is not on the list; import it at the top of the module that needs it.
    """
    if not f"{name}.".startswith(_PREFIXES):
        raise ValueError(f"{name!r} is not one of the modules that are loaded on first use: {', '.join(LAZY_MODULES)}")
    with FIRST_USE_LOCK:
        return import_module(name)
