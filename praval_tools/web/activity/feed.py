"""Tells open pages that something new was recorded: a small notice, upon which a page asks for its content again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from praval_tools.forks import ForkSafeLock
from praval_tools.journal.events import EventType
from praval_tools.journal.storage.protocol import Record
from praval_tools.tools.plain_managers import plain_manager

MAX_STREAMS: Final = 200
"""How many streams are open at once."""
MAX_STREAMS_OF_PERSON: Final = 16
"""How many of them are of one person, in all sessions: nobody alone takes those of the others."""
MAX_STREAMS_OF_SESSION: Final = 8
"""How many of them are of one session: a browser keeps one for each of its pages."""

_APPROVAL_TYPES: Final = frozenset((EventType.APPROVAL_ASKED.value, EventType.APPROVAL_ANSWERED.value))


class TooManyStreamsError(Exception):
    """There are as many streams as there may be."""


class Subscription:
    """
    What one open page waits for. However slow its reader is, one notice waits for it: the latest.

    Args:
        topic: `calls`, `approvals`, or `run:` and a run's id.
        seq: The number of the latest event that the page shows.
        loop: The event loop in which the page is served.
    """

    def __init__(self, topic: str, seq: int, loop: asyncio.AbstractEventLoop) -> None:
        self.topic, self.seq, self._loop = topic, seq, loop
        self._event = asyncio.Event()

    def notify(self, seq: int) -> None:
        """Announce to the page, from any thread, news up to *seq*."""

        def set_event() -> None:
            if seq > self.seq:
                self.seq = seq
                self._event.set()

        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(set_event)

    def wake(self) -> None:
        """Have the page look, from any thread, whether its stream goes on."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, seconds: float) -> int | None:
        """Return the number of the latest event once there is news; None if there is none in time."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return None
        self._event.clear()
        return self.seq


class Feed:
    """The open pages; a listener of a journal's index."""

    def __init__(
        self, *, max_streams: int = MAX_STREAMS, max_streams_of_session: int = MAX_STREAMS_OF_SESSION,
        max_streams_of_person: int = MAX_STREAMS_OF_PERSON,
    ) -> None:  # fmt: skip
        self._max_streams, self._max_streams_of_session = max_streams, max_streams_of_session
        self._max_streams_of_person = max_streams_of_person
        self._subscriptions: dict[Subscription, tuple[str, str]] = {}
        self._latest: dict[str, int] = {}
        self._lock = ForkSafeLock()
        self.is_closed = False

    def close(self) -> None:
        """End all streams, and those that begin from now on: the server stops."""
        with self._lock:
            self.is_closed, subscriptions = True, list(self._subscriptions)
        for subscription in subscriptions:
            subscription.wake()

    def publish(self, records: Sequence[Record]) -> None:
        """Tell the pages that show something of *records*, which are in order."""
        news = dict(_iter_topics(records))
        with self._lock:
            for topic in ("calls", "approvals"):
                self._latest[topic] = max(self._latest.get(topic, 0), news.get(topic, 0))
            subscriptions = list(self._subscriptions)
        for subscription in subscriptions:
            if subscription.topic in news:
                subscription.notify(news[subscription.topic])

    @plain_manager
    def subscribe(self, topic: str, session: str, seq: int, *, person: str = "") -> Iterator[Subscription]:
        """
        Announce news to a page, as long as this lasts.

        Args:
            topic: What it shows.
            session: Of whom it is.
            seq: The number of the latest event that it shows; what came later is news at once.
            person: Who is logged in there; empty: the session counts as a person of its own.

        Raises:
            TooManyStreamsError: There are as many streams as there may be.
        """
        subscription = Subscription(topic, seq, asyncio.get_running_loop())
        with self._lock:
            owners = self._subscriptions.values()
            is_full = (
                len(owners) >= self._max_streams
                or Counter(each for each, _ in owners)[session] >= self._max_streams_of_session
                or Counter(each for _, each in owners)[person or session] >= self._max_streams_of_person
            )
            if is_full:
                raise TooManyStreamsError
            self._subscriptions[subscription] = session, person or session
            latest = self._latest.get(topic, 0)
        if latest > seq:
            subscription.notify(latest)
        try:
            yield subscription
        finally:
            with self._lock:
                del self._subscriptions[subscription]

    @property
    def stream_count(self) -> int:
        """How many pages are open."""
        return len(self._subscriptions)


def _iter_topics(records: Sequence[Record]) -> Iterator[tuple[str, int]]:
    """Yield the topics of records, each with the number of the record; the last one of a topic counts."""
    for record in records:
        seq = record.seq or 0
        if record.call_id is not None:
            yield "calls", seq
        if record.type in _APPROVAL_TYPES:
            yield "approvals", seq
        if record.run_id is not None:
            yield f"run:{record.run_id}", seq
