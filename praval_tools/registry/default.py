"""The default registry: one for the process, or another one inside of `use_registry`."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from praval_tools.registry.registry import ToolRegistry


F = TypeVar("F", bound=Callable[..., Any])

_factories: list[Callable[[], ToolRegistry]] = []
_default: list[ToolRegistry] = []
_default_lock = threading.Lock()
_override: ContextVar[ToolRegistry | None] = ContextVar("praval_tools_registry", default=None)


def set_registry_factory(maker: Callable[[], ToolRegistry]) -> None:
    """Say what makes the default registry; the registry's own module does, which stands above this one."""
    _factories[:] = [maker]


def get_tool_registry() -> ToolRegistry:
    """Return the default registry: the one of `use_registry`, else one for the process."""
    used = _override.get()
    if used is not None:
        return used
    with _default_lock:
        if not _default:
            _default.append(_factories[0]())
        return _default[0]


get_global_registry = get_tool_registry


def reset_tool_registry() -> None:
    """Let a new default registry follow; whoever holds the old one keeps it."""
    with _default_lock:
        _default.clear()


class use_registry:
    """Make *registry* the default one inside a `with` block or a decorated function."""

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry, self._tokens = registry, list[Any]()

    def __enter__(self) -> ToolRegistry:
        self._tokens.append(_override.set(self._registry))
        return self._registry

    def __exit__(self, *_: object) -> None:
        _override.reset(self._tokens.pop())

    def __call__(self, function: F) -> F:
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                with use_registry(self._registry):
                    return await function(*args, **kwargs)

        else:

            @wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with use_registry(self._registry):
                    return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]
