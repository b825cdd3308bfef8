"""Anthropic Messages: `{"name", "description", "input_schema"}`; results are blocks of a user's message."""

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
    shown_blocks,
    writable,
)
from praval_tools.formats.response_fields import index_of, items_of, numbered, of, text_of
from praval_tools.formats.schema_root import flat
from praval_tools.formats.strict import Cost, Rules
from praval_tools.names import wire_name
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.content import Content

_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")

STRICT: Final = Rules(
    keywords={"minItems": lambda value: value in (0, 1)},
    formats=frozenset(
        ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
    ),
    type_lists=False, all_required=False, recursive=False, optional=24, unions=16,
)  # fmt: skip
TOGETHER: Final = Cost(tools=20, optional=24, unions=16)


def export(offer: Offer) -> Wire:
    """Return the tool as a member of `tools` in a messages request."""
    made: Wire = {
        "name": wire_name(offer.name), "description": writable(offer.description), "input_schema": offer.parameters,
    }  # fmt: skip
    if offer.strict:
        made["strict"] = True
    return made


def calls(response: Any) -> list[ToolCall]:
    """Return the calls of a message, of its content blocks, or of streamed events."""
    if isinstance(response, list | tuple) and any(of(one, "type") == "content_block_start" for one in response):
        return numbered(_streamed(response))
    return numbered(_blocks(items_of(response) or items_of(response, "content")))


def _blocks(blocks: Sequence[Any]) -> Iterator[ToolCall]:
    for one in blocks:
        if of(one, "type") == "tool_use":
            yield ToolCall(of(one, "id"), text_of(one, "name"), of(one, "input"))


def _streamed(events: Sequence[Any]) -> Iterator[ToolCall]:
    blocks: dict[int | None, Wire] = {}
    for event in events:
        kind, at = of(event, "type"), index_of(event, "index")
        if kind == "content_block_start":
            block = of(event, "content_block")
            if of(block, "type") == "tool_use":
                blocks[at] = {"id": of(block, "id"), "name": text_of(block, "name"), "begun": of(block, "input"),
                              "text": ""}  # fmt: skip
        elif kind == "content_block_delta" and at in blocks:
            blocks[at]["text"] += text_of(of(event, "delta"), "partial_json")
    for one in blocks.values():
        yield ToolCall(one["id"], one["name"], one["text"] or one["begun"])


def result(one: ToolResult) -> Wire:
    """Return the block that answers one call; sounds are named in words."""
    blocks = shown_blocks(one)
    content: Any = one.for_model() if blocks is None else list(map(_part, blocks))
    made: Wire = {"type": "tool_result", "tool_use_id": id_of(one), "content": content}
    if not one.success:
        made["is_error"] = True
    return made


def _part(block: Content) -> Wire:
    if block.type == "image" and block.mime_type in _IMAGES:
        source = {"type": "base64", "media_type": block.mime_type, "data": base64_of(block)}
        return {"type": "image", "source": source}
    if block.type == "resource" and block.data is not None and block.mime_type == "application/pdf":
        source = {"type": "base64", "media_type": block.mime_type, "data": base64_of(block)}
        return {"type": "document", "source": source, **({"title": block.name} if block.name else {})}
    return {"type": "text", "text": writable(block.described) or " "}


def results(many: Sequence[ToolResult]) -> list[Wire]:
    """Return the one message that answers all calls of a reply."""
    return [{"role": "user", "content": [result(one) for one in many]}]


def assistant(made: Sequence[ToolCall], text: str) -> list[Wire]:
    """Return the message in which the model says something and makes the calls."""
    said: list[Wire] = [{"type": "text", "text": text}] if text else []
    blocks = [
        {"type": "tool_use", "id": id_of(one), "name": wire_name(one.name), "input": arguments_of(one)} for one in made
    ]
    return [{"role": "assistant", "content": said + blocks}]


def user(text: str) -> Wire:
    """Return what a person says as a message."""
    return {"role": "user", "content": text}


FORMAT: Final = Format(
    name="anthropic", export=export, calls=calls, result=result, results=results, assistant=assistant, user=user,
    prepare=flat, rules=STRICT, budget=TOGETHER,
)  # fmt: skip
