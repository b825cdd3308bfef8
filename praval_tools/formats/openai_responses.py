"""OpenAI Responses: flat tools with a required `strict` key; calls and their outputs are items of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from praval_tools.formats.format import Format, Offer, Wire, data_url, id_of, shown_blocks, writable
from praval_tools.formats.openai_common import STRICT, arguments_text, prepare
from praval_tools.formats.response_fields import index_of, items_of, numbered, of, text_of
from praval_tools.names import wire_name
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.content import Content

_LAST: Final = ("response.completed", "response.incomplete")


def export(offer: Offer) -> Wire:
    """Return the tool as a member of `tools` in a responses request."""
    return {
        "type": "function",
        "name": wire_name(offer.name),
        "description": writable(offer.description),
        "parameters": offer.parameters,
        "strict": offer.strict,
    }


def calls(response: Any) -> list[ToolCall]:
    """Return the calls of a response, of its output items, or of streamed events."""
    if isinstance(response, list | tuple) and any(text_of(one, "type").startswith("response.") for one in response):
        return numbered(_streamed(response))
    return numbered(_items(items_of(response) or items_of(response, "output")))


def _items(items: Sequence[Any]) -> Iterator[ToolCall]:
    for one in items:
        if of(one, "type") in ("function_call", "custom_tool_call"):
            yield ToolCall(of(one, "call_id", "id"), text_of(one, "name"), of(one, "arguments", "input"))


def _streamed(events: Sequence[Any]) -> Iterator[ToolCall]:
    """Read events: the whole response at the end counts, else the items that were done, else what arrived of them."""
    items: dict[int | None, Wire] = {}
    for event in events:
        kind = text_of(event, "type")
        whole = items_of(of(event, "response"), "output") if kind in _LAST else ()
        if whole:
            yield from _items(whole)
            return
        at, item = index_of(event, "output_index"), of(event, "item")
        if kind in ("response.output_item.added", "response.output_item.done") and item is not None:
            if of(item, "type") in ("function_call", "custom_tool_call"):
                items[at] = {
                    "type": "function_call", "call_id": of(item, "call_id", "id"), "name": text_of(item, "name"),
                    "arguments": text_of(item, "arguments", "input"),
                }  # fmt: skip
        elif kind == "response.function_call_arguments.delta" and at in items:
            items[at]["arguments"] += text_of(event, "delta")
        elif kind == "response.function_call_arguments.done" and at in items:
            items[at]["arguments"] = text_of(event, "arguments")
    yield from _items(list(items.values()))


def result(one: ToolResult) -> Wire:
    """Return the item that answers one call; sounds are named in words."""
    blocks = shown_blocks(one)
    output: Any = one.for_model() if blocks is None else list(map(_part, blocks))
    return {"type": "function_call_output", "call_id": id_of(one), "output": output}


def _part(block: Content) -> Wire:
    if block.type == "image":
        return {"type": "input_image", "image_url": data_url(block), "detail": "auto"}
    if block.type == "resource" and block.data is not None and block.mime_type == "application/pdf":
        return {"type": "input_file", "filename": block.name or "file.pdf", "file_data": data_url(block)}
    return {"type": "input_text", "text": writable(block.described)}


def results(many: Sequence[ToolResult]) -> list[Wire]:
    """Return the items that answer the calls of one reply."""
    return [result(one) for one in many]


def assistant(made: Sequence[ToolCall], text: str) -> list[Wire]:
    """Return the items in which the model says something and makes the calls."""
    said: list[Wire] = [{"role": "assistant", "content": text}] if text else []
    return said + [
        {
            "type": "function_call", "call_id": id_of(one), "name": wire_name(one.name),
            "arguments": arguments_text(one),
        }
        for one in made
    ]  # fmt: skip


def user(text: str) -> Wire:
    """Return what a person says as an input item."""
    return {"role": "user", "content": text}


FORMAT: Final = Format(
    name="openai-responses", export=export, calls=calls, result=result, results=results, assistant=assistant,
    user=user, prepare=prepare, rules=STRICT,
)  # fmt: skip
