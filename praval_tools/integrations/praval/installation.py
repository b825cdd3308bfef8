"""A registry of `praval_tools` in the place of Praval's own."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any, Self

from praval_tools.compat.praval.model import Tool
from praval_tools.compat.praval.registry import ToolRegistry as View
from praval_tools.errors import ToolUsageError
from praval_tools.integrations.praval.migration import Collisions, migrate_catalogue
from praval_tools.integrations.praval.praval_modules import import_praval_module
from praval_tools.registry import default
from praval_tools.registry.registry import ToolRegistry


class InstalledView(View):
    """Praval's view of the registry that it uses; remembers what agents got by their rights."""

    def get_tools_for_agent(self, agent_name: str) -> list[Tool]:
        """Return the tools that the agent may call now."""
        found = super().get_tools_for_agent(agent_name)
        self._praval_state.reported_tools.setdefault(agent_name, set()).update(one.metadata.tool_name for one in found)
        return found


@cache
def _build_view_class(theirs: Any) -> type[InstalledView]:
    # of Praval's class as well: code that asks with isinstance gets the answer that it got before
    return type("ToolRegistry", (InstalledView, theirs.ToolRegistry), {"_tool_class": theirs.Tool})


class RegistryGuardLock:
    """
    Praval's own lock around its registry, with ours put back where Praval has taken it out.

    `reset_tool_registry()` empties the place under this lock, and whoever finds it empty asks for this lock first:
    so nobody sees it empty, and no function of Praval's is replaced.
    """

    def __init__(self, module: Any, lock: Any, view: InstalledView) -> None:
        self.module, self.lock, self.view, self.previous_registry = module, lock, view, module._global_registry

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self, *args: Any, **kwargs: Any) -> bool:
        """Acquire the lock."""
        got = bool(self.lock.acquire(*args, **kwargs))
        self._restore_registry()
        return got

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

    def __init__(self, keeper: RegistryGuardLock) -> None:
        self._lock = keeper

    @property
    def registry(self) -> ToolRegistry:
        """The registry that Praval uses."""
        return self._lock.view.registry

    @property
    def active(self) -> bool:
        """Whether it is installed now."""
        return self._lock.module._registry_lock is self._lock

    def uninstall(self) -> None:
        """Give Praval its own registry back, the object that was there before; safe twice."""
        keeper = self._lock
        with keeper.lock:
            if not self.active:
                return
            current = keeper.module._global_registry
            if current is None or (isinstance(current, InstalledView) and current.registry is self.registry):
                keeper.module._global_registry = keeper.previous_registry
            keeper.module._registry_lock = keeper.lock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.uninstall()

    def __repr__(self) -> str:
        return f"<Installation of {self.registry.name!r}{'' if self.active else ', over'}>"


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
    """
    module = import_praval_module("praval.core.tool_registry")
    registry = default.get_tool_registry() if registry is None else registry
    held = module._registry_lock
    if isinstance(held, RegistryGuardLock):
        if held.view.registry is registry:
            return Installation(held)
        raise ToolUsageError(
            f"Praval uses registry {held.view.registry.name!r} already; uninstall() that before {registry.name!r} "
            f"is installed.",
            "already-installed",
        )
    view: InstalledView = object.__new__(_build_view_class(module))
    view._bind_registry(registry)
    with held:
        if module._registry_lock is held:  # else another thread was first
            migrate_catalogue(view, module._global_registry, collisions)
            module._registry_lock = RegistryGuardLock(module, held, view)
            module._global_registry = view
    return install(registry, collisions=collisions)


def uninstall() -> bool:
    """Give Praval its own registry back, whichever is installed; False: none is."""
    keeper = import_praval_module("praval.core.tool_registry")._registry_lock
    if not isinstance(keeper, RegistryGuardLock):
        return False
    Installation(keeper).uninstall()
    return True


def get_installed_view() -> InstalledView | None:
    """Return Praval's view of the installed registry; None: none is."""
    keeper = import_praval_module("praval.core.tool_registry")._registry_lock
    return keeper.view if isinstance(keeper, RegistryGuardLock) else None
