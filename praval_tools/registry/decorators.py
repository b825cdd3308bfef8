"""The decorators `@tool` and `@agent`, and the agent that is running now."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from praval_tools.errors import ToolUsageError
from praval_tools.execution.context import SCOPE, get_current_frame
from praval_tools.misuse import explain_wrong_calls
from praval_tools.registry.agents import Agent, AgentTool
from praval_tools.registry.decorator_arguments import ToolDecorator, make_tool_or_decorator
from praval_tools.registry.default import get_tool_registry
from praval_tools.registry.registry import ToolRegistry
from praval_tools.tools.tool import AnyTool, AsyncTool, Tool

if TYPE_CHECKING:
    from praval_tools.tools.metadata import DeclaredFields

P = ParamSpec("P")
R = TypeVar("R")


@overload
def tool(function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTool[P, R]: ...
@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(name: str | None = None, /, **metadata: Unpack[DeclaredFields]) -> ToolDecorator: ...
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
    return make_tool_or_decorator(args, metadata, _register_tool)


def _register_tool(new_tool: AnyTool, registry: ToolRegistry | None, replace: bool) -> None:
    (registry if registry is not None else get_tool_registry()).register_tool(new_tool, replace=replace)


@overload
def agent(function: Callable[..., Any], /) -> Agent: ...
@overload
def agent(
    name: str | None = None,
    /,
    *,
    tools: Iterable[AgentTool] = (),
    tool_categories: Iterable[str] = (),
    auto_discover_tools: bool = True,
    registry: ToolRegistry | None = None,
) -> Callable[[Callable[..., Any]], Agent]: ...
@explain_wrong_calls
def agent(first: object = None, /, **options: Any) -> object:
    """
    Declare an agent: `@agent`, `@agent()`, `@agent("calculator", tools=["math_add"], tool_categories=["arithmetic"])`.

    Named after the function by default. Calling the agent calls the function, with `current_agent()` set.

    Raises:
        DuplicateAgentError: The registry has an agent of this name.
    """
    if callable(first) and not isinstance(first, Agent):
        return Agent(_get_agent_name(first), function=first, **options)
    name: Any = options.pop("name", None) if first is None else first
    return lambda function: Agent(name or _get_agent_name(function), function=function, **options)


def _get_agent_name(function: object) -> str:
    """Return the name of a function, or the class of another callable."""
    while (inner := getattr(function, "func", None)) is not None:  # functools.partial
        function = inner
    return str(getattr(function, "__name__", type(function).__name__))


@explain_wrong_calls
def current_agent() -> Agent:
    """
    Return the agent that is running: whose function or tool is on the stack of this context.

    Raises:
        ToolUsageError: No agent is running.
    """
    frame = get_current_frame()
    if frame is None or (principal := frame[SCOPE].principal) is None:
        raise ToolUsageError("No agent is running here; current_agent() works inside an agent's function or tool.")
    registry: ToolRegistry = frame[SCOPE].registry
    if principal.delegation is not None:
        return Agent.handle(registry, principal)
    return registry.agent(principal.agent)
