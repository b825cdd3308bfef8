"""Agents: named principals that call tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, Self

from praval_tools.access.records import MAX_CHAIN_LENGTH, AgentProfile, Delegation, Principal
from praval_tools.errors import ToolUsageError
from praval_tools.execution.context import FrameScope, activate_frame, make_frame
from praval_tools.names import check_agent_name, shorten_repr
from praval_tools.registry import assignment
from praval_tools.registry.decorator_arguments import ToolDecoratorFactory
from praval_tools.registry.default import get_tool_registry
from praval_tools.registry.toolset import BoundTool, Toolset
from praval_tools.schema.signature import read_signature
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.decision import Decision
from praval_tools.tools.declaration_site import find_calling_site, find_declaration_site
from praval_tools.tools.tool import Tool

if TYPE_CHECKING:
    from praval_tools.registry.registry import ToolRegistry

DelegationMode = Literal["intersect", "inherit", "own"]


class Agent:
    """
    A named principal that calls tools.

    Declaring one records what it lists and requests; `registry.agent`, `delegate` and `current_agent` give handles
    on agents, declared or not. Handles of the same agent are equal.

    Args:
        name: 1–128 printable characters without `:`.
        tools: Names, tools and functions that it lists; what is in no registry is registered.
        tool_categories: Categories that it requests.
        auto_discover_tools: Whether it may call what it owns and what is shared.
        registry: None: the default one.
        function: What calling the agent runs.

    Raises:
        DuplicateAgentError: The registry has an agent of this name.
        ToolUsageError: *function* is a method without its object.
    """

    def __init__(
        self, name: str, tools: Iterable[Any] = (), tool_categories: Iterable[str] = (),
        auto_discover_tools: bool = True, registry: ToolRegistry | None = None,
        function: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        check_agent_name(name)
        if any(isinstance(one, str) or not isinstance(one, Iterable) for one in (tools, tool_categories)):
            raise TypeError("tools and tool_categories are lists; a single name goes in brackets: ['name'].")
        if type(auto_discover_tools) is not bool:
            raise TypeError(f"auto_discover_tools is True or False, not {auto_discover_tools!r}.")
        if function is not None and not callable(function):
            raise TypeError(f"An agent is declared of a function, not of {shorten_repr(function)}.")
        if isinstance(function, FunctionType) and function.__code__.co_varnames[:1] == ("self",):
            raise ToolUsageError(
                f"{function.__qualname__} is a method without its object; declare the agent on a bound one: "
                f"agent({name!r})(one.{function.__name__})."
            )
        home = registry if registry is not None else get_tool_registry()
        place = find_declaration_site(function) if function is not None else find_calling_site()
        profile = AgentProfile(
            name=name, tool_categories=tuple(map(_check_category, tool_categories)),
            auto_discover_tools=auto_discover_tools, declared=True,
            place=str(place.source) if place.source.file else "", run=place,
        )  # fmt: skip
        assignment.declare_agent(
            home, profile, list(tools), lambda old: old.run is not None and place.is_rerun_of(old.run)
        )
        self._initialize(home, Principal(name), function)
        home._declared_agents[name] = self

    @classmethod
    def handle(cls, registry: Any, who: Principal) -> Agent:
        """Return an agent for *who* without declaring anything."""
        made = object.__new__(cls)
        made._initialize(registry, who, None)
        return made

    def _initialize(self, registry: Any, who: Principal, function: Callable[..., Any] | None) -> None:
        self.registry, self._principal, self._function = registry, who, function
        self.name = who.agent
        self._toolset: Toolset = registry._dispatcher.get_toolset(who)
        # the toolset's own, without a step between: calls are what an agent does most
        self.call, self.acall = self._toolset.call, self._toolset.acall  # type: ignore[method-assign]
        self.__wrapped__ = function
        self._toolset_parameters: tuple[tuple[str, int | None], ...] | None = () if function is None else None
        self.__name__ = getattr(function, "__name__", who.agent)
        self.__qualname__ = getattr(function, "__qualname__", who.agent)
        if function is not None:
            self.__doc__, self.__module__ = function.__doc__, function.__module__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Agent) and self.registry is other.registry and self._principal == other._principal

    def __hash__(self) -> int:
        return hash(self._principal)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._function is None:
            raise ToolUsageError(f"Agent {self.name!r} has no function to run; use its call, execute and tools.")
        args = self._add_toolset_argument(args, kwargs)
        with activate_frame(make_frame(FrameScope(self.registry, self._principal, self.name))):
            outcome = self._function(*args, **kwargs)
        return _keep_in_context(FrameScope(self.registry, self._principal, self.name), outcome)

    def _add_toolset_argument(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Return the positional arguments, with its toolset where the function wants one and none was given."""
        if self._toolset_parameters is None:
            self._toolset_parameters = _find_toolset_parameters(self._function)
        for name, place in self._toolset_parameters:
            if name in kwargs or (place is not None and place < len(args) and isinstance(args[place], Toolset)):
                continue
            if place is None or place > len(args):
                kwargs[name] = self._toolset
            else:
                args = (*args[:place], self._toolset, *args[place:])
        return args

    def __repr__(self) -> str:
        return f"<Agent {self.name!r}>"

    @property
    def _praval_agent(self) -> Self:
        return self

    @property
    def principal(self) -> Principal:
        """Its name, and for whom it acts."""
        return self._principal

    @property
    def chain(self) -> tuple[str, ...]:
        """The agents on whose behalf this one acts, the nearest first."""
        return self._principal.chain

    # ── what it has ──────────────────────────────────────────────────────────────────────────────

    @property
    def tools(self) -> Toolset:
        """The tools that it may call now: live, ordered, read-only."""
        return self._toolset

    def list_tools(self) -> list[str]:
        """Return the names of the tools that it may call now, in registration order."""
        return list(self._toolset)

    def tool_exists(self, name: str | Tool[..., Any]) -> bool:
        """Tell whether it may call a tool of this name now."""
        return name in self._toolset

    has_tool = tool_exists

    def get_tool(self, name: str | Tool[..., Any]) -> BoundTool[..., Any] | None:
        """Return the checked way to the tool of this name, if the agent may call it now."""
        return self._toolset.get(name)  # type: ignore[arg-type]  # a toolset takes both

    def add_tool(self, tool: str | Tool[..., Any] | Callable[..., Any]) -> None:
        """
        Give the agent a tool: by name, or an object that is registered first if it is in no registry.

        Raises:
            UnknownToolError: No tool of this name.
            DuplicateToolError: The object's name is taken by another tool.
            TypeError: Something else.
        """
        assignment.add_tool_to_agent(self.registry, self.name, tool)

    def remove_tool(self, tool: str | Tool[..., Any]) -> bool:
        """Take a tool from the agent; False: it could not call it before."""
        return self.registry.remove_tool_from_agent(tool, self.name)  # type: ignore[no-any-return]

    @property
    def tool(self) -> ToolDecoratorFactory:
        """Declares a tool that this agent owns and lists: the decorator of old."""
        return self._declare_tool

    def _declare_tool(self, function: Any = None, /, name: str | None = None, **metadata: Any) -> Any:
        if isinstance(function, str):
            name, function = function, None
        if function is None:
            return lambda one: self._declare_tool(one, name=name, **metadata)
        metadata.setdefault("owned_by", self.name)
        made: Tool[..., Any] = Tool.from_function(function, name=name, **metadata)
        assignment.register_own_tool(self.registry, self.name, made)
        return made

    # ── what it does ─────────────────────────────────────────────────────────────────────────────

    def explain(self, name: str | Tool[..., Any], arguments: Any = None) -> Decision:
        """Say whether it may call a tool, and why."""
        return self._toolset.explain(name, arguments)

    def call(self, name: str | Tool[..., Any], /, **arguments: Any) -> Any:
        """Call a tool and return its value; raises what `Toolset.call` raises."""
        return self._toolset.call(name, **arguments)

    async def acall(self, name: str | Tool[..., Any], /, **arguments: Any) -> Any:
        """Call a tool from async code and return its value."""
        return await self._toolset.acall(name, **arguments)

    def execute(self, call: ToolCall) -> ToolResult:
        """Run a call of this agent; every failure is a result."""
        return self._toolset.execute(call)

    async def aexecute(self, call: ToolCall) -> ToolResult:
        """Run a call of this agent from async code."""
        return await self._toolset.aexecute(call)

    def execute_batch(self, calls: Iterable[ToolCall], max_parallel: int | None = None) -> list[ToolResult]:
        """Run calls side by side; results in call order."""
        return self._toolset.execute_batch(calls, max_parallel)

    async def aexecute_batch(self, calls: Iterable[ToolCall], max_parallel: int | None = None) -> list[ToolResult]:
        """Run calls side by side from async code."""
        return await self._toolset.aexecute_batch(calls, max_parallel)

    def schemas(self, api_format: str = "openai-chat", **terms: Any) -> list[dict[str, Any]]:
        """Return its tools in a provider's format; takes what `Toolset.schemas` takes."""
        return self._toolset.schemas(api_format, **terms)

    def delegate(
        self, name: str | Agent, tools: Iterable[Any] | None = None, mode: DelegationMode = "intersect"
    ) -> Agent:
        """
        Return a live sub-agent whose calls carry the chain; nothing is copied.

        Args:
            name: The sub-agent, or its name.
            tools: Narrows to these tools.
            mode: `intersect`: both must be allowed; `inherit`: this agent's decisions; `own`: the sub-agent's.
        """
        if mode not in ("intersect", "inherit", "own"):
            raise ToolUsageError(f"mode={mode!r} is none of 'intersect', 'inherit', 'own'.")
        text = check_agent_name(name.name if isinstance(name, Agent) else name)
        if len(self._principal.chain) >= MAX_CHAIN_LENGTH:
            raise ToolUsageError(f"{self.name!r} acts for {MAX_CHAIN_LENGTH} others already; more are not chained.")
        names = None if tools is None else assignment.resolve_tool_names(self.registry, tools)
        return Agent.handle(self.registry, Principal(text, Delegation(mode, self._principal, names)))


