"""The configuration of a command: the files that `--config` or a variable names, or those of the working directory."""

from __future__ import annotations

import os
from pathlib import Path

import click

from praval_tools import ToolRegistry
from praval_tools.cli.common import get_config_option
from praval_tools.config.app import AppConfig, read_app_config
from praval_tools.config.files import ConfigDocument, find_documents, list_config_paths, read_document
from praval_tools.config_loading.environment import fill_variables
from praval_tools.config_loading.loader import LoadingContext, build_registry, check_configuration, configure_registry
from praval_tools.config_loading.source import ConfigurationSource, find_source
from praval_tools.forks import first_use_property

_SELECTION_KEY = "praval_tools.cli.config"
_APP_KEYS = ("app", "autoload", "plugins", "sources")
"""What a configuration says to a program; anything else declares a registry."""


class SelectedConfig:
    """
    The configuration of a command.

    Args:
        paths: The files that the user names; empty: those of the working directory.
    """

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self.paths = paths

    @first_use_property
    def documents(self) -> list[ConfigDocument]:
        """What the files hold; read when it is first asked for."""
        return [read_document(path) for path in self.paths] if self.paths else find_documents(Path())

    @property
    def declares_registry(self) -> bool:
        """Whether it says more than where the registry is; a file that cannot be read is meant to."""
        return bool(self.paths) or any(
            document.problems or document.data.keys() - set(_APP_KEYS) for document in self.documents
        )

    @property
    def journal_path(self) -> str | None:
        """The path of the journal that it names."""
        tables = (document.data.get("journal") for document in self.documents)
        paths = (table.get("path") for table in tables if isinstance(table, dict))
        path = next((path for path in paths if isinstance(path, str) and path), None)
        return None if path is None else fill_variables(path, os.environ)

    def read_app_config(self) -> AppConfig:
        """
        Return what it says of the app.

        Raises:
            ConfigError: A value has the wrong type.
        """
        if not self.paths:
            return read_app_config()
        configs = [read_app_config(document) for document in self.documents]
        return next((config for config in configs if config.app is not None or config.autoload), AppConfig())


def select_config(ctx: click.Context) -> SelectedConfig:
    """Return the configuration of a command."""
    if _SELECTION_KEY not in ctx.meta:
        paths = tuple(map(Path, get_config_option(ctx))) or tuple(list_config_paths())
        ctx.meta[_SELECTION_KEY] = SelectedConfig(paths)
    selected: SelectedConfig = ctx.meta[_SELECTION_KEY]
    return selected


def build_configured_registry(config: SelectedConfig, context: LoadingContext) -> ToolRegistry:
    """
    Return the registry that the configuration declares, loaded in *context*, which opens the journal.

    Raises:
        ConfigError: With every problem.
    """
    return build_registry(ToolRegistry, config.paths, context=context)


def check_selected_config(config: SelectedConfig, *, has_app: bool) -> ToolRegistry:
    """
    Return a registry for a look at the configuration: everything is imported, nothing connected or opened.

    Args:
        config: The configuration.
        has_app: Whether an app brings tools too.

    Raises:
        ConfigError: With every problem.
    """
    return check_configuration(config.paths, is_whole=not has_app)


def list_unread_sources(registry: ToolRegistry, config: SelectedConfig) -> list[str]:
    """Return the servers and documents of the configuration that a look at it does not ask for their tools."""
    source = find_source(registry, [Path(document.file) for document in config.documents])
    return [] if source is None else source.list_unread_sources()


def configure_app_registry(
    registry: ToolRegistry, config: SelectedConfig, context: LoadingContext
) -> ConfigurationSource:
    """
    Put the configuration that the user names into force in the app's registry, in *context*, which opens the journal.

    Raises:
        ConfigError: With every problem.
    """
    return configure_registry(registry, config.paths, context=context)
