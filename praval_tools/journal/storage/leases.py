"""Leases of runs: a run is open in one place at a time, and whoever dies lets go."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from praval_tools.errors import JournalError, RunBusyError
from praval_tools.journal.storage.file_locks import read_holder, remove_lock, try_lock

THIS_PROCESS = "this process"


class _LeaseIssuer(Protocol):
    """Whoever gave a lease, and takes it back."""

    def release(self, lease: RunLease) -> None:
        """Take *lease* back, where it is still held."""


class RunLease:
    """An open run, until it is released."""

    __slots__ = ("_issuer", "run_id")

    def __init__(self, run_id: str, leases: _LeaseIssuer) -> None:
        self.run_id, self._issuer = run_id, leases

    def release(self) -> None:
        """Let the run go; safe twice, and without effect in a process that was forked since."""
        self._issuer.release(self)

    def __enter__(self) -> RunLease:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


class MemoryLeases:
    """Leases among the threads of this process."""

    def __init__(self) -> None:
        self._open_leases: dict[str, RunLease] = {}
        self._lock = threading.Lock()

    def open(self, run_id: str) -> RunLease:
        """
        Open a run.

        Raises:
            RunBusyError: It is open.
        """
        with self._lock:
            if run_id in self._open_leases:
                raise RunBusyError(run_id, THIS_PROCESS)
            lease = self._open_leases[run_id] = RunLease(run_id, self)
            return lease

    def release(self, lease: RunLease) -> None:
        """Take *lease* back."""
        with self._lock:
            if self._open_leases.get(lease.run_id) is lease:
                del self._open_leases[lease.run_id]

    def is_open(self, run_id: str) -> bool:
        """Tell whether the run is open."""
        return run_id in self._open_leases


class FileLeases:
    """
    Leases among the processes of this machine: a locked file for each open run.

    The operating system unlocks it when the holder ends, however it ends.
    The file of a killed holder stays until the run is opened again; an unlocked file means nothing.

    Args:
        folder: Where the files are; made when needed.
        store: What errors call the store.
        process: Returns what stands for this process in the errors of others.
    """

    def __init__(self, folder: Path, store: str, process: Callable[[], str]) -> None:
        self._folder, self._store, self._process = folder, store, process
        self._open_leases: dict[str, tuple[RunLease, int]] = {}
        self._lock = threading.Lock()

    def open(self, run_id: str) -> RunLease:
        """
        Open a run.

        Raises:
            JournalError: The file cannot be made.
            RunBusyError: It is open, here or in another process.
        """
        with self._lock:
            if run_id in self._open_leases:
                raise RunBusyError(run_id, THIS_PROCESS)
            path = self._get_lock_path(run_id)
            try:
                self._folder.mkdir(exist_ok=True)
                descriptor = try_lock(path)
                holder = read_holder(path) if descriptor is None else ""
            except OSError as error:
                fix = f"Make {str(self._folder)!r} writable and give it room."
                raise JournalError(self._store, f"the lock of run {run_id!r} cannot be made ({error})", fix) from error
            if descriptor is None:
                raise RunBusyError(run_id, holder or "another process")
            self._write_holder(descriptor)
            lease = RunLease(run_id, self)
            self._open_leases[run_id] = (lease, descriptor)
            return lease

    def _write_holder(self, descriptor: int) -> None:
        try:
            os.pwrite(descriptor, self._process().encode(), 0)
        except OSError:  # a full disk: the lock holds without the holder's name
            pass

    def release(self, lease: RunLease) -> None:
        """Take *lease* back."""
        with self._lock:
            held = self._open_leases.get(lease.run_id)
            if held is not None and held[0] is lease:
                del self._open_leases[lease.run_id]
                remove_lock(self._get_lock_path(lease.run_id), held[1])

    def close(self) -> None:
        """Let go of everything."""
        for lease, _ in list(self._open_leases.values()):
            self.release(lease)

    def reset_after_fork(self) -> None:
        """Forget the parent's leases in a child; its copies of the descriptors would outlive the parent."""
        held, self._open_leases, self._lock = self._open_leases, {}, threading.Lock()
        for _, descriptor in held.values():
            os.close(descriptor)

    def _get_lock_path(self, run_id: str) -> Path:
        return self._folder / (sha256(run_id.encode("utf-8", "surrogatepass")).hexdigest()[:32] + ".lock")
