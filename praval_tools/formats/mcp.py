"""Model Context Protocol: a `Tool` as `tools/list` gives it; ownership travels in `_meta`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from praval_tools.formats.format import (
    Format,
    Offer,
    Wire,
    arguments_of,
    base64_of,
    id_of,
    json_value,
    shown_blocks,
    writable,
)
from praval_tools.formats.response_fields import items_of, numbered, of, text_of
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.content import Content


def export(offer: Offer) -> Wire:
    """Return the tool as an MCP server lists it; a title is always sent."""
    metadata = offer.metadata
    made: Wire = {
        "name": offer.name,
        "title": writable(getattr(metadata, "title", "")) or offer.name,
        "description": writable(offer.description),
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


def calls(response: Any) -> list[ToolCall]:
    """Return the calls of a `tools/call` request, or of several."""
    return numbered(_calls(response))


def _calls(request: Any) -> Iterator[ToolCall]:
    for one in items_of(request) or [request]:
        params = of(one, "params") or one
        if of(one, "method") in (None, "tools/call") and of(params, "name") is not None:
            given = of(one, "id")
            call_id = given if isinstance(given, str) or given is None else str(given)
            yield ToolCall(call_id, text_of(params, "name"), of(params, "arguments"))


def result(one: ToolResult) -> Wire:
    """Return the result as `tools/call` answers; a value that is an object is given as structured content, too."""
    blocks = shown_blocks(one)
    content = [_part(Content.of_text(one.for_model()))] if blocks is None else list(map(_part, blocks))
    made: Wire = {"content": content, "isError": not one.success}
    if one.success and blocks is None and isinstance(value := json_value(one), dict):
        made["structuredContent"] = value
    return made


def _part(block: Content) -> Wire:
    if block.type in ("image", "audio"):
        return {"type": block.type, "data": base64_of(block), "mimeType": block.mime_type}
    if block.type == "text":
        return {"type": "text", "text": writable(block.text or "")}
    kind = {"mimeType": block.mime_type} if block.mime_type else {}
    if block.type == "resource_link":
        return {"type": "resource_link", "uri": block.uri, "name": block.name, **kind}
    held = {"text": writable(block.text)} if block.text is not None else {"blob": base64_of(block)}
    return {"type": "resource", "resource": {"uri": block.uri, **kind, **held}}


def results(many: Sequence[ToolResult]) -> list[Wire]:
    """Return one result a call."""
    return [result(one) for one in many]


def assistant(made: Sequence[ToolCall], text: str) -> list[Wire]:
    """Return the `tools/call` requests; there is no place for what the model said."""
    return [
        {
            "jsonrpc": "2.0", "id": id_of(one), "method": "tools/call",
            "params": {"name": one.name, "arguments": arguments_of(one)},
        }
        for one in made
    ]  # fmt: skip


def user(text: str) -> Wire:
    """Return what a person says as a message of a prompt."""
    return {"role": "user", "content": {"type": "text", "text": text}}


def prepare(schema: Wire) -> Wire:
    """Return a schema with `type: object` at its root, which all versions of the protocol ask for."""
    return schema if schema.get("type") == "object" else {**schema, "type": "object"}


FORMAT: Final = Format(
    name="mcp", export=export, calls=calls, result=result, results=results, assistant=assistant, user=user,
    prepare=prepare,
)  # fmt: skip
