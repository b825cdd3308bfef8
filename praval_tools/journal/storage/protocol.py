"""The interface of a journal's store (`Store`), and the records, items and answers that it exchanges."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol, TypedDict, Unpack, runtime_checkable

import msgspec

from praval_tools.errors import JournalError

if TYPE_CHECKING:
    from concurrent.futures import Future

INTENT: Final = 0
"""The `attempt` of the record that announces that a call is about to run."""


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """
    One event as it is stored.

    Args:
        type: The event's type.
        body: The event as JSON; the store never looks into it.
        id: The event's id.
        time: When it happened, with a time zone.
        process: Which process wrote it.
        run_id: The run that it belongs to.
        call_id: The call that it is about.
        agent: Who called.
        tool: What was called.
        attempt: What it is to its call: `INTENT`, n for the result of the n-th attempt, None for neither.
            In a run there is one record of each attempt of a call; outside runs ids of calls may repeat.
        seq: Its number in the store, assigned when it is stored: unique, increasing.
        run_seq: Its number in its run, assigned when it is stored: from 1 without gaps.
    """

    type: str
    body: bytes
    id: str
    time: datetime
    process: str
    run_id: str | None = None
    call_id: str | None = None
    agent: str | None = None
    tool: str | None = None
    attempt: int | None = None
    seq: int | None = None
    run_seq: int | None = None


class StateRow(msgspec.Struct, frozen=True):
    """
    One change of access that still holds: a grant, a block, a removal, an owner, a flag.

    Args:
        kind: What it is: `grant`, `block`, `removed`, `owner`, `shared`, `disabled`, `configured`, …
        key: What identifies it among its kind.
        source: Where its tool comes from; changes of tools of one name from two sources are two rows.
        body: Its event as JSON; None ends it.
        revision: The state's revision that set or ended it, assigned when it is stored.
    """

    kind: str
    key: str
    source: str
    body: bytes | None
    revision: int = 0


class Uses(msgspec.Struct, frozen=True):
    """How many calls a grant has left, or None where its calls are not counted any more."""

    grant_id: str
    left: int | None


class Item(msgspec.Struct, frozen=True, gc=False):
    """
    Records and what goes with them, all or nothing; the other items of an append stand on their own.

    Args:
        records: What is appended, at least one.
        revision: The state's revision on which the decision is based; another one in the store refuses the item.
        spend: Grants of which each pays for one call; one without a call left refuses the item.
        rows: Changes of access that are added, replaced or ended.
        uses: Counts that are set or ended.
    """

    records: tuple[Record, ...]
    revision: int | None = None
    spend: tuple[str, ...] = ()
    rows: tuple[StateRow, ...] = ()
    uses: tuple[Uses, ...] = ()


class Status(StrEnum):
    """What became of an item."""

    DONE = "done"
    EXISTS = "exists"
    STALE = "stale"
    EXHAUSTED = "exhausted"
    FAILED = "failed"


class Answer(msgspec.Struct, frozen=True):
    """
    What became of one item; where several reasons refuse it, the first of exists, stale, exhausted.

    Args:
        status: `done`: it is durable. Anything else: nothing of it was written.
        seq: The number of its first record in the store.
        run_seq: The number of its first record in its run.
        revision: The state's revision after it.
        found: With `exists`, the recorded attempts of that call, in order.
        grant: With `exhausted`, the grant that had no call left.
        error: With `failed`, why.
    """

    status: Status
    seq: int | None = None
    run_seq: int | None = None
    revision: int | None = None
    found: tuple[Record, ...] = ()
    grant: str | None = None
    error: JournalError | None = None


def find_error(answers: Sequence[Answer]) -> JournalError | None:
    """Return the first error among *answers*, which holds all of them, or None where nothing failed."""
    for answer in answers:
        error = answer.error
        if error is not None:
            index = answers.index(answer)
            error.answers = [*answers[:index], msgspec.structs.replace(answer, error=None), *answers[index + 1 :]]
            return error
    return None


def find_attempts(item: Item, read_attempts: Callable[[str, str], Iterable[Record]]) -> tuple[Record, ...]:
    """Return the recorded attempts of the calls of which *item* would repeat one; they are read by run and call id."""
    found: dict[int, Record] = {}
    for record in item.records:
        if record.run_id is not None and record.call_id is not None and record.attempt is not None:
            attempts = {attempt.attempt: attempt for attempt in read_attempts(record.run_id, record.call_id)}
            if record.attempt in attempts:
                found.update({attempt.seq or 0: attempt for attempt in attempts.values()})
    return tuple(found[seq] for seq in sorted(found))


class StateView(msgspec.Struct, frozen=True):
    """
    The changes of access that hold at *revision*, or what changed up to it.

    Args:
        revision: Pass it as `since` to learn what changed later.
        complete: These are all rows, whatever was known before; else only the changed ones, ended ones among them.
        rows: The changes of access.
        uses: The counts that were set; the store counts them down, so that what is left is exact only there.
    """

    revision: int
    complete: bool
    rows: tuple[StateRow, ...]
    uses: tuple[Uses, ...]


class RunInfo(msgspec.Struct, frozen=True):
    """
    One run, in numbers.

    Args:
        run_id: Its id.
        first: When its first event happened.
        last: When the latest one did; clocks of processes differ, so that it need not be the last in order.
        calls: How many calls began.
        in_doubt: How many of them have no recorded result.
    """

    run_id: str
    first: datetime
    last: datetime
    calls: int
    in_doubt: int


class Lease(Protocol):
    """An open run: nobody else opens it until it is released, or its process ends."""

    @property
    def run_id(self) -> str:
        """The run."""

    def check(self) -> None:
        """Raise `JournalError` where others can have opened the run meanwhile; asked before each call starts."""

    def release(self) -> None:
        """Release the run; safe to call twice."""

    def __enter__(self) -> Lease: ...

    def __exit__(self, *error: object) -> None: ...


class RecordFilters(TypedDict, total=False):
    """What `Store.read` yields: records with these values or *numbers*, from *since* on, before *until*, …"""

    run_id: str | None
    call_id: str | None
    agent: str | None
    tool: str | None
    type: str | None
    since: datetime | None
    until: datetime | None
    after_seq: int
    numbers: Sequence[int] | None


class RecordFilter(msgspec.Struct, frozen=True):
    """The values of `RecordFilters`; a name that is not one of them raises `TypeError`."""

    run_id: str | None = None
    call_id: str | None = None
    agent: str | None = None
    tool: str | None = None
    type: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    after_seq: int = 0
    numbers: Sequence[int] | None = None

    def get_exact_values(self) -> dict[str, str]:
        """Return the fields of records, besides the run, that must have exactly one value."""
        values = {"call_id": self.call_id, "agent": self.agent, "tool": self.tool, "type": self.type}
        return {name: value for name, value in values.items() if value is not None}


class Store(Protocol):
    """
    Where records are kept: appended, never changed, read by many.

    An append returns an answer for each item. An item that could not be written for a reason that no rule foresees
    raises `JournalError`, whose `answers` say what became of its neighbours.
    """

    @property
    def name(self) -> str:
        """What errors call the store."""

    def append(self, items: Sequence[Item]) -> list[Answer]:
        """
        Write *items*, in order; return when they are durable.

        There may be none: then it returns when all is durable that was appended or submitted before.
        """

    def submit(self, items: Sequence[Item]) -> Future[list[Answer]]:
        """Write *items* without waiting; the future is done when they are durable and can't be cancelled."""

    def aappend(self, items: Sequence[Item]) -> Awaitable[list[Answer]]:
        """Write *items* at once, whether awaited or not; the awaitable is done when they are durable."""

    def read(self, **filters: Unpack[RecordFilters]) -> Iterator[Record]:
        """
        Yield the records that fit all filters, by `seq`, up to what was there when the first one is asked for.

        *since* is included, *until* is not. With *numbers* those with these `seq`, as far as there are such.
        """

    def count(self) -> int:
        """Return how many records there are."""

    def last_seq(self) -> int:
        """Return a `seq` after which there is no record; without a prune since, that of the latest record."""

    def runs(self) -> Iterator[RunInfo]:
        """Yield the runs, the oldest first."""

    def open_run(self, run_id: str) -> Lease:
        """
        Open a run in one place at a time.

        Raises:
            RunBusyError: It is open elsewhere, or here already.
        """

    def state(self, since: int = 0, *, counts_only: bool = False) -> StateView:
        """
        Return the changes of access that hold, or what changed after revision *since*.

        Args:
            since: A revision that is known; 0 for none.
            counts_only: Leave out the changes, and return the counts of all grants, whatever is known.
        """

    def revision(self) -> int:
        """Return the state's revision; each change of state adds one."""

    def prune(self, before: datetime) -> int:
        """
        Delete what ended before; return how many records were deleted.

        A run is deleted as a whole, once its last event is older; runs that are open or in doubt stay.
        Where processes share the store, so do answers which say that a person's yes in Praval was used.
        """

    def close(self) -> None:
        """Write what waits, and release everything; safe to call twice."""


