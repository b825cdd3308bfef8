"""The process engine: a pool of processes for the functions of tools, each with a thread here that speaks to it."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import ClassVar, Final

from praval_tools.execution.engines.jobs import Job
from praval_tools.execution.engines.threads import ThreadEngine
from praval_tools.execution.engines.worker_process import WorkerProcess
from praval_tools.execution.failures import CallCancelledError
from praval_tools.forks import handle_forks

_IDLE_SECONDS: Final = 60.0
"""Seconds that a process waits for work before it is ended."""

_MAX_WAITING_FACTOR: Final = 4
"""How many processes there may be in all, as a multiple of how many work: those that wait for calls of theirs count."""


class ProcessWork:
    """
    Work that needs a process: done in a thread of the pool, and stopped from any other by killing the process.

    Args:
        work: Is called with the process.
    """

    def __init__(self, work: Callable[[WorkerProcess], object]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._process: WorkerProcess | None = None
        self._is_stopped = False

    def run(self, process: WorkerProcess) -> object:
        """Do the work, unless it was stopped before."""
        with self._lock:
            self._process = None if self._is_stopped else process
        if self._process is None:
            raise CallCancelledError
        try:
            return self._work(process)
        finally:
            with self._lock:
                self._process = None

    def stop(self) -> None:
        """Kill the process, if it has one by now."""
        with self._lock:
            self._is_stopped = True
            if self._process is not None:
                self._process.kill()


class ProcessEngine:
    """
    Processes, started when needed up to *size*; one whose function waits for a call of its own is replaced meanwhile.

    Args:
        get_size: Returns how many functions run at once, when there is work; None: one for each processor.
        idle_seconds: How long a process waits for work before it is ended.
    """

    is_refused_here: ClassVar[bool] = False
    """Whether this process runs tools for another one, and has no such processes itself."""

    def __init__(self, get_size: Callable[[], int | None], *, idle_seconds: float = _IDLE_SECONDS) -> None:
        self._get_size, self._idle_seconds = get_size, idle_seconds
        self._processes: set[WorkerProcess] = set()
        self._reset_after_fork()
        handle_forks(self, in_child=ProcessEngine._reset_after_fork)

    def _reset_after_fork(self) -> None:
        """Begin without processes; those of its parent are no matter of a forked process."""
        self._lock = threading.Lock()
        self._processes.clear()
        self._threads: ThreadEngine | None = None
        self._thread_local = threading.local()

    def submit(self, work: Callable[[WorkerProcess], object]) -> Job:
        """Queue *work*; its job ends in `NoFreeThreadError` where each process waits for another."""
        stoppable = ProcessWork(work)
        job = self.threads.submit(lambda: stoppable.run(self._get_process()))
        job.stop = stoppable.stop
        return job

    @property
    def threads(self) -> ThreadEngine:
        """The threads that speak to the processes, one to each."""
        with self._lock:
            if self._threads is None:
                size = self._get_size() or _count_processors()
                weakref.finalize(self, _kill_all, self._processes)  # at the end of the program, too
                self._threads = ThreadEngine(
                    size, _MAX_WAITING_FACTOR * size, idle_seconds=self._idle_seconds, on_thread_end=self._end_process
                )
            return self._threads

    def _get_process(self) -> WorkerProcess:
        """Return the process of this thread; another one, where that has ended."""
        process: WorkerProcess | None = getattr(self._thread_local, "process", None)
        if process is not None and process.is_usable:
            return process
        self._end_process()
        process = self._thread_local.process = WorkerProcess()
        self._processes.add(process)
        return process

    def _end_process(self) -> None:
        """End the process of this thread, if it has one."""
        process: WorkerProcess | None = getattr(self._thread_local, "process", None)
        if process is not None:
            self._thread_local.process = None
            process.end()
            self._processes.discard(process)

    def close(self) -> None:
        """End all processes; safe to call twice."""
        if self._threads is not None:
            self._threads.close()
        for process in list(self._processes):
            process.end()
        self._processes.clear()


def _count_processors() -> int:
    """Return how many processors this program may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _kill_all(processes: set[WorkerProcess]) -> None:
    for process in list(processes):
        process.end(patience=0)
