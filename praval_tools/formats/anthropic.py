"""Anthropic Messages: `{"name", "description", "input_schema"}`; results are blocks of a user's message."""

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
)
from praval_tools.formats.response_fields import assign_call_ids, get_index, get_items, get_member, get_text
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
    made: WireObject = {
        "name": to_wire_name(offer.name), "description": replace_surrogates(offer.description), "input_schema": offer.parameters,
    }  # fmt: skip
    if offer.strict:
        made["strict"] = True
    return made


def parse_calls(response: Any) -> list[ToolCall]:
    """Return the calls of a message, of its content blocks, or of streamed events."""
    if isinstance(response, list | tuple) and any(get_member(one, "type") == "content_block_start" for one in response):
        return assign_call_ids(_parse_stream(response))
    return assign_call_ids(_parse_blocks(get_items(response) or get_items(response, "content")))


def _parse_blocks(blocks: Sequence[Any]) -> Iterator[ToolCall]:
    for one in blocks:
        if get_member(one, "type") == "tool_use":
            yield ToolCall(get_member(one, "id"), get_text(one, "name"), get_member(one, "input"))


def _parse_stream(events: Sequence[Any]) -> Iterator[ToolCall]:
    blocks: dict[int | None, WireObject] = {}
    for event in events:
        kind, at = get_member(event, "type"), get_index(event, "index")
        if kind == "content_block_start":
            block = get_member(event, "content_block")
            if get_member(block, "type") == "tool_use":
                blocks[at] = {"id": get_member(block, "id"), "name": get_text(block, "name"), "begun": get_member(block, "input"),
                              "text": ""}  # fmt: skip
        elif kind == "content_block_delta" and at in blocks:
            blocks[at]["text"] += get_text(get_member(event, "delta"), "partial_json")
    for one in blocks.values():
        yield ToolCall(one["id"], one["name"], one["text"] or one["begun"])


def render_result(one: ToolResult) -> WireObject:
    """Return the block that answers one call; sounds are named in words."""
    blocks = get_content_blocks(one)
    content: Any = one.for_model() if blocks is None else list(map(_render_block, blocks))
    made: WireObject = {"type": "tool_result", "tool_use_id": require_call_id(one), "content": content}
    if not one.success:
        made["is_error"] = True
    return made


def _render_block(block: Content) -> WireObject:
    if block.type == "image" and block.mime_type in _IMAGE_TYPES:
        source = {"type": "base64", "media_type": block.mime_type, "data": encode_base64(block)}
        return {"type": "image", "source": source}
    if block.type == "resource" and block.data is not None and block.mime_type == "application/pdf":
        source = {"type": "base64", "media_type": block.mime_type, "data": encode_base64(block)}
        return {"type": "document", "source": source, **({"title": block.name} if block.name else {})}
    return {"type": "text", "text": replace_surrogates(block.described) or " "}


def render_results(many: Sequence[ToolResult]) -> list[WireObject]:
    """Return the one message that answers all calls of a reply."""
    return [{"role": "user", "content": [render_result(one) for one in many]}]


def render_assistant(made: Sequence[ToolCall], text: str) -> list[WireObject]:
    """Return the message in which the model says something and makes the calls."""
    said: list[WireObject] = [{"type": "text", "text": text}] if text else []
    blocks = [
        {
            "type": "tool_use",
            "id": require_call_id(one),
            "name": to_wire_name(one.name),
            "input": to_arguments_object(one),
        }
        for one in made
    ]
    return [{"role": "assistant", "content": said + blocks}]


def render_user(text: str) -> WireObject:
    """Return what a person says as a message."""
    return {"role": "user", "content": text}


FORMAT: Final = Format(
    name="anthropic", export=export_tool, calls=parse_calls, result=render_result, results=render_results, assistant=render_assistant, user=render_user,
    prepare=flatten_root, rules=STRICT_RULES, budget=STRICT_BUDGET,
)  # fmt: skip
