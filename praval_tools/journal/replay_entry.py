"""One recorded call of a run: the query that finds it, its records, and the status that follows from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar

import msgspec

from praval_tools.errors import EventFormatError
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

IN_DOUBT_OUTCOMES: Final = frozenset({Outcome.CANCELLED, Outcome.ENGINE_LOST, Outcome.IN_DOUBT})
"""Nobody knows whether the tool did its work: the call is in doubt."""
_PENDING_OUTCOMES: Final = frozenset({Outcome.APPROVAL_REQUIRED})
"""The call has not ended: it goes through the pipeline again."""
FINAL_OUTCOMES: Final = frozenset(Outcome) - IN_DOUBT_OUTCOMES - _PENDING_OUTCOMES

_CALL, _RESULT, _REFUSED = "agent_tool_call", "agent_tool_result", "call_refused"
UNFINISHED_STATUSES: Final = ("doubt", "rerun")
"""The statuses of a call that an earlier process began, and of which no result is known."""
LIBRARY: Final = "praval_tools"
"""What is recorded for the library itself, which lets a call run again that was stopped before it was entered."""
NO_PRINCIPAL: Final = "none"
"""What is recorded for the principal of a call that names no agent."""


class TaskAtWork(Protocol):
    """A task that makes calls."""

    path: str | None
    """That of its calls in the record; None until it has made one."""
    has_record: bool
    """Whether it goes on with a recorded task."""
    is_new: bool
    """Whether its first call is not in the record."""

    @property
    def outer_path(self) -> str:
        """The path of the task that began it."""

    @property
    def has_ended(self) -> bool:
        """Whether it makes no more calls."""

    def iter_paths_beside(self) -> Iterator[str | None]:
        """Yield the paths of the tasks at work that the same task began, the latest first."""


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
        after: The position of the call whose result reached its caller last, for a call of async code.
        task: The task that makes it.
    """

    call_id: str | None
    agent: str | None
    tool: str
    chain: tuple[str, ...]
    principal: str
    parent_id: str | None
    arguments: Any
    digest: str
    task: TaskAtWork
    given_digest: str = ""
    fingerprint: str = ""
    after: int | None = None

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
    has_given_id: bool = False
    position: int = 0
    after: int | None = None
    task: str = ""
    outcome: str = ""
    by: str = ""


class _AskedFields(_CallFields, gc=False):
    """The fields of a request for an approval that tell which call it is; its `digest` is that of the request."""

    call_digest: str = ""


class _ArgumentsField(msgspec.Struct):
    arguments: Any = None


# built at import: msgspec may crash where several threads build a decoder of one type
_decode_call_fields: Final = build_body_decoder(_CallFields)
_decode_asked_fields: Final = build_body_decoder(_AskedFields)
_decode_arguments: Final = build_body_decoder(_ArgumentsField)


_wait_graph_lock: Final = ForkSafeLock()
"""Guards which call waits for which, in all runs."""

CallStatus = Literal["new", "done", "doubt", "rerun", "released", "asked"]
"""`rerun`: it may have been entered, and may run again; `released`: it was stopped before its tool was entered."""


