"""Delivers the events of a registry, and what its tools report, to its subscribers, in order."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager

from praval_tools.access.events import AnyStateEvent, RecordsAdded
from praval_tools.errors import SubscriberWarning, get_user_stacklevel
from praval_tools.names import shorten_repr
from praval_tools.tools.frames import keep_frame
from praval_tools.tools.reports import ToolReport

Subscriber = Callable[[AnyStateEvent | ToolReport], object]
SubscriberContext = Callable[[], AbstractContextManager[object]]
"""Makes the context in which a subscriber is called, which sets who changes something there."""


class Subscriptions:
    """
    The subscribers of one registry, and the events that they have not got yet; delivered in order.

    The state store adds to `undelivered` itself, in the step in which it publishes a state.
    """

    def __init__(self) -> None:
        self.subscribers: tuple[tuple[Subscriber, SubscriberContext], ...] = ()
        self.undelivered: deque[AnyStateEvent | ToolReport] = deque()
        self.reset_locks()

    def reset_locks(self) -> None:
        """Take new locks; in a forked process other threads of the parent may have held the old ones."""
        self._subscription_lock, self._delivery_lock = threading.RLock(), threading.RLock()

    def subscribe(self, subscriber: Subscriber, context: SubscriberContext) -> Callable[[], None]:
        """Call *subscriber* inside *context* with every event after it counts; return what ends that."""
        added = (subscriber, context)
        with self._subscription_lock:
            self.subscribers = (*self.subscribers, added)

        def unsubscribe() -> None:
            with self._subscription_lock:
                self.subscribers = tuple(other for other in self.subscribers if other is not added)

        return unsubscribe

    def publish(self, report: ToolReport) -> None:
        """Deliver what a tool reports of its call, after the events before it."""
        if self.subscribers:
            self.undelivered.append(report)
            self.deliver_events()

    @keep_frame
    def deliver_events(self) -> None:
        """Deliver the added events, in order; one thread at a time delivers, for all others too."""
        if not self.undelivered or self._delivery_lock._is_owned():  # type: ignore[attr-defined]
            return  # a subscriber changes something: delivered later
        while self.undelivered:
            try:  # around the acquiring too: no interrupt may leave it locked
                if not self._delivery_lock.acquire(blocking=False):
                    return
                while self.undelivered:
                    self._deliver_event(self.undelivered.popleft())
            finally:
                if self._delivery_lock._is_owned():  # type: ignore[attr-defined]
                    self._delivery_lock.release()

    def _deliver_event(self, event: AnyStateEvent | ToolReport) -> None:
        for subscriber, context in () if isinstance(event, RecordsAdded) else self.subscribers:
            try:
                with context():
                    subscriber(event)
            except Exception as error:  # isolation: a subscriber cannot undo the change
                problem = f"{shorten_repr(subscriber)} raised {shorten_repr(error)} on {type(event).__name__}"
                text = f"{problem}; the change itself stands."
                warnings.warn(text, SubscriberWarning, stacklevel=get_user_stacklevel())
