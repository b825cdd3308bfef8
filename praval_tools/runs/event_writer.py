"""Records on their way into the store, and what a run learns of its call meanwhile."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import msgspec

from praval_tools.errors import JournalError, JournalWarning, get_user_stacklevel
from praval_tools.execution.effects import AppendToJournal, RunTool
from praval_tools.journal.events import EventType
from praval_tools.journal.replay import UNFINISHED_STATUSES, ReplayEntry
from praval_tools.journal.stats import UsageStats
from praval_tools.journal.storage.protocol import Answer, Item, Record, Status, Store
from praval_tools.runs import call_records
from praval_tools.runs.open_run import OpenRun
from praval_tools.tools.call import Outcome

AppendOutcome = Answer | BaseException | None
"""What came of an append: the answer, or what was raised instead; None: nobody has waited for it yet."""


def can_match_again(before: str, after: str) -> bool:
    """Tell whether the next call of the same content is to find one that stood, and stands, so."""
    return after == "asked" or (before in UNFINISHED_STATUSES and after != "done")


class CallWriteState(msgspec.Struct):
    """How far the writing about one call is."""

    builder: call_records.CallRecordBuilder
    run: OpenRun | None = None
    entry: ReplayEntry | None = None
    start_written: bool = False
    deferred_start: Record | None = None
    spent_grants: frozenset[str] = frozenset()
    stored_grants: frozenset[str] = frozenset()
    last_execution: RunTool | None = None
    initial_status: str = "new"

    @property
    def was_started_before(self) -> bool:
        """Whether the call was begun in an earlier life, and nothing is known of that: no refusal says more."""
        return self.initial_status in UNFINISHED_STATUSES

    @property
    def may_have_run(self) -> bool:
        """Whether somebody entered the function in this life, or may yet."""
        return self.last_execution is not None and (
            self.last_execution.attempts > 0 or self.last_execution.job is not None
        )


class EventWriter:
    """
    Has records written, and lets the run know of them.

    Args:
        store: Where to.
        stats: Counts the calls.
        lenient: Go on where the store fails, with a warning.
    """

    def __init__(self, store: Store, stats: UsageStats, *, lenient: bool) -> None:
        self.store, self._stats, self.lenient = store, stats, lenient

    def count_call(self, outcome: Outcome, record: Record, latency: float | None = None) -> None:
        """Count a call that ended."""
        self._stats.record(record.agent, record.tool or "", outcome, duration_ms=latency, when=record.time)

    def write_end(
        self,
        book: CallWriteState,
        item: Item,
        effect: str,
        outcome: Outcome,
        *,
        latency: float | None = None,
        append_outcome: AppendOutcome = None,
    ) -> Generator[Any, Any, Answer | None]:
        """Have the end of a call written, and count it then; not what the store refused, or has of another life."""
        counts = True
        try:
            answer = yield from self.append_and_confirm(book, item, effect, outcome, append_outcome)
            counts = answer is not None and answer.status is Status.DONE
        except JournalError:
            counts = False
            raise
        finally:  # whoever was stopped meanwhile gave it to the store
            if counts:
                self.count_call(outcome, item.records[-1], latency)
        return answer

    def append_and_confirm(
        self,
        book: CallWriteState,
        item: Item,
        effect: str,
        outcome: Outcome | None = None,
        append_outcome: AppendOutcome = None,
    ) -> Generator[Any, Any, Answer | None]:
        """Have *item* written; where something stops the caller meanwhile, learn what came of it before going."""
        try:
            return (yield from self.append(book, item, effect, outcome, append_outcome))
        except (JournalError, GeneratorExit):
            raise
        except BaseException:
            if book.run is not None and any(one.attempt is not None for one in item.records):
                with suppress(JournalError):
                    yield from self._confirm_append(book, item, effect, outcome)
            raise

    def _confirm_append(
        self, book: CallWriteState, item: Item, effect: str, outcome: Outcome | None
    ) -> Generator[Any, Any, None]:
        """Have *item* written again, which says that it is there already; stopped once more, learn it later."""
        try:
            answer = yield from self.append(book, item, effect, outcome)
        except JournalError:
            raise
        except BaseException:
            if outcome is not None:
                self.store.submit([item]).add_done_callback(
                    lambda done: self._handle_confirmation(book, item, outcome, done)
                )
            raise
        if answer is not None and answer.status is Status.EXISTS:
            self.update_run(book, item, outcome)

    def _handle_confirmation(
        self, book: CallWriteState, item: Item, outcome: Outcome, done: Future[list[Answer]]
    ) -> None:
        if done.exception() is None and done.result()[0].status in (Status.DONE, Status.EXISTS):
            self.update_run(book, item, outcome)

    def append(
        self,
        book: CallWriteState,
        item: Item,
        effect: str,
        outcome: Outcome | None = None,
        append_outcome: AppendOutcome = None,
    ) -> Generator[Any, Any, Answer | None]:
        """Have *item* written; None: it could not be, and the operator wants to go on."""
        try:
            if isinstance(append_outcome, BaseException):
                raise append_outcome
            answer: Answer = append_outcome or (yield AppendToJournal(self.store, item))
            if answer.status is Status.FAILED and answer.error is not None:
                raise answer.error
        except JournalError as error:
            told = JournalError(error.store, error.problem, f"{effect} {error.fix}")
            if not self.lenient:
                raise told from error
            warnings.warn(f"{told} The call went on all the same.", JournalWarning, stacklevel=get_user_stacklevel())
            return None
        if answer.status is Status.DONE:
            self.update_run(book, item, outcome)
        return answer

    def submit(self, item: Item) -> None:
        """Have *item* written without waiting for it; its loss is warned of."""
        try:
            self.store.submit([item]).add_done_callback(_warn_if_failed)
        except JournalError as error:
            warn_of_lost_result(error)

    def update_run(self, book: CallWriteState, item: Item, outcome: Outcome | None = None) -> None:
        """Let the run know of what is written, or on its way."""
        for record in item.records:
            self._update_entry(book, record, outcome)

    def _update_entry(self, book: CallWriteState, record: Record, outcome: Outcome | None = None) -> None:
        """Let the run know of what was written of its call."""
        if book.run is None or book.entry is None:
            return
        if record.type == EventType.AGENT_TOOL_CALL:
            book.entry.mark_started(record)
        elif outcome is not None:
            book.entry.mark_ended(record, outcome)
        else:
            book.run.recording.apply_record(record)


def _warn_if_failed(done: Future[Any]) -> None:
    if (error := done.exception()) is not None:
        warn_of_lost_result(error)


def warn_of_lost_result(error: BaseException) -> None:
    """Warn of what could not be written, where nobody waits for it."""
    warnings.warn(f"A result was lost: {error}", JournalWarning, stacklevel=get_user_stacklevel())
