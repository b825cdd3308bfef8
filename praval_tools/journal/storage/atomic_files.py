"""Files that are whole or not there, also after the power fails."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(target: Path, text: str, draft: Path) -> None:
    """Put *text* in the place of *target* in one step, durably; *draft* is a free name in the same folder."""
    try:
        with open(draft, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
    sync_directory(target.parent)


def sync_directory(path: Path) -> None:
    """Make the names in the folder *path* durable."""
    if os.name == "nt":  # has no handles of folders
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
