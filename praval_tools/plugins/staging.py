"""Imports a plugin in its own name, with a staging registry that collects what it declares."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from threading import get_ident
from types import ModuleType
from typing import Final
from weakref import WeakValueDictionary

from attrs import field, frozen

from praval_tools.access.events import ToolRegistered
from praval_tools.access.records import AgentProfile
from praval_tools.access.state import AccessState
from praval_tools.access.transitions import apply_events
from praval_tools.execution.context import FrameScope, activate_frame, make_frame
from praval_tools.forks import ForkSafeLock
from praval_tools.names import get_collision_keys, has_type
from praval_tools.plugins.discovery import InstalledPlugin
from praval_tools.registry.agents import Agent
from praval_tools.registry.default import use_registry
from praval_tools.registry.registry import ToolRegistry, get_runtime, initialize_staging
from praval_tools.tools.frames import get_current_actor
from praval_tools.tools.plain_managers import plain_manager
from praval_tools.tools.plain_tool import find_class_problem
from praval_tools.tools.tool import AnyTool, Tool

_lock: Final = ForkSafeLock()
"""Held by the thread that adds to a staging registry, or makes a whole registry of it."""

_import_locks: Final[dict[str, ForkSafeLock]] = {}
"""By module: held by the thread that imports a plugin's module, or reads what it declared, for whatever registry."""

_importing_threads: Final[dict[str, int]] = {}
"""By module: the thread that imports it just now, under its lock."""


@frozen
class RequestedAgent:
    """An agent that a module declared, with the profile that it asked for."""

    agent: Agent
    profile: AgentProfile


class StagingRegistry(ToolRegistry):
    """
    The default registry while one plugin is imported: what is declared in it is a request.

    Most plugins declare tools and nothing else. So it is a list of tools, until something else is asked of it.
    """

    _is_list = False  # as of a fork

    def __init__(self, plugin: InstalledPlugin) -> None:
        self.name = f"staging of {plugin}"
        self._is_list, self._is_sealed = True, False
        self._tools_by_key: dict[str, AnyTool] = {}

    def __getattr__(self, name: str) -> object:
        """Become a whole registry, one of whose attributes is asked for the first time."""
        if name.startswith("__") or not self._is_list:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        with _lock:
            if self._is_list:
                events = [ToolRegistered(tool=tool) for tool in self.list_all_tools()]
                initialize_staging(self, apply_events(AccessState(), events))
                runtime = get_runtime(self)
                runtime.is_staging, runtime.access_store.closed = True, self._is_sealed
                self._is_list = False
        return getattr(self, name)

    def register_tool(self, tool: AnyTool, *, replace: bool = False, by: object = None, reason: str = "") -> None:
        """Register a tool, whoever it names as its owner: admission decides on that."""
        with _lock:
            keys = get_collision_keys(tool.name) if isinstance(tool, Tool) and self._is_list else ()
            if keys and not self._is_sealed and self._tools_by_key.keys().isdisjoint(keys):
                self._tools_by_key.update(dict.fromkeys(keys, tool))
                return
        if has_type(tool, Tool) and (problem := find_class_problem(tool)):  # its code would run as the operator
            raise TypeError(f"{get_current_actor()!r} registers {problem}.")
        with get_runtime(self).as_operator():
            super().register_tool(tool, replace=replace, reason=reason)

    def list_all_tools(self) -> list[AnyTool]:
        """Return every tool, in registration order."""
        return list(dict.fromkeys(self._tools_by_key.values())) if self._is_list else super().list_all_tools()

    def list_requested_agents(self) -> tuple[RequestedAgent, ...]:
        """Return the agents that were declared, by name."""
        declared = [] if self._is_list else sorted(get_runtime(self).declared_agents.items())
        return tuple(RequestedAgent(agent, self.state.get_profile(name)) for name, agent in declared)

    def seal(self) -> None:
        """Refuse calls and changes from now on, whoever holds the registry."""
        with _lock:
            self._is_sealed = True
        if not self._is_list:
            store = get_runtime(self).access_store
            if store.state.tools:
                self.close()
            store.closed = True
            store.invalidate_snapshots()


@frozen(kw_only=True, eq=False)
class ModuleDeclarations:
    """What a module declared as it was imported."""

    tools: tuple[AnyTool, ...] = ()
    agents: tuple[RequestedAgent, ...] = ()


_declarations: Final[WeakValueDictionary[str, ModuleDeclarations]] = WeakValueDictionary()
"""By name: what the import of a plugin's module declared, for as long as the module holds it."""

_HOLDER: Final = "__praval_tools_declarations__"
"""The attribute of a plugin's module with what it declared, which is let go with the module."""


@plain_manager
def run_as_plugin(plugin: InstalledPlugin, staging: StagingRegistry) -> Iterator[StagingRegistry]:
    """Run code as the plugin, with *staging* as the default registry, which is sealed at the end."""
    try:
        with use_registry(staging), activate_frame(make_frame(FrameScope(staging, None, plugin.principal))):
            yield staging
    finally:
        staging.seal()


