"""A tool bound to one agent, which checks each call; also as a plain function for frameworks that want functions."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from praval_tools.access.records import Principal
from praval_tools.errors import ToolCallError, ToolUsageError
from praval_tools.names import format_count, to_wire_name
from praval_tools.registry.function_parameters import build_signature, list_hidden_defaults
from praval_tools.registry.schema_parameters import omit_none
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.tools.implementation import ToolImplementation
from praval_tools.tools.metadata import ToolMetadata
from praval_tools.tools.tool import AnyTool, Tool

if TYPE_CHECKING:
    from praval_tools.execution.fast_function_cache import FastFunctionCache

P = ParamSpec("P")
R = TypeVar("R")


class BoundTool(Generic[P, R]):
    """
    A tool of one agent; holding it grants nothing, every call is decided anew.

    It takes the function's own Python types as well as JSON.
    Raises what `Toolset.call` raises.
    """

    __slots__ = ("_fast_cache", "_implementation", "_name", "_principal", "_sync_functions", "_tool")

    def __init__(self, principal: Principal, tool: Tool[P, R], cache: FastFunctionCache) -> None:
        self._principal = principal
        self._fast_cache, self._sync_functions = cache, cache.sync_functions
        self._tool, self._name, self._implementation = _ToolDescription(tool), tool.name, tool.implementation

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        arguments: dict[str, object] = self._to_keywords(args, kwargs) if args else kwargs
        try:
            function = self._sync_functions[self._name]
        except KeyError:
            function = self._fast_cache.find_function(self._name)
        return function(arguments, None)  # type: ignore[no-any-return]

    async def acall(self, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Call the tool from async code."""
        arguments = self._to_keywords(args, kwargs)
        return await self._fast_cache.find_function(self._name, is_async=True)(arguments, None)

    def _to_keywords(self, args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, object]:
        if not args:
            return kwargs
        names = _list_positional_names(self._implementation)
        if len(args) > len(names):
            count = format_count(len(names), "argument")
            raise ToolUsageError(f"Tool {self.name!r} takes {count} by position, not {len(args)}.")
        repeated = [name for name in names[: len(args)] if name in kwargs]
        if repeated:
            raise ToolUsageError(f"Tool {self.name!r} got {repeated[0]!r} twice: by its position and by its name.")
        return {**dict(zip(names, args, strict=False)), **kwargs}

    @property
    def name(self) -> str:
        """The tool's name."""
        return self._name

    @property
    def tool(self) -> _ToolDescription:
        """What is shown of the tool."""
        return self._tool

    @property
    def description(self) -> str:
        """What a model reads."""
        return str(self.tool.description)

    @property
    def metadata(self) -> ToolMetadata:
        """The tool's metadata."""
        metadata: ToolMetadata = self.tool.metadata
        return metadata

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        return dict(self.tool.parameters)

    @property
    def blank_schema(self) -> JsonSchema:
        """`parameters` with null as each default, also as those that are hidden: it says that there are any."""
        return copy.deepcopy(self._implementation.compiled.blank_schema)

    def __repr__(self) -> str:
        return f"<BoundTool {self.name} for {self._principal.agent!r}>"


def make_function(bound: BoundTool[P, R], failure: Callable[[str], object] | None = None) -> Callable[P, Any]:
    """
    Return a real function with the tool's signature; each call is decided anew.

    Args:
        bound: The tool, of one agent.
        failure: Makes what a failed call raises or returns, as `Toolset.functions` says.
    """
    implementation = bound._implementation
    signature = build_signature(implementation)
    omitted = list_hidden_defaults(implementation, signature)
    call: Callable[..., object] = bound
    call_later: Callable[..., Awaitable[object]] = bound.acall

    async def call_async(*args: P.args, **kwargs: P.kwargs) -> object:
        try:
            return await call_later(**omit_none(bound._to_keywords(args, kwargs), omitted))
        except ToolCallError as error:
            return _convert_failure(error, failure)

    def call_sync(*args: P.args, **kwargs: P.kwargs) -> object:
        try:
            return call(**omit_none(bound._to_keywords(args, kwargs), omitted))
        except ToolCallError as error:
            return _convert_failure(error, failure)

    function: Any = call_async if bound.tool.is_async else call_sync
    function.__name__ = function.__qualname__ = to_wire_name(bound.name)
    doc = inspect.cleandoc(bound.tool.doc or "")
    function.__module__ = implementation.module
    function.__doc__ = doc if doc.startswith(bound.description) else bound.description
    function.__signature__ = signature
    hints = {parameter.name: parameter.annotation for parameter in signature.parameters.values()}
    function.__annotations__ = {name: hint for name, hint in hints.items() if hint is not signature.empty}
    if implementation.supplied_schema is None:
        function.__annotations__["return"] = signature.return_annotation
    return function  # type: ignore[no-any-return]


def _convert_failure(error: ToolCallError, failure: Callable[[str], object] | None) -> object:
    """Return what a failed call returns, or raise what it raises."""
    if failure is None:
        raise error
    made = failure(error.result.for_model())
    if isinstance(made, BaseException):
        raise made from error
    return made


_DESCRIBED_ATTRIBUTES = frozenset(
    (
        "name", "description", "parameters", "metadata", "doc", "signature", "is_async", "namespace", "method_name",
        "qualified_name", "json_schema", "definition", "fingerprint", "result_schema",
    )
)  # fmt: skip


class _ToolDescription:
    """What a bound tool shows of its tool: everything but the function."""

    __slots__ = ("__tool",)

    def __init__(self, tool: AnyTool) -> None:
        self.__tool = tool

    def __getattr__(self, name: str) -> Any:
        if name == "signature":  # that of the function has defaults that are hidden
            return build_signature(self.__tool.implementation)
        if name in _DESCRIBED_ATTRIBUTES:
            return getattr(self.__tool, name)
        raise AttributeError(f"{name!r} is not shown of a bound tool; ask the registry for the tool itself")


def _list_positional_names(implementation: ToolImplementation) -> list[str]:
    """Return the names of the parameters that can be passed by position."""
    if implementation.supplied_schema is not None or not implementation.is_compilable:
        return list((implementation.supplied_schema or {}).get("properties", ()))
    parameters = implementation.signature.parameters
    return [parameter.name for parameter in parameters if parameter.kind == "normal" and not parameter.keyword_only]
