"""An agent's tools: an ordered, live, read-only mapping whose values are checked ways to a tool."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from praval_tools.errors import ToolUsageError
from praval_tools.execution.batch import batch, batch_async
from praval_tools.model.calls import ToolCall, ToolResult
from praval_tools.model.decision import Decision
from praval_tools.model.definition import MISS
from praval_tools.model.permissions import Principal
from praval_tools.model.tool import AsyncTool, Tool

if TYPE_CHECKING:
    from praval_tools.execution.executor import Executor, Lanes

P = ParamSpec("P")
R = TypeVar("R")


class BoundTool(Generic[P, R]):
    """
    A checked way of one agent to one tool; holding it grants nothing, every call is decided anew.

    Raises what `Toolset.call` raises.
    """

    __slots__ = ("_executor", "_lanes", "_who", "name", "tool")

    def __init__(self, executor: Executor, who: Principal, tool: Tool[P, R], lanes: Lanes) -> None:
        self._executor, self._who, self._lanes = executor, who, lanes
        self.tool, self.name = _Shown(tool), tool.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        arguments: dict[str, Any] = self._named(args, kwargs) if args else kwargs
        lane = self._lanes.sync.get(self.name)
        if lane is not None:
            try:
                value = lane(arguments)
            except (Exception, SystemExit) as error:
                raise self._executor.failed(self.name, error) from error
            if value is not MISS:
                return value  # type: ignore[no-any-return]
        return self._executor.call(self._who, self.name, arguments, self._lanes)  # type: ignore[no-any-return]

    async def acall(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Call the tool from async code."""
        arguments = self._named(args, kwargs) if args else kwargs
        return await self._executor.acall(self._who, self.name, arguments, self._lanes)

    def _named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        names = [name for name in self.tool.parameters.get("properties", ()) if name not in kwargs]
        if len(args) > len(names):
            raise ToolUsageError(f"Tool {self.name!r} takes {len(names)} more arguments, {len(args)} were given.")
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
    "name description parameters metadata doc signature is_async namespace method_name qualified_name json_schema "
    "definition fingerprint result_schema".split()
)


