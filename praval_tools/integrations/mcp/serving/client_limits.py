"""Ends HTTP requests whose client falls silent before it has sent all of them."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class ClientLimits:
    """
    ASGI middleware that ends requests whose client does not send them in time, with 408.

    How long an answer takes is not limited here: a stream may be silent for hours.

    Args:
        app: The application.
        timeout: Seconds in which a client must send its whole request.
    """

    def __init__(self, app: ASGIApp, timeout: float) -> None:
        self._app, self._timeout = app, timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        deadline = asyncio.get_running_loop().time() + self._timeout
        is_complete = is_late = False

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

        async def send_unless_late(message: Message) -> None:
            if not is_late:
                await send(message)

        try:
            await self._app(scope, receive_in_time, send_unless_late)
        except Exception:
            if not is_late:  # what an application says of a request that breaks off is not its fault
                raise
        if is_late:
            await send({"type": "http.response.start", "status": 408, "headers": [(b"connection", b"close")]})
            await send({"type": "http.response.body", "body": b""})
