"""Shared by the transports to MCP servers: which requests were sent, and why the connection ended."""

from __future__ import annotations

from typing import IO, Literal

import anyio
from attrs import define, field
from mcp.client._transport import TransportStreams as TransportStreams
from mcp_types import RequestId

FailureKind = Literal["not-sent", "lost", "refused", "no-session"]
"""Nothing was sent; it may have arrived; the server refused it unread; the server does not know the session."""


@define(eq=False)
class Delivery:
    """
    What is known of the requests of one connection.

    Args:
        sent: The requests of which the server may have got something.
        failures: What became of requests that have no answer of the server, where the transport knows.
        pipes: The open files of the connection, which a forked child closes.
        end_reason: Why the connection ended; empty as long as it has not.
        is_closing: Whether it is being closed from here.
        ended: Set once it has ended.
    """

    sent: set[RequestId] = field(factory=set)
    failures: dict[RequestId, tuple[FailureKind, str]] = field(factory=dict)
    pipes: tuple[IO[bytes], ...] = ()
    end_reason: str = ""
    is_closing: bool = False
    ended: anyio.Event = field(factory=anyio.Event)

    def report_end(self, reason: str) -> None:
        """Say that the connection has ended; the first reason counts, and none where it is closed from here."""
        self.end_reason = self.end_reason or ("" if self.is_closing else reason)
        self.ended.set()

    def forget(self, request: RequestId) -> None:
        """Drop what is known of a request that has ended."""
        self.sent.discard(request)
        self.failures.pop(request, None)


def describe_os_error(error: Exception) -> str:
    """Return what the system said, with the type of the error where it said nothing."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
