"""Files that stand for a lock of the operating system; gone with the process that holds it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def try_lock(path: Path) -> int | None:
    """
    Lock the file at *path*, made where there is none; return its descriptor, or None where somebody else has it.

    Descriptors are closed in programs that this process starts; a fork must close its copy itself.
    """
    while True:
        descriptor, kept = os.open(path, os.O_RDWR | os.O_CREAT, 0o600), False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            kept = _is_same_file(path, descriptor)  # else its holder removed it between our two steps
            if kept:
                os.ftruncate(descriptor, 0)
                return descriptor
        except BlockingIOError:
            return None
        finally:
            if not kept:
                os.close(descriptor)


def remove_lock(path: Path, descriptor: int) -> None:
    """Remove the file while it is still locked, then unlock it."""
    with suppress(OSError):
        path.unlink()
    os.close(descriptor)


def read_holder(path: Path) -> str:
    """Return what the holder wrote into the file, empty where nothing is there."""
    try:
        return path.read_text("utf-8", "replace")
    except FileNotFoundError:
        return ""


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Wait for the lock of *path* and hold it; the file stays."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_same_file(path: Path, descriptor: int) -> bool:
    mine = os.fstat(descriptor)
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)
