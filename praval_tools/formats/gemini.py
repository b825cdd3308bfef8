"""Gemini: a `FunctionDeclaration` with `parameters_json_schema`, which takes JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from praval_tools.formats.format import (
    Format,
    Offer,
    WireObject,
    encode_base64,
    get_content_blocks,
    to_arguments_object,
    to_json_value,
)
from praval_tools.formats.response_fields import assign_call_ids, get_items, get_member, get_text
from praval_tools.formats.schema_root import flatten_root
from praval_tools.names import to_wire_name
from praval_tools.schema.json_values import replace_surrogates
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.content import Content, describe_blocks

_BINARY_BLOCK_TYPES: Final = ("image", "audio", "resource")


def export_tool(offer: Offer) -> WireObject:
    """Return the tool as a function declaration."""
    return {
        "name": to_wire_name(offer.name), "description": replace_surrogates(offer.description),
        "parameters_json_schema": offer.parameters,
    }  # fmt: skip


def parse_calls(response: Any) -> list[ToolCall]:
    """Return the calls of a response (its first candidate), a content, a list of parts, or streamed responses."""
    return assign_call_ids(_iter_calls(response))


def _iter_calls(response: Any) -> Iterator[ToolCall]:
    if isinstance(response, list | tuple):
        for one in response:
            yield from _iter_calls(one)
        return
    one = get_member(response, "function_call", "functionCall")
    if one is not None:
        yield ToolCall(get_member(one, "id"), get_text(one, "name"), get_member(one, "args"))
        return
    candidates = get_items(response, "candidates")
    content = get_member(candidates[0], "content") if candidates else get_member(response, "content") or response
    for part in get_items(content, "parts"):
        yield from _iter_calls(part)


def render_result(one: ToolResult) -> WireObject:
    """Return the part that answers one call."""
    blocks = get_content_blocks(one)
    response: WireObject = {"name": to_wire_name(one.name)}
    if one.tool_call_id:
        response = {"id": one.tool_call_id, **response}
    if blocks is None:
        response["response"] = {"result": to_json_value(one)} if one.success else {"error": one.for_model()}
    else:
        carried = [
            block
            for block in blocks
            if block.data is not None and block.type in _BINARY_BLOCK_TYPES and block.mime_type
        ]
        said = [block for block in blocks if block not in carried]
        response["response"] = {"result": replace_surrogates(describe_blocks(said)) if said else "see the parts"}
        if carried:
            response["parts"] = list(map(_render_block, carried))
    return {"function_response": response}


def _render_block(block: Content) -> WireObject:
    return {"inline_data": {"mime_type": block.mime_type, "data": encode_base64(block)}}


def render_results(many: Sequence[ToolResult]) -> list[WireObject]:
    """Return the one content that answers all calls of a reply."""
    return [{"role": "user", "parts": [render_result(one) for one in many]}]


def render_assistant(made: Sequence[ToolCall], text: str) -> list[WireObject]:
    """Return the content in which the model says something and makes the calls."""
    said: list[WireObject] = [{"text": text}] if text else []
    for one in made:
        call: WireObject = {"name": to_wire_name(one.name), "args": to_arguments_object(one)}
        said.append({"function_call": {"id": one.tool_call_id, **call} if one.tool_call_id else call})
    return [{"role": "model", "parts": said}]


def render_user(text: str) -> WireObject:
    """Return what a person says as a content."""
    return {"role": "user", "parts": [{"text": text}]}


def prepare_schema(schema: WireObject) -> WireObject:
    """Return a schema that Gemini takes."""
    return {key: value for key, value in flatten_root(schema).items() if key != "$schema"}


FORMAT: Final = Format(
    name="gemini", export=export_tool, calls=parse_calls, result=render_result, results=render_results, assistant=render_assistant, user=render_user,
    prepare=prepare_schema,
)  # fmt: skip