@frozen
class PluginModules:
    """Which module belongs to which plugin, and what one plugin's import declared for another."""

    plugins: tuple[InstalledPlugin, ...] = ()
    stray_tools: dict[str, list[AnyTool]] = field(factory=dict)
    plugins_by_package: dict[str, list[InstalledPlugin]] = field(factory=dict)

    @classmethod
    def from_plugins(cls, plugins: Iterable[InstalledPlugin]) -> PluginModules:
        """Return the modules of *plugins*."""
        modules = cls(tuple(plugins))
        for plugin in modules.plugins:
            package = plugin.value.partition(":")[0].partition(".")[0]
            modules.plugins_by_package.setdefault(package, []).append(plugin)
        return modules

    def find_owner(self, module: str, default: str) -> str:
        """Return the distribution whose entry point is nearest to *module*; *default* where no other is nearer."""
        nearest, most = {default}, 0
        for plugin in self.plugins_by_package.get(module.partition(".")[0], ()):
            common = _count_common_packages(module, plugin.value.partition(":")[0])
            if common > most:
                nearest, most = set(), common
            if common == most and common:
                nearest.add(plugin.distribution)
        return default if default in nearest or len(nearest) != 1 else nearest.pop()

    def select_own_tools(self, plugin: InstalledPlugin, tools: Iterable[AnyTool]) -> tuple[AnyTool, ...]:
        """Return those of *tools* that belong to *plugin*, which may have imported another plugin's module."""
        own, name = list[AnyTool](), plugin.distribution
        owners: dict[str, str] = {}
        for tool in tools:
            if (owner := owners.get(module := tool.implementation.module)) is None:
                owner = owners[module] = self.find_owner(module, name)
            if owner == name or self.find_owner(_get_code_module(tool), "") == name:  # it may wrap another's tool
                own.append(tool)
            else:
                self.stray_tools.setdefault(owner, []).append(tool)
        return tuple(own)


def _get_code_module(tool: AnyTool) -> str:
    """Return the module that holds the code of a tool's function, whatever `__module__` says."""
    return str(getattr(tool.implementation.function, "__globals__", {}).get("__name__", ""))


def _count_common_packages(first: str, second: str) -> int:
    """Return how many packages, from the outermost on, two modules have in common."""
    pairs = zip(first.split("."), second.split("."), strict=False)
    shortest = min(first.count("."), second.count(".")) + 1
    return next((index for index, (left, right) in enumerate(pairs) if left != right), shortest)


def _split_value(plugin: InstalledPlugin) -> tuple[str, str]:
    """Return the module of an entry point, and the path of its object in that."""
    name, _, path = (part.strip() for part in plugin.value.split("[")[0].partition(":"))
    return name, path


def is_being_imported(plugin: InstalledPlugin) -> bool:
    """Tell whether this thread is in the middle of importing the module of *plugin*."""
    return _importing_threads.get(_split_value(plugin)[0]) == get_ident()


def import_plugin(
    plugin: InstalledPlugin, staging: StagingRegistry, modules: PluginModules
) -> tuple[object, ModuleDeclarations]:
    """Import the object that the entry point refers to; return it with what its module declared."""
    name, path = _split_value(plugin)
    with _import_locks.setdefault(name, ForkSafeLock(waits=True)):
        was_imported = name in sys.modules
        _importing_threads[name] = get_ident()
        try:
            module = importlib.import_module(name)
        finally:
            del _importing_threads[name]
        plugin_object: object = module
        for part in path.split(".") if path else ():
            plugin_object = getattr(plugin_object, part)
        known = _declarations.get(name)
        if known is not None and _holds(module, known):
            return plugin_object, known
        declared = _declarations[name] = _read_declarations(plugin, module, staging, modules, was_imported)
        with suppress(AttributeError, TypeError):  # a module may have put another object in its place
            setattr(module, _HOLDER, declared)
        return plugin_object, declared


def _holds(module: ModuleType, declared: ModuleDeclarations) -> bool:
    """Tell whether *module* itself holds what it declared; its `__getattr__`, which may import or raise, is not run."""
    try:
        return vars(module).get(_HOLDER) is declared
    except TypeError:  # a module may have put an object without a dict in its place
        return False


def _read_declarations(
    plugin: InstalledPlugin, module: ModuleType, staging: StagingRegistry, modules: PluginModules, was_imported: bool
) -> ModuleDeclarations:
    tools = modules.select_own_tools(plugin, staging.list_all_tools())
    if was_imported:  # what it declared then went to another registry
        tools = (*_list_module_tools(module), *modules.stray_tools.pop(plugin.distribution, ()))
    return ModuleDeclarations(tools=tuple(dict.fromkeys(tools)), agents=staging.list_requested_agents())


def _list_module_tools(module: ModuleType) -> list[AnyTool]:
    """Return the tools that are attributes of *module* and were declared there."""
    tools = (value for value in vars(module).values() if isinstance(value, Tool))
    return [
        tool for tool in tools if tool.implementation.discoverable and tool.implementation.module == module.__name__
    ]
