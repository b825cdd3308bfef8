"""Writes files atomically: whole or not at all, also when the power fails."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def write_atomically(
    target: Path,
    text: str,
    draft: Path,
    *,
    mode: int = 0o666,
    publish: Callable[[Path, Path], None] = os.replace,
) -> None:
    """
    Put a file with *text* at *target* in one step, durably.

    Args:
        target: Where to.
        text: The whole content.
        draft: A free name in the same folder.
        mode: The permissions of a new file, before the process's mask.
        publish: Gives the draft its name: `os.replace`, or `os.link`, which fails where the name is taken.
    """
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        publish(draft, target)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()
    _sync_directory(target.parent)


def _sync_directory(path: Path) -> None:
    """Make the names in the folder *path* durable."""
    if os.name == "nt":  # has no handles of folders
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
