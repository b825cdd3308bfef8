"""Handles every way to write `@tool`, with or without parentheses, a name and metadata, and registers the tool."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, Unpack, overload

from praval_tools.errors import ToolUsageError
from praval_tools.tools.tool import AnyTool, AsyncTool, Tool

if TYPE_CHECKING:
    from praval_tools.tools.metadata import DeclaredFields

P = ParamSpec("P")
R = TypeVar("R")


class ToolDecorator(Protocol):
    """The decorator that `@tool(…)` returns: it keeps the function's own types."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTool[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Tool[P, R]: ...


class ToolDecoratorFactory(Protocol):
    """`registry.tool` and `agent.tool`: every form of `@tool`, with the function's own types kept."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTool[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /, **metadata: Unpack[DeclaredFields]) -> Tool[P, R]: ...
    @overload
    def __call__(self, name: str | None = None, /, **metadata: Unpack[DeclaredFields]) -> ToolDecorator: ...


RegisterTool = Callable[[AnyTool, Any, bool], None]
"""Takes a new tool, the argument `registry=`, and `replace=`."""


def make_tool_or_decorator(args: tuple[Any, ...], metadata: dict[str, Any], register: RegisterTool) -> Any:
    """Return the tool, or the decorator that makes it, for the arguments of `@tool`."""
    if len(args) > 1:
        raise ToolUsageError("@tool takes one positional argument: the tool's name, or the function.")
    first = args[0] if args else None
    candidates = [
        first if isinstance(first, str) else None,
        metadata.pop("tool_name", None),
        metadata.pop("name", None),
    ]
    names = {name for name in candidates if name is not None}
    if len(names) > 1:
        raise ToolUsageError(f"@tool was given {len(names)} names: {', '.join(sorted(map(repr, names)))}.")
    name = names.pop() if names else None
    if first is not None and not isinstance(first, str):
        return _make_tool(first, name, metadata, register)
    return lambda function: _make_tool(function, name, dict(metadata), register)


def _make_tool(function: Any, name: str | None, options: dict[str, Any], register: RegisterTool) -> AnyTool:
    is_registered = options.pop("register", True)
    registry, replace = options.pop("registry", None), options.pop("replace", False)
    if isinstance(function, Tool):
        function = function.function
    tool: AnyTool = Tool.from_function(function, name=name, **options)
    tool.implementation.discoverable = is_registered and registry is None
    if is_registered:
        register(tool, registry, replace)
    return tool
