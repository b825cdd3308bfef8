"""Reads a provider's whole reply: its text, its calls, and the messages that go into the conversation for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from praval_tools.errors import ModelError
from praval_tools.execution.runtime import RegistryOptions
from praval_tools.formats import Format
from praval_tools.formats.conversion import read_tool_calls
from praval_tools.formats.format import to_arguments_object
from praval_tools.formats.gemini import get_raw_call
from praval_tools.formats.openai_chat import CALL_MEMBERS, get_raw_calls
from praval_tools.formats.openai_common import to_arguments_text
from praval_tools.formats.openai_responses import is_search_call
from praval_tools.formats.response_fields import (
    assign_call_ids,
    get_first_candidate,
    get_items,
    get_member,
    get_text,
    to_plain_data,
)
from praval_tools.loop.values import ModelReply
from praval_tools.names import get_class_name, has_type, shorten_repr, to_plain_scalar, to_plain_text
from praval_tools.registry.toolset import AnyBoundTool, Toolset
from praval_tools.runs.call_records import parse_call_arguments
from praval_tools.schema.json_input import MalformedArgumentsError, normalize_json, parse_arguments
from praval_tools.schema.json_values import replace_surrogates, replace_surrogates_in_json
from praval_tools.tools.call import ToolCall
from praval_tools.tools.plain_managers import plain_manager
from praval_tools.tools.value_codec import MAX_DEPTH, normalize_value
from praval_tools.values.plain_arguments import to_plain_argument

JsonObject: TypeAlias = dict[str, Any]

_LEVEL_OF_ARGUMENTS: Final = 3
"""How many lists and objects are around the arguments of a call in the record of a reply."""


def read_reply(
    form: Format, response: object, tools: Toolset | Sequence[AnyBoundTool], options: RegistryOptions,
    *, strict: bool, think_augment: bool,
) -> ModelReply:  # fmt: skip
    """
    Return a provider's reply.

    Args:
        form: Its format.
        response: A dict, or an object of the provider's SDK.
        tools: The tools that the model was offered.
        options: How long and how deep arguments may be.
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
        parse = partial(
            parse_arguments, max_bytes=options.max_argument_bytes, max_depth=options.max_argument_depth
        )
        calls = read_tool_calls(form, raw, tools=tools, strict=strict, think_augment=think_augment, parse=parse)
    return replace(reply, calls=tuple(map(_normalize_call, calls)), usage=_read_usage(raw))


def check_reply(reply: ModelReply, stops: Iterable[str]) -> ModelReply:
    """
    Return the reply of a model of one's own, made of plain values.

    Args:
        reply: What it returned.
        stops: What its `stop` may be, beside an empty text.

    Raises:
        ModelError: Something in it is of a wrong type; of a call, what is not a text counts as empty.
    """
    with wrap_reply_errors():
        calls, text, stop = tuple(reply.calls), to_plain_scalar(reply.text), to_plain_scalar(reply.stop)
        if type(text) is not str or not all(has_type(call, ToolCall) for call in calls):
            raise ModelError(f"its text is not a text, or its calls are not ToolCalls: {shorten_repr(reply)}.")
        if type(stop) is not str or stop not in ("", *stops):
            raise ModelError(
                f"its stop is {shorten_repr(reply.stop)}; known are {', '.join(stops)}, and empty: it has ended."
            )
        return ModelReply(
            text=text,
            calls=tuple(assign_call_ids(map(_normalize_call, calls))),
            messages=tuple(reply.messages),
            stop=stop,
            usage=_keep_counts(reply.usage),
        )


def _normalize_call(call: ToolCall) -> ToolCall:
    """Return what a model says of a call: id, name, arguments and reason, as a journal gives them back."""
    call_id, name, reason = (_to_text(value) for value in (call.tool_call_id, call.name, call.reason))
    return ToolCall(call_id or None, name, _normalize_arguments(call.arguments), reason=reason)


def _to_text(value: object) -> str:
    """Return a text as a plain one that is UTF-8; empty where it is something else."""
    return replace_surrogates(to_plain_text(value)) if has_type(value, str) else ""


