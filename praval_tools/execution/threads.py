"""The thread engine: sync tools beside the caller, with a deadline that gives up waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any


class Job:
    """Work for a thread: claimed once, either by the thread that runs it or by the caller that gives it up."""

    __slots__ = ("_claimed", "_context", "_done", "_lock", "_tell", "error", "value", "work")

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work, self.value = work, None
        self.error: BaseException | None = None
        self._context = copy_context()
        self._done = threading.Event()
        self._claimed = False
        self._lock = threading.Lock()
        self._tell: list[Callable[[], None]] = []

    def claim(self) -> bool:
        """Take the job; False where somebody else has."""
        with self._lock:
            taken, self._claimed = not self._claimed, True
            return taken

    def run(self) -> None:
        """Do the work in the context of the caller; what it raises is kept for the caller."""
        try:
            self.value = self._context.run(self.work)
        except BaseException as error:  # handed to the caller, who raises it
            self.error = error
        with self._lock:
            self._done.set()
            listeners, self._tell = self._tell, []
        for tell in listeners:
            tell()

    def wait(self, timeout: float | None) -> bool:
        """Wait at most *timeout* seconds; True when it is done."""
        return self._done.wait(timeout)

    def when_done(self, tell: Callable[[], None]) -> None:
        """Call *tell* once the job is done, at once where it is."""
        with self._lock:
            if not self._done.is_set():
                self._tell.append(tell)
                return
        tell()


class ThreadEngine:
    """
    Daemon threads, made when needed up to *size*; each that is lost to a time-out is replaced, up to *cap*.

    Args:
        size: How many calls run at once.
        cap: How many threads there may be, those included that a time-out left behind.
    """

    def __init__(self, size: int = 32, cap: int = 128) -> None:
        self._size, self._cap = size, cap
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = self._idle = self._extra = 0
        self._mine = threading.local()

    def submit(self, work: Callable[[], Any]) -> Job | None:
        """Queue *work*; None where lost threads leave no room."""
        job = Job(work)
        with self._lock:
            if self._extra and self._threads >= self._cap and self._threads - self._extra <= 0:
                return None
            self._jobs.put(job)
            if self._idle > 0:
                self._idle -= 1
            elif self._threads < min(self._size + self._extra, self._cap):
                self._start()
        return job

    def lose(self) -> None:
        """Count one thread as lost to a call that ran out of time."""
        with self._lock:
            self._extra += 1
            if self._threads < min(self._size + self._extra, self._cap) and not self._jobs.empty():
                self._start()

    def found(self) -> None:
        """Count a lost thread as back."""
        with self._lock:
            self._extra -= 1

    @property
    def inside(self) -> bool:
        """Whether this thread is one of the engine's."""
        return getattr(self._mine, "yes", False)

    def _start(self) -> None:
        self._threads += 1
        threading.Thread(target=self._work, name=f"praval-tools-{self._threads}", daemon=True).start()

    def _work(self) -> None:
        self._mine.yes = True
        while True:
            try:
                job = self._jobs.get(timeout=10)
            except Empty:
                with self._lock:
                    if not self._jobs.empty() or self._idle == 0:
                        continue
                    self._idle -= 1
                    self._threads -= 1
                    return
            if job is None:
                return
            if job.claim():
                job.run()
            with self._lock:
                if self._jobs.empty():
                    self._idle += 1

    def close(self) -> None:
        """Let the idle threads end."""
        with self._lock:
            for _ in range(self._threads):
                self._jobs.put(None)
