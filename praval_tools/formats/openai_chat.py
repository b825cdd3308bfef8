"""OpenAI Chat Completions, and the many servers that speak it: `{"type": "function", "function": {...}}`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from praval_tools.formats.format import Format, Offer, Wire, id_of, writable
from praval_tools.formats.openai_common import STRICT, arguments_text, prepare
from praval_tools.formats.response_fields import items_of, numbered, of, text_of
from praval_tools.names import wire_name
from praval_tools.tools.call import ToolCall, ToolResult


def export(offer: Offer) -> Wire:
    """Return the tool as a member of `tools` in a chat completion request."""
    function: Wire = {
        "name": wire_name(offer.name), "description": writable(offer.description), "parameters": offer.parameters,
    }  # fmt: skip
    if offer.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def calls(response: Any) -> list[ToolCall]:
    """Return the calls of a completion (its first choice), a message, a list of tool calls, or streamed chunks."""
    if isinstance(response, list | tuple) and any(of(one, "choices") is not None for one in response):
        return numbered(_streamed(response))
    return numbered(_whole(response))


def _whole(response: Any) -> Iterator[ToolCall]:
    choices = items_of(response, "choices")
    message = of(choices[0], "message") if choices else response
    found = items_of(message) or items_of(message, "tool_calls")
    for one in found:
        function = of(one, "function", "custom")
        name, given = text_of(function, "name"), of(function, "arguments", "input")
        if function is not None:
            yield ToolCall(of(one, "id"), name, given)
    if not found and (old := of(message, "function_call")) is not None:
        yield ToolCall(None, text_of(old, "name"), of(old, "arguments"))


def _streamed(chunks: Sequence[Any]) -> Iterator[ToolCall]:
    parts: dict[Any, dict[str, str]] = {}
    for chunk in chunks:
        for choice in items_of(chunk, "choices")[:1]:
            for at, delta in enumerate(items_of(of(choice, "delta"), "tool_calls")):
                take(parts, at, delta)
    for one in parts.values():
        yield ToolCall(one["id"] or None, one["name"], one["arguments"])


def take(parts: dict[Any, dict[str, str]], at: int, delta: Any) -> None:
    """
    Add a piece of a call to *parts*; some servers leave the index out, or say the name and the id each time.

    A piece without an index belongs to the call before, unless it comes with an id of its own. One with the index of
    another call, and with an id and a name of its own, begins a call: there are servers that number each call 0.
    """
    index, name = of(delta, "index"), text_of(delta, "id")
    if not isinstance(index, int):
        last = max((key for key in parts if isinstance(key, int)), default=-1)
        fresh = last < 0 or (name and parts[last]["id"] not in ("", name))
        index = last + 1 if fresh else max(last, at)
    function = of(delta, "function", "custom")
    if name and text_of(function, "name") and index in parts and parts[index]["id"] not in ("", name):
        parts["before", len(parts)] = parts.pop(index)
    part = parts.setdefault(index, {"id": "", "name": "", "arguments": ""})
    part["id"] = part["id"] or name
    part["name"] = part["name"] or text_of(function, "name")
    part["arguments"] += text_of(function, "arguments", "input")


def result(one: ToolResult) -> Wire:
    """Return the message that answers one call; images and sounds are named in words."""
    return {"role": "tool", "tool_call_id": id_of(one), "content": one.for_model()}


def results(many: Sequence[ToolResult]) -> list[Wire]:
    """Return the messages that answer the calls of one reply."""
    return [result(one) for one in many]


def assistant(made: Sequence[ToolCall], text: str) -> list[Wire]:
    """Return the message in which the model makes the calls."""
    message: Wire = {"role": "assistant", "content": text or None}
    if made:
        message["tool_calls"] = [
            {
                "id": id_of(one), "type": "function",
                "function": {"name": wire_name(one.name), "arguments": arguments_text(one)},
            }
            for one in made
        ]  # fmt: skip
    return [message]


def user(text: str) -> Wire:
    """Return what a person says as a message."""
    return {"role": "user", "content": text}


FORMAT: Final = Format(
    name="openai-chat", export=export, calls=calls, result=result, results=results, assistant=assistant, user=user,
    prepare=prepare, rules=STRICT,
)  # fmt: skip
