"""Makes a registry of `praval_tools` the one that Praval uses, with the tools it had, and undoes it."""

from __future__ import annotations

import copy
from functools import cache
from typing import Self, cast

from praval_tools.compat.praval.catalogue import get_catalogue
from praval_tools.compat.praval.conversion import get_praval_name, to_agent_name, to_plain_key
from praval_tools.compat.praval.model import Tool
from praval_tools.compat.praval.registry import ToolRegistry as View
from praval_tools.compat.praval.registry import build_view
from praval_tools.errors import ToolUsageError
from praval_tools.integrations.praval.migration import migrate_catalogue
from praval_tools.integrations.praval.praval_modules import PravalObject, import_praval_module
from praval_tools.names import describe_registry
from praval_tools.registry import default
from praval_tools.registry.catalogue import Collisions
from praval_tools.registry.registry import ToolRegistry
from praval_tools.tools.frames import refuse_others_than_operator


class InstalledView(View):
    """Praval's view of the registry that it uses; remembers the tools that it reported to each agent."""

    def get_tools_for_agent(self, agent_name: str) -> list[Tool]:
        """Return the tools that the agent may call now."""
        agent_name = to_plain_key(agent_name)
        tools = self.registry.get_tools_for_agent(to_agent_name(agent_name))
        reported = get_catalogue(self.registry).reported_tools.setdefault(agent_name, set())
        reported.update(map(get_praval_name, tools))
        return [self._convert_tool(tool) for tool in tools]


@cache
def _build_view_class(module: PravalObject) -> type[InstalledView]:
    # of Praval's class as well: isinstance gives the answer that it gave before
    bases = (InstalledView, module.ToolRegistry)
    return cast(type[InstalledView], type("ToolRegistry", bases, {"_tool_class": module.Tool}))


class RegistryGuardLock:
    """
    Replaces Praval's lock around its registry, to put the installed registry back where Praval has reset it.

    `reset_tool_registry()` resets it under this lock, and whoever finds none acquires this lock first:
    so nobody sees it missing, and no function of Praval's is replaced.
    """

    def __init__(self, module: PravalObject, lock: PravalObject, view: InstalledView) -> None:
        self.module, self.lock, self.view, self.previous_registry = module, lock, view, module._global_registry

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self, *args: object, **options: object) -> bool:
        """Acquire the lock."""
        is_acquired = bool(self.lock.acquire(*args, **options))
        self._restore_registry()
        return is_acquired

    def release(self) -> None:
        """Put the registry back, and release the lock."""
        self._restore_registry()
        self.lock.release()

    def locked(self) -> bool:
        """Tell whether the lock is held."""
        return bool(self.lock.locked())

    def _restore_registry(self) -> None:
        if self.module._registry_lock is self and self.module._global_registry is None:
            self.module._global_registry = copy.copy(self.view)  # a new instance follows, as in Praval


class Installation:
    """What `install` did; leaving it as a `with` block undoes it."""

    def __init__(self, guard: RegistryGuardLock) -> None:
        self._lock = guard

    @property
    def registry(self) -> ToolRegistry:
        """The registry that Praval uses."""
        return self._lock.view.registry

    @property
    def active(self) -> bool:
        """Whether it is installed now."""
        return self._lock.module._registry_lock is self._lock

    def uninstall(self) -> None:
        """
        Give Praval its own registry back, the object that was there before; safe twice.

        Raises:
            NotOwnerError: It is the code of an agent that does it.
        """
        refuse_others_than_operator("uninstall a registry")
        guard = self._lock
        with guard.lock:
            if not self.active:
                return
            current = guard.module._global_registry
            if current is None or (isinstance(current, InstalledView) and current.registry is self.registry):
                guard.module._global_registry = guard.previous_registry
            guard.module._registry_lock = guard.lock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.uninstall()

    def __repr__(self) -> str:
        return f"<Installation of {describe_registry(self.registry.name)}{'' if self.active else ', over'}>"


def install(registry: ToolRegistry | None = None, *, collisions: Collisions = "error") -> Installation:
    """
    Make *registry* the one that Praval uses: its `@tool`, `@agent`, `agent.tool` and the rest land in it.

    Tools that Praval's registry holds are brought along. Installing the same registry twice is once.

    Args:
        registry: None: the default one.
        collisions: What happens where a tool of Praval's has the name of another one here; see `migrate`.

    Raises:
        MissingExtraError: Praval is not installed.
        DuplicateToolError: Two tools have one name; nothing was installed.
        ToolUsageError: Another registry is installed.
        NotOwnerError: It is the code of an agent that installs it.
    """
    refuse_others_than_operator("install a registry")
    module = import_praval_module("praval.core.tool_registry")
    registry = default.get_tool_registry() if registry is None else registry
    lock = module._registry_lock
    if isinstance(lock, RegistryGuardLock):
        installed = lock.view.registry
        if installed is registry:
            return Installation(lock)
        raise ToolUsageError(
            f"Praval uses {describe_registry(installed.name)} already; uninstall() that before another is installed.",
            "already-installed",
        )
    view = build_view(_build_view_class(module), registry)
    with lock:
        if module._registry_lock is lock:  # else another thread was first
            migrate_catalogue(get_catalogue(registry), module._global_registry, collisions)
            module._registry_lock = RegistryGuardLock(module, lock, view)
            module._global_registry = view
    return install(registry, collisions=collisions)


def uninstall() -> bool:
    """Give Praval its own registry back, and tell whether another one was installed."""
    guard = _get_guard()
    if guard is not None:
        Installation(guard).uninstall()
    return guard is not None


def get_installed_view() -> InstalledView | None:
    """Return Praval's view of the installed registry; None where none is installed."""
    guard = _get_guard()
    return None if guard is None else guard.view


def _get_guard() -> RegistryGuardLock | None:
    lock = import_praval_module("praval.core.tool_registry")._registry_lock
    return lock if isinstance(lock, RegistryGuardLock) else None
