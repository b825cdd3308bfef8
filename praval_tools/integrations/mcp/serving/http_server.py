"""Runs the HTTP application of an MCP server by uvicorn, with a time limit for clients that send no request."""

from __future__ import annotations

import asyncio
from typing import Final

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

_GRACE_SECONDS: Final = 3
"""How long requests that are served may take to end when the server is stopped."""


class TimedProtocol(H11Protocol):
    """uvicorn's protocol, which closes connections whose client does not send the head of a request in time."""

    head_seconds = 10.0
    """How long a client may take to send the head of a request."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_serving():
            self._stop_timer()
        elif self._head_timer is None:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _is_serving(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _await_head(self) -> None:
        self._head_timer = asyncio.get_running_loop().call_later(self.head_seconds, self._close_silent)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _close_silent(self) -> None:
        self._head_timer = None
        if not self._is_serving():
            self.transport.close()


def make_http_server(application: Starlette) -> uvicorn.Server:
    """Return a server of *application*; its `run(sockets=…)` ends when the process is interrupted or terminated."""
    config = uvicorn.Config(
        application, http=TimedProtocol, ws="none", log_level="warning", access_log=False, server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )  # fmt: skip
    return uvicorn.Server(config)
