"""OpenAI Responses format: flat tools with a required `strict` key; calls and their outputs are items of their own."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Final

from praval_tools.formats.deferred_loading import SEARCH_TOOL_NAME
from praval_tools.formats.format import Format, Offer, WireObject, get_content_blocks, make_data_url, require_call_id
from praval_tools.formats.openai_common import STRICT_RULES, prepare_schema, to_arguments_text
from praval_tools.formats.response_fields import (
    assign_call_ids,
    get_index,
    get_items,
    get_member,
    get_text,
    join_arguments,
)
from praval_tools.names import to_wire_name
from praval_tools.schema.json_values import replace_surrogates
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.content import Content

_FINAL_EVENTS: Final = ("response.completed", "response.incomplete")
_ITEM_EVENTS: Final = ("response.output_item.added", "response.output_item.done")
_CALL_TYPES: Final = ("function_call", "custom_tool_call")


def export_tool(offer: Offer) -> WireObject:
    """Return the tool as a member of `tools` in a responses request."""
    return {
        "type": "function",
        "name": to_wire_name(offer.name),
        "description": replace_surrogates(offer.description),
        "parameters": offer.parameters,
        "strict": offer.strict,
    }


def parse_calls(response: object) -> list[ToolCall]:
    """Return the calls of a response, of its output items, or of streamed events."""
    items = get_items(response)
    if any(get_text(item, "type").startswith("response.") for item in items):
        return assign_call_ids(_parse_stream(items))
    return assign_call_ids(_parse_items(items or get_items(response, "output")))


def is_search_call(item: object) -> bool:
    """Tell whether an item is a search for tools that this side executes; those of the provider are its own affair."""
    return get_text(item, "type") == "tool_search_call" and get_text(item, "execution") == "client"


def _parse_items(items: Sequence[object]) -> Iterator[ToolCall]:
    for item in items:
        if is_search_call(item):
            yield ToolCall(get_member(item, "call_id", "id"), SEARCH_TOOL_NAME, get_member(item, "arguments"))
        elif get_member(item, "type") in _CALL_TYPES:
            arguments = get_member(item, "arguments", "input")
            yield ToolCall(get_member(item, "call_id", "id"), get_text(item, "name"), arguments)


def _parse_stream(events: Sequence[object]) -> Iterator[ToolCall]:
    """Read the whole response at the end of the stream, else the finished items, else what arrived of them."""
    items: dict[Hashable, WireObject] = {}
    for event in events:
        kind = get_text(event, "type")
        if kind in _FINAL_EVENTS and (output := get_items(get_member(event, "response"), "output")):
            yield from _parse_items(output)
            return
        index, item = get_index(event, "output_index"), get_member(event, "item")
        key = index if index is not None else get_text(item, "id") or get_text(event, "item_id")
        if kind in _ITEM_EVENTS and is_search_call(item):
            items[key] = item
        elif kind in _ITEM_EVENTS and get_member(item, "type") in _CALL_TYPES:
            items[key] = {
                "type": "function_call",
                "call_id": get_member(item, "call_id", "id"),
                "name": get_text(item, "name"),
                "arguments": get_member(item, "arguments", "input") or items.get(key, {}).get("arguments", ""),
            }
        elif kind == "response.function_call_arguments.delta" and key in items:
            items[key]["arguments"] = join_arguments(items[key]["arguments"], get_member(event, "delta"))
        elif kind == "response.function_call_arguments.done" and key in items:
            items[key]["arguments"] = get_member(event, "arguments") or items[key]["arguments"]
    yield from _parse_items(list(items.values()))


def render_result(result: ToolResult) -> WireObject:
    """Return the item that answers one call; audio is described in words."""
    blocks = get_content_blocks(result)
    output = result.for_model() if blocks is None else list(map(_render_block, blocks))
    return {"type": "function_call_output", "call_id": require_call_id(result), "output": output}


def _render_block(block: Content) -> WireObject:
    if block.type == "image":
        return {"type": "input_image", "image_url": make_data_url(block), "detail": "auto"}
    if block.type == "resource" and block.data is not None and block.mime_type == "application/pdf":
        return {"type": "input_file", "filename": block.name or "file.pdf", "file_data": make_data_url(block)}
    return {"type": "input_text", "text": replace_surrogates(block.described)}


def render_assistant(calls: Sequence[ToolCall], text: str) -> list[WireObject]:
    """Return the items in which the model says something and makes the calls."""
    items: list[WireObject] = [{"role": "assistant", "content": text}] if text else []
    for call in calls:
        name, arguments = to_wire_name(call.name), to_arguments_text(call)
        items.append({"type": "function_call", "call_id": require_call_id(call), "name": name, "arguments": arguments})
    return items


FORMAT: Final = Format(
    name="openai-responses", export=export_tool, calls=parse_calls, result=render_result,
    assistant=render_assistant, prepare=prepare_schema, rules=STRICT_RULES,
)  # fmt: skip
