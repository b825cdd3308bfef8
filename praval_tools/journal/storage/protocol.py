"""What a store of the journal takes and gives: records, items, answers, state; no event types, no JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from praval_tools.errors import JournalError

if TYPE_CHECKING:
    from concurrent.futures import Future

INTENT: Final = 0
"""The `attempt` of the record that says that a call is about to run."""


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """
    One event as it is stored.

    Args:
        type: The event's type.
        body: The event as JSON; the store never looks into it.
        id: Stands for this event.
        time: When it happened, aware.
        process: Who wrote it.
        run_id: The run that it belongs to.
        call_id: The call that it is about.
        agent: Who called.
        tool: What was called.
        attempt: What it is to its call: `INTENT`, n for the result of the n-th attempt, None for neither.
            In a run there is one record of each attempt of a call; outside of runs ids of calls may repeat.
        seq: Its place in the store, given when it is stored: unique, increasing.
        run_seq: Its place in its run, given when it is stored: from 1 without gaps.
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
    One act that still holds: a grant, a block, a removal, an owner, a flag.

    Args:
        kind: What it is: `grant`, `block`, `removed`, `owner`, `shared`, `disabled`, `configured`, …
        key: What stands for it among its kind.
        source: Where its tool comes from; acts on tools of one name from two sources are two rows.
        body: The act as JSON; None ends it.
        revision: The change that made or ended it, given when it is stored.
    """

    kind: str
    key: str
    source: str
    body: bytes | None
    revision: int = 0


class Uses(msgspec.Struct, frozen=True):
    """How many calls a grant has left; None: the grant is not counted any more."""

    grant_id: str
    left: int | None


class Item(msgspec.Struct, frozen=True, gc=False):
    """
    Records and what goes with them, all or nothing; the other items of an append stand on their own.

    Args:
        records: What is appended, at least one.
        revision: The state's revision that was decided at; another one in the store refuses the item.
        spend: Grants of which each gives one call; one without a call left refuses the item.
        rows: Acts that are made, replaced or ended.
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
        seq: The place of its first record in the store.
        run_seq: The place of its first record in its run.
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


class StateView(msgspec.Struct, frozen=True):
    """
    The acts that hold at *revision*, or what changed up to it.

    Args:
        revision: Pass it as `since` to learn what changed later.
        complete: These are all acts, whatever was known before; else only the changed ones, ended ones among them.
        rows: The acts.
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

    def release(self) -> None:
        """Let the run go; safe twice."""

    def __enter__(self) -> Lease: ...

    def __exit__(self, *error: object) -> None: ...


class Store(Protocol):
    """
    Where records are kept: appended, never changed, read by many.

    An append answers for each item; one that could not be written for a reason that no rule foresees raises
    `JournalError`, whose `answers` tell what became of its neighbours.
    """

    @property
    def name(self) -> str:
        """What errors call the store."""

    def append(self, items: Sequence[Item]) -> list[Answer]:
        """Write *items*, in order; return when they are durable."""

    def submit(self, items: Sequence[Item]) -> Future[list[Answer]]:
        """Write *items* without waiting; the future is done when they are durable and can't be cancelled."""

    def aappend(self, items: Sequence[Item]) -> Awaitable[list[Answer]]:
        """Write *items* at once, whether awaited or not; the awaitable is done when they are durable."""

    def read(
        self,
        *,
        run_id: str | None = None,
        call_id: str | None = None,
        agent: str | None = None,
        tool: str | None = None,
        type: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after_seq: int = 0,
    ) -> Iterator[Record]:
        """
        Yield the records that fit all filters, by `seq`, up to what was there when the first one is asked for.

        *since* is included, *until* is not.
        """

    def count(self) -> int:
        """Return how many records there are."""

    def last_seq(self) -> int:
        """Return a `seq` after which there is no record; without a prune since, that of the latest record."""

    def runs(self) -> Iterator[RunInfo]:
        """Yield the runs, the oldest first."""

    def open_run(self, run_id: str) -> Lease:
        """
        Open a run here, and only here.

        Raises:
            RunBusyError: It is open elsewhere, or here already.
        """

    def state(self, since: int = 0) -> StateView:
        """Return the acts that hold, or what changed after revision *since*."""

    def revision(self) -> int:
        """Return the state's revision; each change of state adds one."""

    def prune(self, before: datetime) -> int:
        """
        Forget what ended before; return how many records went.

        A run goes as a whole, once its last event is older; runs that are open or in doubt stay.
        """

    def close(self) -> None:
        """Write what waits, and let go of everything; safe twice."""
