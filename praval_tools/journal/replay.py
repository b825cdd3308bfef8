"""The calls of one run, as they were recorded: which of them a call repeats, and what is known of it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar

import msgspec

from praval_tools.errors import EventFormatError, ReplayMismatchError
from praval_tools.journal.codec import EVENT_VERSION, build_body_decoder
from praval_tools.journal.events import EventType
from praval_tools.journal.storage.protocol import Record
from praval_tools.journal.value_codec import pack_value
from praval_tools.names import shorten_repr
from praval_tools.schema.json_values import to_canonical_json
from praval_tools.tools.call import Outcome

if TYPE_CHECKING:
    from concurrent.futures import Future

MatchMode = Literal["content", "id", "position"]
MATCH_MODES: Final = ("content", "id", "position")

IN_DOUBT_OUTCOMES: Final = frozenset({Outcome.CANCELLED, Outcome.ENGINE_LOST})
"""Nobody knows whether the tool did its work: such a call is in doubt."""
_PENDING_OUTCOMES: Final = frozenset({Outcome.APPROVAL_REQUIRED, Outcome.IN_DOUBT})
"""The call has not ended: it goes through the pipeline again."""
FINAL_OUTCOMES: Final = frozenset(Outcome) - IN_DOUBT_OUTCOMES - _PENDING_OUTCOMES

_CALL, _RESULT, _REFUSED = "agent_tool_call", "agent_tool_result", "call_refused"
UNFINISHED_STATUSES: Final = ("doubt", "rerun")
"""So stands a call that was begun in an earlier life, and of which no result is known."""
_MAX_EXACT_INTEGER: Final = 2**53
_NORMALIZED_TYPES: Final = frozenset({float, dict, list})
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


def compute_digest(arguments: Any) -> str:
    """Return what is equal for equal arguments, in any order of their keys, and for no others; 1.0 equals 1."""
    try:
        text = _ENCODER.encode(arguments)
        if b".0" in text:
            text = _ENCODER.encode(_normalize_whole_floats(arguments))
    except (TypeError, ValueError, OverflowError, RecursionError):  # what JSON has no form for
        text = to_canonical_json(pack_value(arguments)).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=16).hexdigest()


def _normalize_whole_floats(value: Any) -> Any:
    """Return JSON with numbers that are whole as integers."""
    kind = type(value)
    if kind is float:
        return int(value) if value.is_integer() and abs(value) < _MAX_EXACT_INTEGER else value
    if kind is dict:
        return {
            key: one if type(one) not in _NORMALIZED_TYPES
            else _normalize_whole_floats(one) if type(one) is not float
            else int(one) if one.is_integer() and -_MAX_EXACT_INTEGER < one < _MAX_EXACT_INTEGER else one
            for key, one in value.items()
        }  # fmt: skip
    return [_normalize_whole_floats(one) for one in value] if kind is list else value


class ReplayQuery(msgspec.Struct, frozen=True, gc=False):
    """
    A call as it is looked for.

    Args:
        call_id: As the caller gave it; None: none was given.
        agent: Who calls; None for the operator.
        tool: The tool's name.
        parent: The call inside which it is made.
        arguments: Redacted, normalised where the tool is known.
        digest: Of these.
        given: Of the arguments as they were given, where these differ.
        fingerprint: Of the tool as it is now; empty: there is none.
    """

    call_id: str | None
    agent: str | None
    tool: str
    parent_id: str | None
    arguments: Any
    digest: str
    given_digest: str = ""
    fingerprint: str = ""

    def __str__(self) -> str:
        return f"{self.tool}({shorten_repr(self.arguments, 80)}) by {self.agent!r}"


class _CallFields(msgspec.Struct, gc=False):
    """What of an event's JSON tells how a call stands."""

    v: int = 0
    digest: str = ""
    given: str = ""
    parent_id: str | None = None
    fingerprint: str = ""
    outcome: str = ""