class ReplayEntry(msgspec.Struct, eq=False):
    """One call of the run: its status, and what was recorded last of it."""

    call_id: str
    agent: str | None
    tool: str
    chain: tuple[str, ...] = ()
    principal: str = ""
    parent_id: str | None = None
    digest: str = ""
    given_digest: str = ""
    fingerprint: str = ""
    _status: CallStatus | None = "new"
    start: Record | None = None
    end: Record | None = None
    position: int = 0
    """Its number in the run, by which equal calls are ordered; a new one where it was stopped before."""
    first_position: int = 0
    """The number that it had first, by which calls are found by position."""
    begun_number: int = 0
    """The number in the run of its first record; 0 where that was written since the run was opened here."""
    after: int | None = None
    """The position of the call whose result reached its caller last before it was made, as far as that is recorded."""
    task: str = ""
    """The path of the task that made it."""
    is_of_loop: bool = False
    """Whether a recorded loop with a model made it, which finds it again by its id."""
    is_moved: bool = False
    """Whether another task has made it again since the run was opened here, and that is not recorded yet."""
    has_given_id: bool = False
    """Whether its caller gave it its id; else the library made that."""
    attempts: int = -1
    has_begun: bool = False
    """Whether it was started, and not stopped before its tool was entered."""
    may_have_run: bool = False
    was_entered: bool = False
    """Whether its tool was entered, or may have been, since a call of this opening of the run last claimed it."""
    was_requested: bool = False
    has_requested_id: bool = False
    """Whether a call with an id requested it since the run was opened here."""
    was_requested_without_id: bool = False
    was_stopped: bool = False
    """Whether the last call that requested it was stopped before its tool was entered."""
    has_ended_in_doubt: bool = False
    """Whether the last call that found it since the run was opened here ended in doubt."""
    is_resolved: bool = False
    """Whether a person resolved it since the run was opened here, and it was not made again since."""
    is_matched: bool = False
    is_replaced: bool = False
    """Whether an equal call stands for it: its own id finds that one first."""
    _was_asked_again: bool = False
    """Whether a person was asked if a call that may have been entered runs again, and it has not begun since."""
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
        self.begun_number = self.begun_number or record.run_seq or 0
        self._count_attempt(record)
        if kind == _RESULT:  # only final results have an attempt; the others are decoded when their status is needed
            self.end, self._status = record, None if record.attempt is None else "done"
        elif kind == _CALL:
            self._apply_fields(record)
            self.mark_started(record)
        elif kind == _REFUSED:
            is_new = self.status not in UNFINISHED_STATUSES
            fields = self._apply_fields(record) if is_new else decode_body(record, _decode_call_fields)
            self.mark_ended(record, Outcome(fields.outcome))
        elif kind == EventType.CALL_MOVED:
            fields = decode_body(record, _decode_call_fields)
            self.move(fields.task, fields.position)
            self.is_moved = False
        elif kind == EventType.CALL_RERUN:
            self._apply_rerun(record)
        elif kind == EventType.APPROVAL_ASKED and self.status in ("new", "released"):
            asked = decode_body(record, _decode_asked_fields)
            if asked.call_digest:  # older releases recorded none
                self._set_fields(asked, asked.call_digest)

    def _apply_rerun(self, record: Record) -> None:
        """Apply *record*, by which the call may run again; that it may have been entered before stays known."""
        self.may_have_run = self.may_have_run or decode_body(record, _decode_call_fields).by != LIBRARY
        self._status, self.has_begun = "rerun" if self.may_have_run else "released", self.may_have_run

    def _apply_fields(self, record: Record) -> _CallFields:
        fields = decode_body(record, _decode_call_fields)
        self._set_fields(fields, fields.digest)
        if record.type == _CALL:
            self.fingerprint = fields.fingerprint
        return fields

    def _set_fields(self, fields: _CallFields, digest: str) -> None:
        if fields.position and digest != self.digest:  # a person was asked about another call, which had this id
            self.first_position = 0
        self.digest, self.given_digest, self.parent_id = digest, fields.given, fields.parent_id
        self.chain, self.principal, self.has_given_id = fields.chain, fields.principal, fields.has_given_id
        self.task = fields.task
        self.after = fields.after if self.after is None else self.after
        if fields.position:
            self.set_position(fields.position)

    def set_position(self, position: int) -> None:
        """Set the number that it has in the run from now on."""
        self.position = position
        self.first_position = self.first_position or position

    def move(self, task: str, position: int) -> None:
        """Let it be a call of another task, which made it again, at the number *position* of the run."""
        self.task, self.is_moved = task, True
        self.set_position(position)

    def _count_attempt(self, record: Record) -> None:
        if record.attempt is not None and record.attempt > self.attempts:
            self.attempts = record.attempt

    @property
    def next_attempt(self) -> int:
        """The number of the attempt with whose end the call would end."""
        return max(1, self.attempts + 1)

    @property
    def comes_first(self) -> bool:
        """Whether it comes before the equal calls that were not found yet since the run was opened here."""
        return self.is_matched or self.was_stopped or self.is_resolved or self.is_asked

    @property
    def result_number(self) -> int | None:
        """The number in the run of the record that ended it; None where that was written since the run was opened."""
        return None if self.end is None or not self.begun_number else self.end.run_seq

    @property
    def is_released(self) -> bool:
        """Whether it was stopped before its tool was entered, and has not started again."""
        return self._status == "released"

    @property
    def status(self) -> CallStatus:
        """The status of the call."""
        if self._status is None and self.end is not None:
            self._apply_outcome(self.end, Outcome(decode_body(self.end, _decode_call_fields).outcome))
        return self._status or "new"

    @property
    def is_asked(self) -> bool:
        """Whether it waits for an approval; also once a person was asked if it runs again, until it begins or ends."""
        return self.status == "asked" or (self._was_asked_again and self.status in UNFINISHED_STATUSES)

    def mark_started(self, record: Record) -> None:
        """Apply the record of its start; an end before it, such as a wait for an approval, says nothing of it."""
        self._count_attempt(record)
        self.start, self.end, self._status, self._was_asked_again = record, None, "doubt", False
        self.has_begun = True

    def mark_ended(self, record: Record, outcome: Outcome) -> None:
        """
        Apply the record of its end, or of a refusal.

        A refusal says nothing of a call that an earlier process began, unless a person denied that it runs again;
        nothing that comes after a final end replaces that.
        """
        self._count_attempt(record)
        if self.status == "done":
            return
        is_unfinished = record.type == _REFUSED and self.status in UNFINISHED_STATUSES
        if is_unfinished and outcome is not Outcome.APPROVAL_DENIED:
            self._was_asked_again = self._was_asked_again or outcome is Outcome.APPROVAL_REQUIRED
        else:
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


def read_loop_maker(record: Record) -> tuple[str | None, str]:
    """Return the call from which the loop of *record* was begun, and the path of the task that began it."""
    fields = decode_body(record, _decode_call_fields)
    return fields.parent_id, fields.task


def get_call_prefix(loop_id: str) -> str:
    """Return how the ids of the calls of a loop begin, up to a dot."""
    return loop_id[-12:]


def is_edit(record: Record) -> bool:
    """Tell whether a record is the answer of an approver who wrote other arguments."""
    return record.type == EventType.APPROVAL_ANSWERED and _decode_arguments(record.body).arguments is not None


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
