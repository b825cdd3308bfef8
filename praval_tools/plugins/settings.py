"""Builds a plugin's settings, an instance of its attrs class, from the operator's table; finds secrets in them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Final, get_args, get_origin, get_type_hints

import attrs

from praval_tools.config.decode import decode_table, expand_variables
from praval_tools.config.plugins import PluginsConfig
from praval_tools.errors import ConfigError
from praval_tools.names import to_plain_text
from praval_tools.plugins.discovery import InstalledPlugin
from praval_tools.schema.secret_names import DEFAULT_SECRET_NAMES, SecretNames
from praval_tools.schema.type_hints import has_secret_mark

_URL_PASSWORD: Final = re.compile(r"://[^/@\s:]*:([^@\s]+)@")


def build_settings(
    plugin: InstalledPlugin, kind: object, config: PluginsConfig, value: object, secrets: set[str]
) -> object:
    """
    Return the settings of a plugin as an instance of *kind*, the class that it declares.

    Args:
        plugin: The plugin.
        kind: Its class; None where it takes no settings.
        config: The operator's plugin tables.
        value: A table or an instance from the program; None: the configuration's table counts.
        secrets: Receives the values that no report may repeat, before anything can fail on them.

    Raises:
        ConfigError: With every problem.
        PluginError: *kind* is not an attrs class.
    """
    document, key = config.get_document(plugin.distribution), (*config.get_table_key(plugin.distribution), "settings")
    table = value if value is not None else config.get_table(plugin.distribution).settings
    if kind is None:
        if not isinstance(table, Mapping) or table:
            raise ConfigError([document.build_problem(key, f"{plugin.distribution} takes no settings")])
        return None
    if not isinstance(kind, type) or not attrs.has(kind):
        raise plugin.make_error("settings", "praval_tools_settings is to return an attrs class")
    if isinstance(table, kind):
        secrets.update(_walk_secrets(attrs.asdict(table), _list_secret_fields(kind)))
        return table
    table, problems, variables = expand_variables(document, table, key)
    secrets.update(variables, _walk_secrets(table, _list_secret_fields(kind)))
    try:
        settings: object = decode_table(document, table, kind, key, allows_null=True)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(problems)
    return settings


def find_secrets(table: object) -> Iterator[str]:
    """Yield the texts of a table that are secret by the name of their key, or as the password in a URL."""
    return _walk_secrets(table, ())


def _list_secret_fields(kind: type) -> frozenset[str]:
    """Return the fields that are `Annotated[…, Secret]`."""
    try:
        hints = get_type_hints(kind, include_extras=True)
    except Exception:  # unresolved type hint: structuring reports it; secrets are found by their names all the same
        return frozenset()
    annotated = ((name, get_args(hint)) for name, hint in hints.items() if get_origin(hint) is Annotated)
    return frozenset(name for name, arguments in annotated if has_secret_mark(arguments[1:]))


def _walk_secrets(table: object, secret_fields: Collection[str]) -> Iterator[str]:
    """Yield the texts that are secret: by their mark, the name of their key, or as the password in a URL."""
    is_secret_name = SecretNames(DEFAULT_SECRET_NAMES)

    def walk(value: object, is_secret: bool) -> Iterator[str]:
        if isinstance(value, Mapping):
            for name, item in value.items():
                yield from walk(item, is_secret or str(name) in secret_fields or is_secret_name(str(name)))
        elif isinstance(value, list | tuple | set | frozenset):
            for item in value:
                yield from walk(item, is_secret)
        elif isinstance(value, str):
            text = to_plain_text(value)
            yield from ([text] if is_secret else _URL_PASSWORD.findall(text))
        elif is_secret and value is not None and not isinstance(value, bool):
            yield to_plain_text(value)

    yield from walk(table, False)