class _ArgumentsField(msgspec.Struct):
    arguments: Any = None


# made here: what threads make of a type at the same time, msgspec may crash on
_decode_call_fields: Final = build_body_decoder(_CallFields)
_decode_arguments: Final = build_body_decoder(_ArgumentsField)


_wait_graph_lock: Final = threading.Lock()
"""Held while it is looked at which call waits for which, in all runs."""

CallStatus = Literal["new", "done", "doubt", "rerun", "asked"]


class ReplayEntry(msgspec.Struct, eq=False):
    """One call of the run: how it stands, and what was recorded last of it."""

    call_id: str
    agent: str | None
    tool: str
    position: int
    parent_id: str | None = None
    digest: str = ""
    given_digest: str = ""
    fingerprint: str = ""
    _status: CallStatus | None = "new"
    start: Record | None = None
    end: Record | None = None
    approval: Record | None = None
    attempts: int = -1
    was_requested: bool = False
    is_matched: bool = False
    is_claimed: bool = False
    release_future: Future[None] | None = None
    awaited_entries: tuple[ReplayEntry, ...] = ()

    def apply_record(self, record: Record) -> None:
        """Take in what *record*, the next one of this call, says."""
        kind = record.type
        if record.attempt is not None and record.attempt > self.attempts:
            self.attempts = record.attempt
        if kind == _RESULT:  # only final results have an attempt; the others are read when somebody asks
            self.end, self._status = record, None if record.attempt is None else "done"
        elif kind in (_CALL, _REFUSED):
            if kind == _REFUSED and self.status in UNFINISHED_STATUSES:
                return  # refused when it was to run again: that says nothing of its first life
            head = decode_body(record, _decode_call_fields)
            self.digest, self.given_digest, self.parent_id = head.digest, head.given, head.parent_id
            if kind == _REFUSED:
                self._apply_outcome(record, Outcome(head.outcome))
                return
            self.start, self._status, self.approval = record, "doubt", None
            self.fingerprint = head.fingerprint
        elif kind == EventType.CALL_RERUN:
            self._status = "rerun"
        elif kind == EventType.APPROVAL_ANSWERED:
            self.approval = record

    @property
    def status(self) -> CallStatus:
        """How the call stands."""
        if self._status is None and self.end is not None:
            self._apply_outcome(self.end, Outcome(decode_body(self.end, _decode_call_fields).outcome))
        return self._status or "new"

    def mark_started(self, record: Record) -> None:
        """Take in that the call, found by an equal request, was begun."""
        self.start, self._status, self.approval = record, "doubt", None
        if record.attempt is not None and record.attempt > self.attempts:
            self.attempts = record.attempt

    def mark_ended(self, record: Record, outcome: Outcome) -> None:
        """Take in how the call ended."""
        if record.attempt is not None and record.attempt > self.attempts:
            self.attempts = record.attempt
        if record.type != _REFUSED or self.status not in UNFINISHED_STATUSES:
            self._apply_outcome(record, outcome)

    def _apply_outcome(self, record: Record, outcome: Outcome) -> None:
        if outcome in FINAL_OUTCOMES:
            self.end, self._status = record, "done"
        elif outcome is Outcome.APPROVAL_REQUIRED:
            self.end, self._status = record, "asked"
        elif outcome in IN_DOUBT_OUTCOMES:
            self.end, self._status = record, "doubt"

    @contextmanager
    def register_waiters(self, callers: list[ReplayEntry]) -> Iterator[bool]:
        """Note that *callers*, which run, wait for this call; False: it is one of them, or waits for one itself."""
        with _wait_graph_lock:
            free = not self._waits_for_any(callers)
            if free:
                for one in callers:
                    one.awaited_entries += (self,)
        try:
            yield free
        finally:
            with _wait_graph_lock:
                for one in callers if free else ():
                    waits = list(one.awaited_entries)
                    waits.remove(self)  # once: it may be waited for in several ways
                    one.awaited_entries = tuple(waits)

    def _waits_for_any(self, others: list[ReplayEntry]) -> bool:
        seen, left = list[ReplayEntry](), [self]
        while left:
            one = left.pop()
            if one in others:
                return True
            if one not in seen:
                seen.append(one)
                left += one.awaited_entries
        return False

    def matches(self, asked: ReplayQuery) -> bool:
        """Tell whether it is the call of *asked*: same agent, tool and arguments."""
        if self.agent != asked.agent or self.tool != asked.tool:
            return False
        if self.digest == asked.digest:
            return True
        theirs = {asked.digest, asked.given_digest or asked.digest}
        return self.digest in theirs or bool(self.given_digest and self.given_digest in theirs)

    def __str__(self) -> str:
        record = self.start or self.end
        arguments = _decode_arguments(record.body).arguments if record is not None else ...
        return f"{self.tool}({shorten_repr(arguments, 80)}) by {self.agent!r}"


