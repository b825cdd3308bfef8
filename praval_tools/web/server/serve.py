"""Serves the page until the process is interrupted or terminated."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Final

import uvicorn
from attrs import frozen
from starlette.types import ASGIApp

_GRACE_SECONDS: Final = 1
"""How long open streams and requests may take to end."""
_MAX_REQUESTS: Final = 400
"""How many requests and streams are served at once; others are refused, and may come again."""
_IDLE_SECONDS: Final = 20
"""How long a connection may be without a request."""


@frozen(kw_only=True)
class Certificate:
    """
    What the server shows to browsers by https.

    Args:
        chain: The file of the certificate and those above it.
        key: That of its private key.
    """

    chain: Path
    key: Path


def serve_app(app: ASGIApp, listener: socket.socket, certificate: Certificate | None = None) -> None:
    """Serve *app* at *listener*, with its lifespan; return when the process is terminated."""
    config = uvicorn.Config(
        app, ws="none", log_level="warning", access_log=False, server_header=False, proxy_headers=False,
        timeout_graceful_shutdown=_GRACE_SECONDS, timeout_keep_alive=_IDLE_SECONDS, limit_concurrency=_MAX_REQUESTS,
        ssl_certfile=None if certificate is None else certificate.chain,
        ssl_keyfile=None if certificate is None else certificate.key,
    )  # fmt: skip
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))
