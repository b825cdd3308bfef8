"""Locks a file by the operating system, which releases the lock when the process that holds it dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def get_file_identity(file: Path | str | int) -> tuple[int, int] | None:
    """Return what identifies the file at a path, or of a descriptor, whatever its name; None where there is no file."""
    try:
        status = os.stat(file)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def try_lock(path: Path) -> int | None:
    """
    Lock the file at *path*, created where there is none.

    Descriptors are closed in programs that this process starts; a fork must close its copy itself.

    Returns:
        The descriptor that holds the lock; None where somebody else holds it.
    """
    while True:
        descriptor, is_locked = _open_lock_file(path), False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # else its holder removed it between our two steps
            is_locked = get_file_identity(path) == get_file_identity(descriptor)
            if is_locked:
                os.ftruncate(descriptor, 0)
                return descriptor
        except BlockingIOError:
            return None
        finally:
            if not is_locked:
                os.close(descriptor)


def remove_lock(path: Path, descriptor: int) -> None:
    """Remove the file while it is still locked, then unlock it; a file of another holder at its place stays."""
    with suppress(OSError):
        if get_file_identity(path) == get_file_identity(descriptor):
            path.unlink()
    os.close(descriptor)


def read_holder(path: Path) -> str:
    """Return what the holder wrote into the file; empty where there is none."""
    try:
        return path.read_text("utf-8", "replace")
    except FileNotFoundError:
        return ""


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Wait for the lock of *path* and hold it; the file stays."""
    descriptor = _open_lock_file(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _open_lock_file(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
