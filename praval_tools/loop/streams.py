"""Assembles the chunks of a streamed reply into the response that the provider would have sent whole."""

from __future__ import annotations

from collections.abc import Hashable, Set
from typing import Final, Protocol

from praval_tools.errors import ModelError
from praval_tools.formats.format import WireObject, to_arguments_object
from praval_tools.formats.openai_chat import CALL_MEMBERS, add_call_delta, get_call_deltas
from praval_tools.formats.response_fields import (
    get_first_candidate,
    get_items,
    get_member,
    get_text,
    join_arguments,
    to_plain_data,
)
from praval_tools.tools.call import ToolCall


class StreamAssembler(Protocol):
    """Takes the chunks of one format, in order."""

    def feed(self, chunk: object) -> str:
        """Take a chunk and return the text in it."""

    def build_response(self) -> object:
        """Return the response; raise `ModelError` where the stream ended too early."""


def make_assembler(api_format: str) -> StreamAssembler:
    """
    Return an assembler for the chunks of a format.

    Raises:
        ModelError: Streams of this format cannot be read.
    """
    assemblers: dict[str, type[StreamAssembler]] = {
        "openai-chat": _ChatAssembler,
        "openai-responses": _ResponsesAssembler,
        "anthropic": _AnthropicAssembler,
    }
    if api_format not in assemblers:
        raise ModelError(f"streams in {api_format!r} are not read by a loop; return the whole reply.")
    return assemblers[api_format]()


def _build_cut_stream_error() -> ModelError:
    return ModelError("its stream ended in the middle", retryable=True)


class _ChatAssembler:
    def __init__(self) -> None:
        self._message: WireObject = {}
        self._calls: dict[Hashable, WireObject] = {}
        self._finish_reason: object = None
        self._usage: object = None

    def feed(self, chunk: object) -> str:
        if (error := get_member(chunk, "error")) is not None:
            raise ModelError(get_text(error, "message") or "its stream says that it failed", retryable=True)
        self._usage = to_plain_data(get_member(chunk, "usage")) or self._usage
        choice = get_first_candidate(get_items(chunk, "choices"))
        if self._finish_reason not in _CUT_REASONS:  # some servers say "stop" once more
            self._finish_reason = get_member(choice, "finish_reason") or self._finish_reason
        delta = to_plain_data(get_member(choice, "delta"))
        for position, call_delta in enumerate(get_call_deltas(delta)):
            call = add_call_delta(self._calls, position, call_delta)
            _add_members(call["extra"], call_delta, CALL_MEMBERS)
        _add_members(self._message, delta, _UNASSEMBLED_MEMBERS)
        return get_text(delta, "content")

    def build_response(self) -> object:
        if self._finish_reason is None:
            raise _build_cut_stream_error()
        calls = [
            {**call["extra"], "id": call["id"], "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in self._calls.values()
        ]
        message = {**self._message, "tool_calls": calls}
        return {"choices": [{"message": message, "finish_reason": self._finish_reason}], "usage": self._usage}


_CUT_REASONS: Final = ("length", "content_filter")
"""Why a reply ended that is not whole, whatever its stream says after that."""

_UNASSEMBLED_MEMBERS: Final = frozenset(("role", "tool_calls", "function_call"))
"""The members of a chat delta that are not simply joined."""


def _add_members(whole: WireObject, delta: object, omitted: Set[str]) -> None:
    """Add the members of a piece to the *whole*: texts and lists are joined, the last of other values counts."""
    for name, value in delta.items() if isinstance(delta, dict) else ():
        if name not in omitted and value is not None:
            is_joined = isinstance(value, str | list) and type(whole.get(name)) is type(value)
            whole[name] = whole[name] + value if is_joined else value


class _ResponsesAssembler:
    def __init__(self) -> None:
        self._response: object = None
        self._items: list[object] = []

    def feed(self, chunk: object) -> str:
        kind = get_text(chunk, "type")
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            self._response = to_plain_data(get_member(chunk, "response"))
        elif kind == "response.output_item.done":
            self._items.append(to_plain_data(get_member(chunk, "item")))
        elif kind == "error":
            raise ModelError(get_text(chunk, "message") or "its stream says that it failed", retryable=True)
        return get_text(chunk, "delta") if kind == "response.output_text.delta" else ""

    def build_response(self) -> object:
        if self._response is None:
            raise _build_cut_stream_error()
        response = self._response
        if isinstance(response, dict) and response.get("status") != "failed" and not response.get("output"):
            return {**response, "output": self._items}  # some servers leave it empty in the last event
        return response


class _AnthropicAssembler:
    def __init__(self) -> None:
        self._blocks: dict[object, WireObject] = {}
        self._input_json: dict[object, object] = {}
        self._stop_reason: object = None
        self._is_complete = False
        self._usage: WireObject = {}

    def feed(self, chunk: object) -> str:
        kind, index = get_member(chunk, "type"), get_member(chunk, "index")
        if kind == "message_start":
            self._usage |= to_plain_data(get_member(get_member(chunk, "message"), "usage")) or {}
        elif kind == "content_block_start":
            self._blocks[index] = to_plain_data(get_member(chunk, "content_block")) or {}
        elif kind == "content_block_delta" and index in self._blocks:
            return self._apply_delta(index, get_member(chunk, "delta"))
        elif kind == "message_delta":
            self._stop_reason = get_member(get_member(chunk, "delta"), "stop_reason") or self._stop_reason
            self._usage |= to_plain_data(get_member(chunk, "usage")) or {}
        elif kind == "message_stop":
            self._is_complete = True
        elif kind == "error":
            raise ModelError(get_text(get_member(chunk, "error"), "message") or "its stream failed", retryable=True)
        return ""

    def _apply_delta(self, index: object, delta: object) -> str:
        block, kind = self._blocks[index], get_member(delta, "type")
        if kind == "input_json_delta":
            self._input_json[index] = join_arguments(self._input_json.get(index), get_member(delta, "partial_json"))
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), to_plain_data(get_member(delta, "citation"))]
        else:
            for name in ("text", "thinking", "signature"):
                if piece := get_text(delta, name):
                    block[name] = (block.get(name) or "") + piece
            return get_text(delta, "text")
        return ""

    def build_response(self) -> object:
        if not self._is_complete or self._stop_reason is None:
            raise _build_cut_stream_error()
        content = [self._complete_block(index, block) for index, block in self._blocks.items()]
        return {"role": "assistant", "content": content, "stop_reason": self._stop_reason, "usage": self._usage}

    def _complete_block(self, index: object, block: WireObject) -> WireObject:
        """Return a block with its input: that of a call as it came, since it is read so; a server tool's as JSON."""
        received = self._input_json.get(index)
        if not received:
            return block
        is_ours = block.get("type") == "tool_use"
        return {**block, "input": received if is_ours else to_arguments_object(ToolCall(arguments=received))}