@runtime_checkable
class WatchableStore(Protocol):
    """A store that can tell when another process changed the state; of others, registries ask for the revision."""

    def watch(self, callback: Callable[[], object]) -> None:
        """Have a method called, in a thread, soon after the state has changed, as long as its object lives."""


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """
    A bearer token as it is stored, from which it cannot be made again.

    Args:
        id: Its first part, by which it is listed and revoked.
        agent: The agent for which it stands, or the person.
        salt: What is hashed before its secret part.
        digest: The hash of both.
        created: When it was made.
        expires: From when on it counts no more; None: it does not expire.
        role: `agent`; of a person who uses the operator's page, `operator` or `viewer`.
    """

    id: str
    agent: str
    salt: bytes
    digest: bytes
    created: datetime
    expires: datetime | None = None
    role: str = "agent"


class TokenStorage(Protocol):
    """Where tokens are kept, for every process that uses the same place."""

    def find_token(self, token_id: str) -> TokenRow | None:
        """Return a token as it is stored now, or None where there is none."""
        ...

    def list_tokens(self) -> list[TokenRow]:
        """Return the tokens, the oldest first."""
        ...

    def add_token(self, row: TokenRow) -> None:
        """Store a token; return when it is durable."""
        ...

    def delete_token(self, token_id: str) -> bool:
        """Forget a token; tell whether there was one."""
        ...
