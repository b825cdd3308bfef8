"""Usage statistics per tool and per agent and tool, counted without a lock on the call path."""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from praval_tools.clock import Clock, SystemClock
from praval_tools.errors import StatsWarning, outside
from praval_tools.journal.events import AgentToolResult, CallRefused, JournalEvent
from praval_tools.journal.storage.atomic_files import write_whole
from praval_tools.journal.usage import VERSION, ToolUsage, Usage, is_duration, read_tools
from praval_tools.names import OPERATOR, shorten
from praval_tools.tools.call import Outcome

_FOLD_AT: Final = 1_024
_OK: Final = Outcome.OK
_UNKNOWN: Final = Outcome.UNKNOWN_TOOL
_ASKED: Final = Outcome.APPROVAL_REQUIRED
"""Neither is a use of a tool: there is none of that name, and a model makes up any number of names; or it waits."""

_Record = tuple[str | None, str, Outcome, float | None, datetime]


class UsageStats:
    """
    Counts the calls of one registry.

    A call appends one record and waits for nobody; records are added up when somebody asks, or by the call that finds
    a thousand of them waiting and nobody at it.

    Args:
        storage_path: Where `save_stats` and `load_stats` go by default.
        track_usage: False: nothing is counted.
        clock: Where times come from.
        switched: Told when counting is switched on or off.
    """

    def __init__(
        self,
        storage_path: str | os.PathLike[str] | None = None,
        *,
        track_usage: bool = True,
        clock: Clock | None = None,
        switched: Callable[[bool], None] | None = None,
    ) -> None:
        self.storage_path = Path(storage_path) if storage_path is not None else None
        self._track_usage, self._switched = track_usage, switched
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._waiting: deque[_Record] = deque()
        self._folding = threading.Lock()
        self._tools: dict[str, ToolUsage] = {}

    @property
    def track_usage(self) -> bool:
        """Whether calls are counted."""
        return self._track_usage

    @track_usage.setter
    def track_usage(self, on: bool) -> None:
        if on != self._track_usage:
            self._track_usage = on
            if self._switched is not None:
                self._switched(on)

    # ── counting ─────────────────────────────────────────────────────────────────────────────────

    def record(
        self, agent: str | None, tool: str, outcome: Outcome, *, duration_ms: float | None, when: datetime
    ) -> None:
        """
        Count one call that ended; never raises and never waits.

        A call of a tool that does not exist is no use of any, and one that waits for an approval has not ended.

        Args:
            agent: Who called; None for the operator.
            tool: The tool's name.
            outcome: How it ended.
            duration_ms: How long it took.
            when: When it ended, with a time zone.
        """
        if not self._track_usage or outcome is _UNKNOWN or outcome is _ASKED:
            return
        waiting = self._waiting
        waiting.append((agent, tool, outcome, duration_ms, when))
        if len(waiting) >= _FOLD_AT and self._folding.acquire(blocking=False):
            try:
                self._fold()
            finally:
                self._folding.release()

    def record_event(self, event: JournalEvent) -> None:
        """Count the call that *event* ends; other events, late results among them, count nothing."""
        if isinstance(event, AgentToolResult):
            self.record(event.agent, event.tool_name, event.outcome, duration_ms=event.latency_ms, when=event.time)
        elif isinstance(event, CallRefused):
            self.record(event.agent, event.tool_name, event.outcome, duration_ms=None, when=event.time)

    def update_stats(
        self, tool_name: str, success: bool, duration_ms: float | None = None, request_id: str | None = None
    ) -> None:
        """
        Count one call that the host program made by other ways; the registry counts its own calls by itself.

        Args:
            tool_name: The tool's name.
            success: Whether it returned; else it counts as `tool_error`.
            duration_ms: How long it took; counts for successful calls.
            request_id: Taken for callers that have one, and not stored.

        Raises:
            ValueError: The duration is negative or no number.
        """
        if not is_duration(duration_ms):
            raise ValueError(f"duration_ms: {shorten(duration_ms)} is no number of milliseconds from 0 on")
        outcome = Outcome.OK if success else Outcome.TOOL_ERROR
        self.record(None, tool_name, outcome, duration_ms=duration_ms, when=self._clock.now())

    def rebuild(self, events: Iterable[JournalEvent]) -> None:
        """Forget everything and count *events*, in any order: the journal's own account of the same calls."""
        fresh = UsageStats(clock=self._clock)
        for event in events:
            fresh.record_event(event)
        with self._folding, fresh._folding:
            fresh._fold()
            self._waiting.clear()
            self._tools = fresh._tools

    def _fold(self) -> None:
        """Add up what is waiting; the caller holds the lock."""
        waiting, tools = self._waiting, self._tools
        for _ in range(len(waiting)):
            agent, tool, outcome, duration, when = waiting.popleft()
            whole = tools.get(tool)
            if whole is None:
                whole = tools[tool] = ToolUsage()
            name = OPERATOR if agent is None else agent
            mine = whole.agents.get(name)
            if mine is None:
                mine = whole.agents[name] = Usage()
            mine.add(outcome, duration, when)
            if duration is not None and outcome is _OK:
                whole.sketch.add(duration)

    # ── asking ───────────────────────────────────────────────────────────────────────────────────

    def get_stats(self, tool: str, agent: str | None = None) -> dict[str, Any] | None:
        """
        Return the figures of a tool; None where it was never used.

        Args:
            tool: The tool's name.
            agent: Only the calls of this agent, `operator` for the host program; without quantiles.
        """
        with self._folding:
            self._fold()
            whole = self._tools.get(tool)
            found = whole if agent is None or whole is None else whole.agents.get(agent)
            return found.shown() if found is not None else None

    def get_all_stats(self) -> dict[str, dict[str, Any]]:
        """Return the figures of every tool that was used, by name."""
        with self._folding:
            self._fold()
            return {name: self._tools[name].shown() for name in sorted(self._tools)}

    def get_agent_stats(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Return the figures by agent and tool, the host program's under `operator`."""
        made: dict[str, dict[str, dict[str, Any]]] = {}
        with self._folding:
            self._fold()
            for tool in sorted(self._tools):
                for agent, one in self._tools[tool].agents.items():
                    made.setdefault(agent, {})[tool] = one.shown()
        return dict(sorted(made.items()))

    # ── keeping ──────────────────────────────────────────────────────────────────────────────────

    def save_stats(self, path: str | os.PathLike[str] | None = None) -> Path:
        """
        Write everything to a JSON file, at once or not at all, and return its path.

        Whoever saves last wins: of several processes each needs a file of its own.
        A file in its place that holds no statistics is set aside, with a warning.

        Raises:
            ValueError: No path is given, and there is no default.
            OSError: It cannot be written; the old file stays.
        """
        target = self._path(path)
        with self._folding:
            self._fold()
            content = {"v": VERSION, "tools": {name: one.to_dict() for name, one in sorted(self._tools.items())}}
        target.parent.mkdir(parents=True, exist_ok=True)
        self._read(target)
        text = json.dumps(content, indent=1, allow_nan=False) + "\n"
        write_whole(target, text, target.with_name(f".{target.name}.{self._clock.new_id()}"))
        return target

    def load_stats(self, path: str | os.PathLike[str] | None = None) -> bool:
        """
        Replace what was counted so far by what a file holds; False where there is no file, or none that can be read.

        A file that cannot be read is set aside, with a warning, and what was counted stays.

        Raises:
            ValueError: No path is given, and there is no default.
            OSError: It cannot be opened.
        """
        found = self._read(self._path(path))
        if found is None:
            return False
        with self._folding:
            self._waiting.clear()
            self._tools = found
        return True

    def _path(self, path: str | os.PathLike[str] | None) -> Path:
        if path is None and self.storage_path is None:
            raise ValueError("path: there is none; give one, or set stats.storage_path")
        return Path(path) if path is not None else self.storage_path  # type: ignore[return-value]

    def _read(self, path: Path) -> dict[str, ToolUsage] | None:
        """Return what the file holds; None where there is none, or it was set aside."""
        try:
            return read_tools(json.loads(path.read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as error:
            aside = path.with_name(f"{path.name}.broken-{self._clock.now():%Y%m%dT%H%M%S}-{self._clock.new_id()[-8:]}")
            path.rename(aside)
            warnings.warn(
                f"{path} holds no usage statistics ({shorten(str(error))}); it was set aside as {aside.name}, "
                f"and counting starts anew. Rebuild them from the journal if there is one.",
                StatsWarning,
                stacklevel=outside(),
            )
            return None
