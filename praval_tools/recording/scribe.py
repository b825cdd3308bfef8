"""Records on their way into the store, and what a run learns of its call meanwhile."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import msgspec

from praval_tools.errors import JournalError, JournalWarning, outside
from praval_tools.execution.steps import Append, Run
from praval_tools.journal.events import EventType
from praval_tools.journal.protocol import Answer, Item, Record, Status, Store
from praval_tools.journal.replay import Entry
from praval_tools.journal.stats import UsageStats
from praval_tools.model.calls import Outcome
from praval_tools.recording import noting
from praval_tools.recording.openrun import OpenRun


class Book(msgspec.Struct):
    """How far the writing about one call is."""

    note: noting.Note
    run: OpenRun | None = None
    entry: Entry | None = None
    began: bool = False
    held: Record | None = None
    spent: frozenset[str] = frozenset()
    settled: frozenset[str] = frozenset()
    last: Run | None = None
    before: str = "new"

    @property
    def again(self) -> bool:
        """Whether the call was begun in an earlier life, and nothing is known of that: no refusal says more."""
        return self.before in ("doubt", "rerun")

    def unsettled(self, after: str) -> bool:
        """Tell whether the next call of the same content is to find this one, which stands so now."""
        return after == "asked" or (self.again and after != "done")

    @property
    def ran(self) -> bool:
        """Whether somebody entered the function in this life, or may yet."""
        return self.last is not None and (self.last.attempts > 0 or self.last.job is not None)


class Scribe:
    """
    Has records written, and lets the run know of them.

    Args:
        store: Where to.
        stats: Counts the calls.
        lenient: Go on where the store fails, with a warning.
    """

    def __init__(self, store: Store, stats: UsageStats, *, lenient: bool) -> None:
        self.store, self._stats, self.lenient = store, stats, lenient

    def count(self, outcome: Outcome, record: Record, latency: float | None = None) -> None:
        """Count a call that ended."""
        self._stats.record(record.agent, record.tool or "", outcome, duration_ms=latency, when=record.time)

    def landed(
        self, book: Book, item: Item, effect: str, outcome: Outcome | None = None
    ) -> Generator[Any, Any, Answer | None]:
        """Have *item* written; where something stops the caller meanwhile, learn what came of it before going."""
        try:
            return (yield from self.durable(book, item, effect, outcome))
        except (JournalError, GeneratorExit):
            raise
        except BaseException:
            if book.run is not None:  # written again, it is there already
                with suppress(JournalError):
                    answer = yield from self.durable(book, item, effect, outcome)
                    if answer is not None and answer.status is Status.EXISTS:
                        self.all_noticed(book, item, outcome)
            raise

    def durable(
        self, book: Book, item: Item, effect: str, outcome: Outcome | None = None
    ) -> Generator[Any, Any, Answer | None]:
        """Have *item* written; None: it could not be, and the operator wants to go on."""
        try:
            answer: Answer = yield Append(item)
            if answer.status is Status.FAILED and answer.error is not None:
                raise answer.error
        except JournalError as error:
            told = JournalError(error.store, error.problem, f"{effect} {error.fix}")
            if not self.lenient:
                raise told from error
            warnings.warn(f"{told} The call went on all the same.", JournalWarning, stacklevel=outside())
            return None
        if answer.status is Status.DONE:
            self.all_noticed(book, item, outcome)
        return answer

    def submit(self, item: Item) -> None:
        """Have *item* written without waiting for it; its loss is warned of."""
        try:
            self.store.submit([item]).add_done_callback(_done)
        except JournalError as error:
            warn_lost(error)

    def all_noticed(self, book: Book, item: Item, outcome: Outcome | None = None) -> None:
        """Let the run know of what is written, or on its way."""
        for record in item.records:
            self._noticed(book, record, outcome)

    def _noticed(self, book: Book, record: Record, outcome: Outcome | None = None) -> None:
        """Let the run know of what was written of its call."""
        if book.run is None or book.entry is None:
            return
        if record.type == EventType.AGENT_TOOL_CALL:
            book.entry.began(record)
        elif outcome is not None:
            book.entry.ended(record, outcome)
        else:
            book.run.recording.add(record)


def _done(done: Future[Any]) -> None:
    if (error := done.exception()) is not None:
        warn_lost(error)


def warn_lost(error: BaseException) -> None:
    """Warn of what could not be written, where nobody waits for it."""
    warnings.warn(f"A result was lost: {error}", JournalWarning, stacklevel=outside())
