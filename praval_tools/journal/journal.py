"""Reads a journal's events, runs and calls, prunes it, and resolves calls in doubt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import msgspec
from msgspec.structs import replace

from praval_tools.clock import Clock, SystemClock
from praval_tools.errors import JournalError, ToolUsageError
from praval_tools.journal.codec import build_record, from_json
from praval_tools.journal.events import (
    EVENT_TYPES,
    AgentToolCall,
    AgentToolResult,
    CallRefused,
    CallRerun,
    EventType,
    JournalEvent,
)
from praval_tools.journal.process_name import get_process_name
from praval_tools.journal.recorded_decisions import RecordedDecision
from praval_tools.journal.redaction.marker_key import load_store_key
from praval_tools.journal.redaction.redactor import RedactionPlan, Redactor
from praval_tools.journal.replay import Recording
from praval_tools.journal.replay_entry import ReplayEntry
from praval_tools.journal.stats import UsageStats
from praval_tools.journal.storage.open_store import open_store
from praval_tools.journal.storage.protocol import Item, Record, RecordFilters, RunInfo, Status, Store
from praval_tools.misuse import explain_misuse_and_take_plain_arguments
from praval_tools.names import OPERATOR, shorten_repr, to_plain_text
from praval_tools.schema.encode import encode
from praval_tools.schema.spellings import read_marked_values
from praval_tools.schema.type_handler import Unencodable
from praval_tools.schema.written_secrets import read_written_secrets
from praval_tools.tools.call import Outcome
from praval_tools.tools.frames import activate_tool_frame, get_current_actor, refuse_others_than_operator


class JournalEntry(msgspec.Struct, frozen=True):
    """
    One event with its numbers.

    Args:
        seq: Its number in the store: unique, increasing.
        run_seq: Its number in its run, from 1 without gaps; None outside runs.
        event: What happened.
    """

    seq: int
    run_seq: int | None
    event: JournalEvent

    @property
    def type(self) -> EventType:
        """The event's type."""
        return EVENT_TYPES[type(self.event)]


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """
    One call of a run, as far as it was recorded.

    Args:
        run_id: Its run.
        tool_call_id: Its id.
        tool_name: The tool.
        agent: Who called; None for the operator.
        parent_id: The call inside which it was made.
        arguments: What the call passed, after repairs and without defaults, or a refused call was given; secrets are
            markers.
        decision: Why the agent could call it, or not.
        in_doubt: It began, and nobody knows whether its tool did its work.
        outcome: How it ended; None where no result is recorded.
        result: The value, as JSON.
        error: The message that the caller got.
        error_type: The class of the tool's exception, or the error's stable code.
        latency_ms: Milliseconds from the request to the result.
        started: When its tool was about to start; None: it never was.
        ended: When it ended.
        resolved_by: Who resolved it, where it was in doubt.
        seq: The number of its first event in the store.
    """

    run_id: str
    tool_call_id: str
    tool_name: str
    agent: str | None
    parent_id: str | None = None
    arguments: Any = None
    decision: RecordedDecision | None = None
    in_doubt: bool = False
    outcome: Outcome | None = None
    result: Any = None
    error: str | None = None
    error_type: str | None = None
    latency_ms: float | None = None
    started: datetime | None = None
    ended: datetime | None = None
    resolved_by: str | None = None
    seq: int | None = None


def get_call_id(call: str | RecordedCall, run_id: str) -> str:
    """
    Return the id of a call of run *run_id*, given as its id or as it was recorded.

    Raises:
        ToolUsageError: The call is of another run.
        TypeError: It is neither.
    """
    if isinstance(call, RecordedCall):
        if call.run_id != run_id:
            raise ToolUsageError(
                f"Call {shorten_repr(call.tool_call_id)} belongs to run {call.run_id!r}, not to run {run_id!r}; "
                f"resolve it there.",
                "not-in-doubt",
            )
        return call.tool_call_id
    if not isinstance(call, str):
        raise TypeError(f"Pass the id of a call or an entry of run.in_doubt, not {shorten_repr(call)}.")
    return call


def get_entry_in_doubt(recording: Recording, call_id: str) -> ReplayEntry:
    """
    Return what is recorded of a call in doubt.

    Raises:
        ToolUsageError: The run has no such call in doubt.
    """
    entry, in_doubt = recording.entries.get(call_id), recording.list_in_doubt()
    if entry is None or entry not in in_doubt:
        known = ", ".join(shorten_repr(entry.call_id) for entry in in_doubt[:5]) or "none"
        raise ToolUsageError(
            f"Call {shorten_repr(call_id)} of run {recording.run_id!r} is not in doubt; in doubt are: {known}.",
            "not-in-doubt",
        )
    return entry


