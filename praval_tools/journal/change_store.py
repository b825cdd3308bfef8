"""Writes changes of access that are made at run time to the journal's store, and reads those of other processes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from praval_tools.access.events import STORED_EVENTS, AnyStateEvent, GrantRevoked, GrantsCounted, RecordsAdded
from praval_tools.access.state import AccessState
from praval_tools.access.transitions import apply_event
from praval_tools.clock import Clock
from praval_tools.errors import JournalError, JournalWarning, get_user_stacklevel
from praval_tools.journal.codec import build_record
from praval_tools.journal.events import StoredAccessEvent
from praval_tools.journal.process_name import get_process_name
from praval_tools.journal.storage.protocol import Item, Record, StateRow, Status, Store, Uses
from praval_tools.journal.stored_changes import build_stored_rows, read_stored_changes

_LOOK_INTERVAL: Final = 0.25
"""Seconds for which a process relies on what it knows when it lists and explains; calls always ask the store."""


class JournalChangeStore:
    """
    Writes the changes of one access store to a journal; used under the access store's lock.

    Args:
        store: Where they are written.
        clock: Time and ids of the events.
        lenient: Go on where the store fails, with a warning.
    """

    def __init__(self, store: Store, clock: Clock, *, lenient: bool) -> None:
        self._store, self._clock, self._lenient = store, clock, lenient
        self._has_read, self._next_look = False, 0.0
        self._stored_counts: tuple[int, dict[str, int]] = 0, {}
        """A revision, and grant → calls left in the store then."""
        self._counted: tuple[AccessState, dict[str, int], AccessState] | None = None
        """A state, stored counts, and the state with these counts."""
        self._deferred: list[tuple[AccessState, tuple[AnyStateEvent, ...]]] = []

    def stamp_events(self, events: Iterable[AnyStateEvent]) -> list[AnyStateEvent]:
        """Return *events*, with id, time and process where they are to be stored."""
        now, process = self._clock.now(), get_process_name()
        return [
            event
            if not isinstance(event, STORED_EVENTS) or event.id or event.stored
            else replace(event, id=self._clock.new_id(), time=now, process=process)
            for event in events
        ]

    def write_changes(
        self, base: AccessState, events: Iterable[AnyStateEvent], *, require_current_base: bool
    ) -> AccessState | None:
        """
        Append those of *events* that are to be stored and are not yet.

        Args:
            base: The state for which they were planned.
            events: In order.
            require_current_base: Nobody else may have changed anything since *base*.

        Returns:
            The state after them; None: another process changed something since *base*.

        Raises:
            JournalError: They could not be written.
        """
        self.write_deferred()
        return self._append_events(base, events, require_current_base=require_current_base)

    def defer_changes(self, base: AccessState, events: Iterable[AnyStateEvent]) -> None:
        """Remember to write *events*, which count already and could not be written, unless the store is lenient."""
        if not self._lenient:
            self._deferred.append((base, tuple(events)))

    def write_deferred(self) -> None:
        """
        Write the events that count already and could not be written before.

        Raises:
            JournalError: They still cannot be written.
        """
        while self._deferred:
            self._append_events(*self._deferred[0], require_current_base=False)
            del self._deferred[0]

    def _append_events(
        self, base: AccessState, events: Iterable[AnyStateEvent], *, require_current_base: bool
    ) -> AccessState | None:
        after, records, uses = base, list[Record](), list[Uses]()
        rows: dict[tuple[str, str, str], StateRow] = {}
        for event in events:
            before, after = after, apply_event(after, event)
            if isinstance(event, STORED_EVENTS) and event.id and not event.stored:
                event_rows, event_uses = build_stored_rows(before, after, event)
                records.append(_build_change_record(before, event))
                uses += event_uses
                for row in event_rows:  # of several about one thing the last counts
                    rows[row.kind, row.key, row.source] = row
            elif isinstance(event, RecordsAdded):
                records += map(build_record, event.records)
        if not records:
            return after
        revision = base.revision if require_current_base else None
        (answer,) = self._store.append([Item(tuple(records), revision, (), tuple(rows.values()), tuple(uses))])
        if answer.status is Status.STALE:
            return None
        if answer.error is not None:
            raise answer.error
        if not require_current_base and answer.revision != base.revision + bool(rows or uses):
            return after  # others changed something before: the next `read_changes` returns it
        return replace(after, revision=answer.revision)

    def warn_or_raise(self, error: JournalError) -> None:
        """Warn of a failure where the operator chose to go on; else raise it."""
        if not self._lenient:
            raise error
        warnings.warn(
            f"{error} The change counts in this process alone.", JournalWarning, stacklevel=get_user_stacklevel()
        )

    def is_outdated(self, state: AccessState, *, at_once: bool = False) -> bool:
        """
        Tell whether other processes changed something since *state*.

        Args:
            state: What this process knows.
            at_once: Ask the store now, instead of several times a second at most.
        """
        if not at_once:
            now = self._clock.monotonic()
            if now < self._next_look:
                return False
            self._next_look = now + _LOOK_INTERVAL
        try:
            if at_once or all(record.calls_left is None for record in state.grants.values()):
                return self._store.revision() != state.revision
            return self._read_counts() != state.revision
        except JournalError as error:
            if not self._lenient:
                raise
            warnings.warn(
                f"{error} What other processes changed is not known here.",
                JournalWarning,
                stacklevel=get_user_stacklevel(),
            )
            return False

    def _read_counts(self) -> int:
        """Take note of the counts in the store, and return its revision."""
        view = self._store.state(counts_only=True)
        found = view.revision, {use.grant_id: use.left for use in view.uses if use.left is not None}
        if found != self._stored_counts:
            self._stored_counts = found
        return view.revision

    def with_stored_counts(self, state: AccessState) -> AccessState:
        """
        Return *state*, with what other processes have left of its grants, as the last look at the store found it.

        It is for who looks, not for calls: one that is under way has spent in the store, and not yet in the state.
        """
        revision, counts = self._stored_counts
        if not counts or revision < state.revision:  # they are of before a change
            return state
        if self._counted is None or self._counted[0] is not state or self._counted[1] is not counts:
            spent = {grant: left for grant, left in counts.items() if _has_more(state, grant, left)}
            self._counted = state, counts, apply_event(state, GrantsCounted(left=spent)) if spent else state
        return self._counted[2]

    def read_changes(self, state: AccessState) -> tuple[list[AnyStateEvent], int]:
        """Return the stored changes that *state* does not have, and the revision that it has with them."""
        view = self._store.state(state.revision)
        changes = list(read_stored_changes(state, view, is_first_read=not self._has_read))
        self._has_read = True
        return changes, view.revision


def _has_more(state: AccessState, grant: str, left: int) -> bool:
    """Tell whether *state* says that a grant has more calls left than these."""
    record = state.grants.get(grant)
    return record is not None and record.calls_left is not None and record.calls_left > left


def _build_change_record(before: AccessState, event: StoredAccessEvent) -> Record:
    """Return the record of *event*; the end of a grant is found by the agent and tool of that grant."""
    record = build_record(event)
    grant = before.find_known_grant(event.grant) if isinstance(event, GrantRevoked) else None
    return record if grant is None else replace(record, agent=grant.agent, tool=grant.tool)
