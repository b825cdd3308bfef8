"""The one pointer to the present state, and its only writer."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy

from praval_tools.errors import RegistryClosedError, SubscriberWarning, ToolUsageError
from praval_tools.facts import Event
from praval_tools.state import State, apply

Subscriber = Callable[[Event], object]


class _Change:
    """Several changes on their way: the state that they lead to, and their events."""

    __slots__ = ("events", "state", "thread")

    def __init__(self, state: State) -> None:
        self.state, self.events = state, list[Event]()
        self.thread = threading.get_ident()


_open: ContextVar[tuple[Ledger, _Change] | None] = ContextVar("praval_tools_change", default=None)


class Ledger:
    """
    Holds the present `state`; every change goes lock → apply → publish → notify.

    Readers take the pointer and never wait.
    Publication is one assignment: it is the moment from which a change counts.
    """

    def __init__(self, name: str, state: State | None = None) -> None:
        self.name = name
        self.state = state if state is not None else State()
        self.closed = False
        self._lock = threading.Lock()
        self._writing: _Change | None = None
        self._subscribers: tuple[Subscriber, ...] = ()
        self._told: deque[Event] = deque()
        self._telling = threading.Lock()

    def present(self) -> State:
        """Return the state that this thread sees: inside `change`, with the changes made so far."""
        change = self._mine()
        return self.state if change is None else change.state

    def commit(self, plan: Callable[[State], Iterable[Event]]) -> tuple[Event, ...]:
        """
        Change the state by the events that *plan* makes of the present one; all or none.

        Raises:
            RegistryClosedError: The registry was closed.
            ToolUsageError: Another task of this thread holds a `change()` open.
        """
        change = self._mine()
        if change is not None:
            return self._extend(change, plan)
        with self._exclusive():
            change = _Change(self.state)
            events = self._extend(change, plan)
            self.state = change.state
            self._told.extend(events)
        self._notify()
        return events

    @contextmanager
    def change(self) -> Iterator[None]:
        """Make several changes one: published together at the end, none of them if an exception leaves."""
        if self._mine() is not None:
            yield
            return
        with self._exclusive():
            change = self._writing = _Change(self.state)
            token = _open.set((self, change))
            try:
                yield
                self.state = change.state
                self._told.extend(change.events)
            finally:
                self._writing = None
                _open.reset(token)
        self._notify()

    def renew(self) -> None:
        """Publish the same state under a new pointer, so that whoever holds the old one looks again."""
        with self._exclusive():
            self.state = copy(self.state)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call *subscriber* with every event after it counts; return what ends that."""
        with self._lock:
            self._subscribers = (*self._subscribers, subscriber)

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers = tuple(one for one in self._subscribers if one is not subscriber)

        return unsubscribe

    def _extend(self, change: _Change, plan: Callable[[State], Iterable[Event]]) -> tuple[Event, ...]:
        if self.closed:
            raise RegistryClosedError(self.name)
        events, state = tuple(plan(change.state)), change.state
        for event in events:
            state = apply(state, event)
        change.state = state
        change.events.extend(events)
        return events

    def _mine(self) -> _Change | None:
        if self._writing is None or (held := _open.get()) is None or held[0] is not self:
            return None
        return held[1] if held[1] is self._writing and held[1].thread == threading.get_ident() else None

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        writing = self._writing
        if writing is not None and writing.thread == threading.get_ident():
            raise ToolUsageError(
                f"A change() of registry {self.name!r} is open in another task of this thread; "
                f"do not await inside `with registry.change():`."
            )
        with self._lock:
            yield

    def _notify(self) -> None:
        """Tell the subscribers what is new, in order; a thread that finds another at it leaves it to that one."""
        while self._told and self._telling.acquire(blocking=False):
            try:
                while self._told:
                    self._tell(self._told.popleft())
            finally:
                self._telling.release()

    def _tell(self, event: Event) -> None:
        for subscriber in self._subscribers:
            try:
                subscriber(event)
            except Exception as error:  # isolation: the change stands, whoever listens
                warnings.warn(
                    f"{subscriber!r} raised {error!r} on {type(event).__name__}; the change itself stands.",
                    SubscriberWarning,
                    stacklevel=5,
                )
