"""Decides which plugins the configurations of a registry name together, and what they say of each."""

from __future__ import annotations

from collections.abc import Iterable, Set

from attrs import frozen

from praval_tools.config.plugins import PluginsConfig, PluginTable
from praval_tools.config_loading.declarations import Declarations, Located, ProblemCollector
from praval_tools.execution.hooks import CallHooks
from praval_tools.plugins.discovery import PluginKey, find_plugins
from praval_tools.plugins.plugin_load import PluginLoad, is_of_source
from praval_tools.plugins.report_store import PluginReportStore
from praval_tools.plugins.selection import PluginSelection
from praval_tools.registry.registry import ToolRegistry, get_runtime


@frozen
class ChosenPlugins:
    """
    Which plugins the configurations of a registry name, and what they say of them.

    Args:
        names: Their distributions.
        config: The tables of plugins and sources.
    """

    names: Set[str] = frozenset()
    config: PluginsConfig = PluginsConfig()

    def __bool__(self) -> bool:
        return bool(self.names or self.config.plugins or self.config.sources)

    def is_in_force(self, registry: ToolRegistry) -> bool:
        """Tell whether all that it names is loaded, and nothing else for it; a program may have loaded others."""
        store: PluginReportStore | None = get_runtime(registry).plugins
        if store is None or store.configured is None:
            return not self
        if any(self._names(key) and not report.loaded for key, report in store.reports.items()):
            return False
        in_force, config = store.config, self.config
        return (store.configured, in_force.plugins, in_force.sources) == (self.names, config.plugins, config.sources)

    def _names(self, key: PluginKey) -> bool:
        """Tell whether it names what a report is about."""
        return is_of_source(key) or key[0] in self.names

    def may_bring_tools(self, registry: ToolRegistry) -> bool:
        """Tell whether there may be more tools once it is in force."""
        return bool(self.names or self.config.sources) and not self.is_in_force(registry)

    def stage(self, registry: ToolRegistry) -> PluginLoad | None:
        """Run the code of its plugins, which changes nothing yet; return None where nothing is to be loaded for it."""
        if self.is_in_force(registry):
            return None
        store: PluginReportStore | None = get_runtime(registry).plugins
        hooks: CallHooks = get_runtime(registry).hooks
        known = {one.distribution for one in find_plugins()} | {one.distribution for one in hooks.contributions}
        before: Set[str] | None = None if store is None else store.configured
        unnamed = (before or frozenset()) - self.names
        left_out = sorted(unnamed & known)
        selection = PluginSelection([*sorted(self.names), *left_out], left_out, self.config)
        return PluginLoad(registry, self.config, selection, forgotten=unnamed)


def names_plugins(declarations: Declarations) -> bool:
    """Tell whether *declarations* say anything of plugins."""
    return declarations.plugins is not None or "autoload" in declarations.scalars


def choose_plugins(
    declarations: Declarations, others: Iterable[Declarations], problems: ProblemCollector
) -> ChosenPlugins:
    """
    Return what *declarations*, and those of *others*, name together: those with tables, or all of them with `autoload`.

    Args:
        declarations: What is to be in force.
        others: What is in force of other configurations.
        problems: Receives where they say different things of one plugin.
    """
    names, tables, places = set[str](), dict[str, PluginTable](), dict[str, PluginsConfig]()
    sources: list[dict[str, object]] = []
    for one in (declarations, *others):
        autoload = one.scalars.get("autoload")
        if autoload is not None and autoload.value is True:
            names |= {plugin.distribution for plugin in find_plugins()}
        if one.plugins is None:
            continue
        config = one.plugins.value
        for name, table in config.plugins.items():
            place = places.setdefault(name, config)
            if tables.setdefault(name, table) != table:
                entry = Located(table, place.document, place.get_table_key(name))
                text = f"{config.document.file} says something else of it; say the same in both, or say it in one"
                problems.report(entry, text)
        sources += [dict(table) for table in config.sources if table not in sources]
    names |= {name for name, table in tables.items() if table.enabled}
    documents = {name: place.document for name, place in places.items()}
    together = PluginsConfig(plugins=tables, sources=tuple(sources), documents=documents)
    return ChosenPlugins(frozenset(names), together)
