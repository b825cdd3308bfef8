"""Runs an HTTP application by uvicorn, with time limits for clients that neither send nor read."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import h11
import uvicorn
from attrs import frozen
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

_NEVER: Final = 7 * 24 * 3600
"""Seconds of uvicorn's own limit of idle connections: ours comes first."""

GRACE_SECONDS: Final = 3
"""How long requests that are served may take to end when the server is stopped."""

_MAX_OPEN_FILES: Final = 65_536
MAX_WAITING_CONNECTIONS: Final = 1_000
_MAX_ACCEPTED_AT_ONCE: Final = 100
"""How many connections are taken before the first of those that wait too long are dropped."""


class WaitingConnections:
    """
    The connections of one server that wait for their clients, those that have waited longest first.

    A client has to send a request or the rest of one, or to read its answer. Whoever can reach the port can leave that
    undone, with or without a token: where there are too many such connections, the one that has waited longest is
    dropped, so that nobody keeps others out by holding connections.

    Args:
        limit: How many may wait at once.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._transports: dict[object, asyncio.Transport] = {}

    def add(self, connection: object, transport: asyncio.Transport) -> None:
        """Let a connection wait, from now on unless it does so already."""
        self._transports.setdefault(connection, transport)
        if len(self._transports) > self._limit:
            self._transports.pop(next(iter(self._transports))).abort()

    def remove(self, connection: object) -> None:
        """Forget a connection, which waits no more."""
        self._transports.pop(connection, None)


class TimedProtocol(H11Protocol):
    """
    uvicorn's protocol, which drops connections whose client falls silent.

    It does so where the head of a request does not come, and where nothing of an answer that waits is read.
    """

    waiting: WaitingConnections
    """Those of its server."""

    head_seconds = 60.0
    """How long a connection may be without a request: until the head of the first, or of the next, has come."""

    read_seconds = 30.0
    """How long a client may read nothing of what it has asked for."""

    _head_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None
    _is_unread = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        connection: socket.socket = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio does not for sockets of ours
        super().connection_made(transport)
        self._await_request()

    def handle_events(self) -> None:
        super().handle_events()
        self._note_waiting()

    def send_400_response(self, msg: str) -> None:
        if self.cycle is not None:  # what the application says of a request that breaks off has no place to go
            self.cycle.disconnected = True
        super().send_400_response(msg)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self.waiting.remove(self)
        for timer in (self._head_timer, self._read_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_unread = True
        self._note_waiting()
        waiting = self.transport.get_write_buffer_size()
        self._read_timer = _call_later(self.read_seconds, lambda: self._check_reading(waiting))

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_unread = False
        self._note_waiting()
        if self._read_timer is not None:
            self._read_timer.cancel()

    def _await_request(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
        self._head_timer = _call_later(self.head_seconds, self._close_if_silent)
        self._note_waiting()

    def _note_waiting(self) -> None:
        """Note whether it is the client's turn: to send a request, the rest of one, or to read the answer."""
        if not self._is_served() or self.conn.their_state is h11.SEND_BODY or self._is_unread:
            self.waiting.add(self, self.transport)
        else:
            self.waiting.remove(self)

    def _is_served(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _close_if_silent(self) -> None:
        if not self._is_served():
            self.transport.close()

    def _check_reading(self, waiting: int) -> None:
        """Drop the connection if as much as before waits to be read; a slow client reads some of it."""
        now_waiting = self.transport.get_write_buffer_size()
        if now_waiting >= waiting:
            self.transport.abort()
        else:
            self._read_timer = _call_later(self.read_seconds, lambda: self._check_reading(now_waiting))


def _call_later(seconds: float, function: Callable[[], object]) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_later(seconds, function)


@frozen(kw_only=True)
class Certificate:
    """
    What a server shows to its clients by https.

    Args:
        chain: The file of the certificate and those above it.
        key: That of its private key.
    """

    chain: Path
    key: Path


def make_http_server(
    application: ASGIApp, *, max_waiting_connections: int = MAX_WAITING_CONNECTIONS, grace_seconds: int = GRACE_SECONDS,
    certificate: Certificate | None = None, reads_proxy_headers: bool = True,
    on_stop: Callable[[], object] | None = None,
) -> uvicorn.Server:  # fmt: skip
    """
    Return a server of *application*; its `run(sockets=…)` ends when the process is interrupted or terminated.

    Args:
        application: What it serves.
        max_waiting_connections: Most connections that wait for their clients; never more than a quarter of the files
            that the process may open.
        grace_seconds: How long requests that are served may take to end when the server is stopped.
        certificate: Serve https with it.
        on_stop: Called when it begins to stop: it ends what would not end by itself.
        reads_proxy_headers: Take the client's address from what a proxy on the loopback says.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = max_waiting_connections if files == resource.RLIM_INFINITY else min(max_waiting_connections, files // 4)

    class ServerProtocol(TimedProtocol):
        waiting = WaitingConnections(limit)

    class StoppingServer(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            if on_stop is not None:
                on_stop()
            await super().shutdown(sockets)

    config = uvicorn.Config(
        application, http=ServerProtocol, ws="none", log_level="warning", access_log=False, server_header=False,
        timeout_keep_alive=_NEVER, timeout_graceful_shutdown=grace_seconds, proxy_headers=reads_proxy_headers,
        backlog=_MAX_ACCEPTED_AT_ONCE,
        ssl_certfile=None if certificate is None else certificate.chain,
        ssl_keyfile=None if certificate is None else certificate.key,
    )  # fmt: skip
    return StoppingServer(config)


def allow_many_files() -> None:
    """Let this process open as many files as the system lets it: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
