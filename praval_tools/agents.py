"""Agents: named principals that call tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from typing import Any, Literal, Self

from praval_tools.errors import ToolUsageError
from praval_tools.execution.frames import Frame, Site, frames, running
from praval_tools.model.calls import ToolCall, ToolResult
from praval_tools.model.decision import Decision
from praval_tools.model.permissions import Delegation, Principal
from praval_tools.model.tool import Tool
from praval_tools.naming import check_agent_name
from praval_tools.toolset import BoundTool, Toolset

Mode = Literal["intersect", "inherit", "own"]


class AgentBase:
    """What every agent can do; made by `Agent`, `@agent`, `registry.agent` and `delegate`."""

    def __init__(self, registry: Any, who: Principal, function: Callable[..., Any] | None = None) -> None:
        self.registry, self._who, self._function = registry, who, function
        self.name = who.agent
        self._tools: Toolset = registry._toolset(who)
        self.__wrapped__ = function
        self.__name__ = getattr(function, "__name__", who.agent)
        self.__qualname__ = getattr(function, "__qualname__", who.agent)
        if function is not None:
            self.__doc__, self.__module__ = function.__doc__, function.__module__
        self._injected = _toolset_parameters(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._function is None:
            raise ToolUsageError(f"Agent {self.name!r} has no function to run; use its call, execute and tools.")
        for parameter in self._injected:
            kwargs.setdefault(parameter, self._tools)
        frame = Frame(Site(self.registry, self._who, self.name))
        with running(frame):
            outcome = self._function(*args, **kwargs)
        return _inside(Site(self.registry, self._who, self.name), outcome)

    def __repr__(self) -> str:
        return f"<Agent {self.name!r}>"

    @property
    def _praval_agent(self) -> Self:
        return self

    @property
    def chain(self) -> tuple[str, ...]:
        """The agents on whose behalf this one acts, the nearest first."""
        return self._who.chain

    # ── what it has ──────────────────────────────────────────────────────────────────────────────

    @property
    def tools(self) -> Toolset:
        """The tools that it may call now: live, ordered, read-only."""
        return self._tools

    def list_tools(self) -> list[str]:
        """Return the names of the tools that it may call now, in registration order."""
        return list(self._tools)

    def tool_exists(self, name: str) -> bool:
        """Tell whether it may call a tool of this name now."""
        return name in self._tools

    has_tool = tool_exists

    def get_tool(self, name: str) -> BoundTool[..., Any] | None:
        """Return the checked way to the tool of this name, if the agent may call it now."""
        return self._tools.get(name)

    def add_tool(self, tool: str | Tool[..., Any] | Callable[..., Any]) -> None:
        """
        Give the agent a tool: by name, or an object that is registered first if it is in no registry.

        Raises:
            UnknownToolError: No tool of this name.
            DuplicateToolError: The object's name is taken by another tool.
            TypeError: Something else.
        """
        self.registry._add_tool(self.name, tool)

    def remove_tool(self, tool: str | Tool[..., Any]) -> bool:
        """Take a tool from the agent; False: it could not call it before."""
        return self.registry.remove_tool_from_agent(tool, self.name)  # type: ignore[no-any-return]

    def tool(self, function: Any = None, /, name: str | None = None, **metadata: Any) -> Any:
        """Declare a tool that this agent owns and lists: the decorator of old."""
        if isinstance(function, str):
            name, function = function, None
        if function is None:
            return lambda one: self.tool(one, name=name, **metadata)
        metadata.setdefault("owned_by", self.name)
        made: Tool[..., Any] = Tool.from_function(function, name=name, **metadata)
        self.registry._add_own(self.name, made)
        return made

    # ── what it does ─────────────────────────────────────────────────────────────────────────────

    def explain(self, name: str, arguments: Mapping[str, Any] | None = None) -> Decision:
        """Say whether it may call a tool, and why."""
        return self._tools.explain(name, arguments)

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Call a tool and return its value; raises what `Toolset.call` raises."""
        return self._tools.call(name, **arguments)

    async def acall(self, name: str, /, **arguments: Any) -> Any:
        """Call a tool from async code and return its value."""
        return await self._tools.acall(name, **arguments)

    def execute(self, call: ToolCall) -> ToolResult:
        """Run a call of this agent; every failure is a result."""
        return self._tools.execute(call)

    async def aexecute(self, call: ToolCall) -> ToolResult:
        """Run a call of this agent from async code."""
        return await self._tools.aexecute(call)

    def execute_batch(self, calls: Iterable[ToolCall], max_parallel: int | None = None) -> list[ToolResult]:
        """Run calls side by side; results in call order."""
        return self._tools.execute_batch(calls, max_parallel)

    async def aexecute_batch(self, calls: Iterable[ToolCall], max_parallel: int | None = None) -> list[ToolResult]:
        """Run calls side by side from async code."""
        return await self._tools.aexecute_batch(calls, max_parallel)

    def schemas(self, api_format: str = "openai-chat") -> list[dict[str, Any]]:
        """Return its tools in a provider's format."""
        return self._tools.schemas(api_format)

    def delegate(self, name: str, tools: Iterable[str] | None = None, mode: Mode = "intersect") -> AgentBase:
        """
        Return a live sub-agent whose calls carry the chain; nothing is copied.

        Args:
            name: The sub-agent's name.
            tools: Narrows to these tools.
            mode: `intersect`: both must be allowed; `inherit`: this agent's decisions; `own`: the sub-agent's.
        """
        if mode not in ("intersect", "inherit", "own"):
            raise ToolUsageError(f"mode={mode!r} is none of 'intersect', 'inherit', 'own'.")
        check_agent_name(name)
        names = None if tools is None else frozenset(getattr(one, "name", one) for one in tools)
        return AgentBase(self.registry, Principal(name, Delegation(mode, self._who, names)))


def _toolset_parameters(function: Callable[..., Any] | None) -> tuple[str, ...]:
    hints = getattr(function, "__annotations__", None) or {}
    wanted = (Toolset, "Toolset", "praval_tools.Toolset")
    return tuple(name for name, hint in hints.items() if hint in wanted and name != "return")


def _inside(site: Site, outcome: Any) -> Any:
    """Keep what an agent's function returns inside its context, where it runs on later."""
    kind = type(outcome).__name__
    if kind == "coroutine":
        return _awaited(site, outcome)
    if kind == "generator":
        return _generated(site, outcome)
    return _agenerated(site, outcome) if kind == "async_generator" else outcome


async def _awaited(site: Site, outcome: Any) -> Any:
    with running(Frame(site)):
        return await outcome


def _generated(site: Site, outcome: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    sent = None
    while True:
        with running(Frame(site)):
            try:
                item = outcome.send(sent)
            except StopIteration as end:
                return end.value
        try:
            sent = yield item
        except GeneratorExit:
            with running(Frame(site)):
                outcome.close()
            raise


async def _agenerated(site: Site, outcome: AsyncGenerator[Any, Any]) -> AsyncGenerator[Any, Any]:
    sent = None
    while True:
        with running(Frame(site)):
            try:
                item = await outcome.asend(sent)
            except StopAsyncIteration:
                return
        sent = yield item


def running_principal(registry: Any) -> Principal | None:
    """Return the agent that runs in this context and *registry*; None outside of any."""
    frame = frames.get()
    return None if frame is None or frame.site.registry is not registry else frame.site.who
