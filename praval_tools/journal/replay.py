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
from praval_tools.journal.codec import VERSION, reader
from praval_tools.journal.events import EventType
from praval_tools.journal.storage.protocol import Record
from praval_tools.journal.value_codec import packed
from praval_tools.names import shorten
from praval_tools.schema.json_values import canonical
from praval_tools.tools.call import Outcome

if TYPE_CHECKING:
    from concurrent.futures import Future

Match = Literal["content", "id", "position"]
MATCHES: Final = ("content", "id", "position")

UNSETTLED: Final = frozenset({Outcome.CANCELLED, Outcome.ENGINE_LOST})
"""Nobody knows whether the tool did its work: such a call is in doubt."""
_AGAIN: Final = frozenset({Outcome.APPROVAL_REQUIRED, Outcome.IN_DOUBT})
"""The call has not ended: it goes through the pipeline again."""
FINAL: Final = frozenset(Outcome) - UNSETTLED - _AGAIN

_CALL, _RESULT, _REFUSED = "agent_tool_call", "agent_tool_result", "call_refused"
OPEN: Final = ("doubt", "rerun")
"""So stands a call that was begun in an earlier life, and of which no result is known."""
_EXACT: Final = 2**53
_MAY_CHANGE: Final = frozenset({float, dict, list})
_DETERMINISTIC: Final = msgspec.json.Encoder(order="deterministic")


def digest_of(arguments: Any) -> str:
    """Return what is equal for equal arguments, in any order of their keys, and for no others; 1.0 equals 1."""
    try:
        text = _DETERMINISTIC.encode(arguments)
        if b".0" in text:
            text = _DETERMINISTIC.encode(_whole(arguments))
    except (TypeError, ValueError, OverflowError, RecursionError):  # what JSON has no form for
        text = canonical(packed(arguments)).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=16).hexdigest()


def _whole(value: Any) -> Any:
    """Return JSON with numbers that are whole as integers."""
    kind = type(value)
    if kind is float:
        return int(value) if value.is_integer() and abs(value) < _EXACT else value
    if kind is dict:
        return {
            key: one if type(one) not in _MAY_CHANGE
            else _whole(one) if type(one) is not float
            else int(one) if one.is_integer() and -_EXACT < one < _EXACT else one
            for key, one in value.items()
        }  # fmt: skip
    return [_whole(one) for one in value] if kind is list else value


class Request(msgspec.Struct, frozen=True, gc=False):
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
    parent: str | None
    arguments: Any
    digest: str
    given: str = ""
    fingerprint: str = ""

    def __str__(self) -> str:
        return f"{self.tool}({shorten(self.arguments, 80)}) by {self.agent!r}"


class _Head(msgspec.Struct, gc=False):
    """What of an event's JSON tells how a call stands."""

    v: int = 0
    digest: str = ""
    given: str = ""
    parent_id: str | None = None
    fingerprint: str = ""
    outcome: str = ""


class _Arguments(msgspec.Struct):
    arguments: Any = None


# made here: what threads make of a type at the same time, msgspec may crash on
_read_head: Final = reader(_Head)
_read_arguments: Final = reader(_Arguments)


_waits: Final = threading.Lock()
"""Held while it is looked at which call waits for which, in all runs."""

Status = Literal["new", "done", "doubt", "rerun", "asked"]


