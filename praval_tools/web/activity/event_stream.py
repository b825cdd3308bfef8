"""A response of server-sent events: notices of news, heart-beats, and an end for readers that do not read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from praval_tools.web.activity.feed import Feed, Subscription, TooManyStreamsError

HEARTBEAT_SECONDS: Final = 10.0
"""How often a stream without news sends a comment, and looks whether its session is over."""
SEND_SECONDS: Final = 10.0
"""How long a reader may take for a notice before it is dropped; its browser connects again."""
RETRY_MILLISECONDS: Final = 1_000

_HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}


class EventStream(Response):
    """
    Streams notices of one topic until the reader leaves, does not read, its session is over, or the server stops.

    Args:
        feed: Where the notices come from.
        topic: Which ones.
        session: Of which session the stream is.
        person: Whose session it is.
        seq: The number of the latest event that the page shows.
        is_session_live: Tells whether the session goes on.
        heartbeat: Seconds between heart-beats.
    """

    media_type = "text/event-stream"

    def __init__(
        self, feed: Feed, topic: str, *, session: str, seq: int, is_session_live: Callable[[], bool],
        heartbeat: float = HEARTBEAT_SECONDS, person: str = "",
    ) -> None:  # fmt: skip
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._feed, self._topic, self._session, self._seq = feed, topic, session, seq
        self._is_session_live, self._heartbeat, self._person = is_session_live, heartbeat, person

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._feed.subscribe(self._topic, self._session, self._seq, person=self._person) as subscription:
                await self._stream(subscription, receive, send)
        except TooManyStreamsError:
            text = "Too many pages are open: close some, or reload this one to see what is new.\n"
            await Response(text, 429, media_type="text/plain")(scope, receive, send)

    async def _stream(self, subscription: Subscription, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        writing = asyncio.ensure_future(self._write(subscription, send))
        leaving = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            await asyncio.wait((writing, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (writing, leaving):
                task.cancel()
            with suppress(asyncio.CancelledError, TimeoutError, OSError):
                await writing
            with suppress(asyncio.CancelledError):
                await leaving

    async def _write(self, subscription: Subscription, send: Send) -> None:
        await _send_text(send, f"retry: {RETRY_MILLISECONDS}\n\n")
        while self._is_session_live() and not self._feed.is_closed:
            seq = await subscription.wait(self._heartbeat)
            await _send_text(send, ": heart-beat\n\n" if seq is None else f"id: {seq}\nevent: news\ndata: {seq}\n\n")
        await _send_text(send, "event: end\ndata: The session is over.\n\n")
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_text(send: Send, text: str) -> None:
    """Send; a reader that does not read in time is dropped with `TimeoutError`."""
    message = {"type": "http.response.body", "body": text.encode(), "more_body": True}
    await asyncio.wait_for(send(message), SEND_SECONDS)


def find_last_seq(request: Request) -> int:
    """Return the number of the latest event that a page shows: of a browser that connects again, or of the page."""
    for text in (request.headers.get("last-event-id", ""), request.query_params.get("after", "")):
        if text.isascii() and text.isdigit() and len(text) < 19:
            return int(text)
    return 0
