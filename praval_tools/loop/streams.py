"""The chunks of a streamed reply, put together to what the provider would have sent whole."""

from __future__ import annotations

from typing import Any, Protocol

from praval_tools.errors import ModelError
from praval_tools.formats.openai_chat import take
from praval_tools.formats.response_fields import items_of, of, plain, text_of


class Assembler(Protocol):
    """Takes the chunks of one format, in order."""

    def feed(self, chunk: Any) -> str:
        """Take a chunk and return what it adds to the text."""

    def whole(self) -> Any:
        """Return the reply; raise `ModelError` where the stream ended too early."""


def assembler(api_format: str) -> Assembler:
    """
    Return what puts the chunks of a format together.

    Raises:
        ModelError: Streams of this format are not known.
    """
    kinds: dict[str, type] = {"openai-chat": _Chat, "openai-responses": _Responses, "anthropic": _Anthropic}
    if api_format not in kinds:
        raise ModelError(f"streams in {api_format!r} are not read by a loop; return the whole reply.")
    made: Assembler = kinds[api_format]()
    return made


def _cut() -> ModelError:
    return ModelError("its stream ended in the middle", retryable=True)


class _Chat:
    def __init__(self) -> None:
        self._text = self._refusal = ""
        self._calls: dict[Any, dict[str, str]] = {}
        self._finish: Any = None
        self._usage: Any = None

    def feed(self, chunk: Any) -> str:
        if (told := of(chunk, "error")) is not None:
            raise ModelError(text_of(told, "message") or "its stream says that it failed", retryable=True)
        self._usage = plain(of(chunk, "usage")) or self._usage
        said = ""
        for choice in items_of(chunk, "choices")[:1]:
            delta = of(choice, "delta")
            said += text_of(delta, "content")
            self._refusal += text_of(delta, "refusal")
            for at, one in enumerate(items_of(delta, "tool_calls")):
                take(self._calls, at, one)
            self._finish = of(choice, "finish_reason") or self._finish
        self._text += said
        return said

    def whole(self) -> Any:
        if self._finish is None:
            raise _cut()
        message = {"content": self._text or None, "refusal": self._refusal or None, "tool_calls": [
            {"id": one["id"], "function": {"name": one["name"], "arguments": one["arguments"]}}
            for one in self._calls.values()
        ]}  # fmt: skip
        return {"choices": [{"message": message, "finish_reason": self._finish}], "usage": self._usage}


class _Responses:
    def __init__(self) -> None:
        self._whole: Any = None

    def feed(self, chunk: Any) -> str:
        kind = text_of(chunk, "type")
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            self._whole = plain(of(chunk, "response"))
        elif kind == "error":
            raise ModelError(text_of(chunk, "message") or "its stream says that it failed", retryable=True)
        return text_of(chunk, "delta") if kind == "response.output_text.delta" else ""

    def whole(self) -> Any:
        if self._whole is None:
            raise _cut()
        return self._whole


class _Anthropic:
    def __init__(self) -> None:
        self._blocks: dict[Any, dict[str, Any]] = {}
        self._json: dict[Any, str] = {}
        self._stop: Any = None
        self._ended = False
        self._usage: dict[str, Any] = {}

    def feed(self, chunk: Any) -> str:
        kind, at = of(chunk, "type"), of(chunk, "index")
        if kind == "message_start":
            self._usage |= plain(of(of(chunk, "message"), "usage")) or {}
        elif kind == "content_block_start":
            self._blocks[at] = plain(of(chunk, "content_block")) or {}
        elif kind == "content_block_delta" and at in self._blocks:
            return self._delta(at, of(chunk, "delta"))
        elif kind == "message_delta":
            self._stop = of(of(chunk, "delta"), "stop_reason") or self._stop
            self._usage |= plain(of(chunk, "usage")) or {}
        elif kind == "message_stop":
            self._ended = True
        elif kind == "error":
            raise ModelError(text_of(of(chunk, "error"), "message") or "its stream failed", retryable=True)
        return ""

    def _delta(self, at: Any, delta: Any) -> str:
        block, kind = self._blocks[at], of(delta, "type")
        if kind == "input_json_delta":
            self._json[at] = self._json.get(at, "") + text_of(delta, "partial_json")
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), plain(of(delta, "citation"))]
        else:
            for name in ("text", "thinking", "signature"):
                if piece := text_of(delta, name):
                    block[name] = (block.get(name) or "") + piece
            return text_of(delta, "text")
        return ""

    def whole(self) -> Any:
        if not self._ended:
            raise _cut()
        content = [{**block, "input": self._json[at]} if self._json.get(at) else block
                   for at, block in self._blocks.items()]  # fmt: skip
        return {"role": "assistant", "content": content, "stop_reason": self._stop, "usage": self._usage}