class Entry(msgspec.Struct, eq=False):
    """One call of the run: how it stands, and what was recorded last of it."""

    call_id: str
    agent: str | None
    tool: str
    place: int
    parent: str | None = None
    digest: str = ""
    given: str = ""
    fingerprint: str = ""
    _status: Status | None = "new"
    start: Record | None = None
    end: Record | None = None
    approval: Record | None = None
    attempts: int = -1
    asked_for: bool = False
    taken: bool = False
    busy: bool = False
    settling: Future[None] | None = None
    awaited: tuple[Entry, ...] = ()

    def add(self, record: Record) -> None:
        """Take in what *record*, the next one of this call, says."""
        kind = record.type
        if record.attempt is not None and record.attempt > self.attempts:
            self.attempts = record.attempt
        if kind == _RESULT:  # only final results have an attempt; the others are read when somebody asks
            self.end, self._status = record, None if record.attempt is None else "done"
        elif kind in (_CALL, _REFUSED):
            if kind == _REFUSED and self.status in OPEN:
                return  # refused when it was to run again: that says nothing of its first life
            head = read_body(record, _read_head)
            self.digest, self.given, self.parent = head.digest, head.given, head.parent_id
            if kind == _REFUSED:
                self._ended(record, Outcome(head.outcome))
                return
            self.start, self._status, self.approval = record, "doubt", None
            self.fingerprint = head.fingerprint
        elif kind == EventType.CALL_RERUN:
            self._status = "rerun"
        elif kind == EventType.APPROVAL_ANSWERED:
            self.approval = record

    @property
    def status(self) -> Status:
        """How the call stands."""
        if self._status is None and self.end is not None:
            self._ended(self.end, Outcome(read_body(self.end, _read_head).outcome))
        return self._status or "new"

    def began(self, record: Record) -> None:
        """Take in that the call, found by an equal request, was begun."""
        self.start, self._status, self.approval = record, "doubt", None
        if record.attempt is not None and record.attempt > self.attempts:
            self.attempts = record.attempt

    def ended(self, record: Record, outcome: Outcome) -> None:
        """Take in how the call ended."""
        if record.attempt is not None and record.attempt > self.attempts:
            self.attempts = record.attempt
        if record.type != _REFUSED or self.status not in OPEN:
            self._ended(record, outcome)

    def _ended(self, record: Record, outcome: Outcome) -> None:
        if outcome in FINAL:
            self.end, self._status = record, "done"
        elif outcome is Outcome.APPROVAL_REQUIRED:
            self.end, self._status = record, "asked"
        elif outcome in UNSETTLED:
            self.end, self._status = record, "doubt"

    @contextmanager
    def awaited_by(self, callers: list[Entry]) -> Iterator[bool]:
        """Note that *callers*, which run, wait for this call; False: it is one of them, or waits for one itself."""
        with _waits:
            free = not self._waits_for(callers)
            if free:
                for one in callers:
                    one.awaited += (self,)
        try:
            yield free
        finally:
            with _waits:
                for one in callers if free else ():
                    waits = list(one.awaited)
                    waits.remove(self)  # once: it may be waited for in several ways
                    one.awaited = tuple(waits)

    def _waits_for(self, others: list[Entry]) -> bool:
        seen, left = list[Entry](), [self]
        while left:
            one = left.pop()
            if one in others:
                return True
            if one not in seen:
                seen.append(one)
                left += one.awaited
        return False

    def is_like(self, asked: Request) -> bool:
        """Tell whether it is the call of *asked*: same agent, tool and arguments."""
        if self.agent != asked.agent or self.tool != asked.tool:
            return False
        if self.digest == asked.digest:
            return True
        theirs = {asked.digest, asked.given or asked.digest}
        return self.digest in theirs or bool(self.given and self.given in theirs)

    def __str__(self) -> str:
        record = self.start or self.end
        arguments = _read_arguments(record.body).arguments if record is not None else ...
        return f"{self.tool}({shorten(arguments, 80)}) by {self.agent!r}"


class Versioned(Protocol):
    """Some fields of an event, with the version in which it is written."""

    v: int


B = TypeVar("B", bound=Versioned)


def read_body(record: Record, read: Callable[[bytes], B]) -> B:
    """
    Return what *read* finds in the event of *record*.

    Raises:
        EventFormatError: It is damaged, or of another version.
    """
    try:
        found = read(record.body)
    except msgspec.DecodeError as error:
        raise EventFormatError(record.id, (str(error),), "The store is damaged.") from None
    if found.v != VERSION:
        fix = "Install the praval-tools release that wrote it, or a newer one."
        raise EventFormatError(record.id, (f"its version is {found.v}, and this release reads {VERSION}",), fix)
    return found


_Key = tuple[str | None, str, str | None, str]


