"""`Toolset`: the tools that one agent may call now, as an ordered, live, read-only mapping."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, Never, ParamSpec, TypeAlias, TypeVar, overload

from msgspec.structs import replace

from praval_tools.access.explanation import explain_decision
from praval_tools.access.other_registry import note_foreign_tool, with_other_registry
from praval_tools.access.queries import list_callable_tools
from praval_tools.access.records import Principal
from praval_tools.access.rules import resolve_access
from praval_tools.access.state import AccessState
from praval_tools.errors import ToolUsageError
from praval_tools.execution.batch import run_batch, run_batch_async
from praval_tools.execution.context import FrameScope, activate_caller
from praval_tools.execution.deps import take_deps, use_deps
from praval_tools.execution.executor import Executor
from praval_tools.execution.fast_function_cache import FastFunctionCache
from praval_tools.execution.fast_path import FastPathMiss
from praval_tools.execution.pipeline import bind_arguments
from praval_tools.execution.plain_calls import to_plain_call
from praval_tools.execution.policies import find_policy_refusal
from praval_tools.execution.protocols import Dispatcher
from praval_tools.misuse import MISSING, checks_own_calls, explain_misuse_and_take_plain_arguments, refuse_wrong_call
from praval_tools.names import fold_name, get_name, has_type, shorten_repr, suggest_names
from praval_tools.registry.bound_tool import BoundTool, make_function
from praval_tools.registry.export_cache import AgentExporter, ToolExportCache, decode_exports
from praval_tools.registry.tool_attributes import map_attributes, to_attribute_name
from praval_tools.schema.json_input import try_parse_simple
from praval_tools.tools.argument_copies import copy_arguments
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.context import Deps, ToolContext
from praval_tools.tools.decision import Decision
from praval_tools.tools.implementation import BoundArguments, ToolImplementation
from praval_tools.tools.tool import AnyTool, AsyncTool, Tool

if TYPE_CHECKING:
    from praval_tools.formats import Format
    from praval_tools.formats.format import WireObject

P = ParamSpec("P")
R = TypeVar("R")
ToolDeps = TypeVar("ToolDeps")
AnyBoundTool: TypeAlias = BoundTool[..., Any]


@explain_misuse_and_take_plain_arguments
class Toolset(Mapping[str, AnyBoundTool], Generic[Deps]):
    """
    The tools that one agent may call now, in registration order; live and read-only.

    What it shows is exactly what the agent can call. An empty toolset is true.
    Each tool is an attribute as well, `tools.csv_parse(…)`; type checkers know these from the stubs of `docs stubs`.
    Calls take `deps=` for tools that declare `ToolContext[Deps]`; what these tools call inherits them. A toolset of
    `registry.toolset(agent, deps=…)` passes its deps with each call.
    """

    __slots__ = (
        "_async_functions",
        "_bound_cache",
        "_dispatcher",
        "_executor",
        "_exporter",
        "_exports",
        "_fast_cache",
        "_principal",
        "_sync_functions",
    )

    def __init__(
        self, dispatcher: Dispatcher, executor: Executor, principal: Principal, exports: ToolExportCache
    ) -> None:
        self._dispatcher, self._executor, self._principal, self._exports = dispatcher, executor, principal, exports
        self._fast_cache = executor.get_fast_cache(principal)
        self._sync_functions, self._async_functions = self._fast_cache.sync_functions, self._fast_cache.async_functions
        self._exporter: AgentExporter | None = None
        self._bound_cache: tuple[AccessState | None, dict[str, tuple[AnyBoundTool, ToolImplementation]]] = (None, {})

    @property
    def agent(self) -> str:
        """The name of the agent that may call them."""
        return self._principal.agent

    @property
    def principal(self) -> Principal:
        """The agent, and for whom it acts."""
        return self._principal

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self._list_tools())

    def __iter__(self) -> Iterator[str]:
        return iter([tool.name for tool in self._list_tools()])

    def __contains__(self, name: object) -> bool:
        return has_type(name, (str, Tool)) and self._find_bound_tool(name) is not None

    @overload
    def __getitem__(self, name: str) -> AnyBoundTool: ...
    @overload
    def __getitem__(
        self: Toolset[ToolDeps], name: AsyncTool[Concatenate[ToolContext[ToolDeps], P], R]
    ) -> BoundTool[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __getitem__(
        self: Toolset[ToolDeps], name: Tool[Concatenate[ToolContext[ToolDeps], P], R]
    ) -> BoundTool[P, R]: ...
    @overload
    def __getitem__(self, name: AsyncTool[P, R]) -> BoundTool[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __getitem__(self, name: Tool[P, R]) -> BoundTool[P, R]: ...
    def __getitem__(self, name: object) -> object:
        bound = self._find_bound_tool(name) if has_type(name, (str, Tool)) else None
        if bound is None:
            note_foreign_tool(self._executor.runtime.access_store, name)
            text = shorten_repr(getattr(name, "name", name))
            raise KeyError(f"{self.agent} has no tool {text}; explain({text}) says why")
        return bound

    def _find_bound_tool(self, name: str | AnyTool) -> AnyBoundTool | None:
        text = get_name(name)
        runtime = self._executor.runtime
        state = runtime.access_store.get_fresh_state()
        cached_state, cache = self._bound_cache
        if cached_state is not state:
            self._bound_cache = state, (cache := {})
        entry = cache.get(text)
        if entry is None:
            resolution = resolve_access(state, self._principal, text, runtime.clock.now())
            if resolution.refusal is not None or resolution.record is None:
                return None
            tool = resolution.record.tool
            entry = self._bind(tool), tool.implementation
            if resolution.paths[0].is_unconditional:  # only another state can take the tool away
                cache[text] = entry
        return None if has_type(name, Tool) and name.implementation is not entry[1] else entry[0]

    if not TYPE_CHECKING:  # else checkers would take every misspelt method for a tool

        def __getattr__(self, name: str) -> AnyBoundTool:
            """Return the tool that an attribute stands for: its name, with `_` for what Python does not allow there."""
            if name.startswith("_"):  # of the toolset itself, which may be no more than begun
                raise AttributeError(f"A toolset has no attribute {name!r}.")
            bound = self._find_by_attribute(name)
            if bound is None:
                fix = suggest_names(name, self)
                raise AttributeError(f"{self.agent!r} has no tool for the attribute {name!r}.{fix}")
            return bound

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *map_attributes(self, TOOLSET_ATTRIBUTES)]

    def _find_by_attribute(self, name: str) -> AnyBoundTool | None:
        if (bound := self._find_bound_tool(name)) is not None:
            return bound
        holders = self._executor.runtime.access_store.get_fresh_state().names_by_wire_key
        for key in (name, name.removesuffix("_")):
            tool = holders.get(fold_name(key))
            if tool is not None and to_attribute_name(tool, TOOLSET_ATTRIBUTES) == name:
                return self._find_bound_tool(tool)
        return None

    def _bind(self, tool: AnyTool) -> AnyBoundTool:
        return BoundTool(self._principal, tool, self._fast_cache)

    def items(self) -> ItemsView[str, AnyBoundTool]:
        """Return the pairs of one consistent moment."""
        return {tool.name: self._bind(tool) for tool in self._list_tools()}.items()

    def values(self) -> ValuesView[AnyBoundTool]:
        """Return the tools of one consistent moment."""
        return {tool.name: self._bind(tool) for tool in self._list_tools()}.values()

    def _list_tools(self) -> list[AnyTool]:
        runtime = self._executor.runtime
        return list_callable_tools(runtime.access_store.get_fresh_state(), self._principal, runtime.clock.now())

    # ── calls ────────────────────────────────────────────────────────────────────────────────────

    @checks_own_calls
    def call(self, name: str | AnyTool, /, *more: Never, **arguments: object) -> Any:
        """
        Call a tool, given by its name or itself, and return its value.

        A keyword `deps=` is for tools that declare `ToolContext[Deps]`; a tool with a parameter of this name gets it
        as an argument. The signature does not list it: that would cost each call as much as half a bare one.

        Raises:
            ToolAccessError: The agent may not call it, or it does not exist.
            ToolArgumentsError: The arguments do not fit.
            ToolTimeoutError: It did not finish in time.
            ToolExecutionError: It raised; also an instance of the built-in class that it raised.
            ToolUsageError: It needs deps, and there are none.
        """
        if more:
            raise TypeError(self._describe_positional_arguments("call", name, more))
        function = (type(name) is str and self._sync_functions.get(name)) or self._fast_cache.find_function(name)
        if "deps" in arguments:
            runtime = self._executor.runtime
            with use_deps(runtime.registry, take_deps(runtime, name, arguments)):
                return function(arguments, None)
        return function(arguments, None)

    @checks_own_calls
    async def acall(self, name: str | AnyTool, /, *more: Never, **arguments: object) -> Any:
        """Call a tool from async code and return its value; raises what `call` raises."""
        if more:
            raise TypeError(self._describe_positional_arguments("acall", name, more))
        known = type(name) is str and self._async_functions.get(name)
        function = known or self._fast_cache.find_function(name, is_async=True)
        if "deps" in arguments:
            runtime = self._executor.runtime
            with use_deps(runtime.registry, take_deps(runtime, name, arguments)):
                return await function(arguments, None)
        return await function(arguments, None)

    def _describe_positional_arguments(self, label: str, name: object, values: tuple[object, ...]) -> str:
        """Return how to pass the arguments of a tool that were passed by position."""
        tool = self._executor.runtime.access_store.state.find_tool_record(get_name(name))
        names = () if tool is None else tool.tool.implementation.argument_names
        shown = [f"{key}=…" for key, _ in zip(names, values, strict=False)] or ["x=…"]  # a value may be secret
        return f"{label}() takes the tool's arguments by name: {label}({get_name(name)!r}, {', '.join(shown)})."

    @checks_own_calls
    def call_json(
        self, name: str, arguments: str | bytes, *more: Never, deps: object = None, **unknown: Never
    ) -> bytes:
        """Call a tool with JSON text and return its value as JSON text; raises what `call` raises."""
        if arguments is MISSING or more or unknown:
            refuse_wrong_call(Toolset.call_json, (name, arguments, *more), unknown)
        if deps is not None:
            with use_deps(self._executor.runtime.registry, deps):
                return self.call_json(name, arguments)
        parsed = try_parse_simple(arguments)
        function = self._fast_cache.find_function(name)
        if parsed is None:
            value = self._executor.handle_fast_path_error(function.path, arguments, FastPathMiss())
        else:
            value = function(parsed, None)
        return self._executor.encode_result(function.path, value)

    @checks_own_calls
    async def acall_json(
        self, name: str, arguments: str | bytes, *more: Never, deps: object = None, **unknown: Never
    ) -> bytes:
        """Call a tool from async code with JSON text and return its value as JSON text."""
        if arguments is MISSING or more or unknown:
            refuse_wrong_call(Toolset.acall_json, (name, arguments, *more), unknown)
        if deps is not None:
            with use_deps(self._executor.runtime.registry, deps):
                return await self.acall_json(name, arguments)
        parsed = try_parse_simple(arguments)
        function = self._fast_cache.find_function(name, is_async=True)
        if parsed is None:
            value = await self._executor.handle_fast_path_error_async(function.path, arguments, FastPathMiss())
        else:
            value = await function(parsed, None)
        return self._executor.encode_result(function.path, value)

    @checks_own_calls
    def execute(self, call: ToolCall, *more: Never, deps: object = None, **unknown: Never) -> ToolResult:
        """Run a call of this agent; every failure is a result."""
        if call is MISSING or more or unknown:
            _refuse_execution(Toolset.execute, (call, *more), unknown)
        if deps is not None:
            with use_deps(self._executor.runtime.registry, deps):
                return self.execute(call)
        call = self._complete_call(call)
        if call.on_behalf_of != self._fast_cache.chain:
            return self._dispatcher.execute(call)
        return self._executor.execute(call, self._fast_cache)

    @checks_own_calls
    async def aexecute(self, call: ToolCall, *more: Never, deps: object = None, **unknown: Never) -> ToolResult:
        """Run a call of this agent from async code; every failure is a result."""
        if call is MISSING or more or unknown:
            _refuse_execution(Toolset.aexecute, (call, *more), unknown)
        if deps is not None:
            with use_deps(self._executor.runtime.registry, deps):
                return await self.aexecute(call)
        call = self._complete_call(call)
        if call.on_behalf_of != self._fast_cache.chain:
            return await self._dispatcher.aexecute(call)
        return await self._executor.aexecute(call, self._fast_cache)

    def execute_batch(
        self, calls: Iterable[ToolCall], max_parallel: int | None = None, *, deps: object = None
    ) -> list[ToolResult]:
        """
        Run calls side by side; results in call order, one failure never touches its neighbours.

        Raises:
            JournalError: The journal could not be written; raised once every other call has ended.
            ReplayMismatchError: A run recorded another call in the place of one of these; raised then, too.
        """
        with use_deps(self._executor.runtime.registry, deps):
            return run_batch(self._executor.runtime, [(call, self.execute) for call in calls], max_parallel)

    async def aexecute_batch(
        self, calls: Iterable[ToolCall], max_parallel: int | None = None, *, deps: object = None
    ) -> list[ToolResult]:
        """Run calls side by side from async code."""
        runtime = self._executor.runtime
        with use_deps(runtime.registry, deps):
            return await run_batch_async(runtime, [(call, self.aexecute) for call in calls], max_parallel)

    def _complete_call(self, call: ToolCall) -> ToolCall:
        """Return the call with its agent, or raise `ToolUsageError` where it names another one."""
        agent, chain = self._principal.agent, self._fast_cache.chain
        if type(call) is ToolCall and call.on_behalf_of is chain and call.parent_id is None:  # as nearly all are
            if call.agent is None:
                return replace(call, agent=agent)
            if type(call.agent) is str and call.agent == agent:
                return call
        if not has_type(call, ToolCall):
            raise ToolUsageError(f"{shorten_repr(call)} is not a ToolCall: execute(ToolCall(name=…, arguments=…)).")
        call = to_plain_call(call)
        if call.agent is not None and call.agent not in (agent, self._principal, Principal(agent)):
            raise ToolUsageError(f"This toolset is {agent!r}'s; the call names {shorten_repr(call.agent)}.")
        given = call.on_behalf_of
        if given and chain and given != chain:
            raise ToolUsageError(
                f"This toolset is {agent!r}'s for {', '.join(map(repr, chain))}; "
                f"the call is on behalf of {shorten_repr(call.on_behalf_of)}."
            )
        return replace(call, agent=agent, on_behalf_of=given or chain, parent_id=None)

    def explain(self, name: str | AnyTool, arguments: object = None) -> Decision:
        """Say whether the agent may call a tool, and why."""
        runtime, principal = self._executor.runtime, self._principal
        state = runtime.access_store.get_fresh_state()
        decision = explain_decision(
            state, principal, state.resolve_tool_name(get_name(name)), runtime.clock.now(), arguments,
            self._bind_arguments,
            lambda tool, bound: find_policy_refusal(runtime.registry, state.policies, principal, tool, bound),
        )  # fmt: skip
        return with_other_registry(decision, runtime.access_store, name) if decision.outcome == "unknown" else decision

    def _bind_arguments(self, tool: AnyTool, raw: object) -> BoundArguments:
        """Bind arguments in the agent's name, as in a call: classes of parameters have code of their own."""
        runtime, copied = self._executor.runtime, copy_arguments(raw)
        with activate_caller(FrameScope(runtime.registry, self._principal, self._principal.agent)):
            return bind_arguments(runtime, tool, copied)

    # ── exports ──────────────────────────────────────────────────────────────────────────────────

    def schemas(
        self,
        api_format: str | Format = "openai-chat",
        *,
        strict: bool = False,
        tags: Iterable[str] | None = None,
        exclude_tags: Iterable[str] | None = None,
        think_augment: bool = False,
    ) -> list[dict[str, Any]]:
        """
        Return the tools in a provider's format, sorted by name: a fresh copy, to be changed at will.

        Args:
            api_format: `openai-chat`, `openai-responses`, `anthropic`, `gemini`, `mcp`.
            strict: For the provider's strict mode; tools that cannot be strict are exported as non-strict.
            tags: Only tools with one of these.
            exclude_tags: No tools with one of these.
            think_augment: Ask the model for the reason of each call; see `parse_tool_calls`.

        Raises:
            UnknownFormatError: No such format; it is a `ValueError`, and the text lists them.
        """
        text = self.schemas_json(
            api_format, strict=strict, tags=tags, exclude_tags=exclude_tags, think_augment=think_augment
        )
        return decode_exports(text)  # far cheaper than a deep copy

    def schemas_json(
        self,
        api_format: str | Format = "openai-chat",
        *,
        strict: bool = False,
        tags: Iterable[str] | None = None,
        exclude_tags: Iterable[str] | None = None,
        think_augment: bool = False,
    ) -> bytes:
        """Return what `schemas` returns as JSON text, the same bytes until one of the agent's tools changes."""
        return self._get_exporter().export_json(api_format, strict, tags, exclude_tags, think_augment)

    def _get_exporter(self) -> AgentExporter:
        if self._exporter is None:
            self._exporter = AgentExporter(self._exports, self._executor.runtime, self._principal)
        return self._exporter

    def functions(self, *, failure: Callable[[str], object] | None = None) -> list[Callable[..., Any]]:
        """
        Return one real function per tool, for frameworks that want functions; each call is decided anew.

        A call that fails raises a `ToolCallError`, or what *failure* makes of the text that models get: an exception
        is raised, such as a framework's own; anything else is the value of the call.
        """
        return [make_function(bound, failure) for bound in self.values()]

    def __repr__(self) -> str:
        return f"<Toolset of {self._principal.agent!r}: {', '.join(self) or self._describe_emptiness()}>"

    def _describe_emptiness(self) -> str:
        """Say of an empty toolset that it is, and of a delegate's, which of the two may call nothing."""
        agent, delegation = self._principal.agent, self._principal.delegation
        if delegation is None:
            return "empty"
        parent, mode = delegation.parent, delegation.mode
        if mode != "own" and not len(self._dispatcher.get_toolset(parent)):
            return f"empty, since {parent.agent!r}, for which it acts, may call nothing"
        if mode != "inherit" and not len(self._dispatcher.get_toolset(Principal(agent))):
            return f"empty, since {agent!r} itself may call nothing; assign it tools, or delegate with mode='inherit'"
        return f"empty, since mode={mode!r} and tools= leave nothing that they may call"


