"""Asking a model, whatever its method gives back: a reply, something to await, or pieces one after another."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from inspect import iscoroutinefunction
from typing import Any

from praval_tools.errors import ToolUsageError
from praval_tools.loop.replies import understood
from praval_tools.loop.streams import Assembler, assembler
from praval_tools.loop.values import ModelReply, ModelRequest, TextPiece

Read = Callable[[Any], ModelReply]


class _Pieces:
    """The pieces of one reply, texts or a provider's chunks, and what they come to."""

    def __init__(self, request: ModelRequest, read: Read) -> None:
        self._request, self._read = request, read
        self._text = ""
        self._made: Assembler | None = None
        self._reply: ModelReply | None = None

    def take(self, piece: Any) -> TextPiece | None:
        """Take a piece and return what it adds to the text."""
        if isinstance(piece, ModelReply):
            self._reply = piece
            return None
        if isinstance(piece, str):
            self._text += piece
            return TextPiece(piece, self._request.step) if piece else None
        if self._made is None:
            self._made = assembler(self._request.api_format)
        with understood():
            said = self._made.feed(piece)
        return TextPiece(said, self._request.step) if said else None

    def whole(self) -> ModelReply:
        """Return the reply."""
        if self._reply is not None:
            return self._reply
        if self._made is None:
            return self._read(self._text)
        with understood():
            whole = self._made.whole()
        return self._read(whole)


def ask(model: Any, request: ModelRequest, read: Read) -> Generator[TextPiece, None, ModelReply]:
    """
    Ask from sync code; yields what the model says as it comes.

    Raises:
        ToolUsageError: The model is one for async code.
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
    pieces = _Pieces(request, read)
    try:
        for piece in answer:
            if (said := pieces.take(piece)) is not None:
                yield said
    finally:
        if callable(close := getattr(answer, "close", None)):
            close()
    return pieces.whole()


async def aask(model: Any, request: ModelRequest, read: Read) -> AsyncGenerator[TextPiece | ModelReply]:
    """Ask from async code; a sync model is asked in a thread. Yields what it says as it comes, and the reply last."""
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
    pieces = _Pieces(request, read)
    try:
        if hasattr(answer, "__anext__"):
            async for piece in answer:
                if (said := pieces.take(piece)) is not None:
                    yield said
        else:
            while (piece := await asyncio.to_thread(next, answer, _END)) is not _END:
                if (said := pieces.take(piece)) is not None:
                    yield said
    finally:
        await _closed(answer)
    yield pieces.whole()


_END: Any = object()


async def _closed(answer: Any) -> None:
    close = getattr(answer, "aclose", None) or getattr(answer, "close", None)
    if callable(close):
        try:
            ending = close()
        except ValueError:  # a generator whose next piece a thread still waits for; it ends with that
            return
        if hasattr(ending, "__await__"):
            await ending