def build_recorded_call(run_id: str, entry: ReplayEntry) -> RecordedCall:
    """Return what was recorded of one call."""
    records = [record for record in (entry.start, entry.end) if record is not None]
    events = [from_json(record.body) for record in records]
    call = RecordedCall(
        run_id=run_id,
        tool_call_id=entry.call_id,
        tool_name=entry.tool,
        agent=entry.agent,
        parent_id=entry.parent_id,
        in_doubt=entry.status == "doubt",
        seq=min((record.seq for record in records if record.seq is not None), default=None),
    )
    for event in events:
        if isinstance(event, AgentToolCall):
            call = replace(call, started=event.time)
        if isinstance(event, AgentToolCall | CallRefused) and event is events[0]:
            call = replace(call, arguments=event.arguments, decision=event.decision)
        if isinstance(event, AgentToolResult | CallRefused):
            call = replace(
                call, ended=event.time, outcome=event.outcome, error=event.error, error_type=event.error_type
            )
        if isinstance(event, AgentToolResult):
            call = replace(call, result=event.result, latency_ms=event.latency_ms, resolved_by=event.by or None)
    return call


EncodedResult: TypeAlias = "tuple[object, tuple[str, ...]]"
"""A result as JSON, and which members of unions wrote it."""


def encode_value(_: str, value: object) -> EncodedResult:
    """
    Return the result of a tool of which nothing is known.

    Raises:
        ToolUsageError: It has no JSON form.
    """
    try:
        return encode(value, takes_subclasses=True), ()
    except Unencodable as error:
        text = f"The result cannot be recorded: {error.reason}. Pass one that JSON can hold."
        raise ToolUsageError(text) from error


