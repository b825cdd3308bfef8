"""OpenAI Responses: flat tools with a required `strict` key; calls and their outputs are items of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from praval_tools.formats.format import Format, Offer, WireObject, get_content_blocks, make_data_url, require_call_id
from praval_tools.formats.openai_common import STRICT_RULES, prepare_schema, to_arguments_text
from praval_tools.formats.response_fields import assign_call_ids, get_index, get_items, get_member, get_text
from praval_tools.names import to_wire_name
from praval_tools.schema.json_values import replace_surrogates
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.content import Content

_FINAL_EVENTS: Final = ("response.completed", "response.incomplete")


def export_tool(offer: Offer) -> WireObject:
    """Return the tool as a member of `tools` in a responses request."""
    return {
        "type": "function",
        "name": to_wire_name(offer.name),
        "description": replace_surrogates(offer.description),
        "parameters": offer.parameters,
        "strict": offer.strict,
    }


def parse_calls(response: Any) -> list[ToolCall]:
    """Return the calls of a response, of its output items, or of streamed events."""
    if isinstance(response, list | tuple) and any(get_text(one, "type").startswith("response.") for one in response):
        return assign_call_ids(_parse_stream(response))
    return assign_call_ids(_parse_items(get_items(response) or get_items(response, "output")))


def _parse_items(items: Sequence[Any]) -> Iterator[ToolCall]:
    for one in items:
        if get_member(one, "type") in ("function_call", "custom_tool_call"):
            yield ToolCall(
                get_member(one, "call_id", "id"), get_text(one, "name"), get_member(one, "arguments", "input")
            )


def _parse_stream(events: Sequence[Any]) -> Iterator[ToolCall]:
    """Read events: the whole response at the end counts, else the items that were done, else what arrived of them."""
    items: dict[int | None, WireObject] = {}
    for event in events:
        kind = get_text(event, "type")
        whole = get_items(get_member(event, "response"), "output") if kind in _FINAL_EVENTS else ()
        if whole:
            yield from _parse_items(whole)
            return
        at, item = get_index(event, "output_index"), get_member(event, "item")
        if kind in ("response.output_item.added", "response.output_item.done") and item is not None:
            if get_member(item, "type") in ("function_call", "custom_tool_call"):
                items[at] = {
                    "type": "function_call", "call_id": get_member(item, "call_id", "id"), "name": get_text(item, "name"),
                    "arguments": get_text(item, "arguments", "input"),
                }  # fmt: skip
        elif kind == "response.function_call_arguments.delta" and at in items:
            items[at]["arguments"] += get_text(event, "delta")
        elif kind == "response.function_call_arguments.done" and at in items:
            items[at]["arguments"] = get_text(event, "arguments")
    yield from _parse_items(list(items.values()))


def render_result(one: ToolResult) -> WireObject:
    """Return the item that answers one call; sounds are named in words."""
    blocks = get_content_blocks(one)
    output: Any = one.for_model() if blocks is None else list(map(_render_block, blocks))
    return {"type": "function_call_output", "call_id": require_call_id(one), "output": output}


def _render_block(block: Content) -> WireObject:
    if block.type == "image":
        return {"type": "input_image", "image_url": make_data_url(block), "detail": "auto"}
    if block.type == "resource" and block.data is not None and block.mime_type == "application/pdf":
        return {"type": "input_file", "filename": block.name or "file.pdf", "file_data": make_data_url(block)}
    return {"type": "input_text", "text": replace_surrogates(block.described)}


def render_results(many: Sequence[ToolResult]) -> list[WireObject]:
    """Return the items that answer the calls of one reply."""
    return [render_result(one) for one in many]


def render_assistant(made: Sequence[ToolCall], text: str) -> list[WireObject]:
    """Return the items in which the model says something and makes the calls."""
    said: list[WireObject] = [{"role": "assistant", "content": text}] if text else []
    return said + [
        {
            "type": "function_call", "call_id": require_call_id(one), "name": to_wire_name(one.name),
            "arguments": to_arguments_text(one),
        }
        for one in made
    ]  # fmt: skip


def render_user(text: str) -> WireObject:
    """Return what a person says as an input item."""
    return {"role": "user", "content": text}


FORMAT: Final = Format(
    name="openai-responses", export=export_tool, calls=parse_calls, result=render_result, results=render_results, assistant=render_assistant,
    user=render_user, prepare=prepare_schema, rules=STRICT_RULES,
)  # fmt: skip
