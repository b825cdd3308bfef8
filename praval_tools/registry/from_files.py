"""How registries reach the package that loads configurations, which knows all other packages."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, TypeVar, cast

from praval_tools.access.commands import require_operator
from praval_tools.execution.context import resolve_actor
from praval_tools.execution.protocols import ToolSource

R = TypeVar("R")
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


def build_registry(make: Callable[..., R], paths: Paths, watch: bool) -> R:
    """Return a registry of a configuration; only the operator loads one."""
    require_operator(resolve_actor(None, "load a configuration"), "load a configuration")
    return cast("R", _builders[0](make, paths, watch))


def configure_registry(registry: object, paths: Paths, watch: bool) -> ToolSource:
    """Put a configuration into force in *registry*; only the operator does."""
    require_operator(resolve_actor(None, "load a configuration"), "load a configuration")
    return _configurers[0](registry, paths, watch)
