"""An agent's tools: an ordered, live, read-only mapping whose values are checked ways to a tool."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

import msgspec
from attrs import NOTHING

from praval_tools.access.records import Principal
from praval_tools.errors import ToolUsageError
from praval_tools.execution.batch import batch, batch_async
from praval_tools.names import name_of, shorten
from praval_tools.schema.arguments import quick
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.decision import Decision
from praval_tools.tools.implementation import MISS, Definition
from praval_tools.tools.tool import AsyncTool, Tool

if TYPE_CHECKING:
    from praval_tools.execution.executor import Executor, Lanes
    from praval_tools.formats import Format
    from praval_tools.registry.export_cache import Offers

P = ParamSpec("P")
R = TypeVar("R")


class BoundTool(Generic[P, R]):
    """
    A checked way of one agent to one tool; holding it grants nothing, every call is decided anew.

    It takes the function's own Python types as well as JSON.
    Raises what `Toolset.call` raises.
    """

    __slots__ = ("_definition", "_executor", "_lanes", "_sync", "_who", "name", "tool")

    def __init__(self, executor: Executor, who: Principal, tool: Tool[P, R], lanes: Lanes) -> None:
        self._executor, self._who, self._lanes, self._sync = executor, who, lanes, lanes.sync
        self.tool, self.name, self._definition = _Shown(tool), tool.name, tool.definition_

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        arguments: dict[str, Any] = self._named(args, kwargs) if args else kwargs
        try:
            lane = self._sync[self.name]
        except KeyError:  # the longer way begins behind this: a tool is not to find the error in `sys.exc_info()`
            value = MISS
        else:
            try:
                value = lane(arguments)
            except (Exception, SystemExit) as error:
                raise self._executor.failed(lane, error) from error
        if value is not MISS:
            return value  # type: ignore[no-any-return]
        return self._executor.call(self._who, self.name, arguments, self._lanes)  # type: ignore[no-any-return]

    async def acall(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Call the tool from async code."""
        given = self._named(args, kwargs) if args else kwargs
        return await self._executor.acall(self._who, self.name, given, self._lanes)

    def _named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        names = _positional(self._definition)
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
        return f"<BoundTool {self.name} for {self._who.agent!r}>"


def _positional(definition: Definition) -> list[str]:
    """Return the parameters that a value's position can mean."""
    if definition.given is not None or not definition.usable:
        return list((definition.given or {}).get("properties", ()))
    return [one.name for one in definition.signature.parameters if one.kind == "normal" and not one.by_keyword]


class _Shown:
    """What a bound tool tells about its tool, without the function."""

    __slots__ = ("__tool",)

    def __init__(self, tool: Tool[..., Any]) -> None:
        self.__tool = tool

    def __getattr__(self, name: str) -> Any:
        if name in _TOLD:
            return getattr(self.__tool, name)
        raise AttributeError(f"{name!r} is not shown of a bound tool; ask the registry for the tool itself")


