"""The default registry: one for the process, or another one inside of `use_registry`."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from contextvars import ContextVar, Token
from functools import wraps
from typing import Any, TypeVar, cast

from praval_tools.registry.agents import set_default_registry_getter
from praval_tools.registry.registry import ToolRegistry

F = TypeVar("F", bound=Callable[..., Any])

_default: list[ToolRegistry] = []
_default_lock = threading.Lock()
_override: ContextVar[ToolRegistry | None] = ContextVar("praval_tools_registry", default=None)


def get_tool_registry() -> ToolRegistry:
    """Return the default registry: the one of `use_registry`, else one for the process."""
    if (registry := _override.get()) is not None:
        return registry
    with _default_lock:
        if not _default:
            _default.append(ToolRegistry())
        return _default[0]


get_global_registry = get_tool_registry
set_default_registry_getter(get_tool_registry)


def reset_tool_registry() -> None:
    """Make a new default registry on the next request; whoever holds the old one keeps it."""
    with _default_lock:
        _default.clear()


class use_registry:
    """Make *registry* the default one inside a `with` block or a decorated function."""

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry
        self._tokens: list[Token[ToolRegistry | None]] = []

    def __enter__(self) -> ToolRegistry:
        self._tokens.append(_override.set(self._registry))
        return self._registry

    def __exit__(self, *_: object) -> None:
        _override.reset(self._tokens.pop())

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