@explain_misuse_and_take_plain_arguments
class Journal:
    """
    What a store holds, as events.

    Args:
        store: Where the records are.
        clock: Time and ids.
        find_plan: Returns what is secret in the calls of a tool, by its name; None: names alone say it.
        encode_result: Returns the result of a tool, by its name, as JSON, and which members of unions wrote it.
    """

    def __init__(
        self, store: Store, clock: Clock | None = None, find_plan: Callable[[str], RedactionPlan] | None = None, *,
        encode_result: Callable[[str, object], EncodedResult] | None = None,
    ) -> None:  # fmt: skip
        self._store, self._clock, self._find_plan = store, clock or SystemClock(), find_plan
        self._encode_result = encode_value if encode_result is None else encode_result
        self._opened_by = get_current_actor()

    @property
    def store(self) -> Store:
        """Where the records are, for the operator alone: nothing is asked there of who writes, prunes or closes."""
        refuse_others_than_operator("use the store of the journal")
        return self._store

    @property
    def name(self) -> str:
        """What errors call it."""
        return self._store.name

    def __repr__(self) -> str:
        return f"<Journal {self.name!r}>"

    def read(
        self, *, run_id: str | None = None, call_id: str | None = None, agent: str | None = None,
        tool: str | None = None, type: str | None = None, since: datetime | None = None,
        until: datetime | None = None, after_seq: int = 0, numbers: Sequence[int] | None = None,
    ) -> Iterator[JournalEntry]:  # fmt: skip
        """Yield the events that fit all filters, in order; *since* is included, *until* is not."""
        records = self._store.read(
            run_id=run_id, call_id=call_id, agent=agent, tool=tool, type=type, since=since, until=until,
            after_seq=after_seq, numbers=numbers,
        )  # fmt: skip
        for record in records:
            yield JournalEntry(record.seq or 0, record.run_seq, from_json(record.body, event_id=record.id))

    def read_records(self, **filters: Unpack[RecordFilters]) -> Iterator[Record]:
        """Yield the records of the events that fit all filters, in order."""
        return self._store.read(**filters)

    def events(self, **filters: Unpack[RecordFilters]) -> Iterator[JournalEvent]:
        """Yield the events alone; accepts the filters of `read`."""
        return (entry.event for entry in self.read(**filters))

    def count(self) -> int:
        """Return how many events there are."""
        return self._store.count()

    def runs(self) -> Iterator[RunInfo]:
        """Yield the runs, the oldest first."""
        return self._store.runs()

    def has_run(self, run_id: str) -> bool:
        """Whether an event of this run is recorded."""
        return next(iter(self._store.read(run_id=run_id)), None) is not None

    def calls(self, run_id: str) -> list[RecordedCall]:
        """Return the calls of a run, in order."""
        recording = Recording(run_id, "id", self._store.read(run_id=run_id))
        return [build_recorded_call(run_id, entry) for entry in recording.entries.values()]

    def stats(self) -> UsageStats:
        """Return the statistics of all recorded calls."""
        stats = UsageStats(clock=self._clock)
        stats.rebuild(self.events())
        return stats

    def prune(self, before: datetime) -> int:
        """
        Delete what ended before, but no run that is open or in doubt; return how many events were deleted.

        Of the calls that a person approved in Praval, the answers stay: a yes counts once, however old it is.

        Raises:
            NotOwnerError: The caller is not the operator.
        """
        refuse_others_than_operator("prune the journal")
        return self._store.prune(before)

    def resolve(
        self, run_id: str, call_id: str | RecordedCall, *, result: object = msgspec.UNSET, error: str | None = None,
        rerun: bool = False, by: str = "operator",
    ) -> None:  # fmt: skip
        """
        Record what came of a call in doubt, in a run that is open nowhere.

        Args:
            run_id: The run.
            call_id: The call: its id, or the call as recorded.
            result: What its tool would have returned, as JSON or as a Python value.
            error: What went wrong.
            rerun: It may run again.
            by: Who resolves it.

        Raises:
            NotOwnerError: The caller is not the operator.
            RunBusyError: The run is open somewhere; resolve the call there.
            ToolUsageError: No such call is in doubt, not exactly one of the three is passed, its tool is known and
                could not have returned the result, or no journal takes that, such as an infinite number.
        """
        refuse_others_than_operator("resolve a call in doubt")
        call_id = get_call_id(call_id, run_id)
        with self._store.open_run(run_id):
            recording = Recording(run_id, "id", self._store.read(run_id=run_id))
            self.resolve_in_run(recording, call_id, result=result, error=error, rerun=rerun, by=by)

    def resolve_in_run(
        self, recording: Recording, call_id: str, *, result: object = msgspec.UNSET, error: str | None = None,
        rerun: bool = False, by: str = "operator",
    ) -> None:  # fmt: skip
        """
        Record what came of a call in doubt, in a run whose lease the caller holds; see `resolve`.

        Args:
            recording: What is recorded of the run.
            call_id: The call.
            result: What its tool would have returned.
            error: What went wrong.
            rerun: It may run again.
            by: Who resolves it.
        """
        refuse_others_than_operator("resolve a call in doubt")
        entry = get_entry_in_doubt(recording, call_id)
        if (result is not msgspec.UNSET) + (error is not None) + bool(rerun) != 1:
            raise ToolUsageError("Pass one of result=…, error=… or rerun=True.")
        head: dict[str, Any] = {
            "id": self._clock.new_id(), "time": self._clock.now(), "process": get_process_name(),
            "tool_call_id": call_id, "tool_name": entry.tool, "agent": entry.agent, "run_id": recording.run_id,
            "by": by,
        }  # fmt: skip
        event: JournalEvent
        if rerun:
            event, attempt, value = CallRerun(**head), None, None
        else:
            outcome = Outcome.OK if error is None else Outcome.TOOL_ERROR
            value, union_members = self._encode_result(entry.tool, result) if error is None else (None, ())
            kind = None if error is None else "resolved"
            event = AgentToolResult(
                **head, outcome=outcome, result=value, error=None if error is None else to_plain_text(error),
                error_type=kind, attempts=0, union_members=union_members,
            )  # fmt: skip
            attempt = max(1, entry.attempts + 1)
        plan = self._get_plan(entry.tool)
        with activate_tool_frame(entry.tool):  # classes of the result have code of their own
            marked_values = [*read_marked_values(result), *read_written_secrets(result, value)]
        event, _ = plan.redact_event(event, plan.mark_secrets(marked_values, entry.secrets))
        record = build_record(event, attempt=attempt)
        (answer,) = self._store.append([Item((record,))])
        if answer.error is not None:
            raise answer.error
        if answer.status is Status.EXISTS:
            raise JournalError(self._store.name, f"call {call_id!r} has a result there already", "Open the run anew.")
        recording.apply_record(record, is_resolution=True)

    def _get_plan(self, tool: str) -> RedactionPlan:
        if self._find_plan is not None:
            return self._find_plan(tool)
        return Redactor(key=load_store_key(self._store)).build_plan()

    def close(self) -> None:
        """
        Write what waits, and release the store; safe to call twice.

        Raises:
            NotOwnerError: The caller is neither the operator nor who opened the journal.
        """
        if self._opened_by == OPERATOR or get_current_actor() != self._opened_by:
            refuse_others_than_operator("close the journal")
        self._store.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def open_journal(where: str | Path) -> Journal:
    """
    Open the journal at *where*: a path, `sqlite:///runs.db`, or `memory`; see `open_store`.

    Raises:
        JournalFileError: The path cannot hold a journal, or holds something else; it is left as it is.
        ToolUsageError: There is no such kind of store.
    """
    return Journal(open_store(where))
