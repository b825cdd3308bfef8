"""Replay: finds the recorded call that a new call of a run repeats, and lets one caller at a time work on it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar

import msgspec

from praval_tools.errors import EventFormatError, ReplayMismatchError
from praval_tools.forks import ForkSafeLock
from praval_tools.journal.codec import EVENT_VERSION, build_body_decoder
from praval_tools.journal.events import EventType
from praval_tools.journal.redaction.secret_search import NO_SECRETS, SecretMarkers
from praval_tools.journal.storage.protocol import Record
from praval_tools.names import shorten_repr
from praval_tools.tools.call import Outcome
from praval_tools.tools.plain_managers import plain_manager

if TYPE_CHECKING:
    from concurrent.futures import Future

MatchMode = Literal["content", "id", "position"]
MATCH_MODES: Final = ("content", "id", "position")

IN_DOUBT_OUTCOMES: Final = frozenset({Outcome.CANCELLED, Outcome.ENGINE_LOST, Outcome.IN_DOUBT})
"""Nobody knows whether the tool did its work: the call is in doubt."""
_PENDING_OUTCOMES: Final = frozenset({Outcome.APPROVAL_REQUIRED})
"""The call has not ended: it goes through the pipeline again."""
FINAL_OUTCOMES: Final = frozenset(Outcome) - IN_DOUBT_OUTCOMES - _PENDING_OUTCOMES

_CALL, _RESULT, _REFUSED = "agent_tool_call", "agent_tool_result", "call_refused"
_APPROVAL_TYPES: Final = frozenset((EventType.APPROVAL_ASKED, EventType.APPROVAL_ANSWERED))
UNFINISHED_STATUSES: Final = ("doubt", "rerun")
"""The statuses of a call that an earlier process began, and of which no result is known."""
NO_PRINCIPAL: Final = "none"
"""What is recorded for the principal of a call that names no agent."""


class ReplayQuery(msgspec.Struct, frozen=True, gc=False):
    """
    A call for which the recorded one is looked up.

    Args:
        call_id: The id that the caller passed; None: it passed none.
        agent: Who calls; None for the operator.
        tool: The tool's name.
        chain: The agents on whose behalf it calls, the nearest first.
        principal: What tells the caller from others of this agent and chain, as it is recorded.
        parent_id: The call inside which it is made: that of the run, if there is one.
        arguments: Redacted, normalised where the tool is known.
        digest: Of these arguments.
        given_digest: Of the arguments as the caller passed them, where these differ.
        fingerprint: Of the tool as it is now; empty: there is none.
    """

    call_id: str | None
    agent: str | None
    tool: str
    chain: tuple[str, ...]
    principal: str
    parent_id: str | None
    arguments: Any
    digest: str
    given_digest: str = ""
    fingerprint: str = ""

    @property
    def matching_principals(self) -> tuple[str, ...]:
        """What may be recorded as *principal* for calls of the same caller."""
        return _list_recorded_principals(self.chain, self.principal)

    def __str__(self) -> str:
        return f"{self.tool}({shorten_repr(self.arguments, 80)}) by {_describe_caller(self.agent, self.chain)}"


def _list_recorded_principals(chain: tuple[str, ...], principal: str) -> tuple[str, ...]:
    """Return what may be recorded as *principal* for calls of one caller; release 0.1 recorded the chain alone."""
    return (principal, "") if chain and principal != NO_PRINCIPAL else (principal,)


def _describe_caller(agent: str | None, chain: tuple[str, ...]) -> str:
    return f"{agent!r} on behalf of {', '.join(map(repr, chain))}" if chain else repr(agent)


class _CallFields(msgspec.Struct, gc=False):
    """The fields of an event's JSON from which the status of a call follows."""

    v: int = 0
    digest: str = ""
    given: str = ""
    chain: tuple[str, ...] = ()
    principal: str = ""
    parent_id: str | None = None
    fingerprint: str = ""
    outcome: str = ""


class _ArgumentsField(msgspec.Struct):
    arguments: Any = None


# built at import: msgspec may crash where several threads build a decoder of one type
_decode_call_fields: Final = build_body_decoder(_CallFields)
_decode_arguments: Final = build_body_decoder(_ArgumentsField)


_wait_graph_lock: Final = ForkSafeLock()
"""Guards which call waits for which, in all runs."""

