"""Decides which installed plugins are loaded, from the program's, the environment's and the configuration's lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from praval_tools.config.plugins import PluginsConfig
from praval_tools.names import normalize_distribution_name, suggest_names
from praval_tools.plugins.discovery import ALLOW_LIST_VARIABLE, InstalledPlugin, read_allow_list
from praval_tools.plugins.report import PluginReport, build_failure_report


class PluginSelection:
    """
    Which plugins are to be loaded; a plugin is listed by its distribution or its entry point.

    Args:
        only: What the program wants loaded; None: everything.
        exclude: What the program wants left out.
        config: The operator's plugin tables.
    """

    def __init__(self, only: Iterable[str] | None, exclude: Iterable[str], config: PluginsConfig) -> None:
        if isinstance(only, str) or isinstance(exclude, str):
            raise TypeError("only and exclude are lists; a single name goes in brackets: ['name'].")
        self._only = None if only is None else set(map(normalize_distribution_name, only))
        self._exclude = set(map(normalize_distribution_name, exclude))
        self._allow_list = read_allow_list()
        self._config = config

    def get_exclusion_reason(self, plugin: InstalledPlugin) -> str:
        """Return why a plugin is left out; empty where it is to be loaded."""
        names = _get_names(plugin)
        if self._allow_list is not None and not names & self._allow_list:
            return f"{ALLOW_LIST_VARIABLE} does not list it"
        if not self._config.get_table(plugin.distribution).enabled:
            return "enabled = false in the configuration"
        return "exclude= lists it" if names & self._exclude else ""

    def is_requested(self, plugin: InstalledPlugin) -> bool:
        """Tell whether the program asks for this plugin, by name or by asking for all."""
        return self._only is None or bool(_get_names(plugin) & self._only)

    def report_unknown_names(self, installed: Iterable[InstalledPlugin]) -> Iterator[PluginReport]:
        """Yield a report for each listed name that no installed plugin has."""
        known = sorted(set().union(*map(_get_names, installed)))
        enabled = {name for name, table in self._config.plugins.items() if table.enabled}
        config_file = self._config.document.file or "config="
        lists = (self._only, "only="), (self._exclude, "exclude="), (self._allow_list, ALLOW_LIST_VARIABLE)
        for names, origin in (*lists, (enabled, config_file)):
            for name in sorted((names or set()).difference(known)):
                hint = suggest_names(name, known, "did you mean ") or "install it, or take the name out"
                unknown = InstalledPlugin(distribution=name)
                error = unknown.error("find", f"{origin} names it, and it is not installed; {hint}")
                yield build_failure_report(unknown, "find", error)


def _get_names(plugin: InstalledPlugin) -> set[str]:
    return {plugin.distribution, normalize_distribution_name(plugin.entry_point)}
