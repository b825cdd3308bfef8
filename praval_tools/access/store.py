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
    ACTS,
    WIDENING,
    ActKept,
    Event,
    GrantRevoked,
    RegistryCleared,
    ToolRegistered,
    narrowing,
)
from praval_tools.access.restore import released
from praval_tools.access.state import State, apply, apply_all
from praval_tools.errors import (
    JournalError,
    RegistryClosedError,
    SubscriberWarning,
    ToolError,
    ToolUsageError,
    outside,
)
from praval_tools.names import shorten

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


class Keeping(Protocol):
    """Keeps acts where they outlast the process; see `Keeper`, which is imported for registries with a journal only."""

    def stamped(self, events: Iterable[Event]) -> list[Event]:
        """Return *events*, those that are acts with id, time and process."""

    def write(self, base: State, events: Iterable[Event], *, checked: bool) -> State | None:
        """Make the acts among *events* durable; return the state after them, None: *base* is not the present."""

    def owe(self, base: State, events: Iterable[Event]) -> None:
        """Note that *events* count, and could not be written."""

    def catch_up(self) -> None:
        """Write what could not be written."""

    def excused(self, error: JournalError) -> None:
        """Raise *error*, unless the operator wants to live with it."""

    def news(self, state: State) -> tuple[list[Event], int]:
        """Return what others changed since *state*, and the revision that it then is of."""


class _Change:
    """Several changes on their way: the state that they lead to, their events, and how they came about."""

    __slots__ = ("base", "draft", "events", "keeper", "plans", "state", "task", "thread")

    def __init__(self, state: State, keeper: Keeping | None = None, draft: bool = False) -> None:
        self.base = self.state = state
        self.keeper = keeper
        self.draft = draft
        self.events: list[Event] = []
        self.plans: list[tuple[str, Plan]] = []
        self.thread, self.task = threading.get_ident(), _task()

    def extend(self, plan: Plan) -> tuple[Event, ...]:
        """Add what *plan* makes; all of it or nothing."""
        planned: Iterable[Event] = plan(self.state)
        return self.take(planned if self.keeper is None else self.keeper.stamped(planned))

    def take(self, events: Iterable[Event]) -> tuple[Event, ...]:
        """Add *events*, and what acts of the journal do to the tools that they bring; all of it or nothing."""
        made = list(events)
        state = apply_all(self.state, made)
        for name in _brought(made) if len(state.kept) else ():
            for event in released(state, name):
                state = apply(state, event)
                made.append(event)
        self.state = state
        self.events.extend(made)
        return tuple(made)

    def rebase(self, base: State) -> None:
        """Make the change one of *base*, on top of what came in between."""
        self.base = base
        self.state = reduce(apply, self.events, base)


def _brought(events: Iterable[Event]) -> list[str]:
    """Return the names of the tools that *events* register, or keep acts on, each once."""
    names: dict[str, None] = {}
    for event in events:
        if isinstance(event, ToolRegistered):
            names[event.tool.name] = None
        elif isinstance(event, ActKept):
            names[event.tool] = None
    return list(names)


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
        self.keeper: Keeping | None = None
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
        try:
            with self._lock:
                return self._published([plan])
        finally:
            if self._told:
                self._notify()

    def _published(self, plans: Iterable[Plan]) -> tuple[Event, ...]:
        """Publish what *plans* make of the present state, anew where that changes meanwhile."""
        while True:
            self._refuse_closed()
            change = _Change(self.state, self.keeper)
            for plan in plans:
                change.extend(plan)
            if self._made(change):
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
        try:
            with self._lock:
                change = _Change(self.state, self.keeper)
                token = _open.set((self, change))
                try:
                    self._writing = change
                    self.state = change.base = copy(self.state)  # short roads look again, and come to `refuse_calls`
                    yield
                finally:
                    self._writing = None
                    _open.reset(token)
                while not self._made(change):  # a signal or another process came in between
                    change.rebase(self.state)
        finally:
            if self._told:
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
        change = _Change(self.state, self.keeper, draft=True)
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

    def _made(self, change: _Change) -> bool:
        """Keep and publish *change*; False: it is not one of the present state, and nothing was done."""
        keeper = self.keeper
        if keeper is None or not any(isinstance(one, ACTS) for one in change.events):
            if keeper is not None and not change.events:
                keeper.catch_up()  # an act that changes nothing may be one that is tried again
            if not self._publish(change):
                return False
            if keeper is not None and any(isinstance(one, RegistryCleared) for one in change.events):
                self._take_news(keeper)  # what the store holds is not forgotten by that
            return True
        if not any(isinstance(one, WIDENING) for one in change.events):
            return self._narrowed(keeper, change)
        try:
            after = keeper.write(change.base, change.events, checked=True)
        except JournalError as error:
            self._lost(keeper, change, error)
            return True
        if after is None:
            self._take_news(keeper)
            return False
        change.state = after
        while not self._publish(change):  # what is durable counts, whatever a signal changed meanwhile
            change.rebase(replace(self.state, revision=after.revision))
            change.base = self.state
        return True

    def _narrowed(self, keeper: Keeping, change: _Change) -> bool:
        """Publish what allows nothing new, then make it durable."""
        if not self._publish(change):
            return False
        try:
            after = keeper.write(change.base, change.events, checked=False)
        except JournalError as error:
            keeper.owe(change.base, change.events)
            keeper.excused(error)
            return True
        if after is not None:
            self._put(lambda state: replace(state, revision=after.revision))
        return True

    def _lost(self, keeper: Keeping, change: _Change, error: JournalError) -> None:
        """Do what can be done where acts are not durable: what narrows counts, the rest where the operator says so."""
        kept = _Change(change.base)
        try:
            keeper.excused(error)
        except JournalError:
            for event in change.events:
                known = not isinstance(event, GrantRevoked) or event.grant in kept.state.grants
                if known and (part := narrowing(event)) is not None:
                    kept.take([part])
            keeper.owe(kept.base, kept.events)
            self._publish(kept)
            raise
        kept.take(replace(one, id="") if isinstance(one, ACTS) and not one.stored else one for one in change.events)
        self._publish(kept)

    def _put(self, change: Callable[[State], State]) -> None:
        """Publish what *change* makes of the present state, without events."""
        while True:
            one = _Change(self.state)
            one.state = change(one.base)
            if self._publish(one):
                return

    def absorb(self) -> None:
        """Take over what other processes changed, as the store says."""
        if (keeper := self.keeper) is None:
            return
        with self._lock:
            self._take_news(keeper)
        self._notify()

    def _take_news(self, keeper: Keeping) -> None:
        while True:
            change = _Change(self.state)
            events, revision = keeper.news(change.base)
            change.take(events)
            change.state = replace(change.state, revision=revision)
            if self._publish(change):
                return

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
