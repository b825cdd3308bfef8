"""Which plugins are wanted: by the program, the environment and the configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from praval_tools.config.plugins import PluginsConfig
from praval_tools.errors import PluginError
from praval_tools.names import find_similar_names, normalized
from praval_tools.plugins.discovery import ALLOW_LIST_VARIABLE, InstalledPlugin, read_allow_list
from praval_tools.plugins.report import PluginReport, build_failure_report


class PluginSelection:
    """Which plugins are wanted: by the program, the environment and the configuration."""

    def __init__(self, only: Iterable[str] | None, exclude: Iterable[str], config: PluginsConfig) -> None:
        if isinstance(only, str) or isinstance(exclude, str):
            raise TypeError("only and exclude are lists; a single name goes in brackets: ['name'].")
        self._only = None if only is None else {normalized(one) for one in only}
        self._exclude = {normalized(one) for one in exclude}
        self._allow_list = read_allow_list()
        self._config = config

    def get_exclusion_reason(self, found: InstalledPlugin) -> str:
        """Return why a plugin is left out; empty: it is wanted."""
        names = {found.distribution, normalized(found.entry_point)}
        if self._allow_list is not None and not names & self._allow_list:
            return f"{ALLOW_LIST_VARIABLE} does not list it"
        if not self._config.get_table(found.distribution).enabled:
            return "enabled = false in the configuration"
        return "exclude= lists it" if names & self._exclude else ""

    def is_requested(self, found: InstalledPlugin) -> bool:
        """Tell whether the program speaks of this plugin at all."""
        return self._only is None or bool({found.distribution, normalized(found.entry_point)} & self._only)

    def report_unknown_names(self, installed: Iterable[InstalledPlugin]) -> Iterator[PluginReport]:
        """Yield a report for each name that no installed plugin has."""
        known = sorted({name for one in installed for name in (one.distribution, normalized(one.entry_point))})
        tables = {name for name, table in self._config.plugins.items() if table.enabled}
        named = ((self._only, "only="), (self._exclude, "exclude="), (self._allow_list, ALLOW_LIST_VARIABLE),
                 (tables, self._config.document.file or "config="))  # fmt: skip
        for names, where in named:
            for name in sorted((names or set()) - set(known)):
                match = find_similar_names(name, known)
                hint = f"; did you mean {match[0]!r}?" if match else "; install it, or take the name out"
                error = PluginError(name, "find", f"{where} names it, and it is not installed{hint}")
                yield build_failure_report(InstalledPlugin(distribution=name), "find", error)