def _normalize_arguments(arguments: object) -> object:
    """
    Return the arguments of a call as a journal gives them back: as JSON, or, where no tool takes them, as close to it.

    JSON in bytes becomes text. What has no form of its own in a journal becomes an object that names its class.
    """
    plain = to_plain_argument(arguments)
    if has_type(plain, (bytes, bytearray)):
        data = bytes(plain)
        return data if parse_call_arguments(data) is data else data.decode()
    try:
        return normalize_json(plain, MAX_DEPTH - _LEVEL_OF_ARGUMENTS)
    except MalformedArgumentsError:
        return normalize_value(plain, encodes_objects=False, level=_LEVEL_OF_ARGUMENTS)


@plain_manager
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
        raise ModelError(f"what it sent is not a reply: {get_class_name(type(error))}: {error}"[:300]) from error


def _read_chat(raw: object, calls: list[ToolCall]) -> ModelReply:
    choice = get_first_candidate(_get_items_of_reply(raw, "choices"))
    message = get_member(choice, "message")
    if not isinstance(message, dict):
        raise _build_reply_error(raw)
    refusal = get_text(message, "refusal")
    content = message.get("content")
    text = content if isinstance(content, str) else _join_texts(get_items(content))
    history: JsonObject = {"role": "assistant", "content": content if content is not None else (refusal or None)}
    if calls:
        history |= {key: value for key, value in message.items() if key not in _CHAT_MESSAGE_MEMBERS}
        history["tool_calls"] = _rewrite_calls(get_raw_calls(message), calls, _is_anything, _build_chat_call)
    stop = "refused" if refusal else _read_stop(get_member(choice, "finish_reason"), _CHAT_STOPS)
    return ModelReply(text=text or refusal, messages=(history,), stop=stop)


def _build_chat_call(raw_call: JsonObject, call: ToolCall) -> JsonObject:
    """Return a call as it goes back: with the id that its result will have, and arguments as text."""
    extra = {key: value for key, value in raw_call.items() if key not in CALL_MEMBERS}
    function = {"name": call.name, "arguments": to_arguments_text(call)}
    return {"id": call.tool_call_id, "type": "function", "function": function, **extra}


def _read_responses(raw: object, calls: list[ToolCall]) -> ModelReply:
    output = get_member(raw, "output")
    if not isinstance(output, list) or get_member(raw, "status") == "failed":
        raise _build_reply_error(raw)
    messages = [item for item in output if get_member(item, "type") == "message"]
    text, refusal = (
        "".join(_join_texts(get_items(message, "content"), member) for message in messages)
        for member in ("text", "refusal")
    )
    reasons = [get_member(get_member(raw, "incomplete_details"), "reason") or get_member(raw, "status")]
    reasons += [get_member(item, "status") for item in output if _is_responses_call(item)]
    stops = ("refused" if refusal else "", *(_read_stop(reason, _RESPONSES_STOPS) for reason in reasons))
    history = _rewrite_calls(output, calls, _is_responses_call, _build_responses_call)
    return ModelReply(text=text or refusal, messages=tuple(history), stop=next(filter(None, stops), ""))


def _is_responses_call(item: object) -> bool:
    return get_member(item, "type") in ("function_call", "custom_tool_call") or is_search_call(item)


def _build_responses_call(item: JsonObject, call: ToolCall) -> JsonObject:
    arguments = to_arguments_text(call)
    rewritten = {"type": "function_call", "call_id": call.tool_call_id, "name": call.name, "arguments": arguments}
    return {**rewritten, "id": item["id"]} if item.get("id") and not is_search_call(item) else rewritten


def _read_anthropic(raw: object, calls: list[ToolCall]) -> ModelReply:
    content = get_member(raw, "content")
    if not isinstance(content, list) or get_member(raw, "role") not in (None, "assistant"):
        raise _build_reply_error(raw)
    history = _rewrite_calls(content, calls, _is_tool_use, _build_tool_use)
    return ModelReply(
        text=_join_texts(block for block in history if get_member(block, "type") == "text"),
        messages=({"role": "assistant", "content": history},),
        stop=_read_stop(get_member(raw, "stop_reason"), _ANTHROPIC_STOPS),
    )


def _is_tool_use(block: object) -> bool:
    return get_text(block, "type") == "tool_use"


def _build_tool_use(block: JsonObject, call: ToolCall) -> JsonObject:
    return {**block, "id": call.tool_call_id, "input": to_arguments_object(call)}


