"""Model Context Protocol format: a `Tool` as `tools/list` gives it; ownership travels in `_meta`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from praval_tools.formats.format import (
    Format,
    Offer,
    WireObject,
    encode_base64,
    get_content_blocks,
    require_call_id,
    to_arguments_object,
    to_json_value,
)
from praval_tools.formats.response_fields import assign_call_ids, get_items, get_member, get_text
from praval_tools.schema.json_values import replace_surrogates
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.content import Content


def export_tool(offer: Offer) -> WireObject:
    """Return the tool as an MCP server lists it; a title is always sent."""
    metadata = offer.metadata
    tool: WireObject = {
        "name": offer.name,
        "title": replace_surrogates(getattr(metadata, "title", "")) or offer.name,
        "description": replace_surrogates(offer.description),
        "inputSchema": offer.parameters,
    }
    is_whole = getattr(metadata, "max_result_size", None) is None  # a shortened result need not fit its schema
    if is_whole and offer.result is not None and offer.result.get("type") == "object":
        tool["outputSchema"] = offer.result
    if metadata is not None:
        hints = {
            "readOnlyHint": metadata.read_only,
            "destructiveHint": metadata.destructive,
            "idempotentHint": metadata.idempotent,
            "openWorldHint": metadata.open_world,
        }
        if known := {key: value for key, value in hints.items() if value is not None}:
            tool["annotations"] = known
        tool["_meta"] = {"praval/category": metadata.category, "praval/risk": metadata.risk_level}
        if metadata.owned_by:
            tool["_meta"]["praval/owner"] = metadata.owned_by
    return tool


def parse_calls(response: object) -> list[ToolCall]:
    """Return the calls of a `tools/call` request, or of several."""
    return assign_call_ids(_iter_calls(response))


def _iter_calls(response: object) -> Iterator[ToolCall]:
    for request in get_items(response) or [response]:
        params = get_member(request, "params") or request
        if get_member(request, "method") in (None, "tools/call") and get_member(params, "name") is not None:
            request_id = get_member(request, "id")
            call_id = request_id if isinstance(request_id, str) or request_id is None else str(request_id)
            yield ToolCall(call_id, get_text(params, "name"), get_member(params, "arguments"))


def render_result(result: ToolResult) -> WireObject:
    """Return the result as `tools/call` answers; a value that is an object is given as structured content, too."""
    blocks = get_content_blocks(result)
    content = list(map(_render_block, [Content.of_text(result.for_model())] if blocks is None else blocks))
    rendered: WireObject = {"content": content, "isError": not result.success}
    if result.success and blocks is None and isinstance(value := to_json_value(result), dict):
        rendered["structuredContent"] = value
    return rendered


def _render_block(block: Content) -> WireObject:
    if block.type in ("image", "audio"):
        return {"type": block.type, "data": encode_base64(block), "mimeType": block.mime_type}
    if block.type == "text":
        return {"type": "text", "text": replace_surrogates(block.text or "")}
    mime_type = {"mimeType": block.mime_type} if block.mime_type else {}
    if block.type == "resource_link":
        return {"type": "resource_link", "uri": block.uri, "name": block.name, **mime_type}
    data = {"text": replace_surrogates(block.text)} if block.text is not None else {"blob": encode_base64(block)}
    return {"type": "resource", "resource": {"uri": block.uri, **mime_type, **data}}


def render_assistant(calls: Sequence[ToolCall], text: str) -> list[WireObject]:
    """Return the `tools/call` requests; there is no place for the text of the model."""
    return [
        {
            "jsonrpc": "2.0",
            "id": require_call_id(call),
            "method": "tools/call",
            "params": {"name": call.name, "arguments": to_arguments_object(call)},
        }
        for call in calls
    ]


def render_user(text: str) -> WireObject:
    """Return what a person says as a message of a prompt."""
    return {"role": "user", "content": {"type": "text", "text": text}}


def prepare_schema(schema: JsonSchema) -> JsonSchema:
    """Return a schema with `type: object` at its root, which all versions of the protocol ask for."""
    return schema if schema.get("type") == "object" else {**schema, "type": "object"}


FORMAT: Final = Format(
    name="mcp", export=export_tool, calls=parse_calls, result=render_result,
    assistant=render_assistant, user=render_user, prepare=prepare_schema,
)  # fmt: skip