class Toolset(Mapping[str, BoundTool[..., Any]]):
    """
    The tools that one agent may call now, in registration order; live and read-only.

    What it shows is exactly what the agent can call. An empty toolset is true.
    """

    __slots__ = ("_cache", "_executor", "_lanes", "_registry", "_who")

    def __init__(self, registry: Any, executor: Executor, who: Principal) -> None:
        self._registry, self._executor, self._who = registry, executor, who
        self._lanes = executor.lanes(who)
        self._cache: dict[Any, tuple[Any, bytes]] = {}

    @property
    def agent(self) -> str:
        """Whose tools these are."""
        return self._who.agent

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self._registry._callable_names(self._who))

    def __iter__(self) -> Iterator[str]:
        return iter(self._registry._callable_names(self._who))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str | Tool) and self._find(name) is not None

    @overload
    def __getitem__(self, name: str) -> BoundTool[..., Any]: ...
    @overload
    def __getitem__(self, name: AsyncTool[P, R]) -> BoundTool[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __getitem__(self, name: Tool[P, R]) -> BoundTool[P, R]: ...
    def __getitem__(self, name: Any) -> Any:
        tool = self._find(name) if isinstance(name, str | Tool) else None
        if tool is None:
            raise KeyError(name if isinstance(name, str) else getattr(name, "name", name))
        return BoundTool(self._executor, self._who, tool, self._lanes)

    def _find(self, name: str | Tool[..., Any]) -> Tool[..., Any] | None:
        text = name if isinstance(name, str) else name.name
        tool: Tool[..., Any] | None = self._registry._callable_tool(self._who, text)
        if tool is not None and isinstance(name, Tool) and tool.definition_ is not name.definition_:
            return None
        return tool

    def items(self) -> Any:
        """Return the pairs of one consistent moment."""
        return [(tool.name, self._bound(tool)) for tool in self._registry._callable_tools(self._who)]

    def values(self) -> Any:
        """Return the tools of one consistent moment."""
        return [bound for _, bound in self.items()]

    def _bound(self, tool: Tool[..., Any]) -> BoundTool[..., Any]:
        return BoundTool(self._executor, self._who, tool, self._lanes)

    # ── calling ──────────────────────────────────────────────────────────────────────────────────

    def call(self, name: str, /, **arguments: Any) -> Any:
        """
        Call a tool and return its value.

        Raises:
            ToolAccessError: The agent may not call it, or it does not exist.
            ToolArgumentsError: The arguments do not fit.
            ToolTimeoutError: It did not finish in time.
            ToolExecutionError: It raised; also an instance of the built-in class that it raised.
        """
        lane = self._lanes.sync.get(name)
        if lane is not None:
            try:
                value = lane(arguments)
            except (Exception, SystemExit) as error:
                raise self._executor.failed(name, error) from error
            if value is not MISS:
                return value
        return self._executor.call(self._who, name, arguments, self._lanes)

    async def acall(self, name: str, /, **arguments: Any) -> Any:
        """Call a tool from async code and return its value; raises what `call` raises."""
        return await self._executor.acall(self._who, name, arguments, self._lanes)

    def execute(self, call: ToolCall) -> ToolResult:
        """Run a call of this agent; every failure is a result."""
        return self._executor.execute(self._mine(call), self._who, self._lanes)

    async def aexecute(self, call: ToolCall) -> ToolResult:
        """Run a call of this agent from async code; every failure is a result."""
        return await self._executor.aexecute(self._mine(call), self._who)

    def execute_batch(self, calls: Iterable[ToolCall], max_parallel: int | None = None) -> list[ToolResult]:
        """Run calls side by side; results in call order, one failure never touches its neighbours."""
        return batch(self._executor, [(one, self.execute) for one in calls], max_parallel)

    async def aexecute_batch(self, calls: Iterable[ToolCall], max_parallel: int | None = None) -> list[ToolResult]:
        """Run calls side by side from async code."""
        return await batch_async(self._executor, [(one, self.aexecute) for one in calls], max_parallel)

    def _mine(self, call: ToolCall) -> ToolCall:
        if call.agent is not None and call.agent != self._who.agent:
            raise ToolUsageError(f"This toolset is {self._who.agent!r}'s; the call names {call.agent!r}.")
        return ToolCall(
            call.tool_call_id, call.name, call.arguments, self._who.agent, call.run_id,
            call.on_behalf_of or self._who.chain,
        )  # fmt: skip

    def explain(self, name: str, arguments: Mapping[str, Any] | None = None) -> Decision:
        """Say whether the agent may call a tool, and why."""
        return self._registry._explain(self._who, name, arguments)  # type: ignore[no-any-return]

    # ── showing ──────────────────────────────────────────────────────────────────────────────────

    def schemas(self, api_format: str = "openai-chat") -> list[dict[str, Any]]:
        """Return the tools in a provider's format, sorted by name: a fresh copy, to be changed at will."""
        return copy.deepcopy(self._exported(api_format)[0])

    def schemas_json(self, api_format: str = "openai-chat") -> bytes:
        """Return the tools in a provider's format as JSON, the same bytes until something changes."""
        return self._exported(api_format)[1]

    def _exported(self, api_format: str) -> tuple[list[dict[str, Any]], bytes]:
        state = self._executor.ledger.state
        kept = self._cache.get(api_format)
        if kept is not None and kept[0][0] is state and kept[0][2]:
            return kept[0][1], kept[1]
        made, lasting = self._registry._export(self._who, api_format)
        text = json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode()
        self._cache[api_format] = ((state, made, lasting), text)
        return made, text

    def functions(self) -> list[Callable[..., Any]]:
        """Return real functions, one a tool, for frameworks that want functions; each call is decided anew."""
        return [_as_function(bound) for bound in self.values()]

    def __repr__(self) -> str:
        return f"<Toolset of {self._who.agent!r}: {', '.join(self) or 'empty'}>"


def _as_function(bound: BoundTool[..., Any]) -> Callable[..., Any]:
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return await bound.acall(*args, **kwargs)

    def plain(*args: Any, **kwargs: Any) -> Any:
        return bound(*args, **kwargs)

    made: Any = awaited if bound.tool.is_async else plain
    made.__name__ = made.__qualname__ = bound.name
    made.__doc__ = bound.tool.doc
    made.__signature__ = bound.tool.signature
    made.__annotations__ = {
        **{one.name: one.annotation for one in bound.tool.signature.parameters.values()},
        "return": bound.tool.signature.return_annotation,
    }
    return made  # type: ignore[no-any-return]


