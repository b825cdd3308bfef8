"""
Checks what an MCP server sends before the SDK sees it.

Secrets are taken out of its requests and notifications, which the SDK writes into its log where they are malformed, and
out of its errors, which the SDK writes into spans. The connection ends where the server sends too many requests and
takes no answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from attrs import define, field
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCRequest, JSONRPCResponse

from praval_tools.integrations.foreign_text import remove_secrets
from praval_tools.integrations.mcp.client.transport import Delivery, TransportStreams

MAX_OPEN_REQUESTS: Final = 1_000


def check_messages(
    received: ReadStream[SessionMessage | Exception], sent: WriteStream[SessionMessage], delivery: Delivery,
    secrets: Sequence[str],
) -> TransportStreams:  # fmt: skip
    """
    Return the streams of a connection, which ends once the server has too many requests without an answer.

    What the server asks and tells comes without *secrets*; of an answer, its id and its error. Its result is checked
    where it is known what it answers.
    """
    count = _OpenRequests(delivery)
    return _CheckingReceiver(received, count, secrets), _CountingSender(sent, count)


def _remove_secrets(item: SessionMessage, secrets: Sequence[str]) -> SessionMessage:
    message = item.message
    is_answer = isinstance(message, JSONRPCResponse | JSONRPCError)
    names = ("id", "error") if is_answer else ("id", "method", "params")
    found = {name: getattr(message, name) for name in names if hasattr(message, name)}
    if is_answer and not isinstance(found["id"], str):  # a number is that of a request, whatever else has it
        del found["id"]
    cleaned = {name: _clean(value, secrets) for name, value in found.items()}
    return item if cleaned == found else replace(item, message=message.model_copy(update=cleaned))


def _clean(value: object, secrets: Sequence[str]) -> object:
    if isinstance(value, ErrorData):
        return value.model_copy(update={"message": _clean(value.message, secrets), "data": _clean(value.data, secrets)})
    try:
        return remove_secrets(value, secrets)
    except RecursionError:  # so deep that nothing reads it
        return {}


@define(eq=False)
class _OpenRequests:
    """
    How many requests of the server have no answer yet.

    Args:
        delivery: Where the end of the connection is reported.
        number: Their number.
    """

    delivery: Delivery
    number: int = field(default=0)

    def add(self) -> bool:
        """Count one more; tell whether that is too many."""
        self.number += 1
        if self.number <= MAX_OPEN_REQUESTS:
            return False
        self.delivery.report_end(f"it sent {self.number:,} requests and takes no answers")
        return True


class _Stream:
    """Passes the end of a block, and its own, on to another stream."""

    _inner: ReadStream[SessionMessage | Exception] | WriteStream[SessionMessage]

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)


class _CheckingReceiver(_Stream):
    """Passes on what the server sends, without secrets."""

    _inner: ReadStream[SessionMessage | Exception]

    def __init__(
        self, inner: ReadStream[SessionMessage | Exception], count: _OpenRequests, secrets: Sequence[str]
    ) -> None:
        self._inner, self._count, self._secrets = inner, count, secrets

    @property
    def last_context(self) -> object:
        """The variables of whoever sent the last message, where the stream has them; the SDK asks for this."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        item = await self._inner.receive()
        self._is_too_much(item)
        return self._clean(item)

    def __aiter__(self) -> _CheckingReceiver:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        item = await self._inner.__anext__()
        if self._is_too_much(item):
            raise StopAsyncIteration
        return self._clean(item)

    def _clean(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        return _remove_secrets(item, self._secrets) if self._secrets and isinstance(item, SessionMessage) else item

    def _is_too_much(self, item: SessionMessage | Exception) -> bool:
        return isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCRequest) and self._count.add()


class _CountingSender(_Stream):
    """Passes on what is sent to the server."""

    _inner: WriteStream[SessionMessage]

    def __init__(self, inner: WriteStream[SessionMessage], count: _OpenRequests) -> None:
        self._inner, self._count = inner, count

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message."""
        await self._inner.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._count.number -= 1
