"""The chunks of a streamed reply, put together to what the provider would have sent whole."""

from __future__ import annotations

from typing import Any, Protocol

from praval_tools.errors import ModelError
from praval_tools.formats.openai_chat import add_call_delta
from praval_tools.formats.response_fields import get_items, get_member, get_text, to_plain_data


class StreamAssembler(Protocol):
    """Takes the chunks of one format, in order."""

    def feed(self, chunk: Any) -> str:
        """Take a chunk and return what it adds to the text."""

    def build_response(self) -> Any:
        """Return the reply; raise `ModelError` where the stream ended too early."""


def make_assembler(api_format: str) -> StreamAssembler:
    """
    Return what puts the chunks of a format together.

    Raises:
        ModelError: Streams of this format are not known.
    """
    kinds: dict[str, type] = {
        "openai-chat": _ChatAssembler,
        "openai-responses": _ResponsesAssembler,
        "anthropic": _AnthropicAssembler,
    }
    if api_format not in kinds:
        raise ModelError(f"streams in {api_format!r} are not read by a loop; return the whole reply.")
    made: StreamAssembler = kinds[api_format]()
    return made


def _build_cut_stream_error() -> ModelError:
    return ModelError("its stream ended in the middle", retryable=True)


class _ChatAssembler:
    def __init__(self) -> None:
        self._text = self._refusal = ""
        self._calls: dict[Any, dict[str, str]] = {}
        self._finish_reason: Any = None
        self._usage: Any = None

    def feed(self, chunk: Any) -> str:
        if (told := get_member(chunk, "error")) is not None:
            raise ModelError(get_text(told, "message") or "its stream says that it failed", retryable=True)
        self._usage = to_plain_data(get_member(chunk, "usage")) or self._usage
        said = ""
        for choice in get_items(chunk, "choices")[:1]:
            delta = get_member(choice, "delta")
            said += get_text(delta, "content")
            self._refusal += get_text(delta, "refusal")
            for at, one in enumerate(get_items(delta, "tool_calls")):
                add_call_delta(self._calls, at, one)
            self._finish_reason = get_member(choice, "finish_reason") or self._finish_reason
        self._text += said
        return said

    def build_response(self) -> Any:
        if self._finish_reason is None:
            raise _build_cut_stream_error()
        message = {"content": self._text or None, "refusal": self._refusal or None, "tool_calls": [
            {"id": one["id"], "function": {"name": one["name"], "arguments": one["arguments"]}}
            for one in self._calls.values()
        ]}  # fmt: skip
        return {"choices": [{"message": message, "finish_reason": self._finish_reason}], "usage": self._usage}


class _ResponsesAssembler:
    def __init__(self) -> None:
        self._response: Any = None

    def feed(self, chunk: Any) -> str:
        kind = get_text(chunk, "type")
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            self._response = to_plain_data(get_member(chunk, "response"))
        elif kind == "error":
            raise ModelError(get_text(chunk, "message") or "its stream says that it failed", retryable=True)
        return get_text(chunk, "delta") if kind == "response.output_text.delta" else ""

    def build_response(self) -> Any:
        if self._response is None:
            raise _build_cut_stream_error()
        return self._response


class _AnthropicAssembler:
    def __init__(self) -> None:
        self._blocks: dict[Any, dict[str, Any]] = {}
        self._input_json: dict[Any, str] = {}
        self._stop_reason: Any = None
        self._is_complete = False
        self._usage: dict[str, Any] = {}

    def feed(self, chunk: Any) -> str:
        kind, at = get_member(chunk, "type"), get_member(chunk, "index")
        if kind == "message_start":
            self._usage |= to_plain_data(get_member(get_member(chunk, "message"), "usage")) or {}
        elif kind == "content_block_start":
            self._blocks[at] = to_plain_data(get_member(chunk, "content_block")) or {}
        elif kind == "content_block_delta" and at in self._blocks:
            return self._apply_delta(at, get_member(chunk, "delta"))
        elif kind == "message_delta":
            self._stop_reason = get_member(get_member(chunk, "delta"), "stop_reason") or self._stop_reason
            self._usage |= to_plain_data(get_member(chunk, "usage")) or {}
        elif kind == "message_stop":
            self._is_complete = True
        elif kind == "error":
            raise ModelError(get_text(get_member(chunk, "error"), "message") or "its stream failed", retryable=True)
        return ""

    def _apply_delta(self, at: Any, delta: Any) -> str:
        block, kind = self._blocks[at], get_member(delta, "type")
        if kind == "input_json_delta":
            self._input_json[at] = self._input_json.get(at, "") + get_text(delta, "partial_json")
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), to_plain_data(get_member(delta, "citation"))]
        else:
            for name in ("text", "thinking", "signature"):
                if piece := get_text(delta, name):
                    block[name] = (block.get(name) or "") + piece
            return get_text(delta, "text")
        return ""

    def build_response(self) -> Any:
        if not self._is_complete:
            raise _build_cut_stream_error()
        content = [{**block, "input": self._input_json[at]} if self._input_json.get(at) else block
                   for at, block in self._blocks.items()]  # fmt: skip
        return {"role": "assistant", "content": content, "stop_reason": self._stop_reason, "usage": self._usage}
