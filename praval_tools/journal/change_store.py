"""What is done at run time is kept in the journal's store, and is there again at the next start."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from praval_tools.access.events import ACTS, Event
from praval_tools.access.state import State, apply
from praval_tools.clock import Clock
from praval_tools.errors import JournalError, JournalWarning, outside
from praval_tools.journal.codec import to_json
from praval_tools.journal.events import TYPES, process, subject_of
from praval_tools.journal.storage.protocol import Item, Record, StateRow, Status, Store, Uses
from praval_tools.journal.stored_changes import read_acts, rows_of


class Keeper:
    """
    Keeps the acts of one ledger in a store; used under the ledger's lock.

    Args:
        store: Where they are kept.
        clock: Time and ids of the events.
        lenient: Go on where the store fails, with a warning.
    """

    def __init__(self, store: Store, clock: Clock, *, lenient: bool) -> None:
        self._store, self._clock, self._lenient = store, clock, lenient
        self._looked = False
        self._owed: list[tuple[State, tuple[Event, ...]]] = []

    def stamped(self, events: Iterable[Event]) -> list[Event]:
        """Return *events*, those that are acts with id, time and process."""
        now, where = self._clock.now(), process()
        return [self._stamp(one, now, where) if isinstance(one, ACTS) else one for one in events]

    def _stamp(self, event: Any, now: datetime, where: str) -> Any:
        return event if event.id or event.stored else replace(
            event, id=self._clock.new_id(), time=now, process=where)  # fmt: skip

    def write(self, base: State, events: Iterable[Event], *, checked: bool) -> State | None:
        """
        Append the acts among *events*, and return the state that they lead to; None: another process made a change.

        Args:
            base: What they were planned for.
            events: In order; those that the journal holds already, and those that are no acts, are left out.
            checked: Nobody else may have changed anything since *base*.

        Raises:
            JournalError: They could not be written.
        """
        self.catch_up()
        return self._written(base, events, checked=checked)

    def owe(self, base: State, events: Iterable[Event]) -> None:
        """Note that *events*, planned for *base*, count and could not be written, where the operator minds that."""
        if not self._lenient:
            self._owed.append((base, tuple(events)))

    def catch_up(self) -> None:
        """
        Write what counts already, and could not be written then.

        Raises:
            JournalError: It still cannot be.
        """
        while self._owed:
            self._written(*self._owed[0], checked=False)
            del self._owed[0]

    def _written(self, base: State, events: Iterable[Event], *, checked: bool) -> State | None:
        after, records, rows, uses = base, list[Record](), list[StateRow](), list[Uses]()
        for event in events:
            before, after = after, apply(after, event)
            if isinstance(event, ACTS) and event.id and not event.stored:
                more, counts = rows_of(before, after, event)
                records.append(_record(event))
                rows += more
                uses += counts
        if not records:
            return after
        item = Item(tuple(records), base.revision if checked else None, (), _last(rows), tuple(uses))
        (answer,) = self._store.append([item])
        if answer.status is Status.STALE:
            return None
        if answer.error is not None:
            raise answer.error
        if not checked and answer.revision != base.revision + bool(rows or uses):
            return after  # others changed something before: it is read with the next look
        return replace(after, revision=answer.revision)

    def excused(self, error: JournalError) -> None:
        """Warn of a failure that the operator wants to live with; else raise it."""
        if not self._lenient:
            raise error
        warnings.warn(f"{error} The change counts in this process alone.", JournalWarning, stacklevel=outside())

    def news(self, state: State) -> tuple[list[Event], int]:
        """Return what the store holds that *state* does not know, and the revision that it then is of."""
        view = self._store.state(state.revision)
        made = list(read_acts(state, view, first=not self._looked))
        self._looked = True
        return made, view.revision


def _record(event: Any) -> Record:
    about = subject_of(event)
    return Record(
        type=TYPES[type(event)].value, body=to_json(event), id=event.id, time=event.time, process=event.process,
        agent=about.agent, tool=about.tool,
    )  # fmt: skip


def _last(rows: list[StateRow]) -> tuple[StateRow, ...]:
    """Return the rows, of several about one thing the last."""
    return tuple({(row.kind, row.key, row.source): row for row in rows}.values())


