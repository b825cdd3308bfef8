"""An agent's tools: an ordered, live, read-only mapping whose values are checked ways to a tool."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

import msgspec
from attrs import NOTHING

from praval_tools.access.records import Principal
from praval_tools.errors import ToolUsageError
from praval_tools.execution.batch import run_batch, run_batch_async
from praval_tools.names import get_name, shorten_repr
from praval_tools.schema.json_input import try_parse_simple
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.decision import Decision
from praval_tools.tools.implementation import MISS, ToolImplementation
from praval_tools.tools.tool import AsyncTool, Tool

if TYPE_CHECKING:
    from praval_tools.execution.executor import Executor, FastFunctionCache
    from praval_tools.formats import Format
    from praval_tools.registry.export_cache import AgentExporter

P = ParamSpec("P")
R = TypeVar("R")


class BoundTool(Generic[P, R]):
    """
    A checked way of one agent to one tool; holding it grants nothing, every call is decided anew.

    It takes the function's own Python types as well as JSON.
    Raises what `Toolset.call` raises.
    """

    __slots__ = ("_definition", "_executor", "_fast_cache", "_sync_functions", "_principal", "name", "tool")

    def __init__(self, executor: Executor, who: Principal, tool: Tool[P, R], lanes: FastFunctionCache) -> None:
        self._executor, self._principal, self._fast_cache, self._sync_functions = (
            executor,
            who,
            lanes,
            lanes.sync_functions,
        )
        self.tool, self.name, self._definition = _ToolDescription(tool), tool.name, tool.implementation

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        arguments: dict[str, Any] = self._to_keywords(args, kwargs) if args else kwargs
        try:
            lane = self._sync_functions[self.name]
        except KeyError:  # the longer way begins behind this: a tool is not to find the error in `sys.exc_info()`
            value = MISS
        else:
            try:
                value = lane(arguments)
            except (Exception, SystemExit) as error:
                raise self._executor.make_error(lane, error) from error
        if value is not MISS:
            return value  # type: ignore[no-any-return]
        return self._executor.call(self._principal, self.name, arguments, self._fast_cache)  # type: ignore[no-any-return]

    async def acall(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Call the tool from async code."""
        given = self._to_keywords(args, kwargs) if args else kwargs
        return await self._executor.acall(self._principal, self.name, given, self._fast_cache)

    def _to_keywords(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        names = _list_positional_names(self._definition)
        if len(args) > len(names):
            raise ToolUsageError(f"Tool {self.name!r} takes {len(names)} arguments by position, not {len(args)}.")
        twice = [name for name in names[: len(args)] if name in kwargs]
        if twice:
            raise ToolUsageError(f"Tool {self.name!r} got {twice[0]!r} twice: by its position and by its name.")
        return {**dict(zip(names, args, strict=False)), **kwargs}

    @property
    def description(self) -> str:
        """What a model reads."""
        return str(self.tool.description)

    @property
    def metadata(self) -> Any:
        """The tool's metadata."""
        return self.tool.metadata

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        return dict(self.tool.parameters)

    def __repr__(self) -> str:
        return f"<BoundTool {self.name} for {self._principal.agent!r}>"


def _list_positional_names(definition: ToolImplementation) -> list[str]:
    """Return the parameters that a value's position can mean."""
    if definition.supplied_schema is not None or not definition.is_compilable:
        return list((definition.supplied_schema or {}).get("properties", ()))
    return [one.name for one in definition.signature.parameters if one.kind == "normal" and not one.keyword_only]


class _ToolDescription:
    """What a bound tool tells about its tool, without the function."""

    __slots__ = ("__tool",)

    def __init__(self, tool: Tool[..., Any]) -> None:
        self.__tool = tool

    def __getattr__(self, name: str) -> Any:
        if name in _DESCRIBED_ATTRIBUTES:
            return getattr(self.__tool, name)
        raise AttributeError(f"{name!r} is not shown of a bound tool; ask the registry for the tool itself")


_DESCRIBED_ATTRIBUTES = frozenset(
    (
        "name", "description", "parameters", "metadata", "doc", "signature", "is_async", "namespace", "method_name",
        "qualified_name", "json_schema", "definition", "fingerprint", "result_schema",
    )
)  # fmt: skip


class Toolset(Mapping[str, BoundTool[..., Any]]):
    """
    The tools that one agent may call now, in registration order; live and read-only.

    What it shows is exactly what the agent can call. An empty toolset is true.
    """

    __slots__ = (
        "_async_functions",
        "_bound_cache",
        "_dispatcher",
        "_executor",
        "_fast_cache",
        "_visibility",
        "_exporter",
        "_sync_functions",
        "_principal",
    )

    def __init__(self, desk: Any, executor: Executor, who: Principal) -> None:
        self._dispatcher, self._executor, self._visibility, self._principal = desk, executor, desk.visibility, who
        self._fast_cache = executor.get_fast_cache(who)
        self._sync_functions, self._async_functions = self._fast_cache.sync_functions, self._fast_cache.async_functions
        self._exporter: AgentExporter | None = None
        self._bound_cache: tuple[Any, dict[str, tuple[BoundTool[..., Any], Any]]] = (None, {})

    @property
    def agent(self) -> str:
        """Whose tools these are."""
        return self._principal.agent

    @property
    def principal(self) -> Principal:
        """The agent, and for whom it acts."""
        return self._principal

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self._visibility.list_names(self._principal))

    def __iter__(self) -> Iterator[str]:
        return iter(self._visibility.list_names(self._principal))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str | Tool) and self._find_bound_tool(name) is not None

    @overload
    def __getitem__(self, name: str) -> BoundTool[..., Any]: ...
    @overload
    def __getitem__(self, name: AsyncTool[P, R]) -> BoundTool[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __getitem__(self, name: Tool[P, R]) -> BoundTool[P, R]: ...
    def __getitem__(self, name: Any) -> Any:
        bound = self._find_bound_tool(name) if isinstance(name, str | Tool) else None
        if bound is None:
            text = getattr(name, "name", name)
            raise KeyError(f"{self.agent} has no tool {shorten_repr(text)}; explain({shorten_repr(text)}) says why")
        return bound

    def _find_bound_tool(self, name: str | Tool[..., Any]) -> BoundTool[..., Any] | None:
        text = name if isinstance(name, str) else name.name
        state, (since, known) = self._executor.access_store.get_current_state(), self._bound_cache
        if since is not state:
            self._bound_cache = state, (known := {})
        found = known.get(text)
        if found is None:
            tool, lasting = self._visibility.find_tool(self._principal, text)
            if tool is None:
                return None
            found = BoundTool(self._executor, self._principal, tool, self._fast_cache), tool.implementation
            if lasting:
                known[text] = found
        return None if isinstance(name, Tool) and name.implementation is not found[1] else found[0]

    def items(self) -> ItemsView[str, BoundTool[..., Any]]:
        """Return the pairs of one consistent moment."""
        return self._bind_all().items()

    def values(self) -> ValuesView[BoundTool[..., Any]]:
        """Return the tools of one consistent moment."""
        return self._bind_all().values()

    def _bind_all(self) -> dict[str, BoundTool[..., Any]]:
        tools = self._visibility.list_tools(self._principal)
        return {tool.name: BoundTool(self._executor, self._principal, tool, self._fast_cache) for tool in tools}

    # ── calling ──────────────────────────────────────────────────────────────────────────────────

    def call(self, name: str | Tool[..., Any], /, **arguments: Any) -> Any:
        """
        Call a tool, given by its name or itself, and return its value.

        Raises:
            ToolAccessError: The agent may not call it, or it does not exist.
            ToolArgumentsError: The arguments do not fit.
            ToolTimeoutError: It did not finish in time.
            ToolExecutionError: It raised; also an instance of the built-in class that it raised.
        """
        try:
            lane = self._sync_functions[name]  # type: ignore[index]  # a tool is no key, and goes the longer way
        except KeyError:
            value = MISS
        else:
            try:
                value = lane(arguments)
            except (Exception, SystemExit) as error:
                raise self._executor.make_error(lane, error) from error
        return (
            value
            if value is not MISS
            else self._executor.call(self._principal, _to_name(name), arguments, self._fast_cache)
        )

    async def acall(self, name: str | Tool[..., Any], /, **arguments: Any) -> Any:
        """Call a tool from async code and return its value; raises what `call` raises."""
        lane = self._async_functions.get(name)  # type: ignore[arg-type]
        if lane is not None:
            try:
                value = await lane(arguments)
            except (Exception, SystemExit) as error:
                raise self._executor.make_error(lane, error) from error
            if value is not MISS:
                return value
        return await self._executor.acall(self._principal, _to_name(name), arguments, self._fast_cache)

    def call_json(self, name: str, arguments: str | bytes) -> bytes:
        """Call a tool with JSON text and return its value as JSON text; raises what `call` raises."""
        given, lane = try_parse_simple(arguments), self._sync_functions.get(name)
        if lane is not None and given is not None:
            try:
                value = lane(given)
                if value is not MISS:
                    return lane.road.encode_json(value)  # type: ignore[no-any-return]
            except (Exception, SystemExit) as error:
                raise self._executor.make_error(lane, error) from error
        value = self._executor.call(self._principal, name, arguments if given is None else given, self._fast_cache)
        return self._executor.encode_result(name, value)

    async def acall_json(self, name: str, arguments: str | bytes) -> bytes:
        """Call a tool from async code with JSON text and return its value as JSON text."""
        given = try_parse_simple(arguments)
        value = await self._executor.acall(
            self._principal, name, arguments if given is None else given, self._fast_cache
        )
        return self._executor.encode_result(name, value)

    def execute(self, call: ToolCall) -> ToolResult:
        """Run a call of this agent; every failure is a result."""
        mine = self._complete_call(call)
        if mine.on_behalf_of != self._principal.chain:
            return self._dispatcher.execute(mine)  # type: ignore[no-any-return]
        return self._executor.execute(mine, self._principal, self._fast_cache)

    async def aexecute(self, call: ToolCall) -> ToolResult:
        """Run a call of this agent from async code; every failure is a result."""
        mine = self._complete_call(call)
        if mine.on_behalf_of != self._principal.chain:
            return await self._dispatcher.aexecute(mine)  # type: ignore[no-any-return]
        return await self._executor.aexecute(mine, self._principal, self._fast_cache)

    def execute_batch(self, calls: Iterable[ToolCall], max_parallel: int | None = None) -> list[ToolResult]:
        """
        Run calls side by side; results in call order, one failure never touches its neighbours.

        Raises:
            JournalError: The journal could not be written; raised once every other call has ended.
            ReplayMismatchError: A run recorded another call in the place of one of these; raised then, too.
        """
        return run_batch(self._executor.runtime, [(one, self.execute) for one in calls], max_parallel)

    async def aexecute_batch(self, calls: Iterable[ToolCall], max_parallel: int | None = None) -> list[ToolResult]:
        """Run calls side by side from async code."""
        return await run_batch_async(self._executor.runtime, [(one, self.aexecute) for one in calls], max_parallel)

    def _complete_call(self, call: ToolCall) -> ToolCall:
        if not isinstance(call, ToolCall):
            raise ToolUsageError(f"{shorten_repr(call)} is no ToolCall: execute(ToolCall(name=…, arguments=…)).")
        if call.agent is not None and call.agent != self._principal.agent:
            raise ToolUsageError(
                f"This toolset is {self._principal.agent!r}'s; the call names {shorten_repr(call.agent)}."
            )
        chain = self._principal.chain
        if call.on_behalf_of and chain and call.on_behalf_of != chain:
            raise ToolUsageError(
                f"This toolset is {self._principal.agent!r}'s for {', '.join(map(repr, chain))}; "
                f"the call is on behalf of {shorten_repr(call.on_behalf_of)}."
            )
        return ToolCall(
            call.tool_call_id, call.name, call.arguments, self._principal.agent, call.run_id,
            call.on_behalf_of or chain, reason=call.reason, engine=call.engine,
        )  # fmt: skip

    def explain(self, name: str | Tool[..., Any], arguments: Any = None) -> Decision:
        """Say whether the agent may call a tool, and why."""
        decision: Decision = self._visibility.explain_access(self._principal, get_name(name), arguments)
        return decision

    # ── showing ──────────────────────────────────────────────────────────────────────────────────

    def schemas(
        self, api_format: str | Format = "openai-chat", *, strict: bool = False, tags: Iterable[str] | None = None,
        exclude_tags: Iterable[str] | None = None, think_augment: bool = False,
    ) -> list[dict[str, Any]]:  # fmt: skip
        """
        Return the tools in a provider's format, sorted by name: a fresh copy, to be changed at will.

        Args:
            api_format: `openai-chat`, `openai-responses`, `anthropic`, `gemini`, `mcp`.
            strict: For the provider's strict mode; a tool that cannot be strict is in it as it is without.
            tags: Only tools with one of these.
            exclude_tags: No tools with one of these.
            think_augment: Ask the model for the reason of each call; see `parse_tool_calls`.

        Raises:
            UnknownFormatError: No such format; it is a `ValueError`, and the text lists them.
        """
        text = self.schemas_json(
            api_format, strict=strict, tags=tags, exclude_tags=exclude_tags, think_augment=think_augment
        )
        try:
            return msgspec.json.decode(text)  # type: ignore[no-any-return]  # far cheaper than a deep copy
        except msgspec.DecodeError:  # a default that needs more than 64 bits
            import json

            return json.loads(text)  # type: ignore[no-any-return]

    def schemas_json(
        self, api_format: str | Format = "openai-chat", *, strict: bool = False, tags: Iterable[str] | None = None,
        exclude_tags: Iterable[str] | None = None, think_augment: bool = False,
    ) -> bytes:  # fmt: skip
        """Return what `schemas` returns as JSON text, the same bytes until one of the agent's tools changes."""
        if self._exporter is None:
            self._exporter = self._visibility.make_exporter(self._principal)
        return self._exporter.export_json(api_format, strict, tags, exclude_tags, think_augment)

    def functions(self) -> list[Callable[..., Any]]:
        """Return real functions, one a tool, for frameworks that want functions; each call is decided anew."""
        return [_make_function(bound) for bound in self.values()]

    def __repr__(self) -> str:
        return f"<Toolset of {self._principal.agent!r}: {', '.join(self) or 'empty'}>"


def _to_name(tool: Any) -> Any:
    return getattr(tool, "name", tool)


def _make_function(bound: BoundTool[..., Any]) -> Callable[..., Any]:
    async def call_async(*args: Any, **kwargs: Any) -> Any:
        return await bound.acall(*args, **kwargs)

    def call_sync(*args: Any, **kwargs: Any) -> Any:
        return bound(*args, **kwargs)

    made: Any = call_async if bound.tool.is_async else call_sync
    definition = bound._definition
    signature = _build_signature(definition, bound.parameters)
    made.__name__ = made.__qualname__ = bound.name
    doc = inspect.cleandoc(bound.tool.doc or "")
    made.__module__, made.__doc__ = definition.module, doc if doc.startswith(bound.description) else bound.description
    made.__signature__ = signature
    hints = {one.name: one.annotation for one in signature.parameters.values()}
    made.__annotations__ = {name: hint for name, hint in hints.items() if hint is not signature.empty}
    if definition.supplied_schema is None:
        made.__annotations__["return"] = signature.return_annotation
    return made  # type: ignore[no-any-return]


def _build_signature(definition: ToolImplementation, parameters: dict[str, Any]) -> inspect.Signature:
    """Return what a caller may pass, hints resolved; nothing that is injected."""
    kinds = inspect.Parameter
    if definition.supplied_schema is not None or not definition.is_compilable:
        names = parameters.get("properties", ()) if definition.supplied_schema is not None else ()
        return inspect.Signature([kinds(name, kinds.KEYWORD_ONLY) for name in names if name.isidentifier()])
    read, shown = definition.signature, []
    for one in read.parameters:
        if one.kind == "extra":
            shown.append(kinds(one.name, kinds.VAR_KEYWORD, annotation=one.hint))
        elif one.kind == "normal":
            kind = kinds.KEYWORD_ONLY if one.keyword_only else kinds.POSITIONAL_OR_KEYWORD
            default = kinds.empty if one.default is NOTHING else one.default
            shown.append(kinds(one.name, kind, default=default, annotation=one.hint))
    return inspect.Signature(shown, return_annotation=read.returns)
