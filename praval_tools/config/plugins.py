"""The plugin tables of a configuration: what the operator grants to each installed plugin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from praval_tools.config import files
from praval_tools.config.decode import decode_table
from praval_tools.config.files import ConfigDocument
from praval_tools.errors import ConfigError, ConfigProblem, InvalidNameError
from praval_tools.names import check_agent_name, check_tool_name, normalized


@frozen(kw_only=True)
class PluginTable:
    """
    What the operator says of one plugin: `[plugins."praval-tools-sql"]`.

    Args:
        trust: Grant what it asks for: owners, sharing, categories, its agents, answering approvals.
        enabled: False: it is not even imported.
        owned_by: The agent that owns its tools, instead of `plugin:<distribution>`.
        shared: The names of its tools that every agent may call.
        namespace: Prefix of the names of its tools.
        allow: The only tools of it that are registered, by the names that it gives them; left out: all.
        settings: For the plugin itself; it says which there are.
    """

    trust: bool = False
    enabled: bool = True
    owned_by: str | None = None
    shared: tuple[str, ...] = ()
    namespace: str | None = None
    allow: tuple[str, ...] | None = None
    settings: Mapping[str, Any] = field(factory=dict, repr=False)


@frozen(kw_only=True)
class PluginsConfig:
    """
    All plugin tables of a configuration.

    Args:
        plugins: By distribution, its name normalized.
        sources: The tables of `[[sources]]`, each with its `kind`.
        document: Where all of it stands.
    """

    plugins: Mapping[str, PluginTable] = field(factory=dict)
    sources: tuple[Mapping[str, Any], ...] = ()
    document: ConfigDocument = field(factory=ConfigDocument, repr=False)

    def get_table(self, distribution: str) -> PluginTable:
        """Return what is said of a distribution."""
        return self.plugins.get(distribution) or PluginTable()

    def get_table_key(self, distribution: str) -> tuple[str, ...]:
        """Return the key of the table of a distribution, as it is spelled there."""
        tables = self.document.data.get("plugins", {})
        return ("plugins", next((name for name in tables if normalized(str(name)) == distribution), distribution))


def read_plugins_config(config: str | Path | Mapping[str, Any] | None = None) -> PluginsConfig:
    """
    Return the plugin tables of a configuration; tables that are about something else are not looked at.

    Args:
        config: A file, the tables themselves, or None: the file of the working directory, if there is one.

    Raises:
        ConfigError: With every problem, each with file, key, line and what was expected.
    """
    if config is None:
        document = files.find_config(Path())
    elif isinstance(config, Mapping):
        document = ConfigDocument(data=config)
    else:
        document = files.read_config(Path(config))
    problems = list[ConfigProblem]()
    tables = _read_tables(document, problems)
    sources = _read_sources(document, problems)
    if problems:
        raise ConfigError(problems)
    return PluginsConfig(plugins=tables, sources=sources, document=document)


def _read_tables(document: ConfigDocument, problems: list[ConfigProblem]) -> dict[str, PluginTable]:
    given, made = document.data.get("plugins", {}), dict[str, PluginTable]()
    if not isinstance(given, Mapping):
        problems.append(document.build_problem(("plugins",), 'expected tables: [plugins."praval-tools-sql"]'))
        return made
    for name, table in given.items():
        key = ("plugins", str(name))
        if normalized(str(name)) in made:
            problems.append(
                document.build_problem(key, "the same distribution has another table, under another spelling")
            )
        try:
            one = decode_table(document, table, PluginTable, key)
        except ConfigError as error:
            problems += error.problems
            one = PluginTable()
        problems += _check_names(document, table, key)
        made[normalized(str(name))] = one
    return made


def _check_names(document: ConfigDocument, table: Any, key: tuple[str, ...]) -> list[ConfigProblem]:
    found = list[ConfigProblem]()
    for name, check in (("owned_by", check_agent_name), ("namespace", check_tool_name)):
        value = table.get(name) if isinstance(table, Mapping) else None
        try:
            if isinstance(value, str):
                check(value)
        except InvalidNameError as error:
            found.append(document.build_problem((*key, name), str(error)))
    return found


def _read_sources(document: ConfigDocument, problems: list[ConfigProblem]) -> tuple[Mapping[str, Any], ...]:
    given = document.data.get("sources", [])
    if not isinstance(given, list | tuple):
        problems.append(document.build_problem(("sources",), "expected a list of tables: [[sources]]"))
        return ()
    for index, one in enumerate(given):
        if not isinstance(one, Mapping) or not isinstance(one.get("kind"), str):
            problems.append(
                document.build_problem(("sources", index, "kind"), "expected a table with a text as its kind")
            )
    return tuple(one for one in given if isinstance(one, Mapping))