class VersionedBody(Protocol):
    """Some fields of an event, with the version in which it is written."""

    v: int


B = TypeVar("B", bound=VersionedBody)


def decode_body(record: Record, read: Callable[[bytes], B]) -> B:
    """
    Return what *read* finds in the event of *record*.

    Raises:
        EventFormatError: It is damaged, or of another version.
    """
    try:
        found = read(record.body)
    except msgspec.DecodeError as error:
        raise EventFormatError(record.id, (str(error),), "The store is damaged.") from None
    if found.v != EVENT_VERSION:
        fix = "Install the praval-tools release that wrote it, or a newer one."
        raise EventFormatError(record.id, (f"its version is {found.v}, and this release reads {EVENT_VERSION}",), fix)
    return found


_ContentKey = tuple[str | None, str, str | None, str]


class Recording:
    """
    The calls of one run that is open here; for any number of threads.

    `recalls`: a call may be looked for by `recall`, until the first that is not found there.

    Args:
        run_id: The run.
        match: What makes a call the repetition of a recorded one.
        records: What was recorded, in order.
    """

    def __init__(self, run_id: str, match: MatchMode, records: Iterable[Record]) -> None:
        self.run_id, self._match_mode = run_id, match
        self._lock = threading.Lock()
        self.entries: dict[str, ReplayEntry] = {}
        for record in records:
            self._apply_record(record)
        self._recorded_entries = list(self.entries.values())
        self.may_match_completed = match == "content" and bool(self._recorded_entries)
        self._by_requested_id: dict[str, ReplayEntry] = {}
        self._by_position: dict[str | None, deque[ReplayEntry]] = {}
        self._by_content: dict[_ContentKey, deque[ReplayEntry]] = {}
        for entry in self._recorded_entries:
            if match == "position":
                self._by_position.setdefault(entry.parent_id, deque()).append(entry)
            self._index_by_content(entry, first=False)

    def _apply_record(self, record: Record) -> None:
        call_id = record.call_id
        if call_id is None:
            return
        entry = self.entries.get(call_id)
        if entry is None:
            entry = self.entries[call_id] = ReplayEntry(call_id, record.agent, record.tool or "", len(self.entries) + 1)
        entry.apply_record(record)

    def apply_record(self, record: Record) -> None:
        """Take in a record that was written while the run is open."""
        with self._lock:
            self._apply_record(record)

    def find_or_create_entry(
        self, asked: ReplayQuery, new_id: Callable[[], str], *, held: list[ReplayEntry]
    ) -> ReplayEntry:
        """
        Return the recorded call that *asked* repeats, a new one where there is none.

        It is put into *held* where the caller is the one that settles it; else it must wait for its turn, see `begin`.
        Not returned as held, since an interrupt may come before the caller has what is returned.

        Raises:
            ReplayMismatchError: The id, or the place, belongs to another call.
        """
        with self._lock:
            entry = self._find_match(asked)
            if entry is None:
                name = asked.call_id
                if name is None or name in self.entries:  # the call of another place has it
                    name = new_id()
                entry = self.entries[name] = ReplayEntry(
                    name, asked.agent, asked.tool, len(self.entries) + 1, asked.parent_id, asked.digest, asked.given_digest,
                    asked.fingerprint,
                )  # fmt: skip
            elif not entry.matches(asked):
                raise ReplayMismatchError(self.run_id, entry.call_id, str(entry), str(asked))
            entry.was_requested = entry.is_matched = True
            if asked.call_id is not None:
                self._by_requested_id[asked.call_id] = entry
            if not entry.is_claimed:
                entry.is_claimed = True
                held.append(entry)
            return entry

    def match_completed(self, asked: ReplayQuery) -> ReplayEntry | None:
        """Return the recorded call that *asked* repeats by its content, if it has its result; else take nothing."""
        with self._lock:
            waiting = self._by_content.get((asked.agent, asked.tool, asked.parent_id, asked.digest))
            while waiting and waiting[0].is_matched:
                waiting.popleft()
            entry = waiting[0] if waiting else None
            if entry is None or entry.is_claimed or entry.status != "done":
                self.may_match_completed = False
                return None
            entry.was_requested = entry.is_matched = True
            return entry

    def release_match(self, entry: ReplayEntry) -> None:
        """
        Let a call of the same content find *entry* again: it was asked for, and has not ended.

        One that waits for an approval is found by the next such call, one in doubt after those that ended.
        """
        with self._lock:
            entry.is_matched = False
            self._index_by_content(entry, first=entry.status == "asked")

    def _index_by_content(self, entry: ReplayEntry, *, first: bool) -> None:
        digests = (entry.digest,) if entry.given_digest in ("", entry.digest) else (entry.digest, entry.given_digest)
        for digest in digests:
            key = entry.agent, entry.tool, entry.parent_id, digest
            waiting = self._by_content.get(key)
            if waiting is None:
                self._by_content[key] = deque((entry,))
            elif first:
                waiting.appendleft(entry)
            else:
                waiting.append(entry)

    def _find_match(self, asked: ReplayQuery) -> ReplayEntry | None:
        if asked.call_id is not None and (known := self._by_requested_id.get(asked.call_id)) is not None:
            return known  # asked for under this id before, whatever its own is
        if self._match_mode == "position":
            left = self._by_position.get(asked.parent_id)
            return left.popleft() if left else None
        if asked.call_id is not None:
            known = self.entries.get(asked.call_id)
            if known is not None or self._match_mode == "id":
                return known
        for digest in (asked.digest, asked.given_digest):
            waiting = self._by_content.get((asked.agent, asked.tool, asked.parent_id, digest)) if digest else None
            while waiting:
                entry = waiting.popleft()
                if not entry.is_matched:
                    return entry
        return None

    def claim(self, entry: ReplayEntry, held: list[ReplayEntry]) -> Future[None] | None:
        """Put *entry* into what the caller *held*; a future: somebody else settles it, wait for that and look again."""
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
        """Let those go on who wait for *entry*."""
        with self._lock:
            settling, entry.release_future, entry.is_claimed = entry.release_future, None, False
        if settling is not None:
            settling.set_result(None)

    def list_in_doubt(self) -> list[ReplayEntry]:
        """Return the calls that began, of which nobody knows whether they did their work, and that do not run here."""
        with self._lock:
            return [one for one in self.entries.values() if one.status == "doubt" and not one.is_claimed]

    def list_unused(self) -> list[ReplayEntry]:
        """Return the recorded calls that were not asked for again; not those inside of calls that were."""
        with self._lock:
            return list(self._iter_unused())

    def _iter_unused(self) -> Iterator[ReplayEntry]:
        used: set[str] = set()
        for entry in self._recorded_entries:
            if entry.was_requested or entry.parent_id in used:
                used.add(entry.call_id)
            else:
                yield entry
