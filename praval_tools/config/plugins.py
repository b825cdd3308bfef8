"""Reads the tables `plugins` and `sources` of a configuration: which plugins are allowed, and their settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from praval_tools.config import files
from praval_tools.config.decode import decode_table
from praval_tools.config.files import ConfigDocument
from praval_tools.errors import ConfigError, ConfigProblem, InvalidNameError
from praval_tools.names import check_agent_name, check_tool_name, normalize_distribution_name

_AUTOLOAD_KEY: Final = "autoload"
"""The key among the tables of plugins that is a switch; as a table, it is one of a distribution of that name."""


@frozen(kw_only=True)
class PluginTable:
    """
    The operator's table of one plugin: `[plugins."praval-tools-sql"]`.

    Args:
        trust: Grant what it requests: owners, sharing, categories, its agents, answering approvals.
        enabled: False: it is not even imported.
        owned_by: The agent that owns its tools, instead of `plugin:<distribution>`.
        shared: The names of its tools that every agent may call.
        namespace: Prefix of the names of its tools.
        allow: The only tools of it that are registered, by the plugin's names; left out: all.
        settings: The settings of the plugin itself, as it declares them.
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
        plugins: The tables by normalized name of the distribution.
        sources: The tables of `[[sources]]`, each with its `kind`.
        autoload: Load the installed plugins into the default registry at its first look-up.
        document: The document that holds them.
        documents: The document of each table, by distribution, where they come from several.
    """

    plugins: Mapping[str, PluginTable] = field(factory=dict)
    sources: tuple[Mapping[str, object], ...] = ()
    autoload: bool = True
    document: ConfigDocument = field(factory=ConfigDocument, repr=False)
    documents: Mapping[str, ConfigDocument] = field(factory=dict, repr=False)

    def get_table(self, distribution: str) -> PluginTable:
        """Return the table of a distribution; the default one where there is none."""
        return self.plugins.get(distribution) or PluginTable()

    def get_document(self, distribution: str) -> ConfigDocument:
        """Return the document that holds the table of a distribution."""
        return self.documents.get(distribution, self.document)

    def get_table_key(self, distribution: str) -> tuple[str, ...]:
        """Return the key of the table of a distribution, as it is spelled there."""
        tables = self.get_document(distribution).data.get("plugins") or {}
        return (
            "plugins",
            next((name for name in tables if normalize_distribution_name(str(name)) == distribution), distribution),
        )


def read_plugins_config(config: str | Path | Mapping[str, Any] | None = None) -> PluginsConfig:
    """
    Read the plugin tables of a configuration; other tables are ignored.

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
    plugins, problems = decode_plugins_config(document)
    if problems:
        raise ConfigError(problems)
    return plugins


def decode_plugins_config(document: ConfigDocument) -> tuple[PluginsConfig, list[ConfigProblem]]:
    """Return the plugin tables of a document, and everything that is wrong with them."""
    problems = list[ConfigProblem]()
    tables, autoload = _read_tables(document, problems), _read_autoload(document)
    sources = _read_sources(document, problems)
    return PluginsConfig(plugins=tables, sources=sources, autoload=autoload, document=document), problems


def _read_tables(document: ConfigDocument, problems: list[ConfigProblem]) -> dict[str, PluginTable]:
    section, tables = document.data.get("plugins"), dict[str, PluginTable]()
    if section is None:  # without a value, as if left out
        return tables
    if not isinstance(section, Mapping):
        problems.append(document.build_problem(("plugins",), 'expected tables: [plugins."praval-tools-sql"]'))
        return tables
    for name, table in section.items():
        if name == _AUTOLOAD_KEY and isinstance(table, bool):
            continue
        key, distribution = ("plugins", str(name)), normalize_distribution_name(str(name))
        if distribution in tables:
            text = "the same distribution has another table, under another spelling"
            problems.append(document.build_problem(key, text))
        is_off = isinstance(table, Mapping) and table.get("enabled") is False
        tables[distribution] = PluginTable(enabled=not is_off)
        try:
            tables[distribution] = decode_table(document, table, PluginTable, key)
        except ConfigError as error:
            problems += error.problems
        problems += _check_names(document, table, key)
    return tables


def _read_autoload(document: ConfigDocument) -> bool:
    section = document.data.get("plugins", {})
    return not isinstance(section, Mapping) or section.get(_AUTOLOAD_KEY) is not False


def _check_names(document: ConfigDocument, table: object, key: tuple[str, ...]) -> Iterator[ConfigProblem]:
    for name, check in (("owned_by", check_agent_name), ("namespace", check_tool_name)):
        value = table.get(name) if isinstance(table, Mapping) else None
        try:
            if isinstance(value, str):
                check(value)
        except InvalidNameError as error:
            yield document.build_problem((*key, name), str(error))


def _read_sources(document: ConfigDocument, problems: list[ConfigProblem]) -> tuple[Mapping[str, object], ...]:
    section = document.data.get("sources")
    if section is None:
        return ()
    if not isinstance(section, list | tuple):
        problems.append(document.build_problem(("sources",), "expected a list of tables: [[sources]]"))
        return ()
    for index, table in enumerate(section):
        if not isinstance(table, Mapping) or not isinstance(table.get("kind"), str):
            text = "expected a table with a text as its kind"
            problems.append(document.build_problem(("sources", index, "kind"), text))
    return tuple(table for table in section if isinstance(table, Mapping))
