"""Leases of runs, which keep a run open in one place at a time: among threads, or among processes by locked files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final

from praval_tools.errors import JournalError, RunBusyError
from praval_tools.forks import ForkSafeLock
from praval_tools.journal.process_name import get_process_name
from praval_tools.journal.storage.file_locks import get_file_identity, read_holder, remove_lock, try_lock

_NO_FILE: Final = -1


class RunLease:
    """An open run, until it is released."""

    __slots__ = ("_leases", "descriptor", "lock_file", "lock_identity", "run_id", "token")

    def __init__(
        self, run_id: str, leases: RunLeases, *, descriptor: int = _NO_FILE, lock_file: str = "", token: str = ""
    ) -> None:
        self.run_id, self._leases, self.descriptor, self.lock_file = run_id, leases, descriptor, lock_file
        self.token = token
        self.lock_identity = get_file_identity(descriptor) if lock_file else None

    def check(self) -> None:
        """
        Make sure that nobody else can have opened the run.

        Raises:
            JournalError: Its lock is gone, or is another one.
        """
        self._leases.check(self)

    def release(self) -> None:
        """Release the run; safe to call twice, and without effect in a process that was forked since."""
        self._leases.release(self)

    def __enter__(self) -> RunLease:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def make_lost_lease_error(store: str, run_id: str) -> JournalError:
    """Return the error for a run that another process has opened although it is open here."""
    problem = f"the connection that kept run {run_id!r} open was cut, and another process has opened the run meanwhile"
    return JournalError(store, problem, "Open the run anew.")


class RunLeases:
    """Leases among the threads of this process."""

    def __init__(self) -> None:
        self._open_leases: dict[str, RunLease] = {}
        self._lock = ForkSafeLock()

    def open(self, run_id: str) -> RunLease:
        """
        Open a run.

        Raises:
            JournalError: The file of its lock cannot be created.
            RunBusyError: It is open, here or in another process.
        """
        with self._lock:
            if run_id in self._open_leases:
                raise RunBusyError(run_id, "this process")
            lease = self._open_leases[run_id] = self._make_lease(run_id)
            return lease

    def release(self, lease: RunLease) -> None:
        """End *lease*, where it is still held."""
        with self._lock:
            if self._open_leases.get(lease.run_id) is lease:
                del self._open_leases[lease.run_id]
                self._unlock_run(lease)

    def check(self, lease: RunLease) -> None:
        """Make sure that *lease* still keeps others out."""

    def is_open(self, run_id: str) -> bool:
        """Tell whether this process has the run open."""
        return run_id in self._open_leases

    def list_open(self) -> list[RunLease]:
        """Return the leases that this process holds."""
        return list(self._open_leases.values())

    def get_tokens(self, run_ids: Iterable[str]) -> dict[str, str]:
        """Return what the store must hold for those of the runs that are open here, where leases are kept in it."""
        tokens = {run_id: lease.token for run_id in run_ids if (lease := self._open_leases.get(run_id)) is not None}
        return {run_id: token for run_id, token in tokens.items() if token}

    def watch(self, callback: Callable[[], object]) -> None:
        """Have a method called soon after others changed the state, where the session of the leases hears of that."""

    def reset_after_fork(self) -> None:
        """Forget the parent's leases in a child."""
        self._open_leases = {}

    def close(self) -> None:
        """Release all runs."""
        for lease in self.list_open():
            self.release(lease)

    def _make_lease(self, run_id: str) -> RunLease:
        """Keep other processes out of a run; return its lease."""
        return RunLease(run_id, self)

    def _unlock_run(self, lease: RunLease) -> None:
        """Let other processes in again."""


class FileRunLeases(RunLeases):
    """
    Leases among the processes of this machine: a locked file for each open run.

    The operating system unlocks it when the holder ends, however it ends.
    The file of a killed holder stays until the run is opened again; an unlocked file means nothing.

    Args:
        folder: Where the files are; created when needed.
        store: What errors call the store.
    """

    def __init__(self, folder: Path, store: str) -> None:
        super().__init__()
        self._folder, self._store = folder, store

    def _make_lease(self, run_id: str) -> RunLease:
        path = self._get_lock_path(run_id)
        try:
            self._folder.mkdir(exist_ok=True)
            descriptor = try_lock(path)
            holder = read_holder(path) if descriptor is None else ""
        except OSError as error:
            fix = f"Make {str(self._folder)!r} writable and free some space for it."
            raise JournalError(self._store, f"the lock of run {run_id!r} cannot be created ({error})", fix) from error
        if descriptor is None:
            raise RunBusyError(run_id, holder or "another process")
        try:
            host, _, process_id = get_process_name().rpartition(":")
            os.pwrite(descriptor, f"process {process_id} on {host}".encode(), 0)
        except OSError:  # a full disk: the lock holds without the holder's name
            pass
        return RunLease(run_id, self, descriptor=descriptor, lock_file=str(path))

    def check(self, lease: RunLease) -> None:
        if get_file_identity(lease.lock_file) != lease.lock_identity:
            problem = f"the lock of run {lease.run_id!r} was deleted, so that another process may have opened the run"
            raise JournalError(self._store, problem, f"Open the run anew, and leave {str(self._folder)!r} alone.")

    def _unlock_run(self, lease: RunLease) -> None:
        remove_lock(Path(lease.lock_file), lease.descriptor)

    def reset_after_fork(self) -> None:
        """Forget the parent's leases in a child; its copies of the descriptors would outlive the parent."""
        for lease in self._open_leases.values():
            os.close(lease.descriptor)
        super().reset_after_fork()

    def _get_lock_path(self, run_id: str) -> Path:
        return self._folder / (sha256(run_id.encode("utf-8", "surrogatepass")).hexdigest()[:32] + ".lock")
