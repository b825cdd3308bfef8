"""Appends records of calls to the journal's store, and updates the run with what was written."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from praval_tools.clock import Clock
from praval_tools.errors import JournalError, JournalWarning, get_user_stacklevel
from praval_tools.execution.batch_turns import NO_TURN, Turn
from praval_tools.execution.effects import AppendToJournal, RunTool
from praval_tools.journal.codec import build_record
from praval_tools.journal.events import CallMoved, EventType
from praval_tools.journal.redaction.marker_key import has_marker, is_private, read_key_ids
from praval_tools.journal.replay_entry import UNFINISHED_STATUSES, ReplayEntry
from praval_tools.journal.stats import UsageStats, count_call
from praval_tools.journal.storage.protocol import Answer, Item, Record, Status, Store, Uses
from praval_tools.journal.stored_approvals import end_request
from praval_tools.names import has_type
from praval_tools.runs.call_records import CallRecordBuilder
from praval_tools.runs.open_run import Attempt, OpenRun, current_attempt
from praval_tools.tools.call import Outcome
from praval_tools.tools.decision import ApprovalRequest

_DONE: Final = Status.DONE  # looking up a member of an enumeration is slow
_START_TYPE: Final = EventType.AGENT_TOOL_CALL.value

_T = TypeVar("_T")
CallSteps: TypeAlias = Generator[Any, Any, _T]
"""A part of a call's pipeline: yields effects for the driver (`execution.effects`), and returns a value."""


def can_match_again(before: str, after: str) -> bool:
    """Tell whether another call of the same content may match a call whose status was *before*, and is *after* now."""
    return after == "asked" or (before in UNFINISHED_STATUSES and after != "done")


class CallWriteState(msgspec.Struct):
    """
    What was written of one call up to now.

    Args:
        builder: Builds the records of the call.
        run: The run of the call, if it belongs to one.
        entry: The call in the recording of the run.
        start_written: Whether the store has the start.
        deferred_start: A start that is written together with the end.
        spent_grants: Grants whose use was counted for this call.
        stored_grants: Those of them that the store has counted.
        last_execution: The last execution of the tool in this process.
        initial_status: The status of the entry before this process began.
        approval_id: The request whose recorded answer the call relies on, until it is written that it was used.
        is_approval_lost: Another process has used that answer: the call has to be approved anew.
        waiting_request: The request that waits once the call has ended, with its record.
        attempt: The last attempt of the call, if it belongs to a run.
        is_unrecorded: Whether it is one of `Runtime.unrecorded_calls`, whose results a registry that closes waits for.
    """

    builder: CallRecordBuilder
    run: OpenRun | None = None
    entry: ReplayEntry | None = None
    start_written: bool = False
    deferred_start: Record | None = None
    spent_grants: frozenset[str] = frozenset()
    stored_grants: frozenset[str] = frozenset()
    last_execution: RunTool | None = None
    initial_status: str = "new"
    approval_id: str | None = None
    is_approval_lost: bool = False
    waiting_request: tuple[ApprovalRequest, Record] | None = None
    attempt: Attempt | None = None
    is_unrecorded: bool = False
    turn: Turn = NO_TURN
    """Its turn in a batch, which ends with its first record."""

    def begin_attempt(self) -> Attempt | None:
        """Return the attempt that begins now, inside of that of this context; the one before is given up."""
        if self.run is None or self.entry is None:
            return None
        if self.attempt is not None:
            self.attempt = self.attempt.make_next()
        else:
            if (before := self.run.attempts.get(self.entry.call_id)) is not None:
                before.give_up()
                before.is_repeated = True
            self.attempt = Attempt(current_attempt.get())
        self.run.attempts[self.entry.call_id] = self.attempt
        return self.attempt

    @property
    def was_left(self) -> bool:
        """Whether its run was left, or its last attempt was given up."""
        return self.attempt is not None and self.run is not None and (self.run.closed or self.attempt.is_given_up)

    @property
    def lacks_call(self) -> bool:
        """Whether a call from inside of its last attempt came too late, also where its tool is in another process."""
        return self.attempt is not None and self.attempt.lacks_call

    def give_up_attempt(self) -> None:
        """Have what the last attempt left behind make no more calls in its run."""
        if self.attempt is not None:
            self.attempt.give_up()

    @property
    def was_started_before(self) -> bool:
        """Whether an earlier process began the call and its outcome is unknown, which a refusal must not hide."""
        return self.initial_status in UNFINISHED_STATUSES

    def build_end_item(self, record: Record) -> Item:
        """Return what is appended at the end of the call: *record*, after a start that was deferred."""
        item = Item((record,) if self.deferred_start is None else (self.deferred_start, record))
        return item if self.approval_id is None else end_request(item, self.approval_id)

    @property
    def may_have_run(self) -> bool:
        """Whether this process entered the function, or may still do so."""
        return self.last_execution is not None and (
            self.last_execution.attempts > 0 or self.last_execution.job is not None
        )


