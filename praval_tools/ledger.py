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
from typing import Any

from praval_tools.errors import RegistryClosedError, SubscriberWarning, ToolError, ToolUsageError, outside
from praval_tools.facts import Event
from praval_tools.naming import shorten
from praval_tools.state import State, apply

Subscriber = Callable[[Event], object]
Speaking = Callable[[], AbstractContextManager[Any]]
"""Makes the context in which a subscriber is told: in whose name it acts."""


Plan = Callable[[State], Iterable[Event]]
"""Makes events of the present state, or raises; it may be asked again, of another state."""


def _task() -> int:
    """Return what stands for the asyncio task that runs here, 0 where there is none; asyncio is not imported for it."""
    tasks: Any = sys.modules.get("asyncio.tasks")
    events: Any = sys.modules.get("asyncio.events")
    if tasks is None or events is None or events._get_running_loop() is None:
        return 0
    return id(tasks.current_task())


class _Change:
    """Several changes on their way: the state that they lead to, their events, and how they came about."""

    __slots__ = ("base", "draft", "events", "plans", "state", "task", "thread")

    def __init__(self, state: State, draft: bool = False) -> None:
        self.base = self.state = state
        self.draft, self.events, self.plans = draft, list[Event](), list[tuple[str, Plan]]()
        self.thread, self.task = threading.get_ident(), _task()

    def extend(self, plan: Plan) -> tuple[Event, ...]:
        """Add what *plan* makes; all of it or nothing."""
        events, state = tuple(plan(self.state)), self.state
        for event in events:
            state = apply(state, event)
        self.state = state
        self.events.extend(events)
        return events


_open: ContextVar[tuple[Ledger, _Change] | None] = ContextVar("praval_tools_change", default=None)


