"""Loads the plugins that a configuration names, and takes those out that it does not name any more."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from attrs import frozen

from praval_tools.config.plugins import PluginsConfig
from praval_tools.config_loading.declarations import Declarations
from praval_tools.plugins.discovery import find_plugins
from praval_tools.plugins.loader import load_plugins
from praval_tools.registry.registry import ToolRegistry


@frozen
class _PluginChoice:
    """
    Which plugins a configuration loads, and what it says of them.

    Args:
        names: Their distributions.
        config: The tables of plugins and sources.
    """

    names: AbstractSet[str] = frozenset()
    config: PluginsConfig = PluginsConfig()

    @property
    def terms(self) -> tuple[object, ...]:
        """What differs where they are to be loaded again."""
        return self.names, self.config.plugins, self.config.sources


class ConfiguredPlugins:
    """
    The plugins of one registry that a configuration loads.

    They are loaded before anything else of a configuration changes, since it may grant their tools. A plugin runs code
    of others, so this happens outside the one change, and is undone where that fails.

    Args:
        registry: The registry.
    """

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry
        self._choice = _PluginChoice()

    def may_bring_tools(self, declarations: Declarations) -> bool:
        """Tell whether there may be more tools once the plugins are loaded."""
        choice = _read_choice(declarations)
        return bool(choice.names or choice.config.sources) and choice.terms != self._choice.terms

    def load(self, declarations: Declarations) -> Callable[[], None]:
        """
        Load the plugins that have tables, or all of them with `autoload`; again only where that changed.

        Returns:
            A function that has the plugins of before again, with what was said of them.
        """
        before = self._choice
        self._choose(_read_choice(declarations))
        return lambda: self._choose(before)

    def _choose(self, choice: _PluginChoice) -> None:
        before = self._choice
        if before.terms == choice.terms:
            return
        left_out = sorted(before.names - choice.names)
        self._choice = choice
        load_plugins(self._registry, only=[*sorted(choice.names), *left_out], exclude=left_out, config=choice.config)


def _read_choice(declarations: Declarations) -> _PluginChoice:
    plugins = PluginsConfig() if declarations.plugins is None else declarations.plugins.value
    autoload = declarations.scalars.get("autoload")
    names = {name for name, table in plugins.plugins.items() if table.enabled}
    if autoload is not None and autoload.value is True:
        names |= {plugin.distribution for plugin in find_plugins()}
    return _PluginChoice(frozenset(names), plugins)
