"""Reads the command line's settings from a configuration: where the app is, and whether plugins are loaded into it."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from praval_tools.config.files import ConfigDocument, find_config
from praval_tools.errors import ConfigError


@frozen(kw_only=True)
class AppConfig:
    """
    What the command line reads of a configuration.

    Args:
        app: Where the registry is: `module:registry`.
        autoload: Load the installed plugins into it, as a program does that calls `autoload(registry)`.
    """

    app: str | None = None
    autoload: bool = False


def read_app_config(document: ConfigDocument | None = None) -> AppConfig:
    """
    Read what a document says; None: that of the working directory, if there is one.

    Raises:
        ConfigError: It cannot be read, or a value has the wrong type.
    """
    document = find_config(Path()) if document is None else document
    app, autoload = document.data.get("app"), document.data.get("autoload", False)
    problems = []
    if app is not None and (not isinstance(app, str) or not app):
        problems.append(document.build_problem(("app",), 'expected a text: "module:registry"'))
    if not isinstance(autoload, bool):
        problems.append(document.build_problem(("autoload",), "expected true or false"))
    if problems:
        raise ConfigError(problems)
    return AppConfig(app=app, autoload=autoload)
