"""The settings of a plugin: its own attrs class, filled from the operator's table; what is secret of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import attrs

from praval_tools.config.decode import decode_table, expand_variables
from praval_tools.config.plugins import PluginsConfig
from praval_tools.errors import ConfigError, PluginError
from praval_tools.journal.redaction.secret_names import DEFAULT_SECRET_NAMES, SecretNames
from praval_tools.plugins.discovery import InstalledPlugin
from praval_tools.schema.type_hints import has_secret_mark

_URL_PASSWORD: Final = re.compile(r"://[^/@\s:]*:([^@\s]+)@")


def build_settings(found: InstalledPlugin, kind: Any, config: PluginsConfig, given: Any, secrets: set[str]) -> Any:
    """
    Return the settings of a plugin as an instance of *kind*, the class that it declares.

    Args:
        found: The plugin.
        kind: Its class; None: it takes no settings.
        config: Where its table is.
        given: A table or an instance, by the program; None: the configuration says it.
        secrets: Gets the values that no report may repeat; before anything can fail on them.

    Raises:
        ConfigError: With every problem.
        PluginError: *kind* is no attrs class.
    """
    document, key = config.document, (*config.get_table_key(found.distribution), "settings")
    table = given if given is not None else config.get_table(found.distribution).settings
    if kind is None:
        if not isinstance(table, Mapping) or table:
            raise ConfigError([document.build_problem(key, f"{found.distribution} takes no settings")])
        return None
    if not isinstance(kind, type) or not attrs.has(kind):
        raise PluginError(str(found), "settings", "praval_tools_settings is to return an attrs class")
    if isinstance(table, kind):
        secrets.update(_walk_secrets(attrs.asdict(table), _list_secret_fields(kind)))
        return table
    table, problems, variables = expand_variables(document, table, key)
    secrets.update(variables, _walk_secrets(table, _list_secret_fields(kind)))
    try:
        made = decode_table(document, table, kind, key)
    except ConfigError as error:
        problems = [*problems, *error.problems]
    if problems:
        raise ConfigError(problems)
    return made


def find_secrets(table: Any) -> Iterator[str]:
    """Yield the texts of a table that are secret by the name of their key, or as the password in a URL."""
    return _walk_secrets(table, ())


def _list_secret_fields(kind: type) -> frozenset[str]:
    """Return the fields that are `Annotated[…, Secret]`."""
    try:
        hints = get_type_hints(kind, include_extras=True)
    except Exception:  # a hint that leads nowhere: structuring says so; names tell secrets all the same
        return frozenset()
    marked = (
        name for name, hint in hints.items() if get_origin(hint) is Annotated and has_secret_mark(get_args(hint)[1:])
    )
    return frozenset(marked)


def _walk_secrets(table: Any, marked: Iterable[str]) -> Iterator[str]:
    """Yield the texts that are secret: by their mark, the name of their key, or as the password in a URL."""
    names = SecretNames(DEFAULT_SECRET_NAMES)

    def walk(value: Any, hidden: bool) -> Iterator[str]:
        if isinstance(value, Mapping):
            for name, one in value.items():
                yield from walk(one, hidden or str(name) in marked or names(str(name)))
        elif isinstance(value, list | tuple | set | frozenset):
            for one in value:
                yield from walk(one, hidden)
        elif isinstance(value, str):
            yield from ([value] if hidden else _URL_PASSWORD.findall(value))
        elif hidden and value is not None and not isinstance(value, bool):
            yield str(value)

    yield from walk(table, False)
