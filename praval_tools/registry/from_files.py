"""The methods of a registry for files of a configuration; they reach the package above that loads these."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final, Self, TypeAlias, cast

from praval_tools.access.commands import require_operator
from praval_tools.execution.context import resolve_actor
from praval_tools.execution.protocols import ToolSource
from praval_tools.misuse import explain_misuse_and_take_plain_arguments

Paths: TypeAlias = Sequence[str | os.PathLike[str]]
RegistryBuilder: TypeAlias = Callable[[Callable[..., object], Paths, bool], object]
"""Makes a registry, by its class, of the files of a configuration; the last argument: watch them."""
RegistryConfigurer: TypeAlias = Callable[[object, Paths, bool], ToolSource]
"""Puts a configuration into force in a registry."""

_builders: Final[list[RegistryBuilder]] = []
_configurers: Final[list[RegistryConfigurer]] = []


def set_configuration_loaders(build: RegistryBuilder, configure: RegistryConfigurer) -> None:
    """Have these load configurations; they import what does it when they are first called."""
    _builders[:], _configurers[:] = [build], [configure]


@explain_misuse_and_take_plain_arguments
class ConfiguredByFiles:
    """What a registry can do with the files of a configuration; only the operator does it."""

    __slots__ = ()

    @classmethod
    def from_config(cls, *paths: str | os.PathLike[str], watch: bool = False) -> Self:
        """
        Return a registry that files declare: its tools, servers, agents, grants, limits, options and journal.

        Args:
            paths: YAML or TOML files; none: those of `PRAVAL_TOOLS_CONFIG`, else of the working directory.
            watch: Load them again when they change; one with mistakes changes nothing.

        Raises:
            ConfigError: With every problem of all files, each with its line, key and what is expected.
        """
        require_operator(resolve_actor(None, "load a configuration"), "load a configuration")
        return cast("Self", _builders[0](cls, paths, watch))

    def configure_from(self, *paths: str | os.PathLike[str], watch: bool = False) -> ToolSource:
        """Put what files declare into force here, all of it or nothing; takes and raises what `from_config` does."""
        require_operator(resolve_actor(None, "load a configuration"), "load a configuration")
        return _configurers[0](self, paths, watch)
