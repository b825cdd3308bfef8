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
from praval_tools.errors import StatsWarning, get_user_stacklevel
from praval_tools.journal.events import AgentToolResult, CallRefused, JournalEvent
from praval_tools.journal.storage.atomic_files import write_atomically
from praval_tools.journal.usage import STATS_VERSION, ToolUsage, UsageCounts, is_duration, parse_tools
from praval_tools.names import OPERATOR, shorten_repr
from praval_tools.tools.call import Outcome

_FOLD_THRESHOLD: Final = 1_024
_OK: Final = Outcome.OK
_UNKNOWN_TOOL: Final = Outcome.UNKNOWN_TOOL
_APPROVAL_REQUIRED: Final = Outcome.APPROVAL_REQUIRED
"""Neither is a use of a tool: there is none of that name, and a model makes up any number of names; or it waits."""

_CallSample = tuple[str | None, str, Outcome, float | None, datetime]


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
        self._track_usage, self._on_switch = track_usage, switched
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._pending: deque[_CallSample] = deque()
        self._fold_lock = threading.Lock()
        self._tools: dict[str, ToolUsage] = {}

    @property
    def track_usage(self) -> bool:
        """Whether calls are counted."""
        return self._track_usage

    @track_usage.setter
    def track_usage(self, on: bool) -> None:
        if on != self._track_usage:
            self._track_usage = on
            if self._on_switch is not None:
                self._on_switch(on)

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
        if not self._track_usage or outcome is _UNKNOWN_TOOL or outcome is _APPROVAL_REQUIRED:
            return
        waiting = self._pending
        waiting.append((agent, tool, outcome, duration_ms, when))
        if len(waiting) >= _FOLD_THRESHOLD and self._fold_lock.acquire(blocking=False):
            try:
                self._fold_pending()
            finally:
                self._fold_lock.release()

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
            raise ValueError(f"duration_ms: {shorten_repr(duration_ms)} is no number of milliseconds from 0 on")
        outcome = Outcome.OK if success else Outcome.TOOL_ERROR
        self.record(None, tool_name, outcome, duration_ms=duration_ms, when=self._clock.now())

    def rebuild(self, events: Iterable[JournalEvent]) -> None:
        """Forget everything and count *events*, in any order: the journal's own account of the same calls."""
        fresh = UsageStats(clock=self._clock)
        for event in events:
            fresh.record_event(event)
        with self._fold_lock, fresh._fold_lock:
            fresh._fold_pending()
            self._pending.clear()
            self._tools = fresh._tools

    def _fold_pending(self) -> None:
        """Add up what is waiting; the caller holds the lock."""
        waiting, tools = self._pending, self._tools
        for _ in range(len(waiting)):
            agent, tool, outcome, duration, when = waiting.popleft()
            whole = tools.get(tool)
            if whole is None:
                whole = tools[tool] = ToolUsage()
            name = OPERATOR if agent is None else agent
            mine = whole.agents.get(name)
            if mine is None:
                mine = whole.agents[name] = UsageCounts()
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
        with self._fold_lock:
            self._fold_pending()
            whole = self._tools.get(tool)
            found = whole if agent is None or whole is None else whole.agents.get(agent)
            return found.summarize() if found is not None else None

    def get_all_stats(self) -> dict[str, dict[str, Any]]:
        """Return the figures of every tool that was used, by name."""
        with self._fold_lock:
            self._fold_pending()
            return {name: self._tools[name].summarize() for name in sorted(self._tools)}

    def get_agent_stats(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Return the figures by agent and tool, the host program's under `operator`."""
        made: dict[str, dict[str, dict[str, Any]]] = {}
        with self._fold_lock:
            self._fold_pending()
            for tool in sorted(self._tools):
                for agent, one in self._tools[tool].agents.items():
                    made.setdefault(agent, {})[tool] = one.summarize()
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
        target = self._resolve_path(path)
        with self._fold_lock:
            self._fold_pending()
            content = {"v": STATS_VERSION, "tools": {name: one.to_dict() for name, one in sorted(self._tools.items())}}
        target.parent.mkdir(parents=True, exist_ok=True)
        self._read_file(target)
        text = json.dumps(content, indent=1, allow_nan=False) + "\n"
        write_atomically(target, text, target.with_name(f".{target.name}.{self._clock.new_id()}"))
        return target

    def load_stats(self, path: str | os.PathLike[str] | None = None) -> bool:
        """
        Replace what was counted so far by what a file holds; False where there is no file, or none that can be read.

        A file that cannot be read is set aside, with a warning, and what was counted stays.

        Raises:
            ValueError: No path is given, and there is no default.
            OSError: It cannot be opened.
        """
        found = self._read_file(self._resolve_path(path))
        if found is None:
            return False
        with self._fold_lock:
            self._pending.clear()
            self._tools = found
        return True

    def _resolve_path(self, path: str | os.PathLike[str] | None) -> Path:
        if path is None and self.storage_path is None:
            raise ValueError("path: there is none; give one, or set stats.storage_path")
        return Path(path) if path is not None else self.storage_path  # type: ignore[return-value]

    def _read_file(self, path: Path) -> dict[str, ToolUsage] | None:
        """Return what the file holds; None where there is none, or it was set aside."""
        try:
            return parse_tools(json.loads(path.read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as error:
            aside = path.with_name(f"{path.name}.broken-{self._clock.now():%Y%m%dT%H%M%S}-{self._clock.new_id()[-8:]}")
            path.rename(aside)
            warnings.warn(
                f"{path} holds no usage statistics ({shorten_repr(str(error))}); it was set aside as {aside.name}, "
                f"and counting starts anew. Rebuild them from the journal if there is one.",
                StatsWarning,
                stacklevel=get_user_stacklevel(),
            )
            return None
