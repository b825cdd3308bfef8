"""Logs the side effects of the demo's tools in a file that survives a crash, and crashes the process on demand."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import NoReturn

from attrs import asdict, define, field, frozen

CRASH_EXIT_CODE = 137
"""The exit code of a process that ended itself where there is no SIGKILL; what a shell reports after SIGKILL."""


@frozen(kw_only=True)
class Effect:
    """
    Something that a call did and that cannot be undone.

    Args:
        tool: Which tool did it.
        by: Who called.
        call: The id of the call.
        key: The idempotency key of the call.
        text: What it was.
    """

    tool: str
    by: str
    call: str
    key: str
    text: str


@frozen
class CrashPoint:
    """Where the process crashes: directly after the effect of this number by this tool, before its record."""

    tool: str
    number: int


@define
class EffectLog:
    """
    The effects so far, also those of earlier processes.

    Args:
        path: The file; None: they stay in memory.
        crash_point: Where the process crashes, if it does.
    """

    path: Path | None = None
    crash_point: CrashPoint | None = None
    _memory: list[Effect] = field(factory=list, init=False)

    def read_all(self) -> list[Effect]:
        """Return every effect, the first one first."""
        if self.path is None:
            return list(self._memory)
        if not self.path.exists():
            return []
        return [Effect(**json.loads(line)) for line in self.path.read_text("utf-8").splitlines()]

    def read_by_tool(self, tool: str) -> list[Effect]:
        """Return the effects of one tool."""
        return [effect for effect in self.read_all() if effect.tool == tool]

    def has_effect(self, call: str) -> bool:
        """Whether the call with this id had its effect."""
        return any(effect.call == call for effect in self.read_all())

    def add_once(self, effect: Effect) -> int:
        """Add *effect*, unless its key is there already; return its number among those of its tool."""
        keys = [known.key for known in self.read_by_tool(effect.tool)]
        return keys.index(effect.key) + 1 if effect.key in keys else self.add(effect)

    def add(self, effect: Effect) -> int:
        """Add *effect*, durably; return its number among those of its tool. The process crashes at its crash point."""
        if self.path is None:
            self._memory.append(effect)
        else:
            _append_line(self.path, json.dumps(asdict(effect)))
        number = len(self.read_by_tool(effect.tool))
        if self.crash_point == CrashPoint(effect.tool, number):
            crash()
        return number


def _append_line(path: Path, line: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(handle, f"{line}\n".encode())
        os.fsync(handle)
    finally:
        os.close(handle)


def crash() -> NoReturn:
    """End this process as a crash does: no handler runs, nothing is flushed, nothing is cleaned up."""
    if hasattr(signal, "SIGKILL"):
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(CRASH_EXIT_CODE)
