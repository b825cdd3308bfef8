"""Gemini format: a `FunctionDeclaration` with `parameters_json_schema`, which takes JSON Schema."""

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
from praval_tools.formats.response_fields import (
    assign_call_ids,
    get_first_candidate,
    get_items,
    get_member,
    get_text,
)
from praval_tools.formats.schema_root import flatten_root
from praval_tools.names import to_wire_name
from praval_tools.schema.json_values import replace_surrogates
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.content import Content, describe_blocks

_BINARY_BLOCK_TYPES: Final = ("image", "audio", "resource")
_PARTIAL_ARGUMENTS: Final = "(a part of streamed arguments)"
"""Stands for arguments that are not whole, so that the call is refused for them."""


def export_tool(offer: Offer) -> WireObject:
    """Return the tool as a function declaration."""
    return {
        "name": to_wire_name(offer.name),
        "description": replace_surrogates(offer.description),
        "parameters_json_schema": offer.parameters,
    }


def parse_calls(response: object) -> list[ToolCall]:
    """Return the calls of a response (its first candidate), a content, a list of parts, or streamed responses."""
    return assign_call_ids(_iter_calls(response))


def _iter_calls(response: object) -> Iterator[ToolCall]:
    if isinstance(response, list | tuple):
        for item in response:
            yield from _iter_calls(item)
        return
    candidates = get_items(response, "candidates")
    holder = get_first_candidate(candidates) if candidates else response
    content = get_member(holder, "content") or holder
    parts = [response] if get_raw_call(response) is not None else get_items(content, "parts")
    for call in map(get_raw_call, parts):
        if call is None:
            continue
        is_part = get_member(call, "will_continue", "willContinue", "partial_args", "partialArgs")
        arguments = _PARTIAL_ARGUMENTS if is_part else get_member(call, "args")
        yield ToolCall(get_member(call, "id"), get_text(call, "name"), arguments)


def get_raw_call(part: object) -> Any:
    """Return the call of a part as it was sent, or None where the part is something else."""
    return get_member(part, "function_call", "functionCall")


def render_result(result: ToolResult) -> WireObject:
    """Return the part that answers one call."""
    blocks = get_content_blocks(result)
    part: WireObject = {"id": result.tool_call_id} if result.tool_call_id else {}
    part["name"] = to_wire_name(result.name)
    if blocks is None:
        part["response"] = {"result": to_json_value(result)} if result.success else {"error": result.for_model()}
    else:
        binary = [block for block in blocks if _is_binary(block)]
        described = [block for block in blocks if not _is_binary(block)]
        text = replace_surrogates(describe_blocks(described)) if described else "see the parts"
        part["response"] = {"result": text}
        if binary:
            part["parts"] = [
                {"inline_data": {"mime_type": block.mime_type, "data": encode_base64(block)}} for block in binary
            ]
    return {"function_response": part}


def _is_binary(block: Content) -> bool:
    return block.data is not None and block.type in _BINARY_BLOCK_TYPES and bool(block.mime_type)


def render_results(results: Sequence[ToolResult]) -> list[WireObject]:
    """Return the one content that answers all calls of a reply."""
    return [{"role": "user", "parts": [render_result(result) for result in results]}]


def render_assistant(calls: Sequence[ToolCall], text: str) -> list[WireObject]:
    """Return the content in which the model says something and makes the calls."""
    parts: list[WireObject] = [{"text": text}] if text else []
    for call in calls:
        call_id = {"id": call.tool_call_id} if call.tool_call_id else {}
        arguments = to_arguments_object(call)
        parts.append({"function_call": {**call_id, "name": to_wire_name(call.name), "args": arguments}})
    return [{"role": "model", "parts": parts}]


def render_user(text: str) -> WireObject:
    """Return what a person says as a content."""
    return {"role": "user", "parts": [{"text": text}]}


def prepare_schema(schema: JsonSchema) -> JsonSchema:
    """Return a schema that Gemini takes."""
    return {key: value for key, value in flatten_root(schema).items() if key != "$schema"}


FORMAT: Final = Format(
    name="gemini", export=export_tool, calls=parse_calls, result=render_result, results=render_results,
    assistant=render_assistant, user=render_user, prepare=prepare_schema,
)  # fmt: skip