class Ledger:
    """
    Holds the present `state`; every change goes lock → apply → publish → notify.

    Readers take the pointer and never wait.
    Publication is one assignment: it is the moment from which a change counts.
    A finalizer or signal handler that strikes while this thread commits makes its change at once; the commit around
    it sees that and plans again.
    """

    def __init__(self, name: str, state: State | None = None) -> None:
        self.name = name
        self.state = state if state is not None else State()
        self.closed = False
        self.start_over()
        self._subscribers: tuple[tuple[Subscriber, Speaking], ...] = ()
        self._told: deque[Event] = deque()

    def start_over(self) -> None:
        """Take new locks; in a forked process other threads of the parent may have held the old ones."""
        self._lock, self._listening, self._telling = threading.RLock(), threading.RLock(), threading.RLock()
        self._writing: _Change | None = None

    def present(self) -> State:
        """Return the state that this thread sees: inside `change`, with the changes made so far."""
        change = self._mine()
        return self.state if change is None else change.state

    @property
    def changing(self) -> bool:
        """Whether a `change()` is open anywhere; no short road is made meanwhile, see `refuse_calls`."""
        return self._writing is not None

    def refuse_calls(self) -> None:
        """
        Refuse a call from inside of `change()`, which sees what is not published, and whose spending could be undone.

        Raises:
            RegistryClosedError: The registry was closed.
            ToolUsageError: This thread holds a `change()` open.
        """
        self._refuse_closed()
        change = self._mine()
        if change is not None and not change.draft:
            raise ToolUsageError(
                f"A change() of registry {self.name!r} is open here, and what it changes does not count yet: "
                f"call tools after the `with registry.change():` block.",
                "call-in-change",
            )

    def commit(self, plan: Plan, *, at_once: bool = False) -> tuple[Event, ...]:
        """
        Change the state by the events that *plan* makes of the present one; all or none.

        Args:
            plan: Makes the events, or raises.
            at_once: Not as a part of a draft.

        Raises:
            RegistryClosedError: The registry was closed.
            ToolUsageError: Another task of this thread holds a `change()` open.
        """
        change = self._mine()
        if change is not None and not (at_once and change.draft):
            self._refuse_closed()
            if change.draft:
                change.plans.append((_caller(), plan))
            return change.extend(plan)
        self._refuse_reentry()
        with self._lock:
            events = self._published([plan])
        if self._told:
            self._notify()
        return events

    def _published(self, plans: Iterable[Plan]) -> tuple[Event, ...]:
        """Publish what *plans* make of the present state, anew where that changes meanwhile."""
        while True:
            self._refuse_closed()
            change = _Change(self.state)
            for plan in plans:
                change.extend(plan)
            if self._publish(change):
                return tuple(change.events)

    @contextmanager
    def change(self) -> Iterator[None]:
        """Make several changes one: published together at the end, none of them if an exception leaves."""
        if (outer := self._mine()) is not None:
            state, events, plans = outer.state, len(outer.events), len(outer.plans)
            try:
                yield
            except BaseException:
                outer.state = state
                del outer.events[events:], outer.plans[plans:]
                raise
            return
        self._refuse_reentry()
        with self._lock:
            change = _Change(self.state)
            token = _open.set((self, change))
            try:
                self._writing = change
                self.state = change.base = copy(self.state)  # short roads look again, and come to `refuse_calls`
                yield
            finally:
                self._writing = None
                _open.reset(token)
            while not self._publish(change):  # a signal came in between: on top of what it changed
                change.base = self.state
                change.state = reduce(apply, change.events, change.base)
        self._notify()

    @contextmanager
    def draft(self, lost: Callable[[str], bool]) -> Iterator[None]:
        """
        Make several changes one without keeping others waiting: they are planned again, all together, at the end.

        If an exception leaves, those stand that did not come from a module that is *lost* by its name.
        """
        if self._mine() is not None:
            with self.change():
                yield
            return
        change = _Change(self.state, draft=True)
        token = _open.set((self, change))
        try:
            yield
        except BaseException as error:
            _open.reset(token)
            for module, plan in change.plans:
                if not lost(module):
                    self._kept(plan, error)
            raise
        _open.reset(token)
        self._refuse_reentry()
        with self._lock:
            self._published([plan for _, plan in change.plans])
        self._notify()

    def _kept(self, plan: Plan, error: BaseException) -> None:
        try:
            self.commit(plan)
        except ToolError as refused:
            error.add_note(f"and a change that was to stand was refused: {refused}")

    def _publish(self, change: _Change) -> bool:
        """Make a change count, for everybody, from the assignment on; False: the state is not its base any more."""
        if self.state is not change.base:
            return False
        self.state = change.state  # with no call since the look at it, so that not even a signal comes between
        if self._subscribers:
            self._told.extend(change.events)
        return True

    def renew(self) -> None:
        """Publish the same state under a new pointer, so that whoever holds the old one looks again."""
        self._refuse_reentry()
        with self._lock:
            self.state = copy(self.state)

    def subscribe(self, subscriber: Subscriber, speaking: Speaking) -> Callable[[], None]:
        """Call *subscriber* inside of *speaking* with every event after it counts; return what ends that."""
        mine = (subscriber, speaking)
        with self._listening:
            self._subscribers = (*self._subscribers, mine)

        def unsubscribe() -> None:
            with self._listening:
                self._subscribers = tuple(one for one in self._subscribers if one is not mine)

        return unsubscribe

    def _refuse_closed(self) -> None:
        if self.closed:
            raise RegistryClosedError(self.name)

    def _mine(self) -> _Change | None:
        """Return the change that this thread and context hold open."""
        held = _open.get()
        if held is None or held[0] is not self or held[1].thread != threading.get_ident() or held[1].task != _task():
            return None
        return held[1] if held[1].draft or (held[1] is self._writing and self._owned()) else None

    def _owned(self) -> bool:
        """Tell whether this thread holds the lock: an interrupt may leave a change behind without it."""
        return bool(self._lock._is_owned())  # type: ignore[attr-defined]

    def _refuse_reentry(self) -> None:
        writing = self._writing
        if writing is not None and writing.thread == threading.get_ident() and self._owned():
            raise ToolUsageError(
                f"A change() of registry {self.name!r} is open in another task of this thread; "
                f"do not await inside `with registry.change():`."
            )

    def _notify(self) -> None:
        """Tell the subscribers what is new, in order; a thread that finds another at it leaves it to that one."""
        if self._telling._is_owned():  # type: ignore[attr-defined]  # a subscriber makes a change: told when it is back
            return
        while self._told:
            try:  # around the acquiring too: no interrupt may leave it locked
                if not self._telling.acquire(blocking=False):
                    return
                while self._told:
                    self._tell(self._told.popleft())
            finally:
                if self._telling._is_owned():  # type: ignore[attr-defined]
                    self._telling.release()

    def _tell(self, event: Event) -> None:
        for subscriber, speaking in self._subscribers:
            try:
                with speaking():
                    subscriber(event)
            except Exception as error:  # isolation: the change stands, whoever listens
                warnings.warn(
                    f"{shorten(subscriber)} raised {shorten(error)} on {type(event).__name__}; "
                    f"the change itself stands.",
                    SubscriberWarning,
                    stacklevel=outside(),
                )


def _caller() -> str:
    """Return the name of the module outside of this package that makes the change."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("praval_tools."):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))
