"""A provider's whole reply → what it says, what it asks for, and what goes into the conversation for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from praval_tools.errors import ModelError
from praval_tools.formats import Format, parse_tool_calls
from praval_tools.formats.format import to_arguments_object
from praval_tools.formats.openai_common import to_arguments_text
from praval_tools.formats.response_fields import get_items, get_member, get_text, to_plain_data
from praval_tools.loop.values import ModelReply
from praval_tools.schema.json_values import replace_surrogates_in_json
from praval_tools.tools.call import ToolCall


def read_reply(form: Format, response: Any, tools: Any, *, strict: bool, think_augment: bool) -> ModelReply:
    """
    Return a provider's reply.

    Args:
        form: Its format.
        response: A dict, or an object of the provider's SDK.
        tools: What was offered.
        strict: In the provider's strict mode.
        think_augment: With the reason parameter.

    Raises:
        ModelError: It is no reply of this format.
    """
    reader = _READERS.get(form.name)
    if reader is None:
        raise ModelError(f"replies in {form.name!r} are not read by a loop; return a ModelReply instead.")
    with wrap_reply_errors():
        raw = replace_surrogates_in_json(to_plain_data(response))
        made: ModelReply = reader(raw, form.calls(raw))
        calls = parse_tool_calls(form, raw, tools=tools, strict=strict, think_augment=think_augment)
    return ModelReply(
        text=made.text, calls=tuple(calls), messages=made.messages, stop=made.stop, usage=_read_usage(raw)
    )


@contextmanager
def wrap_reply_errors() -> Iterator[None]:
    """
    Tell what goes wrong with a reply that is shaped in no way that a provider's is.

    Raises:
        ModelError: With what was met.
    """
    try:
        yield
    except ModelError:
        raise
    except RecursionError:
        raise ModelError("what it sent is nested too deeply to be read.") from None
    except Exception as error:  # the seam to whatever a server sent; it is reported as one class
        raise ModelError(f"what it sent is no reply: {type(error).__name__}: {error}"[:300]) from error


def _read_chat(raw: Any, calls: list[ToolCall]) -> ModelReply:
    choice = _get_first_item(raw, "choices")
    message = get_member(choice, "message")
    if not isinstance(message, dict):
        raise _build_reply_error(raw)
    refusal = get_text(message, "refusal")
    said = message.get("content")
    text = said if isinstance(said, str) else "".join(get_text(one, "text") for one in get_items(said))
    kept = {"role": "assistant", "content": said if said is not None else (refusal or None)}
    if calls:
        given = [one for one in get_items(message, "tool_calls") if get_member(one, "function", "custom")] or [{}]
        kept["tool_calls"] = [_build_chat_call(one, call) for one, call in zip(given, calls, strict=False)]
    finish = get_member(choice, "finish_reason")
    stop = "refused" if refusal or finish == "content_filter" else "truncated" if finish == "length" else ""
    return ModelReply(text=text or refusal, messages=(kept,), stop=stop)


def _build_chat_call(given: Any, call: ToolCall) -> dict[str, Any]:
    """Return a call as it goes back: with the id that its result will have, and arguments as text."""
    extra = {key: one for key, one in given.items() if key not in ("id", "index", "type", "function", "custom")}
    function = {"name": call.name, "arguments": to_arguments_text(call)}
    return {"id": call.tool_call_id, "type": "function", "function": function, **extra}


def _read_responses(raw: Any, calls: list[ToolCall]) -> ModelReply:
    output = get_member(raw, "output")
    if not isinstance(output, list) or get_member(raw, "status") == "failed":
        raise _build_reply_error(raw)
    text, refusal, left, kept = "", "", iter(calls), []
    for item in output:
        if get_member(item, "type") == "message":
            text += "".join(get_text(one, "text") for one in get_items(item, "content"))
            refusal += "".join(get_text(one, "refusal") for one in get_items(item, "content"))
        elif get_member(item, "type") in ("function_call", "custom_tool_call"):
            call = next(left)
            item = {
                "type": "function_call", "call_id": call.tool_call_id, "name": call.name,
                "arguments": to_arguments_text(call), **({"id": item["id"]} if item.get("id") else {}),
            }  # fmt: skip
        kept.append(item)
    stop = "refused" if refusal else "truncated" if get_member(raw, "status") == "incomplete" else ""
    return ModelReply(text=text or refusal, messages=tuple(kept), stop=stop)


def _read_anthropic(raw: Any, calls: list[ToolCall]) -> ModelReply:
    content = get_member(raw, "content")
    if not isinstance(content, list) or get_member(raw, "role") not in (None, "assistant"):
        raise _build_reply_error(raw)
    left, kept = iter(calls), []
    for block in content:
        if get_member(block, "type") == "tool_use":
            call = next(left)
            block = {**block, "id": call.tool_call_id, "input": to_arguments_object(call)}
        kept.append(block)
    text = "".join(get_text(one, "text") for one in kept if get_member(one, "type") == "text")
    ended = {"refusal": "refused", "max_tokens": "truncated", "pause_turn": "pause"}
    return ModelReply(
        text=text, messages=({"role": "assistant", "content": kept},), stop=ended.get(get_text(raw, "stop_reason"), "")
    )


def _read_gemini(raw: Any, calls: list[ToolCall]) -> ModelReply:
    candidate = _get_first_item(raw, "candidates")
    content = get_member(candidate, "content")
    if not isinstance(content, dict):
        raise _build_reply_error(raw)
    left, kept = iter(calls), []
    for part in get_items(content, "parts"):
        given = get_member(part, "function_call", "functionCall")
        if given is not None:
            call = next(left)
            rest = {key: one for key, one in part.items() if key not in ("function_call", "functionCall")}
            part = {**rest, "function_call": {**given, "id": call.tool_call_id}}
        kept.append(part)
    text = "".join(get_text(one, "text") for one in kept if not get_member(one, "thought"))
    finish = str(get_member(candidate, "finish_reason", "finishReason") or "").rpartition(".")[2]
    stop = {"MAX_TOKENS": "truncated", "SAFETY": "refused", "PROHIBITED_CONTENT": "refused"}.get(finish, "")
    return ModelReply(text=text, messages=({"role": "model", "parts": kept},), stop=stop)


_READERS: dict[str, Any] = {
    "openai-chat": _read_chat, "openai-responses": _read_responses, "anthropic": _read_anthropic, "gemini": _read_gemini,
}  # fmt: skip


def _get_first_item(raw: Any, name: str) -> Any:
    found = get_items(raw, name)
    if not found:
        raise _build_reply_error(raw)
    return found[0]


def _build_reply_error(raw: Any) -> ModelError:
    told = get_member(raw, "error") if isinstance(raw, dict) else None
    said = get_text(told, "message") or f"what it sent is no reply: {str(raw)[:200]!r}"
    return ModelError(said, get_text(told, "code") in ("server_error", "rate_limit_exceeded"))


def _read_usage(raw: Any) -> dict[str, int]:
    """Return the tokens of a reply under the same names for every provider."""
    usage = get_member(raw, "usage", "usage_metadata", "usageMetadata")
    counts = {
        "input_tokens": get_member(usage, "input_tokens", "prompt_tokens", "prompt_token_count", "promptTokenCount"),
        "output_tokens": get_member(
            usage, "output_tokens", "completion_tokens", "candidates_token_count", "candidatesTokenCount"
        ),
    }  # fmt: skip
    return {name: count for name, count in counts.items() if type(count) is int}


def add_usage(one: dict[str, int], other: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return counts with others added."""
    made = dict(one)
    for name, count in other:
        made[name] = made.get(name, 0) + count
    return made