class EventWriter:
    """
    Appends records to the store of one registry, and updates the runs that they belong to.

    Args:
        store: Where the records are appended.
        stats: Counts the calls.
        lenient: Go on, with a warning, where the store fails.
        key_id: What stands for the key of the markers; stored with the first of them.
    """

    def __init__(self, store: Store, stats: UsageStats, *, lenient: bool, key_id: str) -> None:
        self.store, self._stats, self.lenient = store, stats, lenient
        self._key_id, self._is_key_known = key_id, is_private(store) or key_id in read_key_ids(store)

    def _add_key_id(self, item: Item) -> Item:
        """Return *item*, with the id of the key where it may hold the first markers of the store."""
        if not self._is_key_known:
            for record in item.records:
                if has_marker(record):
                    return replace(item, uses=(*item.uses, Uses(self._key_id, 1)))
        return item

    def count_call(self, outcome: Outcome, record: Record, latency: float | None = None) -> None:
        """Count a call that ended."""
        count_call(self._stats, record.agent, record.tool or "", outcome, latency, record.time)

    def append(
        self, write_state: CallWriteState, item: Item, effect: str, outcome: Outcome | None = None,
        *, latency: float | None = None,
    ) -> CallSteps[Answer | None]:  # fmt: skip
        """
        Append *item*, update the run, and count a call that ended.

        Where the caller is interrupted, what was written is confirmed before the interrupt is raised. A call is not
        counted where the store refused the end, or has that of an earlier process.

        Args:
            write_state: Of the call.
            item: The records.
            effect: A sentence for errors: what the failure means for the call.
            outcome: How the call ended, where that is what is written.
            latency: How many milliseconds it took then.

        Returns:
            The store's answer; None where it failed and the registry is lenient.

        Raises:
            JournalError: The store failed, and the registry is not lenient.
        """
        item = self._add_key_id(item)
        try:
            answer: Answer = yield AppendToJournal(self.store, item, write_state.turn)
        except JournalError as error:
            answer = Answer(Status.FAILED, error=error)
        except BaseException as error:
            _note_unawaited_write(write_state.run)
            if outcome is not None:  # the store has the item all the same
                self.count_call(outcome, item.records[-1], latency)
            if write_state.run is not None and any(record.attempt is not None for record in item.records):
                if has_type(error, GeneratorExit):  # nothing can be waited for
                    self._submit_end(write_state, item, outcome)
                else:
                    with suppress(JournalError):
                        yield from self._confirm_append(write_state, item, effect, outcome)
            raise
        if answer.status is not _DONE:
            return self._handle_refused_append(answer, effect)
        self._apply_to_run(write_state, item, outcome)
        if outcome is not None:
            self.count_call(outcome, item.records[-1], latency)
        return answer

    def _confirm_append(
        self, write_state: CallWriteState, item: Item, effect: str, outcome: Outcome | None
    ) -> CallSteps[None]:
        """Append *item* again, to learn whether the store has it; interrupted once more, an end counts all the same."""
        try:
            answer: Answer = yield AppendToJournal(self.store, item)
        except JournalError as error:
            answer = Answer(Status.FAILED, error=error)
        except BaseException:
            self._submit_end(write_state, item, outcome)
            raise
        if answer.status is _DONE:
            self._apply_to_run(write_state, item, outcome)
        elif answer.status is Status.EXISTS:
            self.update_run(write_state, item, outcome)
        else:
            self._handle_refused_append(answer, effect)

    def _submit_end(self, write_state: CallWriteState, item: Item, outcome: Outcome | None) -> None:
        """Append the end of a call again, if *item* is one, without waiting: the store takes it, or has it already."""
        if outcome is not None:
            with suppress(JournalError):
                self.store.submit([item]).add_done_callback(_warn_if_failed)
                self.update_run(write_state, item, outcome)

    def _apply_to_run(self, write_state: CallWriteState, item: Item, outcome: Outcome | None) -> None:
        if item.uses and any(use.grant_id == self._key_id for use in item.uses):
            self._is_key_known = True
        self.update_run(write_state, item, outcome)

    def _handle_refused_append(self, answer: Answer, effect: str) -> Answer | None:
        """Return the answer of a store that did not take an item as `append` does."""
        error = answer.error
        if answer.status is not Status.FAILED or error is None:
            return answer
        full_error = JournalError(error.store, error.problem, f"{effect} {error.fix}")
        if not self.lenient:
            raise full_error from error
        warnings.warn(f"{full_error} The call went on all the same.", JournalWarning, stacklevel=get_user_stacklevel())
        return None

    def submit(self, item: Item, run: OpenRun | None) -> None:
        """Append *item*, of a call of *run* or outside runs, without waiting for it; a failure becomes a warning."""
        _note_unawaited_write(run)
        try:
            self.store.submit([self._add_key_id(item)]).add_done_callback(_warn_if_failed)
        except JournalError as error:
            warn_of_lost_result(error)

    def submit_move(self, entry: ReplayEntry, run: OpenRun, clock: Clock) -> None:
        """Record that another task made *entry* again: before whatever is recorded of what comes of that."""
        entry.is_moved = False
        moved = CallMoved(
            id=clock.new_id(), time=clock.now(), process=run.process, run_id=run.run_id, tool_call_id=entry.call_id,
            tool_name=entry.tool, agent=entry.agent, position=entry.position, task=entry.task,
        )  # fmt: skip
        self.submit(Item((build_record(moved),)), run)
        run.count_event()

    def update_run(self, write_state: CallWriteState, item: Item, outcome: Outcome | None = None) -> None:
        """Update the run with records that are written, or submitted."""
        for record in item.records:
            self._update_entry(write_state, record, outcome)

    def _update_entry(self, write_state: CallWriteState, record: Record, outcome: Outcome | None = None) -> None:
        """Update the run's entry of the call with one record."""
        if write_state.run is None or write_state.entry is None:
            return
        write_state.run.count_event()
        if record.type == _START_TYPE:
            write_state.entry.mark_started(record)
        elif outcome is not None:
            write_state.entry.mark_ended(record, outcome)
        else:
            write_state.run.recording.apply_record(record)


def _note_unawaited_write(run: OpenRun | None) -> None:
    """Note that a record of *run* is on its way for which nobody waits; leaving the run waits for it."""
    if run is not None:
        run.has_unawaited_writes = True


def _warn_if_failed(future: Future[list[Answer]]) -> None:
    if (error := future.exception()) is not None:
        warn_of_lost_result(error)


def warn_of_lost_result(error: BaseException) -> None:
    """Warn that a record could not be written for which nobody waits."""
    warnings.warn(f"A result was lost: {error}", JournalWarning, stacklevel=get_user_stacklevel())
