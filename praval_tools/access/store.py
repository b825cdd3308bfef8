"""The state store: holds the present access state, and is its only writer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from copy import copy
from weakref import WeakValueDictionary

from msgspec.structs import replace

from praval_tools.access.change_block import ChangeBlock, OpenChange, open_change, refuse_undone
from praval_tools.access.events import (
    STORED_EVENTS,
    WIDENING_EVENTS,
    AnyStateEvent,
    GrantRevoked,
    RecordsAdded,
    RegistryCleared,
    extract_narrowing_part,
)
from praval_tools.access.pending_change import ChangePersistence, PendingChange, Planner, sign_plan
from praval_tools.access.state import AccessState
from praval_tools.access.subscriptions import Subscriptions
from praval_tools.errors import JournalError, RegistryClosedError, ToolError, ToolUsageError
from praval_tools.names import describe_registry
from praval_tools.tools.context_settings import use_setting
from praval_tools.tools.frames import get_current_person
from praval_tools.tools.implementation import ToolImplementation
from praval_tools.tools.plain_managers import plain_manager


class StateStore:
    """
    Holds the present `state`; every change goes lock → apply_event → publish → notify.

    Readers take the pointer and never wait.
    Publication is one assignment: it is the moment from which a change counts.
    A finalizer or signal handler that strikes while this thread commits makes its change at once; the commit around
    it sees that and plans again.
    """

    def __init__(self, name: str, state: AccessState | None = None) -> None:
        self.name = name
        self.state = state if state is not None else AccessState()
        self.closed = False
        self.persistence: ChangePersistence | None = None
        self.before_first_lookup: Callable[[], object] | None = None
        self.foreign_tools = WeakValueDictionary[str, ToolImplementation]()
        self.subscriptions = Subscriptions()
        self.reset_locks()

    def reset_locks(self) -> None:
        """Take new locks; in a forked process other threads of the parent may have held the old ones."""
        self._lock = threading.RLock()
        self.subscriptions.reset_locks()
        self._active_change: PendingChange | None = None
        self._open_drafts: list[PendingChange] = []

    def get_current_state(self) -> AccessState:
        """Return the state that this thread sees: inside `change`, with the changes made so far."""
        change = self._get_own_change()
        return self.state if change is None else change.state

    def prepare_lookup(self) -> None:
        """Do what comes before the first look-up, such as loading plugins; not in a change, which may be undone."""
        prepare = self.before_first_lookup
        if prepare is not None and self._get_own_change() is None:
            prepare()

    def get_fresh_state(self) -> AccessState:
        """Return the state that this thread sees, with what other processes changed up to a moment ago."""
        if self.before_first_lookup is not None:
            self.prepare_lookup()
        persistence = self.persistence
        if persistence is not None and not self.closed and persistence.is_outdated(self.state):
            self._load_other_changes_unless_busy(persistence)
        return with_stored_counts(self, self.get_current_state())

    def _load_other_changes_unless_busy(self, persistence: ChangePersistence) -> None:
        """Take over what other processes changed; a reader does not wait for a thread that changes something."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._active_change is None:
                self._publish_other_changes(persistence)
        finally:
            self._lock.release()
        self.subscriptions.deliver_events()

    @property
    def has_open_change(self) -> bool:
        """Whether a `change()` is open anywhere; no fast path is built meanwhile, see `refuse_calls`."""
        return self._active_change is not None

    def has_own_change(self, *, counts_drafts: bool = False) -> bool:
        """Tell whether this thread and context are inside a `change()`; a draft is none, unless that is asked for."""
        change = self._get_own_change()
        return change is not None and (counts_drafts or not change.is_draft)

    def lock(self) -> AbstractContextManager[object]:
        """Return a context in which no other thread changes the state."""
        return self._lock

    def refuse_calls(self) -> None:
        """
        Refuse a call from inside `change()`, which sees what is not published, and whose spending could be undone.

        Raises:
            ToolUsageError: This thread holds a `change()` open.
            RegistryClosedError: The registry was closed.
        """
        if self.has_own_change():
            raise ToolUsageError(
                f"A change() of {describe_registry(self.name)} is open here, and what it changes does not count yet: "
                f"call tools after the `with registry.change():` block.",
                "call-in-change",
            )
        self._refuse_closed()

    def commit(self, plan: Planner, *, outside_draft: bool = False) -> tuple[AnyStateEvent, ...]:
        """
        Change the state by the events that *plan* makes of the present one; all or none.

        Args:
            plan: Returns the events, or raises.
            outside_draft: At once, although a draft is open here.

        Raises:
            RegistryClosedError: The registry was closed.
            ToolUsageError: Another task of this thread holds a `change()` open.
        """
        if (opened := open_change.get()) is not None and opened.store is self:
            refuse_undone(opened, self.name)
        if person := get_current_person():
            plan = sign_plan(plan, person)
        change = self._get_own_change()
        if change is not None and not (outside_draft and change.is_draft):
            self._refuse_closed()
            return change.add_lasting_plan(plan)
        self._refuse_reentry()
        try:
            with self._lock:
                return self._commit_plans([plan])
        finally:
            self.subscriptions.deliver_events()

    def _commit_plans(self, plans: Iterable[Planner]) -> tuple[AnyStateEvent, ...]:
        """Publish what *plans* make of the present state, anew where that changes meanwhile."""
        while True:
            self._refuse_closed()
            change = PendingChange(self.state, self.persistence)
            try:
                for plan in plans:
                    change.add_plan(plan)
            except Exception:
                if not self._take_over_newer_changes():
                    raise
            else:
                if self._store_and_publish(change):
                    return tuple(change.events)

    def _take_over_newer_changes(self) -> bool:
        """Publish what other processes changed, by which a change may be right that was refused; False: nothing."""
        persistence = self.persistence
        with suppress(JournalError):  # then what this process knows decides
            if persistence is not None and persistence.is_outdated(self.state, at_once=True):
                self._publish_other_changes(persistence)
                return True
        return False

    def change(
        self, *, is_whole: bool = False, when_published: Callable[[], object] | None = None
    ) -> AbstractContextManager[None]:
        """
        Make several changes one: published together at the end, none of them if an exception leaves.

        Args:
            is_whole: None of them either where they cannot be stored; else what allows nothing new counts.
            when_published: Called once they count, before anybody hears of them and before another thread's change; and
                again where an interrupt comes meanwhile.
        """
        return ChangeBlock(self, self.name, self._hold_change(is_whole, when_published))

    @plain_manager
    def _hold_change(self, is_whole: bool, when_published: Callable[[], object] | None) -> Iterator[PendingChange]:
        if (outer := self._get_own_change()) is not None:
            mark = outer.get_mark()
            try:
                yield outer
                outer.add_call(when_published)
            except BaseException:
                outer.drop_since(mark, lambda _: True)
                raise
            return
        self._refuse_reentry()
        try:
            with self._lock:
                change = PendingChange(self.state, self.persistence, is_whole=is_whole)
                try:
                    self._active_change = change
                    self.state = change.base = copy(self.state)  # fast paths look again, and come to `refuse_calls`
                    yield change
                    change.add_call(when_published)
                finally:
                    self._active_change = None
                try:
                    while not self._store_and_publish(change):  # a signal or another process came in between
                        change.replan(self.state)
                    change.call_back()
                except BaseException:
                    if change.is_published or self.state is change.state:  # an interrupt, once it counted
                        change.call_back()
                    raise
        finally:
            self.subscriptions.deliver_events()

    @plain_manager
    def draft(self, is_gone: Callable[[str], bool]) -> Iterator[None]:
        """
        Make several changes one without keeping others waiting: they are planned again, all together, at the end.

        What comes from a module that failed, for whose name *is_gone* is true, is left out, also where others caught
        its error. If an exception leaves, what comes from other modules stays; it is left out where none is known.
        """
        if (outer := self._get_own_change()) is not None:
            mark = outer.get_mark()
            try:
                yield
            except BaseException as error:
                _note_refusals(error, outer.drop_since(mark, lambda module: not module or is_gone(module)))
                raise
            if refusals := outer.drop_since(mark, lambda module: bool(module) and is_gone(module)):
                outer.drop_since(mark, lambda _: True)
                raise refusals[0]
            return
        change = PendingChange(self.state, self.persistence, is_draft=True)
        try:
            with self._hold_draft(change):
                yield
        except BaseException as error:
            for module, plan in change.plans:
                if module and not is_gone(module):
                    self._commit_surviving_plan(plan, error)
            for module, call in change.when_published:
                if module and not is_gone(module):
                    call()
            raise
        self._refuse_reentry()
        change.when_published = [entry for entry in change.when_published if not (entry[0] and is_gone(entry[0]))]
        with self._lock:
            self._commit_plans([plan for module, plan in change.plans if not (module and is_gone(module))])
            change.call_back()
        self.subscriptions.deliver_events()

    @plain_manager
    def _hold_draft(self, change: PendingChange) -> Iterator[None]:
        self._open_drafts.append(change)
        try:
            with use_setting(open_change, OpenChange(self, change)):
                yield
        finally:
            self._open_drafts.remove(change)

    def _commit_surviving_plan(self, plan: Planner, error: BaseException) -> None:
        try:
            self.commit(plan)
        except ToolError as refused:
            _note_refusals(error, [refused])

    def _store_and_publish(self, change: PendingChange) -> bool:
        """Store and publish *change*; False where it is not based on the present state, and nothing happened."""
        persistence = self.persistence
        if persistence is None or not change.has_any((*STORED_EVENTS, RecordsAdded)):
            if persistence is not None and (change.is_whole or not change.events):
                persistence.write_deferred()  # a change that changes nothing may be one that is tried again
                if persistence.is_outdated(change.base, at_once=True):  # it may change something now
                    self._publish_other_changes(persistence)
                    return False
            if not self._try_publish(change):
                return False
            if persistence is not None and change.has_any(RegistryCleared):
                self._publish_other_changes(persistence)  # what is stored is not forgotten by that
            return True
        if not (change.is_whole or change.has_any(WIDENING_EVENTS)):
            return self._publish_then_store(persistence, change)
        try:
            after = persistence.write_changes(change.base, change.events, require_current_base=True)
        except JournalError as error:
            self._publish_after_store_failure(persistence, change, error)
            return True
        if after is None:
            self._publish_other_changes(persistence)
            return False
        change.state = after
        while not self._try_publish(change):  # what is durable counts, whatever a signal changed meanwhile
            change.rebase(replace(self.state, revision=after.revision))
            change.base = self.state
        return True

    def _publish_then_store(self, persistence: ChangePersistence, change: PendingChange) -> bool:
        """
        Publish what allows nothing new, then make it durable.

        It ends what other processes granted before, whether this process knew of that or not.
        """
        with suppress(JournalError):  # raised again where the change is written: it counts all the same
            if persistence.is_outdated(change.base, at_once=True):
                self._publish_other_changes(persistence)
                return False
        if not self._try_publish(change):
            return False
        has_base, after = True, None
        try:
            while after is None:
                after = persistence.write_changes(change.base, change.events, require_current_base=has_base)
                if after is None:
                    has_base = self._insert_other_changes(persistence, change)
        except JournalError as error:
            persistence.defer_changes(change.base, change.events)
            persistence.warn_or_raise(error)
            return True
        while True:
            revised = PendingChange(self.state)
            revised.state = replace(revised.base, revision=after.revision)
            if self._try_publish(revised):
                break
        return True

    def _insert_other_changes(self, persistence: ChangePersistence, change: PendingChange) -> bool:
        """Publish what others changed before *change*, which is published; False where a signal came in between."""
        others, published = PendingChange(change.base), change.state
        events, revision = persistence.read_changes(change.base)
        others.add_events(events)
        change.rebase(replace(others.state, revision=revision))
        if self.state is not published:
            return False
        self.state = change.state
        if self.subscriptions.subscribers:  # no call of ours: a signal must not come between
            self.subscriptions.undelivered.extend(others.events)
        return True

    def _publish_after_store_failure(
        self, persistence: ChangePersistence, change: PendingChange, error: JournalError
    ) -> None:
        """Publish what could not be stored as far as it narrows; all of it where the operator goes on without."""
        published = PendingChange(change.base)
        try:
            persistence.warn_or_raise(error)
        except JournalError:
            if change.is_whole:
                raise
            for event in change.events:
                is_known = not isinstance(event, GrantRevoked) or event.grant in published.state.grants
                if is_known and (part := extract_narrowing_part(event)) is not None:
                    published.add_events([part])
            persistence.defer_changes(published.base, published.events)
            self._try_publish(published)
            raise
        published.add_events(
            replace(event, id="") if isinstance(event, STORED_EVENTS) and not event.stored else event
            for event in change.events
        )
        self._try_publish(published)

    def load_other_changes(self, revision: int | None = None) -> None:
        """
        Take over what other processes changed, as the journal says.

        Args:
            revision: That of the journal; where the state has it, nothing is read.
        """
        with self._lock:
            persistence = self.persistence
            if persistence is not None and self.state.revision != revision:
                self._publish_other_changes(persistence)
        self.subscriptions.deliver_events()

    def _publish_other_changes(self, persistence: ChangePersistence) -> None:
        while True:
            change = PendingChange(self.state)
            events, revision = persistence.read_changes(change.base)
            change.add_events(events)
            change.state = replace(change.state, revision=revision)
            if self._try_publish(change):
                return

    def _try_publish(self, change: PendingChange) -> bool:
        """Publish a change, which counts from the assignment on; False where the state is not its base any more."""
        if self.state is not change.base:
            return False
        self.state = change.state  # with no call since the look at it, so that not even a signal comes between
        if self.subscriptions.subscribers:  # no call of ours: a signal must not come between
            self.subscriptions.undelivered.extend(change.events)
        return True

    def invalidate_snapshots(self) -> None:
        """Publish the same state under a new pointer, so that whoever holds the old one looks again."""
        self._refuse_reentry()
        with self._lock:
            self.state = copy(self.state)

    def _refuse_closed(self) -> None:
        if self.closed:
            raise RegistryClosedError(self.name)

    def _get_own_change(self) -> PendingChange | None:
        """Return the change that this thread and context hold open."""
        if self._active_change is None and not self._open_drafts:
            return None
        opened = open_change.get()
        if opened is None or opened.store is not self or opened.is_undone:
            return None
        change = opened.change
        if change.is_draft:  # tasks and threads that are begun inside add to it, until it ends
            return change if change in self._open_drafts else None
        return change if change is self._active_change and change.is_of_this_task() and self._holds_lock() else None

    def _holds_lock(self) -> bool:
        """Tell whether this thread holds the lock: an interrupt may leave a change behind without it."""
        return bool(self._lock._is_owned())  # type: ignore[attr-defined]

    def _refuse_reentry(self) -> None:
        change = self._active_change
        if change is not None and change.is_of_this_thread() and self._holds_lock():
            raise ToolUsageError(
                f"A change() of {describe_registry(self.name)} is open in another task of this thread; "
                f"do not await inside `with registry.change():`."
            )


def _note_refusals(error: BaseException, refusals: Iterable[ToolError]) -> None:
    for refusal in refusals:
        error.add_note(f"and a change that was to stay was refused: {refusal}")


def with_stored_counts(store: StateStore, state: AccessState) -> AccessState:
    """Return *state* of *store*, with what other processes had left of its grants a moment ago."""
    return state if store.persistence is None else store.persistence.with_stored_counts(state)
