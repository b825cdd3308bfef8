"""What the demo's tools do to the world: one line per effect, in a file that outlives the process."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import NoReturn

from attrs import asdict, define, field, frozen

CRASH_EXIT_CODE = 137
"""The exit code of a process that ended itself where there is no SIGKILL; what a shell reports of one that was."""


@frozen(kw_only=True)
class Effect:
    """
    Something that cannot be taken back.

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
    """Where the process is to die: directly after the effect of this number by this tool, before its record."""

    tool: str
    number: int


@define
class EffectLog:
    """
    The effects up to now, also those of earlier processes.

    Args:
        path: The file; None: they are kept in memory.
        fatal: Where the process dies.
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
        return [one for one in self.read_all() if one.tool == tool]

    def has_effect(self, call: str) -> bool:
        """Tell whether the call of this id had its effect."""
        return any(one.call == call for one in self.read_all())

    def add_once(self, effect: Effect) -> int:
        """Add *effect*, unless its key is there already; return its number among those of its tool."""
        keys = [one.key for one in self.read_by_tool(effect.tool)]
        return keys.index(effect.key) + 1 if effect.key in keys else self.add(effect)

    def add(self, effect: Effect) -> int:
        """Add *effect*, durably; return its number among those of its tool. The process may die of it."""
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
