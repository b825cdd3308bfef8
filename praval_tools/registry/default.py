"""The default registry of the process, or the one that `use_registry` puts in its place."""

from __future__ import annotations

import inspect
import threading
import warnings
from collections.abc import Callable
from contextvars import Context
from functools import wraps
from typing import Any, Final, TypeVar, cast

from praval_tools.access.other_registry import set_default_store_finder
from praval_tools.access.store import StateStore
from praval_tools.errors import PluginWarning, get_user_stacklevel
from praval_tools.execution.context import resolve_actor
from praval_tools.forks import ForkSafeLock
from praval_tools.misuse import explain_misuse_and_take_plain_arguments, explain_wrong_calls
from praval_tools.registry.agents import set_default_registry_getter
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.tools.context_settings import ContextSetting, use_setting
from praval_tools.tools.frames import refuse_others_than_operator

F = TypeVar("F", bound=Callable[..., Any])
PluginLoader = Callable[[ToolRegistry], object]

_MAX_WAIT_SECONDS: Final = 60.0
"""How long a look-up waits for another thread that loads the plugins, which may in turn wait for it."""

_plugin_loaders: list[PluginLoader] = []
_default: list[ToolRegistry] = []
_default_lock = ForkSafeLock()
_override: Final = ContextSetting[ToolRegistry]()


@explain_wrong_calls
def get_tool_registry() -> ToolRegistry:
    """Return the default registry: the one of `use_registry`, else one for the process."""
    if (registry := _override.get()) is not None:
        return registry
    with _default_lock:
        if not _default:
            registry = ToolRegistry(name="default")
            get_runtime(registry).access_store.before_first_lookup = _FirstLookupLoader(registry)
            _default.append(registry)
        return _default[0]


def _find_default_store() -> StateStore | None:
    """Return the store of the default registry, if there is one; no look-up, so that no plugins are loaded."""
    registry = _override.get() or next(iter(_default), None)
    return None if registry is None else get_runtime(registry).access_store


def set_plugin_loader(load: PluginLoader) -> None:
    """Have *load* called with each new default registry at its first look-up."""
    _plugin_loaders[:] = [load]


class _FirstLookupLoader:
    """
    Loads the installed plugins into a registry at its first look-up: once for all threads, and as the program itself.

    A look-up of a plugin's own loads nothing; the next one of somebody else does.
    """

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry, self._lock = registry, ForkSafeLock(waits=True)
        self._loading_thread: int | None = None

    def __call__(self) -> None:
        if resolve_actor(None, "look").startswith("plugin:"):
            return
        if not self._lock.acquire(timeout=_MAX_WAIT_SECONDS):
            text = f"Another thread has been loading the plugins for {_MAX_WAIT_SECONDS:.0f} s; this goes on without."
            warnings.warn(f"{text} Call autoload() before threads start.", PluginWarning, get_user_stacklevel())
            return
        try:
            if self._loading_thread != threading.get_ident():
                self._load_plugins()
        finally:
            self._lock.release()

    def _load_plugins(self) -> None:
        store = get_runtime(self._registry).access_store
        if store.before_first_lookup is not self:  # another thread was first
            return
        self._loading_thread = threading.get_ident()
        try:
            for load in _plugin_loaders:
                Context().run(load, self._registry)
        finally:
            store.before_first_lookup = self._loading_thread = None


get_global_registry = get_tool_registry
set_default_registry_getter(get_tool_registry)
set_default_store_finder(_find_default_store)


@explain_wrong_calls
def reset_tool_registry() -> None:
    """
    Make a new default registry on the next request; whoever holds the old one keeps it.

    Raises:
        NotOwnerError: It is the code of an agent or a plugin that does it.
    """
    refuse_others_than_operator("reset the default registry")
    with _default_lock:
        _default.clear()


@explain_misuse_and_take_plain_arguments
class use_registry:
    """Make *registry* the default one inside a `with` block or a decorated function."""

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry
        self._entered: list[use_setting[ToolRegistry]] = []

    def __enter__(self) -> ToolRegistry:
        self._entered.append(use_setting(_override, self._registry))
        self._entered[-1].__enter__()
        return self._registry

    def __exit__(self, *_: object) -> None:
        self._entered.pop().__exit__()

    def __call__(self, function: F) -> F:
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def wrapper(*args: object, **kwargs: object) -> object:
                with use_registry(self._registry):
                    return await function(*args, **kwargs)

        else:

            @wraps(function)
            def wrapper(*args: object, **kwargs: object) -> object:
                with use_registry(self._registry):
                    return function(*args, **kwargs)

        return cast("F", wrapper)
