"""The thread engine: sync tools beside the caller, with a deadline that gives up waiting."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, Final

from praval_tools.execution.failures import StaleError

_PATIENCE: Final = 10.0
"""Seconds that a thread waits for work before it ends."""


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
        self._finish()

    def refuse(self, error: BaseException) -> None:
        """End the job without doing its work, unless somebody has taken it."""
        if self.claim():
            self.error = error
            self._finish()

    def _finish(self) -> None:
        with self._lock:
            self._done.set()
            listeners, self._tell = self._tell, []
        for tell in listeners:
            try:
                tell()
            except Exception as error:  # isolation: reported, and the others are told all the same
                about = (type(error), error, error.__traceback__, threading.current_thread())
                threading.excepthook(threading.ExceptHookArgs(about))

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


async def finished(job: Job) -> None:
    """Wait until *job* is done, without blocking the loop."""
    import asyncio

    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not done.done():
            done.set_result(None)

    def tell() -> None:
        try:
            loop.call_soon_threadsafe(settle)
        except RuntimeError:  # the loop was closed meanwhile: nobody waits any more
            return

    job.when_done(tell)
    await done


class NoRoomError(Exception):
    """Every thread waits, or runs a call that was given up: the job cannot be done."""


class ThreadEngine:
    """
    Daemon threads, made when needed up to *size*; each that waits or was given up is replaced, up to *cap*.

    Where none of *cap* threads is left to work, jobs are refused: those that wait would wait for ever.

    Args:
        size: How many calls run at once.
        cap: How many threads there may be in all.
    """

    def __init__(self, size: int = 32, cap: int = 128) -> None:
        self._size, self._cap = size, cap
        self._closed = False
        self._start_over()

    def _start_over(self) -> None:
        """Begin without threads; in a forked process those of its parent are gone."""
        self._process = os.getpid()
        self._jobs: deque[Job] = deque()
        self._news = threading.Condition()
        self._threads = self._idle = self._lost = 0
        self._mine = threading.local()

    def submit(self, work: Callable[[], Any]) -> Job:
        """Queue *work*; its job ends in `NoRoomError` or `StaleError` where no thread will ever take it."""
        job = Job(work)
        if self._process != os.getpid():
            self._start_over()
        with self._news:
            if not self._closed:
                self._jobs.append(job)
                self._employ()
            refused = self._refused()
        self._refuse(refused if not self._closed else [*refused, job])
        return job

    @contextmanager
    def away(self) -> Iterator[None]:
        """Let another thread take the place of this one, if it is the engine's, while it waits."""
        if not getattr(self._mine, "yes", False):
            yield
            return
        self.lose()
        try:
            yield
        finally:
            self.found()

    def lose(self) -> None:
        """Count one thread as away."""
        with self._news:
            self._lost += 1
            self._employ()
            refused = self._refused()
        self._refuse(refused)

    def found(self) -> None:
        """Count a thread as back."""
        with self._news:
            self._lost -= 1

    def close(self) -> None:
        """End the idle threads, and refuse what no thread has taken; safe twice."""
        with self._news:
            self._closed = True
            refused = self._refused()
            self._news.notify_all()
        self._refuse(refused)

    def _employ(self) -> None:
        """Wake or make a thread for each job that waits, as far as there is room."""
        if self._idle:
            self._news.notify()
        for _ in range(len(self._jobs) - self._idle):
            if self._threads >= min(self._size + self._lost, self._cap):
                return
            threading.Thread(target=self._work, name=f"praval-tools-{self._threads + 1}", daemon=True).start()
            self._threads += 1

    def _refused(self) -> list[Job]:
        """Return the jobs that no thread will take, out of the queue."""
        if not self._closed and (self._threads < self._cap or self._lost < self._threads):
            return []
        refused = list(self._jobs)
        self._jobs.clear()
        return refused

    def _refuse(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            job.refuse(StaleError() if self._closed else NoRoomError())

    def _work(self) -> None:
        self._mine.yes = True
        while (job := self._next()) is not None:
            if job.claim():
                job.run()
            del job  # what it holds is not to outlive it here

    def _next(self) -> Job | None:
        """Return the next job; None: this thread is to end, for it was idle long or the engine closed."""
        with self._news:
            self._idle += 1
            try:
                self._news.wait_for(lambda: self._jobs or self._closed, _PATIENCE)
                if self._jobs:
                    return self._jobs.popleft()
                self._threads -= 1
                return None
            finally:
                self._idle -= 1
