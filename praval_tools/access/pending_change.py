"""A change of access that is not published yet, like a transaction: its events, and the state they lead to."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from functools import reduce
from types import FrameType
from typing import Any, Protocol

from msgspec.structs import replace

from praval_tools.access.events import STORED_EVENTS, AnyStateEvent, StoredChange, ToolConfigured, ToolRegistered
from praval_tools.access.restore import restore_changes
from praval_tools.access.state import AccessState
from praval_tools.access.transitions import apply_event, apply_events
from praval_tools.errors import JournalError, ToolError, find_user_frame
from praval_tools.names import OPERATOR

Planner = Callable[[AccessState], Iterable[AnyStateEvent]]
"""Returns events for the present state, or raises; it may be asked again, for another state."""


def _get_task_id() -> int:
    """Return the identity of the asyncio task that runs here, 0 where there is none; asyncio is not imported for it."""
    tasks: Any = sys.modules.get("asyncio.tasks")
    events: Any = sys.modules.get("asyncio.events")
    if tasks is None or events is None or events._get_running_loop() is None:
        return 0
    return id(tasks.current_task())


class ChangePersistence(Protocol):
    """Stores events where they outlast the process; only registries with a journal have one."""

    def stamp_events(self, events: Iterable[AnyStateEvent]) -> list[AnyStateEvent]:
        """Return *events*, those that are to be stored with id, time and process."""

    def write_changes(
        self, base: AccessState, events: Iterable[AnyStateEvent], *, require_current_base: bool
    ) -> AccessState | None:
        """Make *events* durable and return the state after them; None where *base* is not the present state."""

    def defer_changes(self, base: AccessState, events: Iterable[AnyStateEvent]) -> None:
        """Note that *events* count, and could not be written."""

    def write_deferred(self) -> None:
        """Write what could not be written before."""

    def warn_or_raise(self, error: JournalError) -> None:
        """Raise *error*, unless the operator chose to go on without the journal."""

    def is_outdated(self, state: AccessState, *, at_once: bool = False) -> bool:
        """
        Tell whether other processes changed something since *state*.

        Args:
            state: What this process knows.
            at_once: Ask the store now, instead of several times a second at most.
        """

    def with_stored_counts(self, state: AccessState) -> AccessState:
        """Return *state*, with what other processes have left of its grants, as the last look at the store found it."""

    def read_changes(self, state: AccessState) -> tuple[list[AnyStateEvent], int]:
        """Return what other processes changed since *state*, and the revision that it then has."""


class PendingChange:
    """
    Several changes that are not published yet: their events, the plans of these, and the state after them.

    Each plan, and what is called once the change counts, has the name of the module that was being imported as it was
    made, "" for none.
    """

    __slots__ = (
        "base", "is_draft", "is_published", "is_whole", "events", "persistence", "plans", "state", "when_published",
        "_lock", "_thread_and_task",
    )  # fmt: skip

    def __init__(
        self, state: AccessState, persistence: ChangePersistence | None = None, *, is_draft: bool = False,
        is_whole: bool = False,
    ) -> None:  # fmt: skip
        self.base = self.state = state
        self.persistence = persistence
        self.is_draft, self.is_published, self.is_whole = is_draft, False, is_whole
        self.events: list[AnyStateEvent] = []
        self.plans: list[tuple[str, Planner]] = []
        self.when_published: list[tuple[str, Callable[[], object]]] = []
        self._thread_and_task = threading.get_ident(), _get_task_id()
        self._lock = threading.RLock()  # several threads may add to a draft

    def is_of_this_thread(self) -> bool:
        """Tell whether this thread opened the change."""
        return self._thread_and_task[0] == threading.get_ident()

    def is_of_this_task(self) -> bool:
        """Tell whether this thread, and in it this asyncio task, opened the change."""
        return self._thread_and_task == (threading.get_ident(), _get_task_id())

    def has_any(self, kinds: type | tuple[type, ...]) -> bool:
        """Tell whether it has an event of one of *kinds*."""
        return any(isinstance(event, kinds) for event in self.events)

    def add_lasting_plan(self, plan: Planner) -> tuple[AnyStateEvent, ...]:
        """Add what *plan* makes, and note the plan: it is asked again where the state has changed meanwhile."""
        with self._lock:
            events = self.add_plan(plan)  # one that raises is not planned again: the caller knows of it
            self.plans.append((_find_imported_module(), plan))
        return events

    def add_call(self, call: Callable[[], object] | None) -> None:
        """Have *call* called once the change counts."""
        if call is not None:
            self.when_published.append((_find_imported_module(), call))

    def get_mark(self) -> tuple[AccessState, int, int, int]:
        """Return what `drop_since` needs to find the present state again."""
        return self.state, len(self.events), len(self.plans), len(self.when_published)

    def drop_since(
        self, mark: tuple[AccessState, int, int, int], is_dropped: Callable[[str], bool]
    ) -> list[ToolError]:
        """
        Drop what was added since *mark* by modules for whose names *is_dropped* is true, and plan the rest again.

        Returns:
            Why some of the rest is refused without what was dropped; it is dropped, too.
        """
        state, events, plans, calls = mark
        refusals, added, added_calls = list[ToolError](), self.plans[plans:], self.when_published[calls:]
        if not any(is_dropped(module) for module, _ in (*added, *added_calls)):
            return refusals
        self.state = state
        del self.events[events:], self.plans[plans:]
        for module, plan in added:
            if not is_dropped(module):
                try:
                    self.add_plan(plan)
                except ToolError as error:
                    refusals.append(error)
                else:
                    self.plans.append((module, plan))
        self.when_published[calls:] = [entry for entry in added_calls if not is_dropped(entry[0])]
        return refusals

    def add_plan(self, plan: Planner) -> tuple[AnyStateEvent, ...]:
        """Add what *plan* makes; all of it or nothing."""
        events: Iterable[AnyStateEvent] = plan(self.state)
        return self.add_events(events if self.persistence is None else self.persistence.stamp_events(events))

    def add_events(self, events: Iterable[AnyStateEvent]) -> tuple[AnyStateEvent, ...]:
        """Add *events*, and re-apply stored changes to the tools that they name; all or nothing."""
        added = list(events)
        state = apply_events(self.state, added)
        for name in _list_affected_tools(added) if len(state.stored_changes) else ():
            for event in restore_changes(state, name):
                state = apply_event(state, event)
                added.append(event)
        self.state = state
        self.events.extend(added)
        return tuple(added)

    def replan(self, base: AccessState) -> None:
        """Plan all of it again for *base*, a newer state; a plan may refuse what it did not know of before."""
        self.base = self.state = base
        self.events = []
        for _, plan in self.plans:
            self.add_plan(plan)

    def call_back(self) -> None:
        """Call what is to be done once the change counts; where an interrupt came meanwhile, go on with the same."""
        self.is_published = True
        while self.when_published:
            self.when_published[0][1]()
            del self.when_published[0]

    def rebase(self, base: AccessState) -> None:
        """Re-apply the same events on top of *base*, a newer state."""
        self.base = base
        self.state = reduce(apply_event, self.events, base)


def sign_plan(plan: Planner, person: str) -> Planner:
    """Return *plan* with the name of the person who acts as the operator in what it changes."""

    def plan_signed(state: AccessState) -> list[AnyStateEvent]:
        return [
            replace(event, person=person) if isinstance(event, STORED_EVENTS) and event.by == OPERATOR else event
            for event in plan(state)
        ]

    return plan_signed


def _find_imported_module() -> str:
    """Return the name of the module that is being imported as something is changed; "" where none is."""
    frame: FrameType | None = find_user_frame()[0]
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    name = "" if frame is None else str(frame.f_globals.get("__name__", ""))
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return name if getattr(spec, "_initializing", False) else ""  # as `import` itself knows it


def _list_affected_tools(events: Iterable[AnyStateEvent]) -> list[str]:
    """Return the names of the tools that *events* register, configure, or bring stored changes of, each once."""
    names: dict[str, None] = {}
    for event in events:
        if isinstance(event, ToolRegistered):
            names[event.tool.name] = None
        elif isinstance(event, StoredChange | ToolConfigured):
            names[event.tool] = None
    return list(names)