class Recording:
    """
    The calls of one run that is open here; for any number of threads.

    `recalls`: a call may be looked for by `recall`, until the first that is not found there.

    Args:
        run_id: The run.
        match: What makes a call the repetition of a recorded one.
        records: What was recorded, in order.
    """

    def __init__(self, run_id: str, match: Match, records: Iterable[Record]) -> None:
        self.run_id, self._match = run_id, match
        self._lock = threading.Lock()
        self.entries: dict[str, Entry] = {}
        for record in records:
            self._add(record)
        self._order = list(self.entries.values())
        self.recalls = match == "content" and bool(self._order)
        self._named: dict[str, Entry] = {}
        self._places: dict[str | None, deque[Entry]] = {}
        self._waiting: dict[_Key, deque[Entry]] = {}
        for entry in self._order:
            if match == "position":
                self._places.setdefault(entry.parent, deque()).append(entry)
            self._keep(entry, first=False)

    def _add(self, record: Record) -> None:
        call_id = record.call_id
        if call_id is None:
            return
        entry = self.entries.get(call_id)
        if entry is None:
            entry = self.entries[call_id] = Entry(call_id, record.agent, record.tool or "", len(self.entries) + 1)
        entry.add(record)

    def add(self, record: Record) -> None:
        """Take in a record that was written while the run is open."""
        with self._lock:
            self._add(record)

    def find(self, asked: Request, new_id: Callable[[], str], *, held: list[Entry]) -> Entry:
        """
        Return the recorded call that *asked* repeats, a new one where there is none.

        It is put into *held* where the caller is the one that settles it; else it must wait for its turn, see `begin`.
        Not returned as held, since an interrupt may come before the caller has what is returned.

        Raises:
            ReplayMismatchError: The id, or the place, belongs to another call.
        """
        with self._lock:
            entry = self._found(asked)
            if entry is None:
                name = asked.call_id
                if name is None or name in self.entries:  # the call of another place has it
                    name = new_id()
                entry = self.entries[name] = Entry(
                    name, asked.agent, asked.tool, len(self.entries) + 1, asked.parent, asked.digest, asked.given,
                    asked.fingerprint,
                )  # fmt: skip
            elif not entry.is_like(asked):
                raise ReplayMismatchError(self.run_id, entry.call_id, str(entry), str(asked))
            entry.asked_for = entry.taken = True
            if asked.call_id is not None:
                self._named[asked.call_id] = entry
            if not entry.busy:
                entry.busy = True
                held.append(entry)
            return entry

    def recall(self, asked: Request) -> Entry | None:
        """Return the recorded call that *asked* repeats by its content, if it has its result; else take nothing."""
        with self._lock:
            waiting = self._waiting.get((asked.agent, asked.tool, asked.parent, asked.digest))
            while waiting and waiting[0].taken:
                waiting.popleft()
            entry = waiting[0] if waiting else None
            if entry is None or entry.busy or entry.status != "done":
                self.recalls = False
                return None
            entry.asked_for = entry.taken = True
            return entry

    def put_back(self, entry: Entry) -> None:
        """
        Let a call of the same content find *entry* again: it was asked for, and has not ended.

        One that waits for an approval is found by the next such call, one in doubt after those that ended.
        """
        with self._lock:
            entry.taken = False
            self._keep(entry, first=entry.status == "asked")

    def _keep(self, entry: Entry, *, first: bool) -> None:
        digests = (entry.digest,) if entry.given in ("", entry.digest) else (entry.digest, entry.given)
        for digest in digests:
            key = entry.agent, entry.tool, entry.parent, digest
            waiting = self._waiting.get(key)
            if waiting is None:
                self._waiting[key] = deque((entry,))
            elif first:
                waiting.appendleft(entry)
            else:
                waiting.append(entry)

    def _found(self, asked: Request) -> Entry | None:
        if asked.call_id is not None and (known := self._named.get(asked.call_id)) is not None:
            return known  # asked for under this id before, whatever its own is
        if self._match == "position":
            left = self._places.get(asked.parent)
            return left.popleft() if left else None
        if asked.call_id is not None:
            known = self.entries.get(asked.call_id)
            if known is not None or self._match == "id":
                return known
        for digest in (asked.digest, asked.given):
            waiting = self._waiting.get((asked.agent, asked.tool, asked.parent, digest)) if digest else None
            while waiting:
                entry = waiting.popleft()
                if not entry.taken:
                    return entry
        return None

    def begin(self, entry: Entry, held: list[Entry]) -> Future[None] | None:
        """Put *entry* into what the caller *held*; a future: somebody else settles it, wait for that and look again."""
        with self._lock:
            if not entry.busy:
                entry.busy = True
                held.append(entry)
                return None
            if entry.settling is None:
                from concurrent.futures import Future

                entry.settling = Future()
            return entry.settling

    def settle(self, entry: Entry) -> None:
        """Let those go on who wait for *entry*."""
        with self._lock:
            settling, entry.settling, entry.busy = entry.settling, None, False
        if settling is not None:
            settling.set_result(None)

    def in_doubt(self) -> list[Entry]:
        """Return the calls that began, of which nobody knows whether they did their work, and that do not run here."""
        with self._lock:
            return [one for one in self.entries.values() if one.status == "doubt" and not one.busy]

    def unused(self) -> list[Entry]:
        """Return the recorded calls that were not asked for again; not those inside of calls that were."""
        with self._lock:
            return list(self._unused())

    def _unused(self) -> Iterator[Entry]:
        used: set[str] = set()
        for entry in self._order:
            if entry.asked_for or entry.parent in used:
                used.add(entry.call_id)
            else:
                yield entry
