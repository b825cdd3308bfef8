"""
Lets an event loop wait for an object of an agent's class without asking that object anything.

The task that runs a coroutine calls methods of whatever the coroutine waits for, and does so as whoever awaits the
coroutine. It is given a plain future instead, which ends when the object does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from praval_tools.names import get_class_name

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future


class AwaitedObject(Protocol):
    """What a task asks of an object that its coroutine waits for."""

    _asyncio_future_blocking: bool

    def get_loop(self) -> AbstractEventLoop: ...
    def add_done_callback(self, function: Callable[[object], object], /) -> object: ...
    def cancel(self, *, msg: object) -> bool: ...
    def result(self) -> object: ...


def may_have_code(waiting: object) -> bool:
    """
    Tell whether asking *waiting*, which is not None, may run code of others; not where no loop of asyncio runs here.

    A future of asyncio's own class has none. A task passes its cancellation on to what it waits for itself, and
    a future that does not fit is quoted in an error, with its value.
    """
    asyncio: ModuleType | None = sys.modules.get("asyncio.futures")
    if asyncio is None or (loop := asyncio.events._get_running_loop()) is None:
        return False
    get_loop = asyncio.Future.get_loop  # of the class: an attribute of the object may hide it
    return not (
        type(waiting) is asyncio.Future
        and waiting._asyncio_future_blocking  # type: ignore[attr-defined]
        and get_loop(waiting) is loop
    )


def accept_future(waiting: AwaitedObject) -> None:
    """
    Accept that a coroutine waits for *waiting*, as a task does.

    Raises:
        RuntimeError: It is not a future that the running loop can wait for.
    """
    import asyncio

    name = get_class_name(type(waiting))
    blocking = getattr(waiting, "_asyncio_future_blocking", None)
    if blocking is None:
        raise RuntimeError(f"Task got bad yield: an object of class {name}")
    if waiting.get_loop() is not asyncio.get_running_loop():
        raise RuntimeError(f"Task got an object of class {name} attached to a different loop")
    if waiting is asyncio.current_task():
        raise RuntimeError(f"Task cannot await on itself: an object of class {name}")
    if not blocking:
        raise RuntimeError(f"yield was used instead of yield from in a task with an object of class {name}")
    waiting._asyncio_future_blocking = False


def follow_future(waiting: AwaitedObject) -> Future[None]:
    """Return a plain future of the running loop, which ends when *waiting* does, and says nothing of its value."""
    import asyncio

    stand_in: Future[None] = asyncio.Future(loop=asyncio.get_running_loop())

    def end(_: object) -> None:
        if not stand_in.done():
            stand_in.set_result(None)

    waiting.add_done_callback(end)
    return stand_in


def cancel_future(waiting: AwaitedObject, error: BaseException) -> bool:
    """Cancel *waiting* with the message of *error*, the plain cancellation of its stand-in; tell whether it did."""
    return bool(waiting.cancel(msg=error.args[0] if error.args else None))


def check_future(waiting: AwaitedObject) -> None:
    """Raise what *waiting*, which has ended, raises."""
    waiting.result()
