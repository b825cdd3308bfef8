"""Where a plugin is imported and contributes: in its own name, with a default registry of its own."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from weakref import WeakValueDictionary

from attrs import field, frozen

from praval_tools.access.events import ToolRegistered
from praval_tools.access.records import AgentProfile
from praval_tools.access.state import AccessState
from praval_tools.access.store import StateStore
from praval_tools.clock import SystemClock
from praval_tools.execution.context import FrameScope, activate_frame, make_frame
from praval_tools.execution.runtime import RegistryOptions
from praval_tools.names import get_collision_keys
from praval_tools.plugins.discovery import InstalledPlugin
from praval_tools.registry.agents import Agent
from praval_tools.registry.default import use_registry
from praval_tools.registry.registry import ToolRegistry
from praval_tools.tools.tool import AnyTool, Tool

_DEFAULT_OPTIONS: Final = RegistryOptions()
_DECLARATIONS_ATTRIBUTE: Final = "__praval_tools_declared__"
"""The attribute of a plugin's module that keeps what its import declared: it runs once, and may be loaded often."""


class _StagingStore(StateStore):
    """
    The state of a staging registry.

    Tools wait until somebody looks, and are registered all at once: most plugins declare and never look.
    """

    def __init__(self, name: str, state: AccessState | None = None) -> None:
        self.waiting: dict[str, AnyTool] = {}
        super().__init__(name, state)

    @property
    def has_tools(self) -> bool:
        """Whether tools are registered, and do not wait any more."""
        return len(self._state.tools) > 0

    @property
    def state(self) -> AccessState:
        """The state, with every tool that was declared so far."""
        if self.waiting and not self.closed:
            tools, self.waiting = list(dict.fromkeys(self.waiting.values())), {}
            self.commit(lambda _: [ToolRegistered(tool=tool) for tool in tools])
        return self._state

    @state.setter
    def state(self, state: AccessState) -> None:
        self._state = state


class StagingRegistry(ToolRegistry):
    """The default registry while one plugin is imported: what is declared in it is a request."""

    _store_type = _StagingStore
    _access_store: _StagingStore

    def __init__(self, found: InstalledPlugin) -> None:
        self._initialize(f"staging of {found}", SystemClock(), _DEFAULT_OPTIONS)
        self._runtime.is_staging = True

    def register_tool(self, tool: Any, *, replace: bool = False, by: object = None, reason: str = "") -> None:
        """Take a tool, whoever it says it is owned by: the admission decides on that."""
        store, keys = self._access_store, get_collision_keys(tool.name) if isinstance(tool, Tool) else ()
        if not keys or replace or any(key in store.waiting for key in keys) or store.has_tools:
            with self._runtime.as_operator():
                super().register_tool(tool, replace=replace, reason=reason)
        else:
            store.waiting.update(dict.fromkeys(keys, tool))

    def seal(self) -> None:
        """Take no calls and no changes any more, whoever holds it."""
        if self._access_store.has_tools:
            self.close()
        self._access_store.closed = True
        self._access_store.invalidate_snapshots()

    def list_declared_tools(self) -> list[AnyTool]:
        """Return what was declared, in order."""
        if self._access_store.has_tools:
            return self.list_all_tools()
        return list(dict.fromkeys(self._access_store.waiting.values()))


@frozen
class RequestedAgent:
    """An agent that a module declared, with the profile that it asked for."""

    agent: Agent
    profile: AgentProfile


@frozen(kw_only=True)
class ModuleDeclarations:
    """What a module declared as it was imported."""

    tools: tuple[Tool[..., Any], ...] = ()
    agents: tuple[RequestedAgent, ...] = ()


def get_plugin_principal(found: InstalledPlugin) -> str:
    """Return the name in which a plugin acts, and which owns its tools; no agent can have it."""
    return f"plugin:{found.distribution}"


@contextmanager
def act_as_plugin(found: InstalledPlugin, staging: ToolRegistry) -> Iterator[None]:
    """Act as the plugin inside, with *staging* as the default registry."""
    with use_registry(staging), activate_frame(make_frame(FrameScope(staging, None, get_plugin_principal(found)))):
        yield


