"""A provider's whole reply → what it says, what it asks for, and what goes into the conversation for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from praval_tools.errors import ModelError
from praval_tools.formats import Format, parse_tool_calls
from praval_tools.formats.format import arguments_of
from praval_tools.formats.openai_common import arguments_text
from praval_tools.formats.response_fields import items_of, of, plain, text_of, writable_value
from praval_tools.loop.values import ModelReply
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
    with understood():
        raw = writable_value(plain(response))
        made: ModelReply = reader(raw, form.calls(raw))
        calls = parse_tool_calls(form, raw, tools=tools, strict=strict, think_augment=think_augment)
    return ModelReply(
        text=made.text, calls=tuple(calls), messages=made.messages, stop=made.stop, usage=_usage(raw)
    )


@contextmanager
def understood() -> Iterator[None]:
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


def _chat(raw: Any, calls: list[ToolCall]) -> ModelReply:
    choice = _first(raw, "choices")
    message = of(choice, "message")
    if not isinstance(message, dict):
        raise _no_reply(raw)
    refusal = text_of(message, "refusal")
    said = message.get("content")
    text = said if isinstance(said, str) else "".join(text_of(one, "text") for one in items_of(said))
    kept = {"role": "assistant", "content": said if said is not None else (refusal or None)}
    if calls:
        given = [one for one in items_of(message, "tool_calls") if of(one, "function", "custom")] or [{}]
        kept["tool_calls"] = [_chat_call(one, call) for one, call in zip(given, calls, strict=False)]
    finish = of(choice, "finish_reason")
    stop = "refused" if refusal or finish == "content_filter" else "truncated" if finish == "length" else ""
    return ModelReply(text=text or refusal, messages=(kept,), stop=stop)


def _chat_call(given: Any, call: ToolCall) -> dict[str, Any]:
    """Return a call as it goes back: with the id that its result will have, and arguments as text."""
    extra = {key: one for key, one in given.items() if key not in ("id", "index", "type", "function", "custom")}
    function = {"name": call.name, "arguments": arguments_text(call)}
    return {"id": call.tool_call_id, "type": "function", "function": function, **extra}


def _responses(raw: Any, calls: list[ToolCall]) -> ModelReply:
    output = of(raw, "output")
    if not isinstance(output, list) or of(raw, "status") == "failed":
        raise _no_reply(raw)
    text, refusal, left, kept = "", "", iter(calls), []
    for item in output:
        if of(item, "type") == "message":
            text += "".join(text_of(one, "text") for one in items_of(item, "content"))
            refusal += "".join(text_of(one, "refusal") for one in items_of(item, "content"))
        elif of(item, "type") in ("function_call", "custom_tool_call"):
            call = next(left)
            item = {
                "type": "function_call", "call_id": call.tool_call_id, "name": call.name,
                "arguments": arguments_text(call), **({"id": item["id"]} if item.get("id") else {}),
            }  # fmt: skip
        kept.append(item)
    stop = "refused" if refusal else "truncated" if of(raw, "status") == "incomplete" else ""
    return ModelReply(text=text or refusal, messages=tuple(kept), stop=stop)


def _anthropic(raw: Any, calls: list[ToolCall]) -> ModelReply:
    content = of(raw, "content")
    if not isinstance(content, list) or of(raw, "role") not in (None, "assistant"):
        raise _no_reply(raw)
    left, kept = iter(calls), []
    for block in content:
        if of(block, "type") == "tool_use":
            call = next(left)
            block = {**block, "id": call.tool_call_id, "input": arguments_of(call)}
        kept.append(block)
    text = "".join(text_of(one, "text") for one in kept if of(one, "type") == "text")
    ended = {"refusal": "refused", "max_tokens": "truncated", "pause_turn": "pause"}
    return ModelReply(
        text=text, messages=({"role": "assistant", "content": kept},), stop=ended.get(text_of(raw, "stop_reason"), "")
    )


def _gemini(raw: Any, calls: list[ToolCall]) -> ModelReply:
    candidate = _first(raw, "candidates")
    content = of(candidate, "content")
    if not isinstance(content, dict):
        raise _no_reply(raw)
    left, kept = iter(calls), []
    for part in items_of(content, "parts"):
        given = of(part, "function_call", "functionCall")
        if given is not None:
            call = next(left)
            rest = {key: one for key, one in part.items() if key not in ("function_call", "functionCall")}
            part = {**rest, "function_call": {**given, "id": call.tool_call_id}}
        kept.append(part)
    text = "".join(text_of(one, "text") for one in kept if not of(one, "thought"))
    finish = str(of(candidate, "finish_reason", "finishReason") or "").rpartition(".")[2]
    stop = {"MAX_TOKENS": "truncated", "SAFETY": "refused", "PROHIBITED_CONTENT": "refused"}.get(finish, "")
    return ModelReply(text=text, messages=({"role": "model", "parts": kept},), stop=stop)


_READERS: dict[str, Any] = {
    "openai-chat": _chat, "openai-responses": _responses, "anthropic": _anthropic, "gemini": _gemini,
}  # fmt: skip


def _first(raw: Any, name: str) -> Any:
    found = items_of(raw, name)
    if not found:
        raise _no_reply(raw)
    return found[0]


def _no_reply(raw: Any) -> ModelError:
    told = of(raw, "error") if isinstance(raw, dict) else None
    said = text_of(told, "message") or f"what it sent is no reply: {str(raw)[:200]!r}"
    return ModelError(said, text_of(told, "code") in ("server_error", "rate_limit_exceeded"))


def _usage(raw: Any) -> dict[str, int]:
    """Return the tokens of a reply under the same names for every provider."""
    usage = of(raw, "usage", "usage_metadata", "usageMetadata")
    counts = {
        "input_tokens": of(usage, "input_tokens", "prompt_tokens", "prompt_token_count", "promptTokenCount"),
        "output_tokens": of(
            usage, "output_tokens", "completion_tokens", "candidates_token_count", "candidatesTokenCount"
        ),
    }  # fmt: skip
    return {name: count for name, count in counts.items() if type(count) is int}


def added(one: dict[str, int], other: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return counts with others added."""
    made = dict(one)
    for name, count in other:
        made[name] = made.get(name, 0) + count
    return made
