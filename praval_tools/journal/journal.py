"""The journal as it is read: events in order, runs, calls, and what a person says of a call in doubt."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from praval_tools.clock import Clock, SystemClock
from praval_tools.errors import ToolUsageError
from praval_tools.journal.codec import from_json, to_json
from praval_tools.journal.events import (
    EVENT_TYPES,
    AgentToolCall,
    AgentToolResult,
    CallRerun,
    EventType,
    JournalEvent,
    RecordedDecision,
    get_process_name,
)
from praval_tools.journal.redaction.marker_key import load_key
from praval_tools.journal.redaction.redactor import Redactor
from praval_tools.journal.replay import Recording, ReplayEntry
from praval_tools.journal.stats import UsageStats
from praval_tools.journal.storage.open_store import open_store
from praval_tools.journal.storage.protocol import Item, Record, RunInfo, Store
from praval_tools.names import shorten_repr
from praval_tools.schema.encode import encode
from praval_tools.tools.call import Outcome

NOT_GIVEN: Final[Any] = msgspec.UNSET


class JournalEntry(msgspec.Struct, frozen=True):
    """
    One event with its places.

    Args:
        seq: In the store: unique, increasing.
        run_seq: In its run, from 1 without gaps; None outside of runs.
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
        arguments: What the tool got, or of a refused call what was given; secrets are markers.
        decision: Why the agent could call it, or not.
        in_doubt: It began, and nobody knows whether its tool did its work.
        outcome: How it ended; None where nothing says so.
        result: The value, as JSON.
        error: What the caller was told.
        error_type: The class of the tool's exception, or the error's stable code.
        latency_ms: Milliseconds from the request to the result.
        started: When its tool was about to start; None: it never did.
        ended: When it ended.
        resolved_by: Who said so, where it was in doubt and a person said what came of it.
        seq: The place of its first event in the store.
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


def build_recorded_call(run_id: str, entry: ReplayEntry) -> RecordedCall:
    """Return what was recorded of one call."""
    start: Any = None if entry.start is None else from_json(entry.start.body)
    end: Any = None if entry.end is None else from_json(entry.end.body)
    first = start or end
    records = [one.seq for one in (entry.start, entry.end) if one is not None and one.seq is not None]
    return RecordedCall(
        run_id=run_id, tool_call_id=entry.call_id, tool_name=entry.tool, agent=entry.agent, parent_id=entry.parent_id,
        arguments=getattr(first, "arguments", None), decision=getattr(first, "decision", None),
        in_doubt=entry.status == "doubt", outcome=getattr(end, "outcome", None), result=getattr(end, "result", None),
        error=getattr(end, "error", None), error_type=getattr(end, "error_type", None),
        latency_ms=getattr(end, "latency_ms", None), started=start.time if type(start) is AgentToolCall else None,
        ended=None if end is None else end.time, resolved_by=getattr(end, "by", None) or None,
        seq=min(records, default=None),
    )  # fmt: skip


