"""The one pointer to the present state, and its only writer."""

from __future__ import annotations

import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from copy import copy
from functools import reduce
from typing import Any, Protocol

from msgspec.structs import replace

from praval_tools.access.events import (
    STORED_EVENTS,
    WIDENING_EVENTS,
    ActKept,
    AnyStateEvent,
    GrantRevoked,
    RegistryCleared,
    ToolRegistered,
    extract_narrowing_part,
)
from praval_tools.access.restore import restore_changes
from praval_tools.access.state import AccessState, apply_event, apply_events
from praval_tools.errors import (
    JournalError,
    RegistryClosedError,
    SubscriberWarning,
    ToolError,
    ToolUsageError,
    find_user_frame,
    get_user_stacklevel,
)
from praval_tools.names import shorten_repr

Subscriber = Callable[[AnyStateEvent], object]
SubscriberContext = Callable[[], AbstractContextManager[Any]]
"""Makes the context in which a subscriber is told: in whose name it acts."""


Planner = Callable[[AccessState], Iterable[AnyStateEvent]]
"""Makes events of the present state, or raises; it may be asked again, of another state."""


def _get_task_id() -> int:
    """Return what stands for the asyncio task that runs here, 0 where there is none; asyncio is not imported for it."""
    tasks: Any = sys.modules.get("asyncio.tasks")
    events: Any = sys.modules.get("asyncio.events")
    if tasks is None or events is None or events._get_running_loop() is None:
        return 0
    return id(tasks.current_task())


class ChangePersistence(Protocol):
    """Keeps acts where they outlast the process; see `Keeper`, which is imported for registries with a journal only."""

    def stamp_events(self, events: Iterable[AnyStateEvent]) -> list[AnyStateEvent]:
        """Return *events*, those that are acts with id, time and process."""

    def write_changes(
        self, base: AccessState, events: Iterable[AnyStateEvent], *, require_current_base: bool
    ) -> AccessState | None:
        """Make the acts among *events* durable; return the state after them, None: *base* is not the present."""

    def defer_changes(self, base: AccessState, events: Iterable[AnyStateEvent]) -> None:
        """Note that *events* count, and could not be written."""

    def write_deferred(self) -> None:
        """Write what could not be written."""

    def warn_or_raise(self, error: JournalError) -> None:
        """Raise *error*, unless the operator wants to live with it."""

    def read_changes(self, state: AccessState) -> tuple[list[AnyStateEvent], int]:
        """Return what others changed since *state*, and the revision that it then is of."""


class _PendingChange:
    """Several changes on their way: the state that they lead to, their events, and how they came about."""

    __slots__ = ("base", "is_draft", "events", "persistence", "plans", "state", "task", "thread")

    def __init__(self, state: AccessState, keeper: ChangePersistence | None = None, draft: bool = False) -> None:
        self.base = self.state = state
        self.persistence = keeper
        self.is_draft = draft
        self.events: list[AnyStateEvent] = []
        self.plans: list[tuple[str, Planner]] = []
        self.thread, self.task = threading.get_ident(), _get_task_id()

    def add_plan(self, plan: Planner) -> tuple[AnyStateEvent, ...]:
        """Add what *plan* makes; all of it or nothing."""
        planned: Iterable[AnyStateEvent] = plan(self.state)
        return self.add_events(planned if self.persistence is None else self.persistence.stamp_events(planned))

    def add_events(self, events: Iterable[AnyStateEvent]) -> tuple[AnyStateEvent, ...]:
        """Add *events*, and what acts of the journal do to the tools that they bring; all of it or nothing."""
        made = list(events)
        state = apply_events(self.state, made)
        for name in _list_affected_tools(made) if len(state.stored_changes) else ():
            for event in restore_changes(state, name):
                state = apply_event(state, event)
                made.append(event)
        self.state = state
        self.events.extend(made)
        return tuple(made)

    def rebase(self, base: AccessState) -> None:
        """Make the change one of *base*, on top of what came in between."""
        self.base = base
        self.state = reduce(apply_event, self.events, base)


