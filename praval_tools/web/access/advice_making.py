"""`AdviceMaker`: makes advice in a thread beside the requests, for one span of days at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import Context
from datetime import datetime, timedelta
from typing import Final

from attrs import define, frozen

from praval_tools.forks import ForkSafeLock
from praval_tools.journal.index.usage import count_events_since
from praval_tools.journal.storage.protocol import Record, Store
from praval_tools.report.advice import Advice, collect_advice
from praval_tools.report.markup import Markup
from praval_tools.web.access.access import AccessReader

MAX_EVENTS: Final = 2_000_000
"""How many events are read; the command reads all."""
MAX_ROWS: Final = 200
"""How many advices are kept for a page."""
KEEPING_TIME: Final = timedelta(minutes=1)
"""How long advice that was made is shown before it is made anew."""
_FIRST_SECONDS: Final = 0.1
"""How long the request that has advice made waits for it: of a short journal it is there at once."""


@frozen(kw_only=True)
class SpanAdvice:
    """
    What the last days advise.

    Args:
        time: When it was made.
        events: How many events there were.
        is_read: Whether they were read: more than `MAX_EVENTS` are not.
        count: How many advices there are.
        rows: The first of them, as rows of a table.
        error: Why there are none.
    """

    time: datetime
    events: int = 0
    is_read: bool = True
    count: int = 0
    rows: tuple[Markup, ...] = ()
    error: Exception | None = None


@define
class AdviceProgress:
    """
    Advice that is being made.

    Args:
        days: Of how many days.
        events: How many events these have; None: they are still counted.
        count: How many of them are read.
    """

    days: int
    events: int | None = None
    count: int = 0


class AdviceMaker:
    """
    Makes the advice of some days when it is asked for, and keeps it for a minute, whoever asks.

    Args:
        access: The registry and its journal.
        build_row: Makes a row of a table of an advice.
    """

    def __init__(self, access: AccessReader, build_row: Callable[[Advice], Markup]) -> None:
        self._access, self._build_row = access, build_row
        self._lock = ForkSafeLock()
        self._progress: AdviceProgress | None = None
        self._made: dict[int, SpanAdvice] = {}

    def find_advice(self, store: Store, days: int) -> SpanAdvice | AdviceProgress:
        """
        Return the advice of the last *days*; where it is not there, what is being made, of these days or of others.

        Raises:
            Exception: What the making ended with; the next request tries again.
        """
        with self._lock:
            made = self._made.get(days)
            if made is not None and self._access.now() - made.time < KEEPING_TIME:
                return self._take_advice(days, made)
            if self._progress is not None:
                return self._progress
            progress = self._progress = AdviceProgress(days)
        thread = threading.Thread(
            target=Context().run, args=(self._make_advice, store, progress), name="praval-tools advice", daemon=True
        )
        thread.start()
        thread.join(_FIRST_SECONDS)
        with self._lock:
            made = self._made.get(days)
            return progress if made is None or thread.is_alive() else self._take_advice(days, made)

    def _take_advice(self, days: int, made: SpanAdvice) -> SpanAdvice:
        if made.error is not None:
            del self._made[days]
            raise made.error
        return made

    def _make_advice(self, store: Store, progress: AdviceProgress) -> None:
        try:
            made = self._collect_advice(store, progress)
        except Exception as error:  # raised to whoever asks next
            made = SpanAdvice(time=self._access.now(), error=error)
        with self._lock:
            self._made[progress.days], self._progress = made, None

    def _collect_advice(self, store: Store, progress: AdviceProgress) -> SpanAdvice:
        since = self._access.now() - timedelta(days=progress.days)
        progress.events = events = count_events_since(self._access.index, since)
        if events > MAX_EVENTS:
            return SpanAdvice(time=self._access.now(), events=events, is_read=False)
        records = self._count_read(store.read(since=since), progress)
        found = collect_advice(self._access.get_registry(), records, self._access.command_line)
        rows = tuple(map(self._build_row, found[:MAX_ROWS]))
        return SpanAdvice(time=self._access.now(), events=events, count=len(found), rows=rows)

    def _count_read(self, records: Iterable[Record], progress: AdviceProgress) -> Iterator[Record]:
        for record in records:
            if self._access.is_closed:
                raise _ClosedError
            progress.count += 1
            yield record


class _ClosedError(Exception):
    """The server stops before the advice is made."""
