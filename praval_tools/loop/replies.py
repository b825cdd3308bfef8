"""Read a provider's whole reply: its text, its calls, and the messages that go into the conversation for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from msgspec.structs import replace

from praval_tools.errors import ModelError
from praval_tools.formats import Format, parse_tool_calls
from praval_tools.formats.format import to_arguments_object
from praval_tools.formats.openai_common import to_arguments_text
from praval_tools.formats.response_fields import get_items, get_member, get_text, to_plain_data
from praval_tools.loop.values import ModelReply
from praval_tools.registry.toolset import Toolset
from praval_tools.schema.json_values import replace_surrogates_in_json
from praval_tools.tools.call import ToolCall

JsonObject: TypeAlias = dict[str, Any]


def read_reply(form: Format, response: object, tools: Toolset, *, strict: bool, think_augment: bool) -> ModelReply:
    """
    Return a provider's reply.

    Args:
        form: Its format.
        response: A dict, or an object of the provider's SDK.
        tools: The tools that the model was offered.
        strict: Whether they were offered in the provider's strict mode.
        think_augment: Whether they were offered with the reason parameter.

    Raises:
        ModelError: It is not a reply of this format.
    """
    reader = _READERS.get(form.name)
    if reader is None:
        raise ModelError(f"replies in {form.name!r} are not read by a loop; return a ModelReply instead.")
    with wrap_reply_errors():
        raw = replace_surrogates_in_json(to_plain_data(response))
        reply = reader(raw, form.calls(raw))
        calls = parse_tool_calls(form, raw, tools=tools, strict=strict, think_augment=think_augment)
    return replace(reply, calls=tuple(calls), usage=_read_usage(raw))


@contextmanager
def wrap_reply_errors() -> Iterator[None]:
    """
    Raise `ModelError` for whatever goes wrong with a reply that is not shaped as a provider's.

    Raises:
        ModelError: With the error that was raised inside.
    """
    try:
        yield
    except ModelError:
        raise
    except RecursionError:
        raise ModelError("what it sent is nested too deeply to be read.") from None
    except Exception as error:  # the seam to whatever a server sent; it is reported as one class
        raise ModelError(f"what it sent is not a reply: {type(error).__name__}: {error}"[:300]) from error


def _read_chat(raw: object, calls: list[ToolCall]) -> ModelReply:
    choice = _get_first_item(raw, "choices")
    message = get_member(choice, "message")
    if not isinstance(message, dict):
        raise _build_reply_error(raw)
    refusal = get_text(message, "refusal")
    content = message.get("content")
    text = content if isinstance(content, str) else _join_texts(get_items(content))
    history: JsonObject = {"role": "assistant", "content": content if content is not None else (refusal or None)}
    if calls:
        raw_calls = [raw for raw in get_items(message, "tool_calls") if get_member(raw, "function", "custom")] or [{}]
        history["tool_calls"] = [_build_chat_call(*pair) for pair in zip(raw_calls, calls, strict=False)]
    finish = get_member(choice, "finish_reason")
    stop = "refused" if refusal or finish == "content_filter" else "truncated" if finish == "length" else ""
    return ModelReply(text=text or refusal, messages=(history,), stop=stop)


def _build_chat_call(raw_call: JsonObject, call: ToolCall) -> dict[str, Any]:
    """Return a call as it goes back: with the id that its result will have, and arguments as text."""
    extra = {key: value for key, value in raw_call.items() if key not in ("id", "index", "type", "function", "custom")}
    function = {"name": call.name, "arguments": to_arguments_text(call)}
    return {"id": call.tool_call_id, "type": "function", "function": function, **extra}


def _read_responses(raw: object, calls: list[ToolCall]) -> ModelReply:
    output = get_member(raw, "output")
    if not isinstance(output, list) or get_member(raw, "status") == "failed":
        raise _build_reply_error(raw)
    text, refusal, next_call, history = "", "", iter(calls), []
    for item in output:
        if get_member(item, "type") == "message":
            text += _join_texts(get_items(item, "content"))
            refusal += _join_texts(get_items(item, "content"), "refusal")
        elif get_member(item, "type") in ("function_call", "custom_tool_call"):
            call = next(next_call)
            item = {
                "type": "function_call",
                "call_id": call.tool_call_id,
                "name": call.name,
                "arguments": to_arguments_text(call),
                **({"id": item["id"]} if item.get("id") else {}),
            }
        history.append(item)
    stop = "refused" if refusal else "truncated" if get_member(raw, "status") == "incomplete" else ""
    return ModelReply(text=text or refusal, messages=tuple(history), stop=stop)


def _read_anthropic(raw: object, calls: list[ToolCall]) -> ModelReply:
    content = get_member(raw, "content")
    if not isinstance(content, list) or get_member(raw, "role") not in (None, "assistant"):
        raise _build_reply_error(raw)
    next_call, history = iter(calls), []
    for block in content:
        if get_member(block, "type") == "tool_use":
            call = next(next_call)
            block = {**block, "id": call.tool_call_id, "input": to_arguments_object(call)}
        history.append(block)
    text = _join_texts(block for block in history if get_member(block, "type") == "text")
    stops = {"refusal": "refused", "max_tokens": "truncated", "pause_turn": "pause"}
    return ModelReply(
        text=text,
        messages=({"role": "assistant", "content": history},),
        stop=stops.get(get_text(raw, "stop_reason"), ""),
    )


def _read_gemini(raw: object, calls: list[ToolCall]) -> ModelReply:
    candidate = _get_first_item(raw, "candidates")
    content = get_member(candidate, "content")
    if not isinstance(content, dict):
        raise _build_reply_error(raw)
    next_call, history = iter(calls), []
    for part in get_items(content, "parts"):
        raw_call = get_member(part, "function_call", "functionCall")
        if raw_call is not None:
            call = next(next_call)
            rest = {key: value for key, value in part.items() if key not in ("function_call", "functionCall")}
            part = {**rest, "function_call": {**raw_call, "id": call.tool_call_id}}
        history.append(part)
    text = _join_texts(part for part in history if not get_member(part, "thought"))
    finish = str(get_member(candidate, "finish_reason", "finishReason") or "").rpartition(".")[2]
    stop = {"MAX_TOKENS": "truncated", "SAFETY": "refused", "PROHIBITED_CONTENT": "refused"}.get(finish, "")
    return ModelReply(text=text, messages=({"role": "model", "parts": history},), stop=stop)


_READERS: dict[str, Callable[[object, list[ToolCall]], ModelReply]] = {
    "openai-chat": _read_chat,
    "openai-responses": _read_responses,
    "anthropic": _read_anthropic,
    "gemini": _read_gemini,
}


def _join_texts(parts: Iterable[object], member: str = "text") -> str:
    return "".join(get_text(part, member) for part in parts)


def _get_first_item(raw: object, name: str) -> object:
    items = get_items(raw, name)
    if not items:
        raise _build_reply_error(raw)
    return items[0]


def _build_reply_error(raw: object) -> ModelError:
    error = get_member(raw, "error") if isinstance(raw, dict) else None
    text = get_text(error, "message") or f"what it sent is not a reply: {str(raw)[:200]!r}"
    return ModelError(text, get_text(error, "code") in ("server_error", "rate_limit_exceeded"))


def _read_usage(raw: object) -> dict[str, int]:
    """Return the tokens of a reply under the same names for every provider."""
    usage = get_member(raw, "usage", "usage_metadata", "usageMetadata")
    counts = {
        "input_tokens": get_member(usage, "input_tokens", "prompt_tokens", "prompt_token_count", "promptTokenCount"),
        "output_tokens": get_member(
            usage, "output_tokens", "completion_tokens", "candidates_token_count", "candidatesTokenCount"
        ),
    }
    return {name: count for name, count in counts.items() if type(count) is int}


def add_usage(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    """Return the sum of two counts of tokens."""
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}
