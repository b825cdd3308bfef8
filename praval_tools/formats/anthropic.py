"""Anthropic Messages format: `{"name", "description", "input_schema"}`; results are blocks of a user's message."""

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
)
from praval_tools.formats.response_fields import (
    assign_call_ids,
    get_index,
    get_items,
    get_member,
    get_text,
    join_arguments,
)
from praval_tools.formats.schema_root import flatten_root
from praval_tools.formats.strict import StrictCost, StrictRules
from praval_tools.names import to_wire_name
from praval_tools.schema.json_values import replace_surrogates
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.content import Content

_IMAGE_TYPES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")

STRICT_RULES: Final = StrictRules(
    keywords={"minItems": lambda value: value in (0, 1)},
    formats=frozenset(
        ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
    ),
    type_lists=False, all_required=False, recursive=False, optional=24, unions=16,
)  # fmt: skip
STRICT_BUDGET: Final = StrictCost(tools=20, optional=24, unions=16)


def export_tool(offer: Offer) -> WireObject:
    """Return the tool as a member of `tools` in a messages request."""
    tool: WireObject = {
        "name": to_wire_name(offer.name),
        "description": replace_surrogates(offer.description),
        "input_schema": offer.parameters,
    }
    return {**tool, "strict": True} if offer.strict else tool


def parse_calls(response: object) -> list[ToolCall]:
    """Return the calls of a message, of its content blocks, or of streamed events."""
    items = get_items(response)
    if any(get_member(item, "type") == "content_block_start" for item in items):
        return assign_call_ids(_parse_stream(items))
    return assign_call_ids(_parse_blocks(items or get_items(response, "content")))


def _parse_blocks(blocks: Sequence[object]) -> Iterator[ToolCall]:
    for block in blocks:
        if get_member(block, "type") == "tool_use":
            yield ToolCall(get_member(block, "id"), get_text(block, "name"), get_member(block, "input"))


def _parse_stream(events: Sequence[object]) -> Iterator[ToolCall]:
    blocks: dict[int | None, object] = {}
    deltas: dict[int | None, object] = {}
    for event in events:
        kind, index = get_member(event, "type"), get_index(event, "index")
        if kind == "content_block_start":
            block = get_member(event, "content_block")
            if get_member(block, "type") == "tool_use":
                blocks[index], deltas[index] = block, ""
        elif kind == "content_block_delta" and index in blocks:
            deltas[index] = join_arguments(deltas[index], get_member(get_member(event, "delta"), "partial_json"))
    for index, block in blocks.items():
        yield ToolCall(get_member(block, "id"), get_text(block, "name"), deltas[index] or get_member(block, "input"))


def render_result(result: ToolResult) -> WireObject:
    """Return the block that answers one call; audio is described in words."""
    blocks = get_content_blocks(result)
    content = result.for_model() if blocks is None else list(map(_render_block, blocks))
    rendered: WireObject = {"type": "tool_result", "tool_use_id": require_call_id(result), "content": content}
    return rendered if result.success else {**rendered, "is_error": True}


def _render_block(block: Content) -> WireObject:
    source = {"type": "base64", "media_type": block.mime_type}
    if block.type == "image" and block.mime_type in _IMAGE_TYPES:
        return {"type": "image", "source": {**source, "data": encode_base64(block)}}
    if block.type == "resource" and block.data is not None and block.mime_type == "application/pdf":
        title = {"title": block.name} if block.name else {}
        return {"type": "document", "source": {**source, "data": encode_base64(block)}, **title}
    return {"type": "text", "text": replace_surrogates(block.described) or " "}


def render_results(results: Sequence[ToolResult]) -> list[WireObject]:
    """Return the one message that answers all calls of a reply."""
    return [{"role": "user", "content": [render_result(result) for result in results]}]


def render_assistant(calls: Sequence[ToolCall], text: str) -> list[WireObject]:
    """Return the message in which the model says something and makes the calls."""
    content: list[WireObject] = [{"type": "text", "text": text}] if text else []
    for call in calls:
        name, arguments = to_wire_name(call.name), to_arguments_object(call)
        content.append({"type": "tool_use", "id": require_call_id(call), "name": name, "input": arguments})
    return [{"role": "assistant", "content": content}]


FORMAT: Final = Format(
    name="anthropic", export=export_tool, calls=parse_calls, result=render_result, results=render_results,
    assistant=render_assistant, prepare=flatten_root, rules=STRICT_RULES, budget=STRICT_BUDGET,
)  # fmt: skip
