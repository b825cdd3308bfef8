"""Lists the tools of one agent for MCP clients, cached until they change, and renders the results of their calls."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, cast
from weakref import WeakKeyDictionary

import mcp_types as types
from attrs import field, frozen
from mcp_types.methods import SERVER_RESULTS

from praval_tools.access.records import Principal
from praval_tools.formats.format import WireObject, to_json_value
from praval_tools.formats.mcp import render_result
from praval_tools.registry.toolset import Toolset, get_executor
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.validator import Validator
from praval_tools.tools.call import ToolResult
from praval_tools.tools.tool import AnyTool

_MAX_LISTINGS: Final = 1_024
"""Agents whose lists are kept; the list of another is built anew when it is asked for."""

_EMPTY_ANSWER: Final = types.ListToolsResult(tools=[]).model_dump(mode="json", by_alias=True, exclude_none=True)


@frozen(kw_only=True)
class ToolOutput:
    """
    What a tool promises of its results.

    Args:
        schema: What clients are shown; they refuse a result that does not fit it.
        is_wrapped: The value stands under `result`, since it is not an object.
        validator: Checks what is sent.
    """

    schema: JsonSchema
    is_wrapped: bool
    validator: Validator


@frozen(kw_only=True, eq=False)
class ToolListing:
    """
    The list of one agent's tools, of one moment.

    Args:
        text: The tools as the registry exports them; the same object until one of them changes.
        tools: The tools as they are sent.
    """

    text: bytes
    tools: list[WireObject]
    _models: dict[type[types.ListToolsResult], list[types.Tool]] = field(factory=dict, init=False)

    def build_answer(self, version: str) -> dict[str, object]:
        """
        Return the answer to `tools/list` by a version of the protocol.

        The SDK checks each answer against its models of the version; it passes over tools that are such models.
        """
        model = cast("type[types.ListToolsResult]", SERVER_RESULTS["tools/list", version])
        if model not in self._models:
            self._models[model] = model.model_validate({**_EMPTY_ANSWER, "tools": self.tools}, by_name=False).tools
        return {**_EMPTY_ANSWER, "tools": self._models[model]}


class ListingCache:
    """The lists of the agents that are served, each built once and kept until one of its tools changes."""

    def __init__(self) -> None:
        self._listings: OrderedDict[Principal, ToolListing] = OrderedDict()
        self._outputs: WeakKeyDictionary[AnyTool, ToolOutput | None] = WeakKeyDictionary()

    def get(self, toolset: Toolset) -> ToolListing:
        """Return the list of an agent's tools as it is now."""
        text, principal = toolset.schemas_json("mcp"), toolset.principal
        listing = self._listings.get(principal)
        if listing is None or listing.text is not text:
            listing = self._listings[principal] = ToolListing(text=text, tools=self._build_tools(toolset))
        self._listings.move_to_end(principal)
        if len(self._listings) > _MAX_LISTINGS:
            self._listings.popitem(last=False)
        return listing

    def find_output(self, toolset: Toolset, name: str) -> ToolOutput | None:
        """Return what a tool promises of its results, or None where it promises nothing or does not exist."""
        tool = _find_tool(toolset, name)
        if tool is None or get_executor(toolset).runtime.get_max_result_size(tool) is not None:
            return None  # a shortened result need not fit
        if tool not in self._outputs:
            self._outputs[tool] = _build_output(tool)
        return self._outputs[tool]

    def _build_tools(self, toolset: Toolset) -> list[WireObject]:
        tools = toolset.schemas("mcp")
        for tool in tools:
            tool.pop("outputSchema", None)
            if (output := self.find_output(toolset, tool["name"])) is not None:
                tool["outputSchema"] = output.schema
        return tools


def find_input_schema(toolset: Toolset, name: str) -> JsonSchema | None:
    """Return the schema of the arguments of one of an agent's tools; None where it has no such tool."""
    tool = _find_tool(toolset, name) if name in toolset else None
    return None if tool is None else tool.implementation.compiled.parameters_schema


def render_answer(result: ToolResult, output: ToolOutput | None) -> dict[str, object]:
    """Return the answer to a call of a tool that promises *output*; the SDK checks it."""
    answer = {"resultType": "complete", **render_result(result)}
    if result.success and output is not None:
        value = to_json_value(result)
        answer["structuredContent"] = structured = {"result": value} if output.is_wrapped else value
        if not isinstance(structured, dict) or not output.validator.is_valid(structured):
            text = f"Tool {result.name!r} ran, and its result does not fit its declared type: {result.for_model()}"
            return {"resultType": "complete", "content": [{"type": "text", "text": text}], "isError": True}
    return answer


def _find_tool(toolset: Toolset, name: str) -> AnyTool | None:
    """Return a tool of the registry, whoever may call it; None where there is none that has a schema."""
    state = get_executor(toolset).runtime.access_store.get_fresh_state()
    record = state.find_tool_record(state.resolve_tool_name(name))
    return record.tool if record is not None and record.tool.implementation.is_compilable else None


def _build_output(tool: AnyTool) -> ToolOutput | None:
    """Return what a tool promises: values that are no objects under `result`, as MCP's own SDKs have it."""
    schema = tool.result_schema
    if schema is None:
        return None
    is_wrapped = schema.get("type") != "object"
    if is_wrapped:
        definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
        schema = {"type": "object", "properties": {"result": schema}, "required": ["result"], **definitions}
    return ToolOutput(schema=schema, is_wrapped=is_wrapped, validator=Validator(schema))
