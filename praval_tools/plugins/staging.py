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
from praval_tools.access.store import Ledger
from praval_tools.clock import SystemClock
from praval_tools.execution.context import Site, frame_of, running
from praval_tools.execution.runtime import Options
from praval_tools.names import keys_of
from praval_tools.plugins.discovery import Found
from praval_tools.registry.agents import Agent
from praval_tools.registry.default import use_registry
from praval_tools.registry.registry import ToolRegistry
from praval_tools.tools.tool import Tool

AnyTool = Tool[..., Any]

_OPTIONS: Final = Options()
_KEPT: Final = "__praval_tools_declared__"
"""The attribute of a plugin's module that keeps what its import declared: it runs once, and may be loaded often."""


class Staging(ToolRegistry):
    """The default registry while one plugin is imported: what is declared in it is a wish."""

    def __init__(self, found: Found) -> None:
        self._waiting: dict[str, AnyTool] = {}
        self._begin(f"staging of {found}", SystemClock(), _OPTIONS)
        self._runtime.staging = True

    def register_tool(self, tool: Any, *, replace: bool = False, by: Any = None, reason: str = "") -> None:
        """Take a tool, whoever it says it is owned by: the gate decides on that."""
        keys = keys_of(tool.name) if isinstance(tool, Tool) else ()
        if not keys or replace or any(key in self._waiting for key in keys) or self._known:
            with self._runtime.as_operator():
                super().register_tool(tool, replace=replace, reason=reason)
        else:
            self._waiting.update(dict.fromkeys(keys, tool))

    @property
    def _known(self) -> bool:
        """Whether somebody has looked, and the ledger holds tools."""
        return len(self._real.state.tools) > 0

    @property
    def _ledger(self) -> Ledger:
        """The ledger, with what was declared so far: most plugins declare and never look."""
        waiting, self._waiting = list(dict.fromkeys(self._waiting.values())), {}
        if waiting:
            self._real.commit(lambda _: [ToolRegistered(tool=one) for one in waiting])
        return self._real

    @_ledger.setter
    def _ledger(self, ledger: Ledger) -> None:
        self._real = ledger

    def seal(self) -> None:
        """Take no calls and no changes any more, whoever holds it."""
        if self._known:
            self.close()
        self._real.closed = True
        self._real.renew()

    def taken(self) -> list[AnyTool]:
        """Return what was declared, in order."""
        return self.list_all_tools() if self._known else list(dict.fromkeys(self._waiting.values()))


@frozen
class Wished:
    """An agent that a module declared, with the profile that it asked for."""

    agent: Agent
    profile: AgentProfile


@frozen(kw_only=True)
class Declared:
    """What a module declared as it was imported."""

    tools: tuple[Tool[..., Any], ...] = ()
    agents: tuple[Wished, ...] = ()


def actor_of(found: Found) -> str:
    """Return the name in which a plugin acts, and which owns its tools; no agent can have it."""
    return f"plugin:{found.distribution}"


@contextmanager
def staged(found: Found, staging: ToolRegistry) -> Iterator[None]:
    """Act as the plugin inside, with *staging* as the default registry."""
    with use_registry(staging), running(frame_of(Site(staging, None, actor_of(found)))):
        yield


@frozen
class Packages:
    """Which module belongs to which plugin, and what one plugin's import declared for another."""

    plugins: tuple[Found, ...] = ()
    strays: dict[str, list[Tool[..., Any]]] = field(factory=dict)
    _of_top: dict[str, list[Found]] = field(factory=dict)

    @classmethod
    def of(cls, plugins: Iterable[Found]) -> Packages:
        """Return the packages of *plugins*."""
        made = cls(tuple(plugins))
        for one in made.plugins:
            made._of_top.setdefault(one.value.partition(":")[0].partition(".")[0], []).append(one)
        return made

    def owner(self, module: str, default: str) -> str:
        """Return the distribution whose entry point is nearest to *module*; *default* where that is no other's."""
        near, most = {default}, 0
        for one in self._of_top.get(module.partition(".")[0], ()):
            shared = _shared(module, one.value.partition(":")[0])
            if shared > most:
                near, most = set(), shared
            if shared == most and shared:
                near.add(one.distribution)
        return default if default in near or len(near) != 1 else near.pop()

    def sorted(self, found: Found, tools: Iterable[Tool[..., Any]]) -> tuple[Tool[..., Any], ...]:
        """Return those of *tools* that are of *found*; it may have imported the module of another plugin."""
        mine, owners = [], dict[str, str]()
        for tool in tools:
            module = tool.definition_.module
            if (owner := owners.get(module, "")) == "":
                owner = owners[module] = self.owner(module, found.distribution)
            if owner != found.distribution and self.owner(_written_in(tool), "") == found.distribution:
                owner = found.distribution  # it wraps what is another's
            if owner == found.distribution:
                mine.append(tool)
            else:
                self.strays.setdefault(owner, []).append(tool)
        return tuple(mine)


def _written_in(tool: Tool[..., Any]) -> str:
    """Return the module whose code a tool's function is, whatever that says of itself."""
    return str(getattr(tool.definition_.function, "__globals__", {}).get("__name__", ""))


def _shared(one: str, other: str) -> int:
    """Return how many packages, from the outermost on, two modules have in common."""
    pairs = zip(one.split("."), other.split("."), strict=False)
    whole = min(one.count("."), other.count(".")) + 1
    return next((at for at, (mine, theirs) in enumerate(pairs) if mine != theirs), whole)


def imported(found: Found, staging: Staging, packages: Packages) -> tuple[Any, Declared]:
    """Import what the entry point names, in the plugin's name; return it, and what its module declared."""
    name, _, path = (part.strip() for part in found.value.split("[")[0].partition(":"))
    with _turns.of(name):
        return _imported(name, path, found, staging, packages)


class _Turns:
    """Who imports a module first, and who looks at it then, across all registries."""

    def __init__(self) -> None:
        self._lock, self._of = threading.Lock(), WeakValueDictionary[str, Any]()

    def of(self, module: str) -> Any:
        """Return the lock of a module."""
        with self._lock:
            return self._of.setdefault(module, threading.RLock())


_turns: Final = _Turns()


def _imported(name: str, path: str, found: Found, staging: Staging, packages: Packages) -> tuple[Any, Declared]:
    known = name in sys.modules
    plugin: Any = importlib.import_module(name)
    module = plugin
    for part in path.split(".") if path else ():
        plugin = getattr(plugin, part)
    kept = vars(module).get(_KEPT)
    if isinstance(kept, Declared):
        return plugin, kept
    agents = tuple(Wished(one, staging.state.profile(name)) for name, one in sorted(staging._declared.items()))
    tools = packages.sorted(found, staging.taken())
    if known:  # somebody else imported it, and what it declared went elsewhere
        tools = (*_listed(module), *packages.strays.pop(found.distribution, ()))
    declared = Declared(tools=tuple(dict.fromkeys(tools)), agents=agents)
    setattr(module, _KEPT, declared)
    return plugin, declared


def _listed(module: Any) -> list[Tool[..., Any]]:
    """Return the tools that stand in *module* and were declared there."""
    tools = (one for one in vars(module).values() if isinstance(one, Tool))
    return [one for one in tools if one.definition_.listed and one.definition_.module == module.__name__]
