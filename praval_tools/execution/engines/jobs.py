"""`Job`: work that an engine runs for a caller, who waits for it or gives it up."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextvars import copy_context
from time import monotonic
from typing import Final

_WAIT_SECONDS: Final = 0.5


class Job:
    """
    Work for a thread: claimed once, by the thread that runs it or by the caller that gives it up.

    *stop*, where there is one, ends it while it runs.
    """

    __slots__ = ("_claimed", "_context", "_done", "_lock", "_callbacks", "error", "stop", "value", "work")

    def __init__(self, work: Callable[[], object]) -> None:
        self.work = work
        self.value: object = None
        self.error: BaseException | None = None
        self.stop: Callable[[], object] | None = None
        self._context = copy_context()
        self._done = threading.Event()
        self._claimed = False
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    def claim(self) -> bool:
        """Claim the job; return False where it was claimed before."""
        with self._lock:
            is_first, self._claimed = not self._claimed, True
            return is_first

    def run(self) -> None:
        """Do the work in the context of the caller; what it raises is kept for the caller."""
        try:
            self.value = self._context.run(self.work)
        except BaseException as error:  # handed to the caller, who raises it
            self.error = error
        self._finish()

    def refuse(self, error: BaseException) -> None:
        """End the job with *error* and without doing its work, unless it was claimed before."""
        if self.claim():
            self.error = error
            self._finish()

    def _finish(self) -> None:
        with self._lock:
            self._done.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception as error:  # isolation: reported, and the others are called all the same
                details = (type(error), error, error.__traceback__, threading.current_thread())
                threading.excepthook(threading.ExceptHookArgs(details))

    def wait(self, timeout: float | None) -> bool:
        """
        Wait at most *timeout* seconds; True when it is done.

        In parts: Python notices an interrupt that comes just before a thread begins to wait only when the wait ends.
        """
        deadline = math.inf if timeout is None else monotonic() + timeout
        while not self._done.wait(max(0.0, min(_WAIT_SECONDS, deadline - monotonic()))):
            if monotonic() >= deadline:
                return False
        return True

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Call *callback* once the job is done, at once where it is."""
        with self._lock:
            if not self._done.is_set():
                self._callbacks.append(callback)
                return
        callback()


async def wait_for_job(job: Job) -> None:
    """Wait until *job* is done, without blocking the loop."""
    import asyncio

    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def set_done() -> None:
        if not done.done():
            done.set_result(None)

    def notify_loop() -> None:
        try:
            loop.call_soon_threadsafe(set_done)
        except RuntimeError:  # the loop was closed meanwhile: nobody waits any more
            return

    job.add_done_callback(notify_loop)
    await done