@frozen
class PluginModules:
    """Which module belongs to which plugin, and what one plugin's import declared for another."""

    plugins: tuple[InstalledPlugin, ...] = ()
    stray_tools: dict[str, list[Tool[..., Any]]] = field(factory=dict)
    _by_top_package: dict[str, list[InstalledPlugin]] = field(factory=dict)

    @classmethod
    def from_plugins(cls, plugins: Iterable[InstalledPlugin]) -> PluginModules:
        """Return the packages of *plugins*."""
        made = cls(tuple(plugins))
        for one in made.plugins:
            made._by_top_package.setdefault(one.value.partition(":")[0].partition(".")[0], []).append(one)
        return made

    def find_owner(self, module: str, default: str) -> str:
        """Return the distribution whose entry point is nearest to *module*; *default* where that is no other's."""
        near, most = {default}, 0
        for one in self._by_top_package.get(module.partition(".")[0], ()):
            shared = _count_common_packages(module, one.value.partition(":")[0])
            if shared > most:
                near, most = set(), shared
            if shared == most and shared:
                near.add(one.distribution)
        return default if default in near or len(near) != 1 else near.pop()

    def select_own_tools(self, found: InstalledPlugin, tools: Iterable[Tool[..., Any]]) -> tuple[Tool[..., Any], ...]:
        """Return those of *tools* that are of *found*; it may have imported the module of another plugin."""
        mine, owners = [], dict[str, str]()
        for tool in tools:
            module = tool.implementation.module
            if (owner := owners.get(module, "")) == "":
                owner = owners[module] = self.find_owner(module, found.distribution)
            if owner != found.distribution and self.find_owner(_get_code_module(tool), "") == found.distribution:
                owner = found.distribution  # it wraps what is another's
            if owner == found.distribution:
                mine.append(tool)
            else:
                self.stray_tools.setdefault(owner, []).append(tool)
        return tuple(mine)


def _get_code_module(tool: Tool[..., Any]) -> str:
    """Return the module whose code a tool's function is, whatever that says of itself."""
    return str(getattr(tool.implementation.function, "__globals__", {}).get("__name__", ""))


def _count_common_packages(one: str, other: str) -> int:
    """Return how many packages, from the outermost on, two modules have in common."""
    pairs = zip(one.split("."), other.split("."), strict=False)
    whole = min(one.count("."), other.count(".")) + 1
    return next((at for at, (mine, theirs) in enumerate(pairs) if mine != theirs), whole)


def import_plugin(
    found: InstalledPlugin, staging: StagingRegistry, packages: PluginModules
) -> tuple[Any, ModuleDeclarations]:
    """Import what the entry point names, in the plugin's name; return it, and what its module declared."""
    name, _, path = (part.strip() for part in found.value.split("[")[0].partition(":"))
    with _module_locks.get_lock(name):
        return _import_locked(name, path, found, staging, packages)


class _ModuleLocks:
    """Who imports a module first, and who looks at it then, across all registries."""

    def __init__(self) -> None:
        self._lock, self._locks = threading.Lock(), WeakValueDictionary[str, Any]()

    def get_lock(self, module: str) -> Any:
        """Return the lock of a module."""
        with self._lock:
            return self._locks.setdefault(module, threading.RLock())


_module_locks: Final = _ModuleLocks()


def _import_locked(
    name: str, path: str, found: InstalledPlugin, staging: StagingRegistry, packages: PluginModules
) -> tuple[Any, ModuleDeclarations]:
    known = name in sys.modules
    plugin: Any = importlib.import_module(name)
    module = plugin
    for part in path.split(".") if path else ():
        plugin = getattr(plugin, part)
    kept = vars(module).get(_DECLARATIONS_ATTRIBUTE)
    if isinstance(kept, ModuleDeclarations):
        return plugin, kept
    agents = tuple(
        RequestedAgent(one, staging.state.get_profile(name)) for name, one in sorted(staging._declared_agents.items())
    )
    tools = packages.select_own_tools(found, staging.list_declared_tools())
    if known:  # somebody else imported it, and what it declared went elsewhere
        tools = (*_list_module_tools(module), *packages.stray_tools.pop(found.distribution, ()))
    declared = ModuleDeclarations(tools=tuple(dict.fromkeys(tools)), agents=agents)
    setattr(module, _DECLARATIONS_ATTRIBUTE, declared)
    return plugin, declared


def _list_module_tools(module: Any) -> list[Tool[..., Any]]:
    """Return the tools that stand in *module* and were declared there."""
    tools = (one for one in vars(module).values() if isinstance(one, Tool))
    return [one for one in tools if one.implementation.discoverable and one.implementation.module == module.__name__]
