"""Declaring tools and agents: `@tool`, `@agent`, `Agent`, and who is running now."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from praval_tools.agents import AgentBase
from praval_tools.errors import ToolUsageError
from praval_tools.execution.frames import frames
from praval_tools.model.definition import Definition, place_of
from praval_tools.model.permissions import AgentProfile, Principal
from praval_tools.model.tool import AsyncTool, Tool
from praval_tools.naming import check_agent_name
from praval_tools.registry import ToolRegistry, _declare_tool, get_tool_registry

P = ParamSpec("P")
R = TypeVar("R")


class _ToolDecorator(Protocol):
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTool[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTool[P, R]: ...
@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(name: str | None = None, /, **metadata: Any) -> _ToolDecorator: ...
def tool(*args: Any, **metadata: Any) -> Any:
    """
    Declare a tool: `@tool`, `@tool()`, `@tool("name", owned_by="calculator")`.

    Args:
        args: The name, or the function itself.
        metadata: Fields of `ToolMetadata`; `namespace`, `method_name`, `strict`; `registry` (None: the default
            one), `register=False` (nowhere), `replace=True` (take the place of the tool of this name).

    Returns:
        A `Tool`, or an `AsyncTool` for an `async def`: callable with the function's own signature.

    Raises:
        ToolDefinitionError: With every problem of the function at once.
        DuplicateToolError: The name is taken.
    """
    return _declare_tool(None, args, metadata)


class Agent(AgentBase):
    """
    A named principal that calls tools.

    Args:
        name: 1–128 printable characters without `:`.
        tools: Names, tools and functions that it lists; what is in no registry is registered.
        tool_categories: Categories that it requests.
        auto_discover_tools: Whether it may call what it owns and what is shared.
        registry: None: the default one.
        function: What calling the agent runs.

    Raises:
        DuplicateAgentError: The registry has an agent of this name.
    """

    def __init__(
        self, name: str, tools: Iterable[Any] = (), tool_categories: Iterable[str] = (),
        auto_discover_tools: bool = True, registry: ToolRegistry | None = None,
        function: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        check_agent_name(name)
        if isinstance(tools, str) or isinstance(tool_categories, str):
            raise TypeError("tools and tool_categories are lists; a single name goes in brackets: ['name'].")
        home = registry if registry is not None else get_tool_registry()
        source, run, module, qualname = place_of(function) if function is not None else (None, None, "", "")
        profile = AgentProfile(
            name=name, tool_categories=tuple(map(_category, tool_categories)),
            auto_discover_tools=bool(auto_discover_tools), declared=True,
            place=str(source) if source is not None and source.file else "", run=(run, module, qualname, source),
        )  # fmt: skip
        home._declare(profile, list(tools), lambda old: _again(old, profile, function))
        super().__init__(home, Principal(name), function)


def _category(one: Any) -> str:
    if not isinstance(one, str) or not one.strip():
        raise TypeError(f"A category is a text, got {one!r}.")
    return one


def _again(old: AgentProfile, new: AgentProfile, function: Callable[..., Any] | None) -> bool:
    """Tell whether the agent's module, or its notebook cell, runs again."""
    if function is None or old.run is None or old.run[3] is None:
        return False
    (old_run, *old_place, old_source), (run, *place, source) = old.run, new.run
    before = Definition(function, old.name, "", _NO_SIGNATURE, None, old_source, old_run, *old_place)
    return before.same_place(Definition(function, new.name, "", _NO_SIGNATURE, None, source, run, *place))


_NO_SIGNATURE: Any = None


@overload
def agent(function: Callable[..., Any], /) -> Agent: ...
@overload
def agent(
    name: str | None = None,
    /,
    *,
    tools: Iterable[Any] = (),
    tool_categories: Iterable[str] = (),
    auto_discover_tools: bool = True,
    registry: ToolRegistry | None = None,
) -> Callable[[Callable[..., Any]], Agent]: ...
def agent(first: Any = None, /, **options: Any) -> Any:
    """
    Declare an agent: `@agent`, `@agent()`, `@agent("calculator", tools=["math_add"], tool_categories=["arithmetic"])`.

    Named after the function by default. Calling the agent calls the function, with `current_agent()` set.

    Raises:
        DuplicateAgentError: The registry has an agent of this name.
    """
    if callable(first):
        return Agent(first.__name__, function=first, **options)
    name = options.pop("name", None) if first is None else first
    return lambda function: Agent(name or function.__name__, function=function, **options)


def current_agent() -> AgentBase:
    """
    Return the agent that is running: whose function or tool is on the stack of this context.

    Raises:
        ToolUsageError: No agent is running.
    """
    frame = frames.get()
    if frame is None or frame.site.who is None:
        raise ToolUsageError("No agent is running here; current_agent() works inside an agent's function or tool.")
    return AgentBase(frame.site.registry, frame.site.who)


