"""The thread engine: daemon threads for jobs that callers may give up; it refuses jobs that no thread can ever run."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from praval_tools.execution.engines.jobs import Job
from praval_tools.execution.failures import StaleDecisionError
from praval_tools.forks import handle_forks
from praval_tools.tools.plain_managers import plain_manager

_IDLE_SECONDS: Final = 10.0
"""Seconds that a thread waits for work before it ends."""


class NoFreeThreadError(Exception):
    """Every thread waits, or runs a call that was given up, so that the job cannot run."""


class ThreadEngine:
    """
    Daemon threads, started when needed up to *size*; each that waits or was given up is replaced, up to *cap*.

    Where none of *cap* threads is free to work, jobs are refused instead of waiting for ever.

    Args:
        size: How many calls run at once.
        cap: How many threads there may be in all.
        idle_seconds: How long a thread waits for work before it ends.
        on_thread_end: Called in each thread as it ends.
    """

    def __init__(
        self, size: int = 32, cap: int = 128, *, idle_seconds: float = _IDLE_SECONDS,
        on_thread_end: Callable[[], object] | None = None,
    ) -> None:  # fmt: skip
        self._size, self._cap = size, cap
        self._idle_seconds, self._on_thread_end = idle_seconds, on_thread_end
        self._closed = False
        self._reset_after_fork()
        handle_forks(self, in_child=ThreadEngine._reset_after_fork)

    def _reset_after_fork(self) -> None:
        """Begin without threads; in a forked process those of its parent are gone."""
        self._jobs: deque[Job] = deque()
        self._lock = threading.RLock()  # entered itself: an interrupt may come inside of `Condition.__enter__`
        self._condition = threading.Condition(self._lock)
        self._threads = self._idle = self._blocked = 0
        self._thread_local = threading.local()

    def submit(self, work: Callable[[], object]) -> Job:
        """Queue *work*; its job ends in `NoFreeThreadError` or `StaleDecisionError` where no thread can run it."""
        job = Job(work)
        with self._lock:
            if not self._closed:
                self._jobs.append(job)
                self._start_threads()
            refused = self._take_unrunnable_jobs()
        self._refuse_jobs(refused if not self._closed else [*refused, job])
        return job

    @plain_manager
    def release_thread(self) -> Iterator[None]:
        """Let another thread replace this one, if it is the engine's, while it waits."""
        if not getattr(self._thread_local, "is_worker", False):
            yield
            return
        self.mark_thread_blocked()
        try:
            yield
        finally:
            self.mark_thread_available()

    def mark_thread_blocked(self) -> None:
        """Count one more thread as blocked, and start another in its place."""
        with self._lock:
            self._blocked += 1
            self._start_threads()
            refused = self._take_unrunnable_jobs()
        self._refuse_jobs(refused)

    def mark_thread_available(self) -> None:
        """Count one thread less as blocked."""
        with self._lock:
            self._blocked -= 1

    def close(self) -> None:
        """End the idle threads, and refuse the queued jobs; safe to call twice."""
        with self._lock:
            self._closed = True
            refused = self._take_unrunnable_jobs()
            self._condition.notify_all()
        self._refuse_jobs(refused)

    def _start_threads(self) -> None:
        """Wake or start a thread for each queued job, up to the number of threads allowed."""
        if self._idle:
            self._condition.notify()
        for _ in range(len(self._jobs) - self._idle):
            if self._threads >= min(self._size + self._blocked, self._cap):
                return
            threading.Thread(target=self._run_jobs, name=f"praval-tools-{self._threads + 1}", daemon=True).start()
            self._threads += 1

    def _take_unrunnable_jobs(self) -> list[Job]:
        """Remove and return the queued jobs that no thread will ever run."""
        if not self._closed and (self._threads < self._cap or self._blocked < self._threads):
            return []
        refused = list(self._jobs)
        self._jobs.clear()
        return refused

    def _refuse_jobs(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            job.refuse(StaleDecisionError() if self._closed else NoFreeThreadError())

    def _run_jobs(self) -> None:
        self._thread_local.is_worker = True
        while (job := self._take_next_job()) is not None:
            if job.claim():
                job.run()
            del job  # nothing that it holds is kept alive here
        if self._on_thread_end is not None:
            self._on_thread_end()

    def _take_next_job(self) -> Job | None:
        """Return the next job, or None where this thread is to end: it was idle for long, or the engine was closed."""
        with self._lock:
            self._idle += 1
            try:
                self._condition.wait_for(lambda: self._jobs or self._closed, self._idle_seconds)
                if self._jobs:
                    return self._jobs.popleft()
                self._threads -= 1
                return None
            finally:
                self._idle -= 1