CallStatus = Literal["new", "done", "doubt", "rerun", "asked"]


class ReplayEntry(msgspec.Struct, eq=False):
    """One call of the run: its status, and what was recorded last of it."""

    call_id: str
    agent: str | None
    tool: str
    position: int
    chain: tuple[str, ...] = ()
    principal: str = ""
    parent_id: str | None = None
    digest: str = ""
    given_digest: str = ""
    fingerprint: str = ""
    _status: CallStatus | None = "new"
    start: Record | None = None
    end: Record | None = None
    attempts: int = -1
    was_requested: bool = False
    is_matched: bool = False
    is_claimed: bool = False
    release_future: Future[None] | None = None
    awaited_entries: tuple[ReplayEntry, ...] = ()
    secrets: SecretMarkers = NO_SECRETS
    """Those of its arguments and of what classes mark in its result, where it was made here."""

    @property
    def members(self) -> tuple[str, ...]:
        """The agent that called, and those on whose behalf; none for the operator."""
        return () if self.agent is None else tuple(dict.fromkeys((self.agent, *self.chain)))

    def apply_record(self, record: Record) -> None:
        """Apply *record*, the next one of this call, which was read from the store."""
        kind = record.type
        self._count_attempt(record)
        if kind == _RESULT:  # only final results have an attempt; the others are decoded when their status is needed
            self.end, self._status = record, None if record.attempt is None else "done"
        elif kind == _CALL:
            self._apply_fields(record)
            self.mark_started(record)
        elif kind == _REFUSED and self.status not in UNFINISHED_STATUSES:
            fields = self._apply_fields(record)
            self.mark_ended(record, Outcome(fields.outcome))
        elif kind == EventType.CALL_RERUN:
            self._status = "rerun"

    def _apply_fields(self, record: Record) -> _CallFields:
        fields = decode_body(record, _decode_call_fields)
        self.digest, self.given_digest, self.parent_id = fields.digest, fields.given, fields.parent_id
        self.chain, self.principal = fields.chain, fields.principal
        if record.type == _CALL:
            self.fingerprint = fields.fingerprint
        return fields

    def _count_attempt(self, record: Record) -> None:
        if record.attempt is not None and record.attempt > self.attempts:
            self.attempts = record.attempt

    @property
    def status(self) -> CallStatus:
        """The status of the call."""
        if self._status is None and self.end is not None:
            self._apply_outcome(self.end, Outcome(decode_body(self.end, _decode_call_fields).outcome))
        return self._status or "new"

    def mark_started(self, record: Record) -> None:
        """Apply the record of its start; an end before it, such as a wait for an approval, says nothing of it."""
        self._count_attempt(record)
        self.start, self.end, self._status = record, None, "doubt"

    def mark_ended(self, record: Record, outcome: Outcome) -> None:
        """Apply the record of its end, or of a refusal, which says nothing of a call that an earlier process began."""
        self._count_attempt(record)
        if record.type != _REFUSED or self.status not in UNFINISHED_STATUSES:
            self._apply_outcome(record, outcome)

    def _apply_outcome(self, record: Record, outcome: Outcome) -> None:
        if outcome in FINAL_OUTCOMES:
            self.end, self._status = record, "done"
        elif outcome is Outcome.APPROVAL_REQUIRED:
            self.end, self._status = record, "asked"
        elif outcome in IN_DOUBT_OUTCOMES:
            self.end, self._status = record, "doubt"

    @plain_manager
    def register_waiters(self, callers: list[ReplayEntry]) -> Iterator[bool]:
        """Register that the running *callers* wait for this call; yield False, and register none, at a deadlock."""
        with _wait_graph_lock:
            is_free = not self._waits_for_any(callers)
            for caller in callers if is_free else ():
                caller.awaited_entries = (*caller.awaited_entries, self)
        try:
            yield is_free
        finally:
            with _wait_graph_lock:
                for caller in callers if is_free else ():
                    awaited = list(caller.awaited_entries)
                    awaited.remove(self)  # once: several waits may be for the same call
                    caller.awaited_entries = tuple(awaited)

    def _waits_for_any(self, others: list[ReplayEntry]) -> bool:
        seen, left = list[ReplayEntry](), [self]
        while left:
            entry = left.pop()
            if entry in others:
                return True
            if entry not in seen:
                seen.append(entry)
                left += entry.awaited_entries
        return False

    def is_call_of(self, agent: str | None, chain: tuple[str, ...], principal: str, tool: str) -> bool:
        """Tell whether this caller made it to this tool; *principal* as in `ReplayQuery`."""
        if (self.agent, self.chain, self.tool) != (agent, chain, tool):
            return False
        return self.principal in _list_recorded_principals(chain, principal)

    def matches(self, query: ReplayQuery) -> bool:
        """Tell whether it is the call of *query*: same principal, tool and arguments."""
        if not self.is_call_of(query.agent, query.chain, query.principal, query.tool):
            return False
        digests = {query.digest, query.given_digest or query.digest}
        return self.digest in digests or (self.given_digest != "" and self.given_digest in digests)

    def __str__(self) -> str:
        record = self.start or self.end
        arguments = _decode_arguments(record.body).arguments if record is not None else ...
        return f"{self.tool}({shorten_repr(arguments, 80)}) by {_describe_caller(self.agent, self.chain)}"