def _read_gemini(raw: object, calls: list[ToolCall]) -> ModelReply:
    block_reason = get_member(get_member(raw, "prompt_feedback", "promptFeedback"), "block_reason", "blockReason")
    if block_reason is not None and not get_items(raw, "candidates"):
        return ModelReply(stop="refused")
    candidate = get_first_candidate(_get_items_of_reply(raw, "candidates"))
    finish_reason = get_member(candidate, "finish_reason", "finishReason")
    content = get_member(candidate, "content")
    if not isinstance(content, dict) and (content is not None or finish_reason is None):
        raise _build_reply_error(raw)
    history = _rewrite_calls(get_items(content, "parts"), calls, _is_function_call, _build_function_call)
    return ModelReply(
        text=_join_texts(part for part in history if not get_member(part, "thought")),
        messages=({"role": "model", "parts": history},),
        stop=_read_stop(finish_reason, _GEMINI_STOPS),
    )


def _is_function_call(part: object) -> bool:
    return get_raw_call(part) is not None


def _build_function_call(part: JsonObject, call: ToolCall) -> JsonObject:
    rest = {key: value for key, value in part.items() if key not in ("function_call", "functionCall")}
    return {**rest, "function_call": {**get_raw_call(part), "id": call.tool_call_id}}


def _is_anything(_: object) -> bool:
    return True


def _rewrite_calls(
    items: Sequence[JsonObject],
    calls: Sequence[ToolCall],
    is_call: Callable[[JsonObject], bool],
    rewrite: Callable[[JsonObject, ToolCall], JsonObject],
) -> list[JsonObject]:
    """
    Return the parts of a reply as they go back to the provider: each call with the id that its result will have.

    Raises:
        ModelError: The parts hold other calls than those that were read.
    """
    if sum(map(is_call, items)) != len(calls):
        raise ModelError("what it sent has calls in places where no reply has them.")
    unused_calls = iter(calls)
    return [rewrite(item, next(unused_calls)) if is_call(item) else item for item in items]


# ── why a reply ended ────────────────────────────────────────────────────────────────────────────

_CHAT_STOPS: Final = {
    **dict.fromkeys(("stop", "tool_calls", "tool_call", "function_call", "tool_use"), ""),
    **dict.fromkeys(("end_turn", "stop_sequence", "eos", "eos_token"), ""),
    "content_filter": "refused",
}  # fmt: skip
_RESPONSES_STOPS: Final = {"completed": "", "content_filter": "refused"}
_ANTHROPIC_STOPS: Final = {
    **dict.fromkeys(("end_turn", "tool_use", "stop_sequence"), ""), "refusal": "refused", "pause_turn": "pause"
}  # fmt: skip
_GEMINI_STOPS: Final = {
    "stop": "",
    **dict.fromkeys(
        ("safety", "prohibited_content", "recitation", "blocklist", "spii", "model_armor", "image_safety",
         "image_prohibited_content", "image_recitation"), "refused"
    ),
}  # fmt: skip


def _read_stop(reason: object, stops: Mapping[str, str]) -> str:
    """Return why a reply ended; one that ended for a reason that is not in *stops* counts as cut off."""
    return "" if reason is None else stops.get(str(reason).rpartition(".")[2].lower(), "truncated")


# ── reading ──────────────────────────────────────────────────────────────────────────────────────

_CHAT_MESSAGE_MEMBERS: Final = frozenset(
    ("role", "content", "refusal", "tool_calls", "function_call", "annotations", "audio")
)
"""The members of a chat message that are not sent back as they are; others, such as signatures, are."""

_READERS: dict[str, Callable[[object, list[ToolCall]], ModelReply]] = {
    "openai-chat": _read_chat,
    "openai-responses": _read_responses,
    "anthropic": _read_anthropic,
    "gemini": _read_gemini,
}


def _join_texts(parts: Iterable[object], member: str = "text") -> str:
    return "".join(get_text(part, member) for part in parts)


def _get_items_of_reply(raw: object, name: str) -> Sequence[object]:
    items = get_items(raw, name)
    if not items:
        raise _build_reply_error(raw)
    return items


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
    return _keep_counts(counts)


def _keep_counts(usage: object) -> dict[str, int]:
    """Return what is a count in what a model says of its usage."""
    counts = dict.items(usage) if has_type(usage, dict) else ()
    return {name: count for name, count in counts if type(name) is str and type(count) is int}


def add_usage(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    """Return the sum of two counts of tokens."""
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}
