"""Model Context Protocol: a `Tool` as `tools/list` gives it; ownership travels in `_meta`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

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
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.content import Content


def export_tool(offer: Offer) -> WireObject:
    """Return the tool as an MCP server lists it; a title is always sent."""
    metadata = offer.metadata
    made: WireObject = {
        "name": offer.name,
        "title": replace_surrogates(getattr(metadata, "title", "")) or offer.name,
        "description": replace_surrogates(offer.description),
        "inputSchema": offer.parameters,
    }
    whole = getattr(metadata, "max_result_size", None) is None  # what may be cut need not fit its schema
    if whole and offer.result is not None and offer.result.get("type") == "object":
        made["outputSchema"] = offer.result
    if metadata is not None:
        hints = {
            "readOnlyHint": metadata.read_only,
            "destructiveHint": metadata.destructive,
            "idempotentHint": metadata.idempotent,
            "openWorldHint": metadata.open_world,
        }
        known = {key: value for key, value in hints.items() if value is not None}
        if known:
            made["annotations"] = known
        if metadata.owned_by:
            made["_meta"] = {"praval/owner": metadata.owned_by}
    return made


def parse_calls(response: Any) -> list[ToolCall]:
    """Return the calls of a `tools/call` request, or of several."""
    return assign_call_ids(_iter_calls(response))


def _iter_calls(request: Any) -> Iterator[ToolCall]:
    for one in get_items(request) or [request]:
        params = get_member(one, "params") or one
        if get_member(one, "method") in (None, "tools/call") and get_member(params, "name") is not None:
            given = get_member(one, "id")
            call_id = given if isinstance(given, str) or given is None else str(given)
            yield ToolCall(call_id, get_text(params, "name"), get_member(params, "arguments"))


def render_result(one: ToolResult) -> WireObject:
    """Return the result as `tools/call` answers; a value that is an object is given as structured content, too."""
    blocks = get_content_blocks(one)
    content = [_render_block(Content.of_text(one.for_model()))] if blocks is None else list(map(_render_block, blocks))
    made: WireObject = {"content": content, "isError": not one.success}
    if one.success and blocks is None and isinstance(value := to_json_value(one), dict):
        made["structuredContent"] = value
    return made


def _render_block(block: Content) -> WireObject:
    if block.type in ("image", "audio"):
        return {"type": block.type, "data": encode_base64(block), "mimeType": block.mime_type}
    if block.type == "text":
        return {"type": "text", "text": replace_surrogates(block.text or "")}
    kind = {"mimeType": block.mime_type} if block.mime_type else {}
    if block.type == "resource_link":
        return {"type": "resource_link", "uri": block.uri, "name": block.name, **kind}
    held = {"text": replace_surrogates(block.text)} if block.text is not None else {"blob": encode_base64(block)}
    return {"type": "resource", "resource": {"uri": block.uri, **kind, **held}}


def render_results(many: Sequence[ToolResult]) -> list[WireObject]:
    """Return one result a call."""
    return [render_result(one) for one in many]


def render_assistant(made: Sequence[ToolCall], text: str) -> list[WireObject]:
    """Return the `tools/call` requests; there is no place for what the model said."""
    return [
        {
            "jsonrpc": "2.0", "id": require_call_id(one), "method": "tools/call",
            "params": {"name": one.name, "arguments": to_arguments_object(one)},
        }
        for one in made
    ]  # fmt: skip


def render_user(text: str) -> WireObject:
    """Return what a person says as a message of a prompt."""
    return {"role": "user", "content": {"type": "text", "text": text}}


def prepare_schema(schema: WireObject) -> WireObject:
    """Return a schema with `type: object` at its root, which all versions of the protocol ask for."""
    return schema if schema.get("type") == "object" else {**schema, "type": "object"}


FORMAT: Final = Format(
    name="mcp", export=export_tool, calls=parse_calls, result=render_result, results=render_results, assistant=render_assistant, user=render_user,
    prepare=prepare_schema,
)  # fmt: skip
