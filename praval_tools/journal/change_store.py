"""What is done at run time is kept in the journal's store, and is there again at the next start."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from praval_tools.access.events import STORED_EVENTS, AnyStateEvent
from praval_tools.access.state import AccessState
from praval_tools.access.transitions import apply_event
from praval_tools.clock import Clock
from praval_tools.errors import JournalError, JournalWarning, get_user_stacklevel
from praval_tools.journal.codec import to_json
from praval_tools.journal.events import EVENT_TYPES, get_process_name, get_subject
from praval_tools.journal.storage.protocol import Item, Record, StateRow, Status, Store, Uses
from praval_tools.journal.stored_changes import build_stored_rows, read_stored_changes


class JournalChangeStore:
    """
    Keeps the acts of one ledger in a store; used under the ledger's lock.

    Args:
        store: Where they are kept.
        clock: Time and ids of the events.
        lenient: Go on where the store fails, with a warning.
    """

    def __init__(self, store: Store, clock: Clock, *, lenient: bool) -> None:
        self._store, self._clock, self._lenient = store, clock, lenient
        self._has_read = False
        self._deferred: list[tuple[AccessState, tuple[AnyStateEvent, ...]]] = []

    def stamp_events(self, events: Iterable[AnyStateEvent]) -> list[AnyStateEvent]:
        """Return *events*, those that are acts with id, time and process."""
        now, where = self._clock.now(), get_process_name()
        return [self._stamp_event(one, now, where) if isinstance(one, STORED_EVENTS) else one for one in events]

    def _stamp_event(self, event: Any, now: datetime, where: str) -> Any:
        return event if event.id or event.stored else replace(
            event, id=self._clock.new_id(), time=now, process=where)  # fmt: skip

    def write_changes(self, base: AccessState, events: Iterable[AnyStateEvent], *, require_current_base: bool) -> AccessState | None:
        """
        Append the acts among *events*, and return the state that they lead to; None: another process made a change.

        Args:
            base: What they were planned for.
            events: In order; those that the journal holds already, and those that are no acts, are left out.
            require_current_base: Nobody else may have changed anything since *base*.

        Raises:
            JournalError: They could not be written.
        """
        self.write_deferred()
        return self._append_events(base, events, require_current_base=require_current_base)

    def defer_changes(self, base: AccessState, events: Iterable[AnyStateEvent]) -> None:
        """Note that *events*, planned for *base*, count and could not be written, where the operator minds that."""
        if not self._lenient:
            self._deferred.append((base, tuple(events)))

    def write_deferred(self) -> None:
        """
        Write what counts already, and could not be written then.

        Raises:
            JournalError: It still cannot be.
        """
        while self._deferred:
            self._append_events(*self._deferred[0], require_current_base=False)
            del self._deferred[0]

    def _append_events(
        self, base: AccessState, events: Iterable[AnyStateEvent], *, require_current_base: bool
    ) -> AccessState | None:
        after, records, rows, uses = base, list[Record](), list[StateRow](), list[Uses]()
        for event in events:
            before, after = after, apply_event(after, event)
            if isinstance(event, STORED_EVENTS) and event.id and not event.stored:
                more, counts = build_stored_rows(before, after, event)
                records.append(_build_record(event))
                rows += more
                uses += counts
        if not records:
            return after
        item = Item(tuple(records), base.revision if require_current_base else None, (), _keep_latest_rows(rows), tuple(uses))
        (answer,) = self._store.append([item])
        if answer.status is Status.STALE:
            return None
        if answer.error is not None:
            raise answer.error
        if not require_current_base and answer.revision != base.revision + bool(rows or uses):
            return after  # others changed something before: it is read with the next look
        return replace(after, revision=answer.revision)

    def warn_or_raise(self, error: JournalError) -> None:
        """Warn of a failure that the operator wants to live with; else raise it."""
        if not self._lenient:
            raise error
        warnings.warn(
            f"{error} The change counts in this process alone.", JournalWarning, stacklevel=get_user_stacklevel()
        )

    def read_changes(self, state: AccessState) -> tuple[list[AnyStateEvent], int]:
        """Return what the store holds that *state* does not know, and the revision that it then is of."""
        view = self._store.state(state.revision)
        made = list(read_stored_changes(state, view, is_first_read=not self._has_read))
        self._has_read = True
        return made, view.revision


def _build_record(event: Any) -> Record:
    about = get_subject(event)
    return Record(
        type=EVENT_TYPES[type(event)].value, body=to_json(event), id=event.id, time=event.time, process=event.process,
        agent=about.agent, tool=about.tool,
    )  # fmt: skip


def _keep_latest_rows(rows: list[StateRow]) -> tuple[StateRow, ...]:
    """Return the rows, of several about one thing the last."""
    return tuple({(row.kind, row.key, row.source): row for row in rows}.values())