_TOLD = frozenset(
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

    __slots__ = ("_awaited", "_bound", "_desk", "_executor", "_lanes", "_lookup", "_offers", "_sync", "_who")

    def __init__(self, desk: Any, executor: Executor, who: Principal) -> None:
        self._desk, self._executor, self._lookup, self._who = desk, executor, desk.lookup, who
        self._lanes = executor.lanes(who)
        self._sync, self._awaited = self._lanes.sync, self._lanes.awaited
        self._offers: Offers | None = None
        self._bound: tuple[Any, dict[str, tuple[BoundTool[..., Any], Any]]] = (None, {})

    @property
    def agent(self) -> str:
        """Whose tools these are."""
        return self._who.agent

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self._lookup.names(self._who))

    def __iter__(self) -> Iterator[str]:
        return iter(self._lookup.names(self._who))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str | Tool) and self._find(name) is not None

    @overload
    def __getitem__(self, name: str) -> BoundTool[..., Any]: ...
    @overload
    def __getitem__(self, name: AsyncTool[P, R]) -> BoundTool[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __getitem__(self, name: Tool[P, R]) -> BoundTool[P, R]: ...
    def __getitem__(self, name: Any) -> Any:
        bound = self._find(name) if isinstance(name, str | Tool) else None
        if bound is None:
            text = getattr(name, "name", name)
            raise KeyError(f"{self.agent} has no tool {shorten(text)}; explain({shorten(text)}) says why")
        return bound

    def _find(self, name: str | Tool[..., Any]) -> BoundTool[..., Any] | None:
        text = name if isinstance(name, str) else name.name
        state, (since, known) = self._executor.ledger.present(), self._bound
        if since is not state:
            self._bound = state, (known := {})
        found = known.get(text)
        if found is None:
            tool, lasting = self._lookup.tool(self._who, text)
            if tool is None:
                return None
            found = BoundTool(self._executor, self._who, tool, self._lanes), tool.definition_
            if lasting:
                known[text] = found
        return None if isinstance(name, Tool) and name.definition_ is not found[1] else found[0]

    def items(self) -> ItemsView[str, BoundTool[..., Any]]:
        """Return the pairs of one consistent moment."""
        return self._now().items()

    def values(self) -> ValuesView[BoundTool[..., Any]]:
        """Return the tools of one consistent moment."""
        return self._now().values()

    def _now(self) -> dict[str, BoundTool[..., Any]]:
        tools = self._lookup.tools(self._who)
        return {tool.name: BoundTool(self._executor, self._who, tool, self._lanes) for tool in tools}

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
            lane = self._sync[name]  # type: ignore[index]  # a tool is no key, and goes the longer way
        except KeyError:
            value = MISS
        else:
            try:
                value = lane(arguments)
            except (Exception, SystemExit) as error:
                raise self._executor.failed(lane, error) from error
        return value if value is not MISS else self._executor.call(self._who, _name(name), arguments, self._lanes)

    async def acall(self, name: str | Tool[..., Any], /, **arguments: Any) -> Any:
        """Call a tool from async code and return its value; raises what `call` raises."""
        lane = self._awaited.get(name)  # type: ignore[arg-type]
        if lane is not None:
            try:
                value = await lane(arguments)
            except (Exception, SystemExit) as error:
                raise self._executor.failed(lane, error) from error
            if value is not MISS:
                return value
        return await self._executor.acall(self._who, _name(name), arguments, self._lanes)

    def call_json(self, name: str, arguments: str | bytes) -> bytes:
        """Call a tool with JSON text and return its value as JSON text; raises what `call` raises."""
        given, lane = quick(arguments), self._sync.get(name)
        if lane is not None and given is not None:
            try:
                value = lane(given)
                if value is not MISS:
                    return lane.road.json(value)  # type: ignore[no-any-return]
            except (Exception, SystemExit) as error:
                raise self._executor.failed(lane, error) from error
        value = self._executor.call(self._who, name, arguments if given is None else given, self._lanes)
        return self._executor.json(name, value)

    async def acall_json(self, name: str, arguments: str | bytes) -> bytes:
        """Call a tool from async code with JSON text and return its value as JSON text."""
        given = quick(arguments)
        value = await self._executor.acall(self._who, name, arguments if given is None else given, self._lanes)
        return self._executor.json(name, value)

    def execute(self, call: ToolCall) -> ToolResult:
        """Run a call of this agent; every failure is a result."""
        mine = self._mine(call)
        if mine.on_behalf_of != self._who.chain:
            return self._desk.execute(mine)  # type: ignore[no-any-return]
        return self._executor.execute(mine, self._who, self._lanes)

    async def aexecute(self, call: ToolCall) -> ToolResult:
        """Run a call of this agent from async code; every failure is a result."""
        mine = self._mine(call)
        if mine.on_behalf_of != self._who.chain:
            return await self._desk.aexecute(mine)  # type: ignore[no-any-return]
        return await self._executor.aexecute(mine, self._who, self._lanes)

    def execute_batch(self, calls: Iterable[ToolCall], max_parallel: int | None = None) -> list[ToolResult]:
        """
        Run calls side by side; results in call order, one failure never touches its neighbours.

        Raises:
            JournalError: The journal could not be written; raised once every other call has ended.
            ReplayMismatchError: A run recorded another call in the place of one of these; raised then, too.
        """
        return batch(self._executor.runtime, [(one, self.execute) for one in calls], max_parallel)

    async def aexecute_batch(self, calls: Iterable[ToolCall], max_parallel: int | None = None) -> list[ToolResult]:
        """Run calls side by side from async code."""
        return await batch_async(self._executor.runtime, [(one, self.aexecute) for one in calls], max_parallel)

    def _mine(self, call: ToolCall) -> ToolCall:
        if not isinstance(call, ToolCall):
            raise ToolUsageError(f"{shorten(call)} is no ToolCall: execute(ToolCall(name=…, arguments=…)).")
        if call.agent is not None and call.agent != self._who.agent:
            raise ToolUsageError(f"This toolset is {self._who.agent!r}'s; the call names {shorten(call.agent)}.")
        chain = self._who.chain
        if call.on_behalf_of and chain and call.on_behalf_of != chain:
            raise ToolUsageError(
                f"This toolset is {self._who.agent!r}'s for {', '.join(map(repr, chain))}; "
                f"the call is on behalf of {shorten(call.on_behalf_of)}."
            )
        return ToolCall(
            call.tool_call_id, call.name, call.arguments, self._who.agent, call.run_id,
            call.on_behalf_of or chain, reason=call.reason, engine=call.engine,
        )  # fmt: skip

    def explain(self, name: str | Tool[..., Any], arguments: Any = None) -> Decision:
        """Say whether the agent may call a tool, and why."""
        decision: Decision = self._lookup.explain(self._who, name_of(name), arguments)
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
        if self._offers is None:
            self._offers = self._lookup.offers(self._who)
        return self._offers.text(api_format, strict, tags, exclude_tags, think_augment)

    def functions(self) -> list[Callable[..., Any]]:
        """Return real functions, one a tool, for frameworks that want functions; each call is decided anew."""
        return [_as_function(bound) for bound in self.values()]

    def __repr__(self) -> str:
        return f"<Toolset of {self._who.agent!r}: {', '.join(self) or 'empty'}>"


def _name(tool: Any) -> Any:
    return getattr(tool, "name", tool)


def _as_function(bound: BoundTool[..., Any]) -> Callable[..., Any]:
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return await bound.acall(*args, **kwargs)

    def plain(*args: Any, **kwargs: Any) -> Any:
        return bound(*args, **kwargs)

    made: Any = awaited if bound.tool.is_async else plain
    definition = bound._definition
    signature = _signature(definition, bound.parameters)
    made.__name__ = made.__qualname__ = bound.name
    doc = inspect.cleandoc(bound.tool.doc or "")
    made.__module__, made.__doc__ = definition.module, doc if doc.startswith(bound.description) else bound.description
    made.__signature__ = signature
    hints = {one.name: one.annotation for one in signature.parameters.values()}
    made.__annotations__ = {name: hint for name, hint in hints.items() if hint is not signature.empty}
    if definition.given is None:
        made.__annotations__["return"] = signature.return_annotation
    return made  # type: ignore[no-any-return]


def _signature(definition: Definition, parameters: dict[str, Any]) -> inspect.Signature:
    """Return what a caller may pass, hints resolved; nothing that is injected."""
    kinds = inspect.Parameter
    if definition.given is not None or not definition.usable:
        names = parameters.get("properties", ()) if definition.given is not None else ()
        return inspect.Signature([kinds(name, kinds.KEYWORD_ONLY) for name in names if name.isidentifier()])
    read, shown = definition.signature, []
    for one in read.parameters:
        if one.kind == "extra":
            shown.append(kinds(one.name, kinds.VAR_KEYWORD, annotation=one.hint))
        elif one.kind == "normal":
            kind = kinds.KEYWORD_ONLY if one.by_keyword else kinds.POSITIONAL_OR_KEYWORD
            default = kinds.empty if one.default is NOTHING else one.default
            shown.append(kinds(one.name, kind, default=default, annotation=one.hint))
    return inspect.Signature(shown, return_annotation=read.returns)
