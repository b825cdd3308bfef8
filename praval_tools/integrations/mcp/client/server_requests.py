"""Ends the connection to an MCP server that sends too many requests and takes no answers."""

from __future__ import annotations

from types import TracebackType
from typing import Final

from attrs import define, field
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse

from praval_tools.integrations.mcp.client.transport import Delivery, TransportStreams

MAX_OPEN_REQUESTS: Final = 1_000


def limit_requests(
    received: ReadStream[SessionMessage | Exception], sent: WriteStream[SessionMessage], delivery: Delivery
) -> TransportStreams:
    """Return the streams of a connection, which ends once the server has too many requests without an answer."""
    count = _OpenRequests(delivery)
    return _CountingReceiver(received, count), _CountingSender(sent, count)


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


class _CountingReceiver:
    """Passes on what the server sends."""

    def __init__(self, inner: ReadStream[SessionMessage | Exception], count: _OpenRequests) -> None:
        self._inner, self._count = inner, count

    @property
    def last_context(self) -> object:
        """The variables of whoever sent the last message, where the stream has them; the SDK asks for this."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        item = await self._inner.receive()
        self._is_too_much(item)
        return item

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    def __aiter__(self) -> _CountingReceiver:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        item = await self._inner.__anext__()
        if self._is_too_much(item):
            raise StopAsyncIteration
        return item

    def _is_too_much(self, item: SessionMessage | Exception) -> bool:
        return isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCRequest) and self._count.add()

    async def __aenter__(self) -> _CountingReceiver:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)


class _CountingSender:
    """Passes on what is sent to the server."""

    def __init__(self, inner: WriteStream[SessionMessage], count: _OpenRequests) -> None:
        self._inner, self._count = inner, count

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message."""
        await self._inner.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._count.number -= 1

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    async def __aenter__(self) -> _CountingSender:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)