def _list_affected_tools(events: Iterable[AnyStateEvent]) -> list[str]:
    """Return the names of the tools that *events* register, or keep acts on, each once."""
    names: dict[str, None] = {}
    for event in events:
        if isinstance(event, ToolRegistered):
            names[event.tool.name] = None
        elif isinstance(event, ActKept):
            names[event.tool] = None
    return list(names)


_open_change: ContextVar[tuple[StateStore, _PendingChange] | None] = ContextVar("praval_tools_change", default=None)


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
        self.reset_locks()
        self._subscriptions: tuple[tuple[Subscriber, SubscriberContext], ...] = ()
        self._undelivered: deque[AnyStateEvent] = deque()

    def reset_locks(self) -> None:
        """Take new locks; in a forked process other threads of the parent may have held the old ones."""
        self._lock, self._subscription_lock, self._delivery_lock = (
            threading.RLock(),
            threading.RLock(),
            threading.RLock(),
        )
        self._active_change: _PendingChange | None = None

    def get_current_state(self) -> AccessState:
        """Return the state that this thread sees: inside `change`, with the changes made so far."""
        change = self._get_own_change()
        return self.state if change is None else change.state

    @property
    def has_open_change(self) -> bool:
        """Whether a `change()` is open anywhere; no short road is made meanwhile, see `refuse_calls`."""
        return self._active_change is not None

    def has_own_change(self) -> bool:
        """Tell whether this thread and context are inside of a `change()`; a draft is none."""
        change = self._get_own_change()
        return change is not None and not change.is_draft

    def lock(self) -> AbstractContextManager[object]:
        """Return a context in which no other thread changes the state."""
        return self._lock

    def refuse_calls(self) -> None:
        """
        Refuse a call from inside of `change()`, which sees what is not published, and whose spending could be undone.

        Raises:
            RegistryClosedError: The registry was closed.
            ToolUsageError: This thread holds a `change()` open.
        """
        self._refuse_closed()
        if self.has_own_change():
            raise ToolUsageError(
                f"A change() of registry {self.name!r} is open here, and what it changes does not count yet: "
                f"call tools after the `with registry.change():` block.",
                "call-in-change",
            )

    def commit(self, plan: Planner, *, outside_draft: bool = False) -> tuple[AnyStateEvent, ...]:
        """
        Change the state by the events that *plan* makes of the present one; all or none.

        Args:
            plan: Makes the events, or raises.
            at_once: Not as a part of a draft.

        Raises:
            RegistryClosedError: The registry was closed.
            ToolUsageError: Another task of this thread holds a `change()` open.
        """
        change = self._get_own_change()
        if change is not None and not (outside_draft and change.is_draft):
            self._refuse_closed()
            if change.is_draft:
                change.plans.append((_find_calling_module(), plan))
            return change.add_plan(plan)
        self._refuse_reentry()
        try:
            with self._lock:
                return self._commit_plans([plan])
        finally:
            if self._undelivered:
                self._notify_subscribers()

    def _commit_plans(self, plans: Iterable[Planner]) -> tuple[AnyStateEvent, ...]:
        """Publish what *plans* make of the present state, anew where that changes meanwhile."""
        while True:
            self._refuse_closed()
            change = _PendingChange(self.state, self.persistence)
            for plan in plans:
                change.add_plan(plan)
            if self._store_and_publish(change):
                return tuple(change.events)

    @contextmanager
    def change(self) -> Iterator[None]:
        """Make several changes one: published together at the end, none of them if an exception leaves."""
        if (outer := self._get_own_change()) is not None:
            state, events, plans = outer.state, len(outer.events), len(outer.plans)
            try:
                yield
            except BaseException:
                outer.state = state
                del outer.events[events:], outer.plans[plans:]
                raise
            return
        self._refuse_reentry()
        try:
            with self._lock:
                change = _PendingChange(self.state, self.persistence)
                token = _open_change.set((self, change))
                try:
                    self._active_change = change
                    self.state = change.base = copy(self.state)  # short roads look again, and come to `refuse_calls`
                    yield
                finally:
                    self._active_change = None
                    _open_change.reset(token)
                while not self._store_and_publish(change):  # a signal or another process came in between
                    change.rebase(self.state)
        finally:
            if self._undelivered:
                self._notify_subscribers()

    @contextmanager
    def draft(self, is_discarded: Callable[[str], bool]) -> Iterator[None]:
        """
        Make several changes one without keeping others waiting: they are planned again, all together, at the end.

        If an exception leaves, those stand that did not come from a module that is *lost* by its name.
        """
        if self._get_own_change() is not None:
            with self.change():
                yield
            return
        change = _PendingChange(self.state, self.persistence, draft=True)
        token = _open_change.set((self, change))
        try:
            yield
        except BaseException as error:
            _open_change.reset(token)
            for module, plan in change.plans:
                if not is_discarded(module):
                    self._commit_surviving_plan(plan, error)
            raise
        _open_change.reset(token)
        self._refuse_reentry()
        with self._lock:
            self._commit_plans([plan for _, plan in change.plans])
        self._notify_subscribers()

    def _commit_surviving_plan(self, plan: Planner, error: BaseException) -> None:
        try:
            self.commit(plan)
        except ToolError as refused:
            error.add_note(f"and a change that was to stand was refused: {refused}")

    def _store_and_publish(self, change: _PendingChange) -> bool:
        """Keep and publish *change*; False: it is not one of the present state, and nothing was done."""
        keeper = self.persistence
        if keeper is None or not any(isinstance(one, STORED_EVENTS) for one in change.events):
            if keeper is not None and not change.events:
                keeper.write_deferred()  # an act that changes nothing may be one that is tried again
            if not self._try_publish(change):
                return False
            if keeper is not None and any(isinstance(one, RegistryCleared) for one in change.events):
                self._publish_other_changes(keeper)  # what the store holds is not forgotten by that
            return True
        if not any(isinstance(one, WIDENING_EVENTS) for one in change.events):
            return self._publish_then_store(keeper, change)
        try:
            after = keeper.write_changes(change.base, change.events, require_current_base=True)
        except JournalError as error:
            self._publish_after_store_failure(keeper, change, error)
            return True
        if after is None:
            self._publish_other_changes(keeper)
            return False
        change.state = after
        while not self._try_publish(change):  # what is durable counts, whatever a signal changed meanwhile
            change.rebase(replace(self.state, revision=after.revision))
            change.base = self.state
        return True

    def _publish_then_store(self, keeper: ChangePersistence, change: _PendingChange) -> bool:
        """Publish what allows nothing new, then make it durable."""
        if not self._try_publish(change):
            return False
        try:
            after = keeper.write_changes(change.base, change.events, require_current_base=False)
        except JournalError as error:
            keeper.defer_changes(change.base, change.events)
            keeper.warn_or_raise(error)
            return True
        if after is not None:
            self._replace_state(lambda state: replace(state, revision=after.revision))
        return True

    def _publish_after_store_failure(
        self, keeper: ChangePersistence, change: _PendingChange, error: JournalError
    ) -> None:
        """Do what can be done where acts are not durable: what narrows counts, the rest where the operator says so."""
        kept = _PendingChange(change.base)
        try:
            keeper.warn_or_raise(error)
        except JournalError:
            for event in change.events:
                known = not isinstance(event, GrantRevoked) or event.grant in kept.state.grants
                if known and (part := extract_narrowing_part(event)) is not None:
                    kept.add_events([part])
            keeper.defer_changes(kept.base, kept.events)
            self._try_publish(kept)
            raise
        kept.add_events(
            replace(one, id="") if isinstance(one, STORED_EVENTS) and not one.stored else one for one in change.events
        )
        self._try_publish(kept)

    def _replace_state(self, change: Callable[[AccessState], AccessState]) -> None:
        """Publish what *change* makes of the present state, without events."""
        while True:
            one = _PendingChange(self.state)
            one.state = change(one.base)
            if self._try_publish(one):
                return

    def load_other_changes(self) -> None:
        """Take over what other processes changed, as the store says."""
        if (keeper := self.persistence) is None:
            return
        with self._lock:
            self._publish_other_changes(keeper)
        self._notify_subscribers()

    def _publish_other_changes(self, keeper: ChangePersistence) -> None:
        while True:
            change = _PendingChange(self.state)
            events, revision = keeper.read_changes(change.base)
            change.add_events(events)
            change.state = replace(change.state, revision=revision)
            if self._try_publish(change):
                return

    def _try_publish(self, change: _PendingChange) -> bool:
        """Make a change count, for everybody, from the assignment on; False: the state is not its base any more."""
        if self.state is not change.base:
            return False
        self.state = change.state  # with no call since the look at it, so that not even a signal comes between
        if self._subscriptions:
            self._undelivered.extend(change.events)
        return True

    def invalidate_snapshots(self) -> None:
        """Publish the same state under a new pointer, so that whoever holds the old one looks again."""
        self._refuse_reentry()
        with self._lock:
            self.state = copy(self.state)

    def subscribe(self, subscriber: Subscriber, context: SubscriberContext) -> Callable[[], None]:
        """Call *subscriber* inside of *speaking* with every event after it counts; return what ends that."""
        mine = (subscriber, context)
        with self._subscription_lock:
            self._subscriptions = (*self._subscriptions, mine)

        def unsubscribe() -> None:
            with self._subscription_lock:
                self._subscriptions = tuple(one for one in self._subscriptions if one is not mine)

        return unsubscribe

    def _refuse_closed(self) -> None:
        if self.closed:
            raise RegistryClosedError(self.name)

    def _get_own_change(self) -> _PendingChange | None:
        """Return the change that this thread and context hold open."""
        held = _open_change.get()
        if (
            held is None
            or held[0] is not self
            or held[1].thread != threading.get_ident()
            or held[1].task != _get_task_id()
        ):
            return None
        return held[1] if held[1].is_draft or (held[1] is self._active_change and self._holds_lock()) else None

    def _holds_lock(self) -> bool:
        """Tell whether this thread holds the lock: an interrupt may leave a change behind without it."""
        return bool(self._lock._is_owned())  # type: ignore[attr-defined]

    def _refuse_reentry(self) -> None:
        writing = self._active_change
        if writing is not None and writing.thread == threading.get_ident() and self._holds_lock():
            raise ToolUsageError(
                f"A change() of registry {self.name!r} is open in another task of this thread; "
                f"do not await inside `with registry.change():`."
            )

    def _notify_subscribers(self) -> None:
        """Tell the subscribers what is new, in order; a thread that finds another at it leaves it to that one."""
        if self._delivery_lock._is_owned():  # type: ignore[attr-defined]  # a subscriber makes a change: told when it is back
            return
        while self._undelivered:
            try:  # around the acquiring too: no interrupt may leave it locked
                if not self._delivery_lock.acquire(blocking=False):
                    return
                while self._undelivered:
                    self._deliver_event(self._undelivered.popleft())
            finally:
                if self._delivery_lock._is_owned():  # type: ignore[attr-defined]
                    self._delivery_lock.release()

    def _deliver_event(self, event: AnyStateEvent) -> None:
        for subscriber, speaking in self._subscriptions:
            try:
                with speaking():
                    subscriber(event)
            except Exception as error:  # isolation: the change stands, whoever listens
                warnings.warn(
                    f"{shorten_repr(subscriber)} raised {shorten_repr(error)} on {type(event).__name__}; "
                    f"the change itself stands.",
                    SubscriberWarning,
                    stacklevel=get_user_stacklevel(),
                )


def _find_calling_module() -> str:
    """Return the name of the module outside of this package that makes the change."""
    return str(find_user_frame()[0].f_globals.get("__name__", ""))
