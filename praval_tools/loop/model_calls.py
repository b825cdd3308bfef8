"""Asks a model for its reply, sync or async; its method may return a reply, an awaitable or an iterator of pieces."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from inspect import iscoroutinefunction
from typing import Any

from praval_tools.errors import ToolUsageError
from praval_tools.loop.replies import wrap_reply_errors
from praval_tools.loop.streams import StreamAssembler, make_assembler
from praval_tools.loop.values import Model, ModelReply, ModelRequest, TextPiece

ReplyReader = Callable[[object], ModelReply]


class _StreamedReply:
    """The pieces of one reply, texts or a provider's chunks, and the reply that they make up."""

    def __init__(self, request: ModelRequest, read: ReplyReader) -> None:
        self._request, self._read_reply = request, read
        self._text = ""
        self._assembler: StreamAssembler | None = None
        self._reply: ModelReply | None = None

    def add_piece(self, piece: object) -> TextPiece | None:
        """Take a piece and return the text in it, if any."""
        if isinstance(piece, ModelReply):
            self._reply = piece
            return None
        if isinstance(piece, str):
            self._text += piece
            return TextPiece(piece, self._request.step) if piece else None
        if self._assembler is None:
            self._assembler = make_assembler(self._request.api_format)
        with wrap_reply_errors():
            text = self._assembler.feed(piece)
        return TextPiece(text, self._request.step) if text else None

    def build_reply(self) -> ModelReply:
        """Return the reply."""
        if self._reply is not None:
            return self._read_reply(self._reply)
        if self._assembler is None:
            return self._read_reply(self._text)
        with wrap_reply_errors():
            response = self._assembler.build_response()
        return self._read_reply(response)


def ask_model(model: Model, request: ModelRequest, read: ReplyReader) -> Generator[TextPiece, None, ModelReply]:
    """
    Ask from sync code; yields the text of the model as it comes.

    Raises:
        ToolUsageError: The model is async.
    """
    answer = model.reply(request)
    if hasattr(answer, "__await__") or hasattr(answer, "__anext__"):
        if hasattr(answer, "close"):
            answer.close()
        raise ToolUsageError(
            f"{type(model).__name__} is async; use `await loop.arun(…)` or `loop.astream(…)`.", "async-model"
        )
    if not hasattr(answer, "__next__"):
        return read(answer)
    pieces = _StreamedReply(request, read)
    try:
        for piece in answer:
            if (text := pieces.add_piece(piece)) is not None:
                yield text
    finally:
        if callable(close := getattr(answer, "close", None)):
            close()
    return pieces.build_reply()


async def aask_model(model: Model, request: ModelRequest, read: ReplyReader) -> AsyncGenerator[TextPiece | ModelReply]:
    """Ask from async code; a sync model is asked in a thread. Yields its text as it comes, and the reply last."""
    import asyncio

    if getattr(model, "is_async", False) or iscoroutinefunction(model.reply):
        answer = model.reply(request)
    else:
        answer = await asyncio.to_thread(model.reply, request)
    if hasattr(answer, "__await__"):
        answer = await answer
    if not hasattr(answer, "__anext__") and not hasattr(answer, "__next__"):
        yield read(answer)
        return
    pieces = _StreamedReply(request, read)
    try:
        if hasattr(answer, "__anext__"):
            async for piece in answer:
                if (text := pieces.add_piece(piece)) is not None:
                    yield text
        else:
            while (piece := await asyncio.to_thread(next, answer, _STREAM_END)) is not _STREAM_END:
                if (text := pieces.add_piece(piece)) is not None:
                    yield text
    finally:
        await _close_stream(answer)
    yield pieces.build_reply()


_STREAM_END: Any = object()


async def _close_stream(answer: object) -> None:
    close = getattr(answer, "aclose", None) or getattr(answer, "close", None)
    if callable(close):
        try:
            ending = close()
        except ValueError:  # a generator whose next piece a thread still waits for; it ends with that
            return
        if hasattr(ending, "__await__"):
            await ending