class Journal:
    """
    What a store holds, as events.

    Args:
        store: Where it is kept.
        redactor: What is secret in what a person says of a call; None: made with the store's key.
        clock: Time and ids.
    """

    def __init__(self, store: Store, redactor: Redactor | None = None, clock: Clock | None = None) -> None:
        self.store, self._clock = store, clock if clock is not None else SystemClock()
        self._redactor = redactor

    @property
    def name(self) -> str:
        """What errors call it."""
        return self.store.name

    def __repr__(self) -> str:
        return f"<Journal {self.name!r}>"

    def read(
        self, *, run_id: str | None = None, call_id: str | None = None, agent: str | None = None,
        tool: str | None = None, type: str | None = None, since: datetime | None = None,
        until: datetime | None = None, after_seq: int = 0,
    ) -> Iterator[JournalEntry]:  # fmt: skip
        """Yield the events that fit all filters, in order; *since* is included, *until* is not."""
        records = self.store.read(
            run_id=run_id, call_id=call_id, agent=agent, tool=tool, type=type, since=since, until=until,
            after_seq=after_seq,
        )  # fmt: skip
        for one in records:
            yield JournalEntry(one.seq or 0, one.run_seq, from_json(one.body, event_id=one.id))

    def events(self, **filters: Any) -> Iterator[JournalEvent]:
        """Yield the events alone; takes what `read` takes."""
        return (one.event for one in self.read(**filters))

    def count(self) -> int:
        """Return how many events there are."""
        return self.store.count()

    def runs(self) -> Iterator[RunInfo]:
        """Yield the runs, the oldest first."""
        return self.store.runs()

    def has_run(self, run_id: str) -> bool:
        """Whether an event of this run is recorded."""
        return next(iter(self.store.read(run_id=run_id)), None) is not None

    def calls(self, run_id: str) -> list[RecordedCall]:
        """Return the calls of a run, in order."""
        recording = Recording(run_id, "id", self.store.read(run_id=run_id))
        return [build_recorded_call(run_id, one) for one in recording.entries.values()]

    def stats(self) -> UsageStats:
        """Return the statistics of all recorded calls."""
        made = UsageStats(clock=self._clock)
        made.rebuild(self.events())
        return made

    def prune(self, before: datetime) -> int:
        """Forget what ended before; runs that are open or in doubt stay. Returns how many events went."""
        return self.store.prune(before)

    def resolve(
        self, run_id: str, call_id: str, *, result: Any = NOT_GIVEN, error: str | None = None, rerun: bool = False,
        by: str = "operator",
    ) -> None:  # fmt: skip
        """
        Say what came of a call in doubt, of a run that is open nowhere.

        Args:
            run_id: The run.
            call_id: The call.
            result: What its tool would have returned, as JSON or of its Python type.
            error: What went wrong.
            rerun: It may run again.
            by: Who says so.

        Raises:
            RunBusyError: The run is open somewhere; say it there.
            ToolUsageError: No such call is in doubt, or not exactly one of the three is said.
        """
        with self.store.open_run(run_id):
            recording = Recording(run_id, "id", self.store.read(run_id=run_id))
            self.settle(recording, call_id, result=result, error=error, rerun=rerun, by=by)

    def settle(
        self, recording: Recording, call_id: str, *, result: Any = NOT_GIVEN, error: str | None = None,
        rerun: bool = False, by: str = "operator",
    ) -> None:  # fmt: skip
        """Say what came of a call in doubt, of a run whose lease the caller holds; see `resolve`."""
        entry = recording.entries.get(call_id)
        if entry is None or entry not in recording.list_in_doubt():
            known = ", ".join(shorten_repr(one.call_id) for one in recording.list_in_doubt()[:5]) or "none"
            raise ToolUsageError(
                f"Call {shorten_repr(call_id)} of run {recording.run_id!r} is not in doubt; in doubt are: {known}.",
                "not-in-doubt",
            )
        if (result is not NOT_GIVEN) + (error is not None) + bool(rerun) != 1:
            raise ToolUsageError("Say one of result=…, error=… or rerun=True.")
        head: dict[str, Any] = {
            "id": self._clock.new_id(), "time": self._clock.now(), "process": get_process_name(),
            "tool_call_id": call_id, "tool_name": entry.tool, "agent": entry.agent, "run_id": recording.run_id,
            "by": by,
        }  # fmt: skip
        event: JournalEvent
        if rerun:
            event, attempt = CallRerun(**head), None
        else:
            outcome = Outcome.OK if error is None else Outcome.TOOL_ERROR
            value = encode(result) if error is None else None
            kind = None if error is None else "resolved"
            event = AgentToolResult(**head, outcome=outcome, result=value, error=error, error_type=kind, attempts=0)
            attempt = max(1, entry.attempts + 1)
        event, _ = self._get_redactor().build_plan().redact_event(event)
        record = Record(
            type=EVENT_TYPES[type(event)].value, body=to_json(event), id=head["id"], time=head["time"],
            process=head["process"], run_id=recording.run_id, call_id=call_id, agent=entry.agent, tool=entry.tool,
            attempt=attempt,
        )  # fmt: skip
        (answer,) = self.store.append([Item((record,))])
        if answer.error is not None:
            raise answer.error
        recording.apply_record(record)

    def _get_redactor(self) -> Redactor:
        if self._redactor is None:
            self._redactor = Redactor(key=load_key(None if self.name == "memory" else self.name))
        return self._redactor

    def close(self) -> None:
        """Write what waits, and let go of the store; safe twice."""
        self.store.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def open_journal(where: str | Path) -> Journal:
    """
    Open the journal at *where*: a path, `sqlite:///runs.db`, or `memory`; see `open_store`.

    Raises:
        JournalFileError: The path cannot hold a journal, or holds something else; it is left as it is.
        ToolUsageError: No such kind of store is known.
    """
    return Journal(open_store(where))
