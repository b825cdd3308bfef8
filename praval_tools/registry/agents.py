"""Agents: named principals that call tools, and the ways in which they get their tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import update_wrapper
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any, Literal, Never, Protocol, Self, TypeAlias, Unpack

from msgspec.structs import replace

from praval_tools.access.commands import EventList, get_tool_record, plan_agent_declaration
from praval_tools.access.events import ToolListed
from praval_tools.access.other_registry import describe_other_registry, note_foreign_tool
from praval_tools.access.records import MAX_CHAIN_LENGTH, AgentProfile, Delegation, Principal
from praval_tools.access.rules import resolve_access
from praval_tools.access.state import AccessState, get_declarer
from praval_tools.access.store import StateStore
from praval_tools.errors import NotOwnerError, ToolUsageError
from praval_tools.execution.context import FrameScope, list_change_delegators, resolve_actor
from praval_tools.execution.runtime import Runtime
from praval_tools.misuse import checks_own_calls, explain_misuse_and_take_plain_arguments
from praval_tools.names import (
    OPERATOR,
    check_agent_name,
    check_tool_name,
    get_agent_name,
    has_type,
    shorten_repr,
    to_plain_text,
)
from praval_tools.registry.access_changes import warn_unknown_tool
from praval_tools.registry.agent_function import AgentFunction
from praval_tools.registry.bound_tool import BoundTool
from praval_tools.registry.decorator_arguments import ToolDecoratorFactory
from praval_tools.registry.export_cache import ExportOptions
from praval_tools.registry.toolset import Toolset, get_executor
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.decision import Decision
from praval_tools.tools.frames import get_current_actor
from praval_tools.tools.source import DeclarationSite, find_calling_site, find_declaration_site
from praval_tools.tools.tool import AnyTool, Tool

DelegationMode = Literal["intersect", "inherit", "own"]
AgentTool: TypeAlias = str | AnyTool | Callable[..., Any]
"""What an agent lists: the name of a tool, a tool, or a function that becomes one."""


class AgentRegistry(Protocol):
    """What agents need of a registry; `ToolRegistry` has it."""

    def get_tool(self, name: str, /) -> AnyTool | None: ...
    def register_tool(self, tool: AnyTool, /) -> None: ...
    def assign_tool_to_agent(self, tool_name: str, agent_name: str, /) -> bool: ...
    def remove_tool_from_agent(self, tool_name: str | AnyTool, agent_name: str, /) -> bool: ...
    def toolset(self, agent: Any, /) -> Toolset: ...
    def change(self) -> AbstractContextManager[None]: ...


_default_registry_getters: list[Callable[[], AgentRegistry]] = []


def set_default_registry_getter(getter: Callable[[], AgentRegistry]) -> None:
    """Set where agents that name no registry are declared; `registry.default`, which needs `ToolRegistry`, does."""
    _default_registry_getters[:] = [getter]


@explain_misuse_and_take_plain_arguments
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
        function: The function that calling the agent runs.

    Raises:
        DuplicateAgentError: The registry has an agent of this name.
        ToolUsageError: *function* is a method without its object.
    """

    def __init__(
        self,
        name: str,
        tools: Iterable[AgentTool] = (),
        tool_categories: Iterable[str] = (),
        auto_discover_tools: bool = True,
        registry: AgentRegistry | None = None,
        function: Callable[..., Any] | None = None,
    ) -> None:
        check_agent_name(name)
        if any(isinstance(names, str) or not isinstance(names, Iterable) for names in (tools, tool_categories)):
            raise TypeError("tools and tool_categories are lists; a single name goes in brackets: ['name'].")
        if type(auto_discover_tools) is not bool:
            raise TypeError(f"auto_discover_tools is True or False, not {auto_discover_tools!r}.")
        _check_function(name, function)
        site = find_declaration_site(function) if function is not None else find_calling_site()
        profile = AgentProfile(
            name=name,
            tool_categories=tuple(map(_check_category, tool_categories)),
            auto_discover_tools=auto_discover_tools,
            declared=True,
            place=str(site.source) if site.source.file else "",
            run=site,
        )
        home = registry if registry is not None else _default_registry_getters[0]()
        self._initialize(home, Principal(name), function)
        self._declare(profile, list(tools), site)
        self._runtime.declared_agents[name] = self

    @classmethod
    def handle(cls, registry: AgentRegistry, principal: Principal) -> Self:
        """Return an agent for *principal* without declaring anything."""
        agent = object.__new__(cls)
        agent._initialize(registry, principal, None)
        return agent

    def _initialize(self, registry: AgentRegistry, principal: Principal, function: Callable[..., Any] | None) -> None:
        self._registry, self._principal = registry, principal
        self._toolset = registry.toolset(self)
        for method in ("call", "acall"):  # the toolset's own, without a frame in between: agents mostly call
            setattr(self, method, getattr(self._toolset, method))
        self._function: AgentFunction | None = None
        self.__name__ = self.__qualname__ = self.name
        self.__wrapped__ = function
        if function is not None:
            self._function = AgentFunction(function, FrameScope(registry, principal, self.name), self._toolset)
            update_wrapper(self, function, ("__module__", "__name__", "__qualname__", "__doc__"), ())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Agent) and self.registry is other.registry and self._principal == other._principal

    def __hash__(self) -> int:
        return hash(self._principal)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._function is None:
            raise ToolUsageError(f"Agent {self.name!r} has no function to run; use its call, execute and tools.")
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Agent {self.name!r}>"

    @property
    def _praval_agent(self) -> Self:
        return self

    @property
    def _runtime(self) -> Runtime:
        return get_executor(self._toolset).runtime

    @property
    def name(self) -> str:
        """Its name."""
        return self._principal.agent

    @property
    def registry(self) -> Any:
        """Where its tools are."""
        return self._registry

    @property
    def principal(self) -> Principal:
        """Its name, and for whom it acts."""
        return self._principal

    @property
    def chain(self) -> tuple[str, ...]:
        """The agents on whose behalf this one acts, the nearest first."""
        return self._principal.chain

    # ── its tools ────────────────────────────────────────────────────────────────────────────────

    @property
    def tools(self) -> Toolset:
        """The tools that it may call now: live, ordered, read-only."""
        return self._toolset

    def list_tools(self) -> list[str]:
        """Return the names of the tools that it may call now, in registration order."""
        return list(self._toolset)

    def tool_exists(self, name: str | AnyTool) -> bool:
        """Tell whether it may call a tool of this name now."""
        return name in self._toolset

    has_tool = tool_exists
    """Another name of `tool_exists`."""

    def get_tool(self, name: str | AnyTool) -> BoundTool[..., Any] | None:
        """Return the tool of this name, to be called as this agent, if it may call it now."""
        return self._toolset.get(name)  # type: ignore[arg-type]  # a toolset takes both

    def add_tool(self, tool: AgentTool) -> None:
        """
        Give the agent a tool: by name, or an object that is registered first if it is in no registry.

        A new function becomes a tool that the agent owns and lists; another tool is assigned, unless the agent may
        call it anyway.

        Raises:
            UnknownToolError: No tool of this name.
            DuplicateToolError: The object's name is taken by another tool.
            TypeError: Something else.
        """
        store = self._runtime.access_store
        if isinstance(tool, str):
            get_tool_record(store.get_fresh_state(), tool)
        with self.registry.change():
            is_new = not isinstance(tool, str | Tool) and _find_registered(self.registry, tool) is None
            name = ensure_registered(self.registry, tool, self.name)
            state = store.get_current_state()
            if is_new and not state.get_access(self.name, name).removed:
                self._list_tool(name)
                return
            resolution = resolve_access(state, Principal(self.name), name, self._runtime.clock.now())
            if not resolution.paths or not resolution.paths[0].is_unconditional:
                self.registry.assign_tool_to_agent(name, self.name)

    def remove_tool(self, tool: str | AnyTool) -> bool:
        """Take a tool from the agent and tell whether it could call the tool before."""
        removed: bool = self.registry.remove_tool_from_agent(tool, self.name)
        return removed

    @property
    def tool(self) -> ToolDecoratorFactory:
        """Declares a tool that this agent owns and lists: the decorator of old."""
        return self._declare_tool

    def _declare_tool(self, function: Any = None, /, name: str | None = None, **metadata: Any) -> Any:
        if isinstance(function, str):
            name, function = function, None
        if function is None:
            return lambda decorated: self._declare_tool(decorated, name=name, **metadata)
        tool: AnyTool = Tool.from_function(function, name=name, **{"owned_by": self.name, **metadata})
        with self.registry.change():
            self.registry.register_tool(tool)
            self._list_tool(tool.name)
        return tool

    def _list_tool(self, tool: str) -> None:
        actor = resolve_actor(None, "list", tool)
        for member in (actor, *list_change_delegators()):
            if member not in (OPERATOR, self.name):
                raise NotOwnerError(member, f"list for {self.name!r} the", tool, None)
        self._runtime.access_store.commit(lambda _: [ToolListed(tool=tool, agent=self.name, by=actor)])

    def _declare(self, profile: AgentProfile, tools: Iterable[AgentTool], site: DeclarationSite) -> None:
        """Declare the agent and register the tools that it lists, all or nothing."""
        staging = self._runtime.is_staging  # what a plugin declares there is a request
        actor = OPERATOR if staging else resolve_actor(None, f"declare the agent {self.name!r}")
        with self.registry.change():
            names = [ensure_registered(self.registry, tool, self.name) for tool in tools]
            declared = replace(profile, tools=tuple(dict.fromkeys(names)))

            def plan_declaration(state: AccessState) -> EventList:
                old = state.get_profile(self.name)
                is_rerun = old.run is not None and site.is_rerun_of(old.run)
                return plan_agent_declaration(state, declared, actor, is_rerun)

            self._runtime.access_store.commit(plan_declaration)

    # ── its calls ────────────────────────────────────────────────────────────────────────────────

    def explain(self, name: str | AnyTool, arguments: object = None) -> Decision:
        """Say whether it may call a tool, and why."""
        return self._toolset.explain(name, arguments)

    @checks_own_calls
    def call(self, name: str | AnyTool, /, *more: Never, **arguments: object) -> Any:
        """Call a tool and return its value; takes and raises what `Toolset.call` does."""
        return self._toolset.call(name, *more, **arguments)

    @checks_own_calls
    async def acall(self, name: str | AnyTool, /, *more: Never, **arguments: object) -> Any:
        """Call a tool from async code and return its value."""
        return await self._toolset.acall(name, *more, **arguments)

    @checks_own_calls
    def execute(self, call: ToolCall, *more: Never, deps: object = None, **unknown: Never) -> ToolResult:
        """Run a call of this agent; every failure is a result."""
        return self._toolset.execute(call, *more, deps=deps, **unknown)

    @checks_own_calls
    async def aexecute(self, call: ToolCall, *more: Never, deps: object = None, **unknown: Never) -> ToolResult:
        """Run a call of this agent from async code."""
        return await self._toolset.aexecute(call, *more, deps=deps, **unknown)

    def execute_batch(
        self, calls: Iterable[ToolCall], max_parallel: int | None = None, *, deps: object = None
    ) -> list[ToolResult]:
        """Run calls side by side; results in call order."""
        return self._toolset.execute_batch(calls, max_parallel, deps=deps)

    async def aexecute_batch(
        self, calls: Iterable[ToolCall], max_parallel: int | None = None, *, deps: object = None
    ) -> list[ToolResult]:
        """Run calls side by side from async code."""
        return await self._toolset.aexecute_batch(calls, max_parallel, deps=deps)

    def schemas(self, api_format: str = "openai-chat", **options: Unpack[ExportOptions]) -> list[dict[str, Any]]:
        """Return its tools in a provider's format; takes what `Toolset.schemas` takes."""
        return self._toolset.schemas(api_format, **options)

    def delegate(
        self, name: str | Agent, tools: Iterable[AgentTool] | None = None, mode: DelegationMode = "intersect"
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
        agent = check_agent_name(get_agent_name(name) if isinstance(name, Agent) else name)
        if len(self._principal.chain) >= MAX_CHAIN_LENGTH:
            raise ToolUsageError(f"{self.name!r} acts for {MAX_CHAIN_LENGTH} others already; more are not chained.")
        listed = None if tools is None else {str(getattr(tool, "name", tool)): tool for tool in tools}
        _warn_of_unknown_tools(listed or {}, self._runtime.access_store)
        names = None if listed is None else frozenset(listed)
        return Agent.handle(self.registry, Principal(agent, Delegation(mode, self._principal, names)))


def _warn_of_unknown_tools(listed: dict[str, AgentTool], store: StateStore) -> None:
    """Warn of tools that a delegate is narrowed to and that there are not; nothing else would show a misspelling."""
    known = store.get_current_state().tools
    for name in sorted(listed.keys() - known.keys()):
        note_foreign_tool(store, listed[name])
        effect = "the delegate cannot call it before there is one."
        warn_unknown_tool(name, known, effect, describe_other_registry(store, name))


def adopt_agent(agent: Agent, registry: AgentRegistry) -> None:
    """Let an agent that was declared in a staging registry belong to *registry*, where its profile is declared."""
    if agent._runtime.is_staging:
        agent._initialize(registry, Principal(agent.name), agent.__wrapped__)
        agent._runtime.declared_agents[agent.name] = agent


def ensure_registered(registry: AgentRegistry, tool: AgentTool, owner: str | None) -> str:
    """
    Return the name of a tool that is given by name or as object; an object that is in no registry is registered.

    Args:
        registry: Where.
        tool: A name, a tool or a function.
        owner: The owner of a tool that is made of a function.

    Raises:
        DuplicateToolError: The object's name is taken by another tool.
        TypeError: It is neither a name nor a tool nor a function.
    """
    if isinstance(tool, str):
        return check_tool_name(tool)
    if not isinstance(tool, Tool):
        if not callable(tool) or isinstance(tool, type):
            raise TypeError(f"Expected Tool object, a function or a name, got {type(tool).__name__}.")
        tool = _find_registered(registry, tool) or Tool.from_function(tool, owned_by=owner)
    registered = registry.get_tool(tool.name)
    if registered is None or registered.implementation is not tool.implementation:
        registry.register_tool(tool)
    return tool.name


def _find_registered(registry: AgentRegistry, function: Callable[..., Any]) -> AnyTool | None:
    """Return the tool that was made of *function*, if it is registered under the function's name."""
    tool = registry.get_tool(str(getattr(function, "__name__", "")))
    if tool is None or get_declarer(tool) not in ("", get_current_actor()):  # somebody else's code declared it
        return None
    return tool if _is_same_function(tool.implementation.function, function) else None


def _is_same_function(first: object, second: object) -> bool:
    """Tell whether two callables are one; no code of theirs is asked."""
    if type(first) is MethodType and type(second) is MethodType:
        return first.__self__ is second.__self__ and first.__func__ is second.__func__
    if type(first) is BuiltinMethodType and type(second) is BuiltinMethodType:  # such as the method of a list
        return first.__self__ is second.__self__ and first.__name__ == second.__name__
    return first is second


def _check_function(agent: str, function: object) -> None:
    if function is not None and not callable(function):
        raise TypeError(f"An agent is declared of a function, not of {shorten_repr(function)}.")
    if isinstance(function, FunctionType) and function.__code__.co_varnames[:1] == ("self",):
        raise ToolUsageError(
            f"{function.__qualname__} is a method without its object; declare the agent on a bound one: "
            f"agent({agent!r})(object.{function.__name__})."
        )


def _check_category(category: object) -> str:
    if not has_type(category, str) or not (plain := to_plain_text(category)).strip():
        raise TypeError(f"A category is a text, got {shorten_repr(category)}.")
    return plain
