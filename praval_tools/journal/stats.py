"""Counts calls per tool, and per agent and tool; counting never waits for a lock; saves and loads counts as JSON."""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Final

from praval_tools.clock import Clock, SystemClock
from praval_tools.errors import StatsWarning, get_user_stacklevel
from praval_tools.forks import handle_forks
from praval_tools.journal.events import AgentToolResult, CallRefused, JournalEvent
from praval_tools.journal.storage.atomic_files import write_atomically
from praval_tools.journal.usage import STATS_VERSION, JsonObject, ToolUsage, UsageCounts, is_duration, parse_tools
from praval_tools.misuse import explain_misuse
from praval_tools.names import OPERATOR, shorten_repr
from praval_tools.tools.call import Outcome

_FOLD_THRESHOLD: Final = 1_024
_OK: Final = Outcome.OK
_UNKNOWN_TOOL: Final = Outcome.UNKNOWN_TOOL
_APPROVAL_REQUIRED: Final = Outcome.APPROVAL_REQUIRED
"""Neither outcome is a use of a tool: there is none of that name, and models invent names; or the call waits."""

_CallSample = tuple[str | None, str, Outcome, float | None, datetime]


@explain_misuse
class UsageStats:
    """
    Counts the calls of one registry.

    A call appends one sample and waits for nobody; samples are added up when the figures are read, or by the call that
    finds a thousand of them pending while nobody adds them up.

    Args:
        storage_path: The default file of `save_stats` and `load_stats`.
        track_usage: False: nothing is counted.
        clock: Where times come from.
        switched: Called when counting is switched on or off.
        require_operator: Called before what is counted, where it is saved and whether are changed from outside.
    """

    def __init__(
        self,
        storage_path: str | os.PathLike[str] | None = None,
        *,
        track_usage: bool = True,
        clock: Clock | None = None,
        switched: Callable[[bool], None] | None = None,
        require_operator: Callable[[str], None] = lambda verb: None,
    ) -> None:
        self._storage_path = Path(storage_path) if storage_path is not None else None
        self._track_usage, self._on_switch, self._require_operator = track_usage, switched, require_operator
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._pending: deque[_CallSample] = deque()
        self._renew_lock()
        handle_forks(self, in_child=UsageStats._renew_lock)
        self._tools: dict[str, ToolUsage] = {}

    def _renew_lock(self) -> None:
        self._fold_lock = threading.Lock()  # not reentrant: samples are folded one after the other

    @property
    def storage_path(self) -> Path | None:
        """The file of the statistics: loaded when it is set, if it exists, and saved when the registry closes."""
        return self._storage_path

    @storage_path.setter
    def storage_path(self, path: str | os.PathLike[str] | None) -> None:
        self._require_operator("set the file of the statistics")
        self._storage_path = Path(path) if path is not None else None
        if path is not None:
            self.load_stats()

    @property
    def track_usage(self) -> bool:
        """Whether calls are counted."""
        return self._track_usage

    @track_usage.setter
    def track_usage(self, on: bool) -> None:
        self._require_operator("switch the statistics")
        if on != self._track_usage:
            self._track_usage = on
            if self._on_switch is not None:
                self._on_switch(on)

    # ── counting ─────────────────────────────────────────────────────────────────────────────────

    def record(
        self, agent: str | None, tool: str, outcome: Outcome, *, duration_ms: float | None, when: datetime
    ) -> None:
        """
        Count one call that ended; never waits.

        Calls of tools that do not exist, and calls that wait for an approval, are not counted.

        Args:
            agent: Who called; None for the operator.
            tool: The tool's name.
            outcome: How it ended.
            duration_ms: How long it took.
            when: When it ended, with a time zone.

        Raises:
            NotOwnerError: Somebody else than the operator counts, in the statistics of a registry.
        """
        self._require_operator("count a call")
        self._record(agent, tool, outcome, duration_ms, when)

    def _record(
        self, agent: str | None, tool: str, outcome: Outcome, duration_ms: float | None, when: datetime
    ) -> None:
        if not self._track_usage or outcome is _UNKNOWN_TOOL or outcome is _APPROVAL_REQUIRED:
            return
        pending = self._pending
        pending.append((agent, tool, outcome, duration_ms, when))
        if len(pending) >= _FOLD_THRESHOLD and (lock := self._fold_lock).acquire(blocking=False):
            try:
                self._fold_pending()
            finally:
                lock.release()  # the one that was acquired: a child has another

    def record_event(self, event: JournalEvent) -> None:
        """Count the call that *event* ends, as `record` does; other events, late results among them, count nothing."""
        if isinstance(event, AgentToolResult):
            self.record(event.agent, event.tool_name, event.outcome, duration_ms=event.latency_ms, when=event.time)
        elif isinstance(event, CallRefused):
            self.record(event.agent, event.tool_name, event.outcome, duration_ms=None, when=event.time)

    def update_stats(
        self, tool_name: str, success: bool, duration_ms: float | None = None, request_id: str | None = None
    ) -> None:
        """
        Count one call that the host program made without the registry, which counts its own calls.

        Args:
            tool_name: The tool's name.
            success: Whether it returned; else it counts as `tool_error`.
            duration_ms: How long it took; counts for successful calls.
            request_id: Accepted for callers that have one, and not stored.

        Raises:
            ValueError: The duration is negative or not a number.
        """
        if not is_duration(duration_ms):
            raise ValueError(f"duration_ms: {shorten_repr(duration_ms)} is not a number of milliseconds, 0 or more")
        self._require_operator("count a call")
        outcome = Outcome.OK if success else Outcome.TOOL_ERROR
        self.record(None, tool_name, outcome, duration_ms=duration_ms, when=self._clock.now())

    def rebuild(self, events: Iterable[JournalEvent]) -> None:
        """Start from zero and count *events*, in any order, such as those of the journal."""
        self._require_operator("replace the statistics")
        fresh = UsageStats(clock=self._clock)
        for event in events:
            fresh.record_event(event)
        with self._fold_lock, fresh._fold_lock:
            fresh._fold_pending()
            self._pending.clear()
            self._tools = fresh._tools

    def _fold_pending(self) -> None:
        """Add up the pending samples; the caller holds the lock."""
        pending, tools = self._pending, self._tools
        for _ in range(len(pending)):
            agent, tool, outcome, duration, when = pending.popleft()
            usage = tools.get(tool)
            if usage is None:
                usage = tools[tool] = ToolUsage()
            name = OPERATOR if agent is None else agent
            counts = usage.agents.get(name)
            if counts is None:
                counts = usage.agents[name] = UsageCounts()
            counts.add(outcome, duration, when)
            if duration is not None and outcome is _OK:
                usage.sketch.add(duration)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def get_stats(self, tool: str, agent: str | None = None) -> JsonObject | None:
        """
        Return the figures of a tool; None where it was never used.

        Args:
            tool: The tool's name.
            agent: Only the calls of this agent, `operator` for the host program; without quantiles.
        """
        with self._fold_lock:
            self._fold_pending()
            usage = self._tools.get(tool)
            counts = usage if agent is None or usage is None else usage.agents.get(agent)
            return counts.summarize() if counts is not None else None

    def get_all_stats(self) -> dict[str, JsonObject]:
        """Return the figures of every tool that was used, by name."""
        with self._fold_lock:
            self._fold_pending()
            return {name: self._tools[name].summarize() for name in sorted(self._tools)}

    def get_agent_stats(self) -> dict[str, dict[str, JsonObject]]:
        """Return the figures by agent and tool, the host program's under `operator`."""
        figures: dict[str, dict[str, JsonObject]] = {}
        with self._fold_lock:
            self._fold_pending()
            for tool in sorted(self._tools):
                for agent, counts in self._tools[tool].agents.items():
                    figures.setdefault(agent, {})[tool] = counts.summarize()
        return dict(sorted(figures.items()))

    # ── files ──────────────────────────────────────────────────────────────────────────────────

    def save_stats(self, path: str | os.PathLike[str] | None = None) -> Path:
        """
        Write everything to a JSON file, at once or not at all, and return its path.

        Saving replaces the file: of several processes each needs a file of its own.
        A file in its place that does not hold statistics is set aside, with a warning.

        Raises:
            ValueError: No path is given, and there is no default.
            OSError: It cannot be written; the old file stays.
        """
        self._require_operator("save the statistics")
        target = self._resolve_path(path)
        with self._fold_lock:
            self._fold_pending()
            tools = {name: usage.to_dict() for name, usage in sorted(self._tools.items())}
        content = {"v": STATS_VERSION, "tools": tools}
        target.parent.mkdir(parents=True, exist_ok=True)
        self._read_file(target)
        text = json.dumps(content, indent=1, allow_nan=False) + "\n"
        write_atomically(target, text, target.with_name(f".{target.name}.{self._clock.new_id()}"))
        return target

    def load_stats(self, path: str | os.PathLike[str] | None = None) -> bool:
        """
        Replace what was counted so far by the content of a file.

        A file that does not hold statistics is set aside, with a warning, and what was counted stays.

        Returns:
            False where there is no file, or it was set aside.

        Raises:
            ValueError: No path is given, and there is no default.
            OSError: It cannot be opened.
        """
        self._require_operator("replace the statistics")
        tools = self._read_file(self._resolve_path(path))
        if tools is None:
            return False
        with self._fold_lock:
            self._pending.clear()
            self._tools = tools
        return True

    def _resolve_path(self, path: str | os.PathLike[str] | None) -> Path:
        path = self.storage_path if path is None else Path(path)
        if path is None:
            raise ValueError("path: there is none; pass one, or set stats.storage_path")
        return path

    def _read_file(self, path: Path) -> dict[str, ToolUsage] | None:
        """Return the tools in the file; None where there is no file, or it was set aside."""
        try:
            return parse_tools(json.loads(path.read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as error:
            aside = path.with_name(f"{path.name}.broken-{self._clock.now():%Y%m%dT%H%M%S}-{self._clock.new_id()[-8:]}")
            path.rename(aside)
            warnings.warn(
                f"{path} does not hold usage statistics ({shorten_repr(str(error))}); it was set aside as "
                f"{aside.name}, and counting starts anew. Rebuild them from the journal if there is one.",
                StatsWarning,
                stacklevel=get_user_stacklevel(),
            )
            return None


def count_call(
    stats: UsageStats, agent: str | None, tool: str, outcome: Outcome, duration_ms: float | None, when: datetime
) -> None:
    """Count one call that ended, whoever runs; for the registry, which counts the calls of everybody."""
    stats._record(agent, tool, outcome, duration_ms, when)
