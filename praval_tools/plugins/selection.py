"""Decides which installed plugins are loaded, from the program's, the environment's and the configuration's lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from praval_tools.config.plugins import PluginsConfig
from praval_tools.names import normalize_distribution_name, suggest_names
from praval_tools.plugins.discovery import ALLOW_LIST_VARIABLE, InstalledPlugin, normalize_plugin_name, read_allow_list
from praval_tools.plugins.report import PluginReport, build_failure_report


class PluginSelection:
    """
    Which plugins are to be loaded.

    A plugin is listed by its distribution, or by `distribution:entry-point`. The program's own lists may name the
    entry point alone; the environment's may not, since any distribution may choose the names of its entry points.

    Args:
        only: What the program wants loaded; None: everything.
        exclude: What the program wants left out.
        config: The operator's plugin tables.
    """

    def __init__(self, only: Iterable[str] | None, exclude: Iterable[str], config: PluginsConfig) -> None:
        if isinstance(only, str) or isinstance(exclude, str):
            raise TypeError("only and exclude are lists; a single name goes in brackets: ['name'].")
        self._only = None if only is None else set(map(normalize_plugin_name, only))
        self._exclude = set(map(normalize_plugin_name, exclude))
        self._allow_list = read_allow_list()
        self._config = config

    def get_exclusion_reason(self, plugin: InstalledPlugin) -> str:
        """Return why a plugin is left out; empty where it is to be loaded."""
        names = _get_names(plugin)
        if self._allow_list is not None and self._allow_list.isdisjoint((plugin.distribution, plugin.qualified_name)):
            return f"{ALLOW_LIST_VARIABLE} does not list it"
        if not self._config.get_table(plugin.distribution).enabled:
            return "enabled = false in the configuration"
        return "exclude= lists it" if names & self._exclude else ""

    def is_requested(self, plugin: InstalledPlugin) -> bool:
        """Tell whether the program asks for this plugin, by name or by asking for all."""
        return self._only is None or bool(_get_names(plugin) & self._only)

    def report_unknown_names(self, installed: Iterable[InstalledPlugin]) -> Iterator[PluginReport]:
        """Yield a report for each listed name that no installed plugin has."""
        plugins = list(installed)
        allowable = sorted({name for plugin in plugins for name in (plugin.distribution, plugin.qualified_name)})
        all_names = sorted(set().union(*map(_get_names, plugins)))
        enabled = {name for name, table in self._config.plugins.items() if table.enabled}
        for names, known, origin in (
            (self._only, all_names, "only="),
            (self._exclude, all_names, "exclude="),
            (self._allow_list, allowable, ALLOW_LIST_VARIABLE),
            (enabled, all_names, ""),
        ):
            for name in sorted((names or set()).difference(known)):
                owners = sorted(plugin.qualified_name for plugin in plugins if name in _get_names(plugin))
                hint = f"to allow that entry point, write {' or '.join(owners)}" if owners else ""
                similar = [other for other in known if (":" in other) == (":" in name)]
                hint = hint or suggest_names(name, similar, "did you mean ") or "install it, or take the name out"
                unknown = InstalledPlugin(distribution=name)
                place = origin or self._config.get_document(name).file or "config="
                error = unknown.make_error("find", f"{place} names it, and it is not installed; {hint}")
                yield build_failure_report(unknown, "find", error)


def _get_names(plugin: InstalledPlugin) -> set[str]:
    return {plugin.distribution, normalize_distribution_name(plugin.entry_point), plugin.qualified_name}