class VersionedBody(Protocol):
    """Some fields of an event, with the version of its JSON."""

    v: int


B = TypeVar("B", bound=VersionedBody)


def decode_body(record: Record, decode: Callable[[bytes], B]) -> B:
    """
    Return the fields that *decode* finds in the event of *record*.

    Raises:
        EventFormatError: It is damaged, or of another version.
    """
    try:
        body = decode(record.body)
    except msgspec.DecodeError as error:
        raise EventFormatError(record.id, (str(error),), "The store is damaged.") from None
    if body.v != EVENT_VERSION:
        fix = "Install the praval-tools release that wrote it, or a newer one."
        raise EventFormatError(record.id, (f"its version is {body.v}, and this release reads {EVENT_VERSION}",), fix)
    return body


_ContentKey = tuple[str | None, tuple[str, ...], str, str, str | None, str]


class Recording:
    """
    The recorded calls of one run that is open here; for any number of threads.

    Args:
        run_id: The run.
        match: What makes a call the repetition of a recorded one.
        records: What was recorded, in order.
    """

    def __init__(self, run_id: str, match: MatchMode, records: Iterable[Record]) -> None:
        self.run_id, self._match_mode = run_id, match
        self._lock = ForkSafeLock()
        self.entries: dict[str, ReplayEntry] = {}
        for record in records:
            self._apply_record(record)
        self._recorded_entries = list(self.entries.values())
        self._by_requested_id: dict[str, ReplayEntry] = {}
        self._by_position: dict[str | None, deque[ReplayEntry]] = {}
        self._by_content: dict[_ContentKey, deque[ReplayEntry]] = {}
        for entry in self._recorded_entries:
            if match == "position":
                self._by_position.setdefault(self.find_outer_call(entry.parent_id), deque()).append(entry)
            self._index_by_content(entry, first=False)

    def _apply_record(self, record: Record) -> None:
        call_id = record.call_id
        if call_id is None:
            return
        entry = self.entries.get(call_id)
        if entry is None:
            if record.type in _APPROVAL_TYPES:  # the process ended while a person was asked: the call is as if new
                return
            entry = self.entries[call_id] = ReplayEntry(call_id, record.agent, record.tool or "", len(self.entries) + 1)
        entry.apply_record(record)

    def find_outer_call(self, parent_id: str | None) -> str | None:
        """Return the parent of a call where that is a call of this run, too; those of others have no place in it."""
        return parent_id if parent_id in self.entries else None

    def apply_record(self, record: Record) -> None:
        """Apply a record that was written while the run is open."""
        with self._lock:
            self._apply_record(record)

    def find_or_create_entry(
        self, query: ReplayQuery, new_id: Callable[[], str], *, held: list[ReplayEntry]
    ) -> ReplayEntry:
        """
        Return the recorded call that *query* repeats; a new one where there is none.

        If it was free and has not ended, the caller has claimed it, and it is appended to *held* (before this returns,
        so that an interrupt cannot lose it); one that has ended needs no claim; for others the caller waits by `claim`.

        Raises:
            ReplayMismatchError: The id, or the position, belongs to another call.
        """
        with self._lock:
            entry = self._find_match(query)
            if entry is None:
                name = query.call_id
                if name is None or name in self.entries:  # the call of another position has it
                    name = new_id()
                entry = self.entries[name] = ReplayEntry(
                    name, query.agent, query.tool, len(self.entries) + 1, query.chain, query.principal, query.parent_id,
                    query.digest, query.given_digest, query.fingerprint,
                )  # fmt: skip
            elif not entry.matches(query):
                raise ReplayMismatchError(self.run_id, entry.call_id, str(entry), str(query))
            elif (left := self._find_by_position(query)) and left[0] is entry:
                left.popleft()
            entry.was_requested = entry.is_matched = True
            if query.call_id is not None:
                self._by_requested_id[query.call_id] = entry
            if not entry.is_claimed and entry.status != "done":
                entry.is_claimed = True
                held.append(entry)
            return entry

    def release_match(self, entry: ReplayEntry) -> None:
        """
        Let a call of the same content find *entry* again: it was matched, and has not ended.

        A call that waits for an approval is found by the next such call, a call in doubt after those that ended.
        """
        with self._lock:
            entry.is_matched = False
            self._index_by_content(entry, first=entry.status == "asked")

    def _index_by_content(self, entry: ReplayEntry, *, first: bool) -> None:
        digests = (entry.digest,) if entry.given_digest in ("", entry.digest) else (entry.digest, entry.given_digest)
        outer_call = self.find_outer_call(entry.parent_id)
        for digest in digests:
            key = entry.agent, entry.chain, entry.principal, entry.tool, outer_call, digest
            waiting = self._by_content.get(key)
            if waiting is None:
                self._by_content[key] = deque((entry,))
            elif first:
                waiting.appendleft(entry)
            else:
                waiting.append(entry)

    def _find_match(self, query: ReplayQuery) -> ReplayEntry | None:
        if query.call_id is not None and (known := self._by_requested_id.get(query.call_id)) is not None:
            return known  # matched under this id before, whatever its own is
        if self._match_mode == "position":
            left = self._find_by_position(query)
            return left[0] if left else None  # of a mismatch, the position is that of the next call, too
        if query.call_id is not None:
            known = self.entries.get(query.call_id)
            if known is not None or self._match_mode == "id":
                return known
        waiting = self._find_by_content(query)
        return waiting.popleft() if waiting else None

    def _find_by_position(self, query: ReplayQuery) -> deque[ReplayEntry] | None:
        """Return the recorded calls at the place of *query* that were not matched, the next one first."""
        return self._by_position.get(self.find_outer_call(query.parent_id))

    def _find_by_content(self, query: ReplayQuery) -> deque[ReplayEntry] | None:
        """Return the recorded calls of the content of *query*, the first of which was not matched, if there is one."""
        outer_call = self.find_outer_call(query.parent_id)
        for digest in (query.digest, query.given_digest):
            for principal in query.matching_principals if digest else ():
                key = query.agent, query.chain, principal, query.tool, outer_call, digest
                waiting = self._by_content.get(key)
                while waiting and waiting[0].is_matched:
                    waiting.popleft()
                if waiting:
                    return waiting
        return None

    def claim(self, entry: ReplayEntry, held: list[ReplayEntry]) -> Future[None] | None:
        """
        Claim *entry* for the caller, and add it to *held*.

        Returns:
            None; or a future, where somebody else has claimed it: wait for it and look at the entry again.
        """
        with self._lock:
            if not entry.is_claimed:
                entry.is_claimed = True
                held.append(entry)
                return None
            if entry.release_future is None:
                from concurrent.futures import Future

                entry.release_future = Future()
            return entry.release_future

    def release(self, entry: ReplayEntry) -> None:
        """Give *entry* back, and wake the callers that wait for it."""
        with self._lock:
            future, entry.release_future, entry.is_claimed = entry.release_future, None, False
        if future is not None:
            future.set_result(None)

    def list_in_doubt(self) -> list[ReplayEntry]:
        """Return the calls that began, may have done their work, and do not run here."""
        with self._lock:
            return [entry for entry in self.entries.values() if entry.status == "doubt" and not entry.is_claimed]

    def list_unused(self) -> list[ReplayEntry]:
        """Return the recorded calls that were not repeated; not those inside calls that were."""
        with self._lock:
            return list(self._iter_unused())

    def _iter_unused(self) -> Iterator[ReplayEntry]:
        used: set[str] = set()
        for entry in self._recorded_entries:
            if entry.was_requested or entry.parent_id in used:
                used.add(entry.call_id)
            else:
                yield entry
