"""Gemini: a `FunctionDeclaration` with `parameters_json_schema`, which takes JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from praval_tools.formats.format import (
    Format,
    Offer,
    Wire,
    arguments_of,
    base64_of,
    json_value,
    shown_blocks,
    writable,
)
from praval_tools.formats.response_fields import items_of, numbered, of, text_of
from praval_tools.formats.schema_root import flat
from praval_tools.names import wire_name
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.content import Content, described

_CARRIED: Final = ("image", "audio", "resource")


def export(offer: Offer) -> Wire:
    """Return the tool as a function declaration."""
    return {
        "name": wire_name(offer.name), "description": writable(offer.description),
        "parameters_json_schema": offer.parameters,
    }  # fmt: skip


def calls(response: Any) -> list[ToolCall]:
    """Return the calls of a response (its first candidate), a content, a list of parts, or streamed responses."""
    return numbered(_calls(response))


def _calls(response: Any) -> Iterator[ToolCall]:
    if isinstance(response, list | tuple):
        for one in response:
            yield from _calls(one)
        return
    one = of(response, "function_call", "functionCall")
    if one is not None:
        yield ToolCall(of(one, "id"), text_of(one, "name"), of(one, "args"))
        return
    candidates = items_of(response, "candidates")
    content = of(candidates[0], "content") if candidates else of(response, "content") or response
    for part in items_of(content, "parts"):
        yield from _calls(part)


def result(one: ToolResult) -> Wire:
    """Return the part that answers one call."""
    blocks = shown_blocks(one)
    response: Wire = {"name": wire_name(one.name)}
    if one.tool_call_id:
        response = {"id": one.tool_call_id, **response}
    if blocks is None:
        response["response"] = {"result": json_value(one)} if one.success else {"error": one.for_model()}
    else:
        carried = [block for block in blocks if block.data is not None and block.type in _CARRIED and block.mime_type]
        said = [block for block in blocks if block not in carried]
        response["response"] = {"result": writable(described(said)) if said else "see the parts"}
        if carried:
            response["parts"] = list(map(_part, carried))
    return {"function_response": response}


def _part(block: Content) -> Wire:
    return {"inline_data": {"mime_type": block.mime_type, "data": base64_of(block)}}


def results(many: Sequence[ToolResult]) -> list[Wire]:
    """Return the one content that answers all calls of a reply."""
    return [{"role": "user", "parts": [result(one) for one in many]}]


def assistant(made: Sequence[ToolCall], text: str) -> list[Wire]:
    """Return the content in which the model says something and makes the calls."""
    said: list[Wire] = [{"text": text}] if text else []
    for one in made:
        call: Wire = {"name": wire_name(one.name), "args": arguments_of(one)}
        said.append({"function_call": {"id": one.tool_call_id, **call} if one.tool_call_id else call})
    return [{"role": "model", "parts": said}]


def user(text: str) -> Wire:
    """Return what a person says as a content."""
    return {"role": "user", "parts": [{"text": text}]}


def prepare(schema: Wire) -> Wire:
    """Return a schema that Gemini takes."""
    return {key: value for key, value in flat(schema).items() if key != "$schema"}


FORMAT: Final = Format(
    name="gemini", export=export, calls=calls, result=result, results=results, assistant=assistant, user=user,
    prepare=prepare,
)  # fmt: skip
