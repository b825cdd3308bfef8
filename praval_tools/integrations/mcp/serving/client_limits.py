"""Time limits for the clients of an HTTP server that fall silent in the middle of a request or of its answer."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class ClientTimeoutError(ConnectionError):
    """A client did not take a part of its answer in time; its connection is closed."""


class ClientLimits:
    """
    ASGI middleware that ends the requests of clients that fall silent.

    The wait between two events of a stream is not limited: it is the server that is silent then.

    Args:
        app: The application.
        timeout: Seconds in which a client must send its whole request, and take each part of the answer.
    """

    def __init__(self, app: ASGIApp, timeout: float) -> None:
        self._app, self._timeout = app, timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        deadline = asyncio.get_running_loop().time() + self._timeout
        is_complete = has_begun = is_late = False

        async def receive_in_time() -> Message:
            nonlocal is_complete, is_late
            if is_complete:  # from here on what comes is that the client went away
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                is_late = True
                return {"type": "http.disconnect"}
            is_complete = not message.get("more_body", False)
            return message

        async def send_in_time(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            try:
                async with asyncio.timeout(self._timeout):
                    await send(message)
            except TimeoutError:
                raise ClientTimeoutError("the client does not take its answer") from None

        try:
            await self._app(scope, receive_in_time, send_in_time)
        except Exception:
            if not is_late:  # what an application says of a request that breaks off is no news
                raise
        if is_late and not has_begun:
            await send({"type": "http.response.start", "status": 408, "headers": [(b"connection", b"close")]})
            await send({"type": "http.response.body", "body": b""})