TOOLSET_ATTRIBUTES: Final = frozenset(name for name in dir(Toolset) if not name.startswith("_"))
"""What a toolset has besides its tools; a tool of such a name is an attribute with a `_` behind it."""


def _refuse_execution(method: Callable[..., object], args: Sequence[object], unknown: Mapping[str, object]) -> Never:
    """Raise what is wrong with a call of `execute`; of one with name and arguments, how to write it."""
    if len(args) == 2 and isinstance(args[0], str):
        text = f"{method.__name__}(ToolCall(name={shorten_repr(args[0])}, arguments={{…}}))"
        raise TypeError(f"{method.__name__}() takes one call: {text}.")
    refuse_wrong_call(method, args, unknown)


def get_executor(toolset: Toolset) -> Executor:
    """Return what runs the calls of *toolset*; for the package's own modules."""
    return toolset._executor


def get_fast_cache(toolset: Toolset) -> FastFunctionCache:
    """Return the fast functions of the principal of *toolset*; for the package's own modules."""
    return toolset._fast_cache


def export_selected_tools(
    toolset: Toolset, names: Iterable[str], form: Format, *, strict: bool, reason: bool
) -> dict[str, WireObject]:
    """Return those of the tools *names* that are in *toolset* now, in a format; for the package's own modules."""
    exports = toolset._get_exporter().export_selection(form, names, strict=strict, reason=reason)
    return dict(zip(exports, decode_exports(b"[" + b",".join(exports.values()) + b"]"), strict=True))


def refuse_call(toolset: Toolset, call: ToolCall, result: ToolResult) -> ToolResult:
    """Record a call of *toolset*'s agent that is not made, with the *result* that says why."""
    return toolset._executor.run_pipeline(toolset._complete_call(call), toolset.principal, result)


async def refuse_call_async(toolset: Toolset, call: ToolCall, result: ToolResult) -> ToolResult:
    """Record a call that is not made from async code."""
    return await toolset._executor.run_pipeline_async(toolset._complete_call(call), toolset.principal, result)
