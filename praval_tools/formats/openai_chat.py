"""OpenAI Chat Completions, and the many servers that speak it: `{"type": "function", "function": {...}}`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from praval_tools.formats.format import Format, Offer, WireObject, require_call_id
from praval_tools.formats.openai_common import STRICT_RULES, prepare_schema, to_arguments_text
from praval_tools.formats.response_fields import assign_call_ids, get_items, get_member, get_text
from praval_tools.names import to_wire_name
from praval_tools.schema.json_values import replace_surrogates
from praval_tools.tools.call import ToolCall, ToolResult


def export_tool(offer: Offer) -> WireObject:
    """Return the tool as a member of `tools` in a chat completion request."""
    function: WireObject = {
        "name": to_wire_name(offer.name), "description": replace_surrogates(offer.description), "parameters": offer.parameters,
    }  # fmt: skip
    if offer.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def parse_calls(response: Any) -> list[ToolCall]:
    """Return the calls of a completion (its first choice), a message, a list of tool calls, or streamed chunks."""
    if isinstance(response, list | tuple) and any(get_member(one, "choices") is not None for one in response):
        return assign_call_ids(_parse_stream(response))
    return assign_call_ids(_parse_message(response))


def _parse_message(response: Any) -> Iterator[ToolCall]:
    choices = get_items(response, "choices")
    message = get_member(choices[0], "message") if choices else response
    found = get_items(message) or get_items(message, "tool_calls")
    for one in found:
        function = get_member(one, "function", "custom")
        name, given = get_text(function, "name"), get_member(function, "arguments", "input")
        if function is not None:
            yield ToolCall(get_member(one, "id"), name, given)
    if not found and (old := get_member(message, "function_call")) is not None:
        yield ToolCall(None, get_text(old, "name"), get_member(old, "arguments"))


def _parse_stream(chunks: Sequence[Any]) -> Iterator[ToolCall]:
    parts: dict[Any, dict[str, str]] = {}
    for chunk in chunks:
        for choice in get_items(chunk, "choices")[:1]:
            for at, delta in enumerate(get_items(get_member(choice, "delta"), "tool_calls")):
                add_call_delta(parts, at, delta)
    for one in parts.values():
        yield ToolCall(one["id"] or None, one["name"], one["arguments"])


def add_call_delta(parts: dict[Any, dict[str, str]], at: int, delta: Any) -> None:
    """
    Add a piece of a call to *parts*; some servers leave the index out, or say the name and the id each time.

    A piece without an index belongs to the call before, unless it comes with an id of its own. One with the index of
    another call, and with an id and a name of its own, begins a call: there are servers that number each call 0.
    """
    index, name = get_member(delta, "index"), get_text(delta, "id")
    if not isinstance(index, int):
        last = max((key for key in parts if isinstance(key, int)), default=-1)
        fresh = last < 0 or (name and parts[last]["id"] not in ("", name))
        index = last + 1 if fresh else max(last, at)
    function = get_member(delta, "function", "custom")
    if name and get_text(function, "name") and index in parts and parts[index]["id"] not in ("", name):
        parts["before", len(parts)] = parts.pop(index)
    part = parts.setdefault(index, {"id": "", "name": "", "arguments": ""})
    part["id"] = part["id"] or name
    part["name"] = part["name"] or get_text(function, "name")
    part["arguments"] += get_text(function, "arguments", "input")


def render_result(one: ToolResult) -> WireObject:
    """Return the message that answers one call; images and sounds are named in words."""
    return {"role": "tool", "tool_call_id": require_call_id(one), "content": one.for_model()}


def render_results(many: Sequence[ToolResult]) -> list[WireObject]:
    """Return the messages that answer the calls of one reply."""
    return [render_result(one) for one in many]


def render_assistant(made: Sequence[ToolCall], text: str) -> list[WireObject]:
    """Return the message in which the model makes the calls."""
    message: WireObject = {"role": "assistant", "content": text or None}
    if made:
        message["tool_calls"] = [
            {
                "id": require_call_id(one), "type": "function",
                "function": {"name": to_wire_name(one.name), "arguments": to_arguments_text(one)},
            }
            for one in made
        ]  # fmt: skip
    return [message]


def render_user(text: str) -> WireObject:
    """Return what a person says as a message."""
    return {"role": "user", "content": text}


FORMAT: Final = Format(
    name="openai-chat", export=export_tool, calls=parse_calls, result=render_result, results=render_results, assistant=render_assistant, user=render_user,
    prepare=prepare_schema, rules=STRICT_RULES,
)  # fmt: skip
