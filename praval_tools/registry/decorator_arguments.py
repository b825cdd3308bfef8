"""Every spelling of `@tool`, whichever registry the tool goes to."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, Protocol, TypeVar, Unpack, overload

from praval_tools.errors import ToolUsageError
from praval_tools.tools.metadata import DeclaredFields
from praval_tools.tools.tool import AsyncTool, Tool

P = ParamSpec("P")
R = TypeVar("R")


class ToolDecorator(Protocol):
    """What `@tool(…)` gives: it keeps the function's own types."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTool[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Tool[P, R]: ...


class ToolDecoratorFactory(Protocol):
    """`registry.tool` and `agent.tool`: every spelling of `@tool`, with the function's own types kept."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTool[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /, **metadata: Unpack[DeclaredFields]) -> Tool[P, R]: ...
    @overload
    def __call__(self, name: str | None = None, /, **metadata: Unpack[DeclaredFields]) -> ToolDecorator: ...


RegisterTool = Callable[[Tool[..., Any], Any, bool], None]
"""Takes a new tool, the `registry=` that was given, and `replace=`."""


def make_tool_or_decorator(args: tuple[Any, ...], metadata: dict[str, Any], register: RegisterTool) -> Any:
    """Return the tool, or the decorator that makes it, for what `@tool` was given."""
    if len(args) > 1:
        raise ToolUsageError("@tool takes one positional argument: the tool's name, or the function.")
    first = args[0] if args else None
    given = [metadata.pop(key) for key in ("tool_name", "name") if key in metadata]
    names = {one for one in (first if isinstance(first, str) else None, *given) if one is not None}
    if len(names) > 1:
        raise ToolUsageError(f"@tool was given {len(names)} names: {', '.join(sorted(map(repr, names)))}.")
    name = names.pop() if names else None
    if first is not None and not isinstance(first, str):
        return _make_tool(first, name, metadata, register)
    return lambda function: _make_tool(function, name, dict(metadata), register)


def _make_tool(function: Any, name: str | None, given: dict[str, Any], register: RegisterTool) -> Tool[..., Any]:
    wanted, registry, replace = given.pop("register", True), given.pop("registry", None), given.pop("replace", False)
    if isinstance(function, Tool):
        function = function.function
    made: Tool[..., Any] = Tool.from_function(function, name=name, **given)
    made.implementation.discoverable = wanted and registry is None
    if wanted:
        register(made, registry, replace)
    return made
