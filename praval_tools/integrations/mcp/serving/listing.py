"""Lists the tools of one agent for MCP clients, cached until they change, and renders the results of their calls."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

import mcp_types as types
from attrs import frozen

from praval_tools.access.records import Principal
from praval_tools.formats.format import to_json_value
from praval_tools.formats.mcp import render_result
from praval_tools.names import to_wire_name
from praval_tools.registry.toolset import AnyBoundTool, Toolset, get_executor
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.validator import Validator
from praval_tools.tools.call import ToolResult

_MAX_LISTINGS: Final = 1_024
"""Agents whose lists are kept; the list of another is built anew when it is asked for."""


@frozen(kw_only=True)
class ToolOutput:
    """
    What a tool promises of its results.

    Args:
        is_wrapped: The value stands under `result`, since it is not an object.
        validator: Checks what is sent; clients refuse what does not fit the schema that they were shown.
    """

    is_wrapped: bool
    validator: Validator


@frozen(kw_only=True, eq=False)
class ToolListing:
    """
    The list of one agent's tools, of one moment.

    Args:
        text: The tools as the registry exports them; the same object until one of them changes.
        tools: The answer to `tools/list`.
        outputs: What tools promise of their results, by their names and the names that clients may send for them.
    """

    text: bytes
    tools: types.ListToolsResult
    outputs: Mapping[str, ToolOutput]

    def find_input_schema(self, name: str) -> JsonSchema | None:
        """Return the schema of the arguments of a tool; None where the list has no such tool."""
        return next((tool.input_schema for tool in self.tools.tools if tool.name == name), None)

    def render(self, result: ToolResult) -> types.CallToolResult:
        """Return the answer to a call of one of the tools."""
        answer = render_result(result)
        output = self.outputs.get(result.name)
        if result.success and output is not None:
            value = to_json_value(result)
            answer["structuredContent"] = structured = {"result": value} if output.is_wrapped else value
            if not isinstance(structured, dict) or not output.validator.is_valid(structured):
                text = f"Tool {result.name!r} ran, and its result does not fit its declared type: {result.for_model()}"
                return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)
        return types.CallToolResult.model_validate(answer)


class ListingCache:
    """The lists of the agents that are served, each built once and kept until one of its tools changes."""

    def __init__(self) -> None:
        self._listings: OrderedDict[Principal, ToolListing] = OrderedDict()

    def get(self, toolset: Toolset) -> ToolListing:
        """Return the list of an agent's tools as it is now."""
        text, principal = toolset.schemas_json("mcp"), toolset.principal
        listing = self._listings.get(principal)
        if listing is None or listing.text is not text:
            listing = self._listings[principal] = _build_listing(toolset, text)
        self._listings.move_to_end(principal)
        if len(self._listings) > _MAX_LISTINGS:
            self._listings.popitem(last=False)
        return listing


def _build_listing(toolset: Toolset, text: bytes) -> ToolListing:
    tools = types.ListToolsResult.model_validate({"tools": toolset.schemas("mcp")})
    outputs: dict[str, ToolOutput] = {}
    may_shorten_all = get_executor(toolset).runtime.options.max_result_size is not None
    for tool in tools.tools:
        is_wrapped = tool.output_schema is None
        if may_shorten_all:  # a shortened result need not fit
            tool.output_schema = None
        elif is_wrapped:
            tool.output_schema = _build_wrapped_schema(toolset.get(tool.name))
        if tool.output_schema is not None:
            output = ToolOutput(is_wrapped=is_wrapped, validator=Validator(tool.output_schema))
            outputs[tool.name] = outputs[to_wire_name(tool.name)] = output
    return ToolListing(text=text, tools=tools, outputs=outputs)


def _build_wrapped_schema(bound: AnyBoundTool | None) -> JsonSchema | None:
    """Return the schema of results that are no objects, under `result` as MCP's own SDKs have it; None: no promise."""
    if bound is None or bound.tool.metadata.max_result_size is not None:
        return None
    schema = bound.tool.result_schema
    if schema is None or schema.get("type") == "object":
        return None
    definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
    return {"type": "object", "properties": {"result": schema}, "required": ["result"], **definitions}