def _find_toolset_parameters(function: Any) -> tuple[tuple[str, int | None], ...]:
    """Return the parameters that take a toolset, each with its place among the positional ones."""
    read = read_signature(function, strict=False, context_types=(Toolset,)).parameters
    places = {one.name: place for place, one in enumerate(one for one in read if not one.keyword_only)}
    return tuple((one.name, places.get(one.name)) for one in read if one.kind == "context")


def _keep_in_context(site: FrameScope, outcome: Any) -> Any:
    """Keep what an agent's function returns inside its context, where it runs on later."""
    kind = type(outcome).__name__
    if kind == "coroutine":
        return _await_in_context(site, outcome)
    if kind == "generator":
        return _drive_generator(site, outcome)
    return _drive_async_generator(site, outcome) if kind == "async_generator" else outcome


async def _await_in_context(site: FrameScope, outcome: Any) -> Any:
    with activate_frame(make_frame(site)):
        return await outcome


def _drive_generator(site: FrameScope, outcome: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Drive a generator, each step of it in the agent's context."""
    step, given = outcome.send, None
    while True:
        with activate_frame(make_frame(site)):
            try:
                item = step(given)
            except StopIteration as end:
                return end.value
        try:
            step, given = outcome.send, (yield item)
        except GeneratorExit:
            with activate_frame(make_frame(site)):
                outcome.close()
            raise
        except BaseException as error:  # thrown in from outside: the function's to handle
            step, given = outcome.throw, error


async def _drive_async_generator(site: FrameScope, outcome: AsyncGenerator[Any, Any]) -> AsyncGenerator[Any, Any]:
    """Drive an async generator, each step of it in the agent's context."""
    step, given = outcome.asend, None
    while True:
        with activate_frame(make_frame(site)):
            try:
                item = await step(given)
            except StopAsyncIteration:
                return
        try:
            step, given = outcome.asend, (yield item)
        except GeneratorExit:
            with activate_frame(make_frame(site)):
                await outcome.aclose()
            raise
        except BaseException as error:  # thrown in from outside: the function's to handle
            step, given = outcome.athrow, error


def _check_category(one: Any) -> str:
    if not isinstance(one, str) or not one.strip():
        raise TypeError(f"A category is a text, got {one!r}.")
    return one
