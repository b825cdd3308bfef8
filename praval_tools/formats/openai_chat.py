"""OpenAI Chat Completions format, which many servers speak: `{"type": "function", "function": {...}}`."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Final

from praval_tools.formats.format import Format, Offer, WireObject, require_call_id
from praval_tools.formats.openai_common import STRICT_RULES, prepare_schema, to_arguments_text
from praval_tools.formats.response_fields import (
    assign_call_ids,
    get_first_candidate,
    get_items,
    get_member,
    get_text,
    join_arguments,
)
from praval_tools.names import to_wire_name
from praval_tools.schema.json_values import replace_surrogates
from praval_tools.tools.call import ToolCall, ToolResult

CALL_MEMBERS: Final = frozenset(("id", "index", "type", "function", "custom"))
"""The members of a call that are written anew when it goes back; others, such as signatures, go back as they came."""


def export_tool(offer: Offer) -> WireObject:
    """Return the tool as a member of `tools` in a chat completion request."""
    function: WireObject = {
        "name": to_wire_name(offer.name),
        "description": replace_surrogates(offer.description),
        "parameters": offer.parameters,
    }
    return {"type": "function", "function": {**function, "strict": True} if offer.strict else function}


def parse_calls(response: object) -> list[ToolCall]:
    """Return the calls of a completion (its first choice), a message, a list of tool calls, or streamed chunks."""
    items = get_items(response)
    if any(get_member(item, "choices") is not None for item in items):
        return assign_call_ids(_parse_stream(items))
    return assign_call_ids(_parse_message(response))


def _parse_message(response: object) -> Iterator[ToolCall]:
    choices = get_items(response, "choices")
    message = get_member(get_first_candidate(choices), "message") if choices else response
    for call in get_raw_calls(message):
        function = get_member(call, "function", "custom")
        yield ToolCall(get_member(call, "id"), get_text(function, "name"), get_member(function, "arguments", "input"))


def get_raw_calls(message: object) -> list[WireObject]:
    """Return the calls of a message, or of a list of calls, as they were sent; each becomes one `ToolCall`."""
    calls = get_items(message) or get_items(message, "tool_calls")
    if not calls and (function := _get_only_function(message)) is not None:
        return [{"function": function}]
    return [call for call in calls if get_member(call, "function", "custom") is not None]


def _parse_stream(chunks: Sequence[object]) -> Iterator[ToolCall]:
    calls: dict[Hashable, WireObject] = {}
    for chunk in chunks:
        delta = get_member(get_first_candidate(get_items(chunk, "choices")), "delta")
        for position, call_delta in enumerate(get_call_deltas(delta)):
            add_call_delta(calls, position, call_delta)
    for call in calls.values():
        yield ToolCall(call["id"] or None, call["name"], call["arguments"])


def get_call_deltas(delta: object) -> Sequence[object]:
    """Return the pieces of calls in a delta; an older server streams its only call as `function_call`."""
    deltas, function = get_items(delta, "tool_calls"), _get_only_function(delta)
    return deltas if deltas or function is None else [{"function": function}]


def _get_only_function(message: object) -> object:
    """Return what an older server sends of the only call of a message, or of a piece of one; None where it has none."""
    function = get_member(message, "function_call")
    return function if get_text(function, "name") or get_member(function, "arguments") else None


def add_call_delta(calls: dict[Hashable, WireObject], position: int, delta: object) -> WireObject:
    """
    Add a piece of a call to *calls*, and return the call that it belongs to.

    Some servers leave the index out, or repeat the name and the id each time.
    A piece with the id of a call, and with no other index or name, belongs to that. One without an index belongs to the
    call before, unless it comes with an id of its own. One with the index of another call, and with a name, begins a
    call if its id or its name is another one: there are servers that number each call 0.
    """
    call_id, function = get_text(delta, "id"), get_member(delta, "function", "custom")
    name, index = get_text(function, "name"), get_member(delta, "index")
    key = next((key for key in reversed(calls) if _is_same_call(calls[key], key, index, call_id, name)), None)
    if key is None:
        key = _choose_index(calls, position, index, call_id)
        other = calls.get(key)
        has_other_id = other is not None and call_id and other["id"] not in ("", call_id)
        if name and other is not None and (has_other_id or other["name"] not in ("", name)):
            calls[key, len(calls)] = calls.pop(key)
    call = calls.setdefault(key, {"id": "", "name": "", "arguments": "", "extra": {}})
    call["id"] = call["id"] or call_id
    call["name"] = call["name"] or name
    call["arguments"] = join_arguments(call["arguments"], get_member(function, "arguments", "input"))
    return call


def _is_same_call(call: WireObject, key: Hashable, index: object, call_id: str, name: str) -> bool:
    """Tell whether a piece has the id of a call, and neither another index nor another name."""
    if not call_id or call["id"] != call_id or name not in ("", call["name"]):
        return False
    return not isinstance(index, int) or index == (key[0] if isinstance(key, tuple) else key)


def _choose_index(calls: dict[Hashable, WireObject], position: int, index: object, call_id: str) -> int:
    """Return the index of a piece; where it has none, that of the call before, or the next one."""
    if isinstance(index, int):
        return index
    last = max((key for key in calls if isinstance(key, int)), default=-1)
    is_new = last < 0 or (call_id and calls[last]["id"] not in ("", call_id))
    return last + 1 if is_new else max(last, position)


def render_result(result: ToolResult) -> WireObject:
    """Return the message that answers one call; images and audio are described in words."""
    return {"role": "tool", "tool_call_id": require_call_id(result), "content": result.for_model()}


def render_assistant(calls: Sequence[ToolCall], text: str) -> list[WireObject]:
    """Return the message in which the model makes the calls."""
    message: WireObject = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [
            {
                "id": require_call_id(call),
                "type": "function",
                "function": {"name": to_wire_name(call.name), "arguments": to_arguments_text(call)},
            }
            for call in calls
        ]
    return [message]


FORMAT: Final = Format(
    name="openai-chat", export=export_tool, calls=parse_calls, result=render_result,
    assistant=render_assistant, prepare=prepare_schema, rules=STRICT_RULES,
)  # fmt: skip
