"""Records on their way into the store, and what a run learns of its call meanwhile."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import msgspec

from praval_tools.errors import JournalError, JournalWarning, outside
from praval_tools.execution.effects import Append, Run
from praval_tools.journal.events import EventType
from praval_tools.journal.replay import OPEN, Entry
from praval_tools.journal.stats import UsageStats
from praval_tools.journal.storage.protocol import Answer, Item, Record, Status, Store
from praval_tools.runs import call_records
from praval_tools.runs.open_run import OpenRun
from praval_tools.tools.call import Outcome

Met = Answer | BaseException | None
"""What came of an append: the answer, or what was raised instead; None: nobody has waited for it yet."""


def unsettled(before: str, after: str) -> bool:
    """Tell whether the next call of the same content is to find one that stood, and stands, so."""
    return after == "asked" or (before in OPEN and after != "done")


class Book(msgspec.Struct):
    """How far the writing about one call is."""

    note: call_records.Note
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
        return self.before in OPEN

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

    def ended(
        self, book: Book, item: Item, effect: str, outcome: Outcome, *, latency: float | None = None, met: Met = None
    ) -> Generator[Any, Any, Answer | None]:
        """Have the end of a call written, and count it then; not what the store refused, or has of another life."""
        counts = True
        try:
            answer = yield from self.landed(book, item, effect, outcome, met)
            counts = answer is not None and answer.status is Status.DONE
        except JournalError:
            counts = False
            raise
        finally:  # whoever was stopped meanwhile gave it to the store
            if counts:
                self.count(outcome, item.records[-1], latency)
        return answer

    def landed(
        self, book: Book, item: Item, effect: str, outcome: Outcome | None = None, met: Met = None
    ) -> Generator[Any, Any, Answer | None]:
        """Have *item* written; where something stops the caller meanwhile, learn what came of it before going."""
        try:
            return (yield from self.durable(book, item, effect, outcome, met))
        except (JournalError, GeneratorExit):
            raise
        except BaseException:
            if book.run is not None and any(one.attempt is not None for one in item.records):
                with suppress(JournalError):
                    yield from self._again(book, item, effect, outcome)
            raise

    def _again(self, book: Book, item: Item, effect: str, outcome: Outcome | None) -> Generator[Any, Any, None]:
        """Have *item* written again, which says that it is there already; stopped once more, learn it later."""
        try:
            answer = yield from self.durable(book, item, effect, outcome)
        except JournalError:
            raise
        except BaseException:
            if outcome is not None:
                self.store.submit([item]).add_done_callback(lambda done: self._learn(book, item, outcome, done))
            raise
        if answer is not None and answer.status is Status.EXISTS:
            self.all_noticed(book, item, outcome)

    def _learn(self, book: Book, item: Item, outcome: Outcome, done: Future[list[Answer]]) -> None:
        if done.exception() is None and done.result()[0].status in (Status.DONE, Status.EXISTS):
            self.all_noticed(book, item, outcome)

    def durable(
        self, book: Book, item: Item, effect: str, outcome: Outcome | None = None, met: Met = None
    ) -> Generator[Any, Any, Answer | None]:
        """Have *item* written; None: it could not be, and the operator wants to go on."""
        try:
            if isinstance(met, BaseException):
                raise met
            answer: Answer = met or (yield Append(item))
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
