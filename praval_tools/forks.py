"""Handles forks of the process: locks that are free in the child, and functions to call before and after a fork."""

from __future__ import annotations

import os
import threading
import weakref
from _thread import RLock
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property, partial
from itertools import count
from typing import Any, Final, Self, TypeVar

T = TypeVar("T")

FOR_EVER: Final = -1.0
_MAX_WAIT_SECONDS: Final = 5.0
"""How long a fork waits for another thread that uses something for the first time."""

_numbers: Final = count()
_handlers: Final[dict[int, tuple[weakref.ref[Any], dict[str, Callable[[Any], object]]]]] = {}
"""By a running number: an object, and what is called around a fork as long as it lives."""
_forking_owners: Final[dict[int, list[object]]] = {}
"""
By thread: the owners whose handlers it called for a fork, kept alive until its end.

An owner that was collected in between would be finalized while the thread holds its locks, and wait for itself.
"""


def handle_forks(
    owner: T,
    *,
    before: Callable[[T], object] | None = None,
    in_parent: Callable[[T], object] | None = None,
    in_child: Callable[[T], object] | None = None,
) -> None:
    """
    Have functions called with *owner* around each fork, as long as it lives; the latest owner comes first.

    Args:
        owner: What they are called with; nothing here keeps it alive.
        before: Called before the fork.
        in_parent: Called in the parent after it.
        in_child: Called in the child, in which only the thread that forked goes on.
    """
    steps = {"before": before, "in_parent": in_parent, "in_child": in_child}
    number = next(_numbers)
    reference = weakref.ref(owner, partial(_handlers.pop, number))  # the collector runs none of our lines
    _handlers[number] = reference, {step: handler for step, handler in steps.items() if handler is not None}


def _run_handlers(step: str) -> None:
    """Call the handlers of one step; one that raises keeps no other from being called."""
    thread = threading.get_ident()
    owners = _forking_owners.setdefault(thread, [])
    try:
        with ExitStack() as calls:
            for reference, handlers in list(_handlers.values()):
                if step in handlers and (owner := reference()) is not None:
                    owners.append(owner)
                    calls.callback(handlers[step], owner)
    finally:
        if step != "before":
            del _forking_owners[thread]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _run_handlers("before"),
        after_in_parent=lambda: _run_handlers("in_parent"),
        after_in_child=lambda: _run_handlers("in_child"),
    )


class ForkSafeLock(RLock):  # type: ignore[misc]  # final for type checkers alone
    """
    A reentrant lock that is free in a forked child, whoever else held it in the parent.

    In `with` it runs no line of Python, so that an interrupt such as Ctrl-C cannot come between the lock and the block.

    Args:
        waits: A fork waits, for some seconds, until no other thread holds it, so that the child finds whole what it
            guards. That is needed where it guards imports: Python's own locks of modules are not renewed.
    """

    __slots__ = ("_forking_thread",)

    def __new__(cls, *, waits: bool = False) -> Self:
        """Return a lock; the base class takes no arguments."""
        return super().__new__(cls)

    def __init__(self, *, waits: bool = False) -> None:
        self._forking_thread: int | None = None
        if waits:
            handle_forks(self, before=ForkSafeLock._wait, in_parent=ForkSafeLock._resume, in_child=ForkSafeLock._renew)
        else:
            handle_forks(self, in_child=ForkSafeLock._renew)

    def _wait(self) -> None:
        if self.acquire(timeout=_MAX_WAIT_SECONDS):
            self._forking_thread = threading.get_ident()

    def _resume(self) -> None:
        if self._forking_thread == threading.get_ident():
            self._forking_thread = None
            self.release()

    def _renew(self) -> None:
        self._resume()
        if self.acquire(blocking=False):  # free, or held by the thread that goes on
            self.release()
        else:
            self._at_fork_reinit()  # type: ignore[attr-defined]


FIRST_USE_LOCK: Final = ForkSafeLock(waits=True)
"""Held while something is compiled, or imported, because it is used for the first time."""


class first_use_property(cached_property[T]):
    """A `cached_property` whose lock, which Python 3.11 has for each, is renewed in a forked child."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        super().__init__(function)
        self.lock = FIRST_USE_LOCK
