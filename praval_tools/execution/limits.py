"""How often, and how many at once: limits per agent, per tool, or for one agent and one tool."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from praval_tools.errors import ToolUsageError
from praval_tools.names import shorten_repr

LimitKey = tuple[str | None, str | None]
_MINUTE = 60.0


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """
    What calls may do together.

    Args:
        agent: The agent whose calls count; None: of all together.
        tool: The tool whose calls count; None: all together.
        per_minute: Calls begun within any sixty seconds.
        concurrent: Calls inside at once; one that ran out of time counts until it has ended.
        per_run: Calls of one journaled run.
    """

    agent: str | None = None
    tool: str | None = None
    per_minute: int | None = None
    concurrent: int | None = None
    per_run: int | None = None


class LimitUsage:
    """What has been used of one limit."""

    __slots__ = ("in_flight", "limit", "recent_starts", "calls_by_run")

    def __init__(self, limit: Limit) -> None:
        self.limit, self.in_flight = limit, 0
        self.recent_starts: deque[float] = deque()
        self.calls_by_run: dict[str, int] = {}

    def explain_refusal(self, run: str | None, now: float) -> str:
        """Return why no further call may begin; empty: it may."""
        limit = self.limit
        while self.recent_starts and self.recent_starts[0] <= now - _MINUTE:
            self.recent_starts.popleft()
        if limit.concurrent is not None and self.in_flight >= limit.concurrent:
            return f"at most {limit.concurrent} at once"
        if limit.per_minute is not None and len(self.recent_starts) >= limit.per_minute:
            wait = self.recent_starts[len(self.recent_starts) - limit.per_minute] + _MINUTE - now
            return f"at most {limit.per_minute} a minute; try again in {max(wait, 0.1):.1f} s"
        if limit.per_run is not None and run is not None and self.calls_by_run.get(run, 0) >= limit.per_run:
            return f"at most {limit.per_run} in one run"
        return ""

    def count_call(self, run: str | None, now: float, places: list[LimitUsage]) -> None:
        """Count a call, whose place goes into *places*."""
        self.in_flight += 1
        places.append(self)  # directly behind: an interrupt comes before both or after both
        if self.limit.per_minute is not None:
            self.recent_starts.append(now)
        if self.limit.per_run is not None and run is not None:
            self.calls_by_run[run] = self.calls_by_run.get(run, 0) + 1


class Limits:
    """
    The limits of one registry, kept outside of its tools; every one that fits a call must leave room for it.

    Only the operator sets them. `operator` raises for everybody else, `changed` makes every call look again.
    """

    def __init__(self, operator: Callable[[str], None], changed: Callable[[], None], tick: Callable[[], float]) -> None:
        self._require_operator, self._on_change, self._monotonic = operator, changed, tick
        self.reset_after_fork()
        self._usages: dict[LimitKey, LimitUsage] = {}

    def reset_after_fork(self) -> None:
        """Take a new lock; in a forked process another thread of the parent may have held the old one."""
        self._lock = threading.RLock()

    def set(
        self, *, agent: Any = None, tool: Any = None, per_minute: int | None = None, concurrent: int | None = None,
        per_run: int | None = None,
    ) -> None:  # fmt: skip
        """
        Set the limit of an agent, of a tool, or of the one calling the other; all left out removes it.

        What has been used of the limit that it replaces still counts.

        Raises:
            NotOwnerError: It is not the operator who asks.
            ToolUsageError: Neither agent nor tool, or a number that is no whole number from 1 on.
        """
        self._require_operator("set a limit")
        numbers = {"per_minute": per_minute, "concurrent": concurrent, "per_run": per_run}
        wrong = [f"{name}={shorten_repr(one)}" for name, one in numbers.items()
                 if one is not None and (type(one) is not int or one < 1)]  # fmt: skip
        if wrong:
            raise ToolUsageError(f"{', '.join(wrong)}: a limit is a whole number from 1 on; None removes it.")
        key = (_to_name(agent), _to_name(tool))
        if key == (None, None):
            raise ToolUsageError("A limit is for an agent, a tool, or both: pass agent=… or tool=….")
        limit = Limit(agent=key[0], tool=key[1], **numbers)
        with self._lock:
            use = self._usages.get(key)
            if all(one is None for one in numbers.values()):
                self._usages.pop(key, None)
            elif use is None:
                self._usages[key] = LimitUsage(limit)
            else:
                use.limit = limit
        self._on_change()

    def all(self) -> list[Limit]:
        """Return every limit, in the order in which they were first set."""
        with self._lock:
            return [one.limit for one in self._usages.values()]

    @property
    def is_empty(self) -> bool:
        """Whether no limit is set."""
        return not self._usages

    def acquire(self, usages: Iterable[LimitUsage], run: str | None, places: list[LimitUsage]) -> str:
        """
        Take a call's *places* under all limits whose *usages* these are, to be released when it has ended.

        Returns:
            Why the call may not begin; empty: it may.
        """
        now = self._monotonic()
        with self._lock:
            for usage in usages:
                if refusal := usage.explain_refusal(run, now):
                    return f"{_describe_subject(usage.limit)}: {refusal}"
            for usage in usages:
                usage.count_call(run, now, places)
        return ""

    def release(self, places: list[LimitUsage]) -> None:
        """Give *places* back, which are empty then; no place is given back twice."""
        with self._lock:
            while places:
                places[-1].in_flight -= 1
                places.pop()

    def cancel(self, places: list[LimitUsage]) -> None:
        """Give *places* back of a call that did not begin, so that the latest one counts no more at all."""
        with self._lock:
            for usage in places:
                if usage.limit.per_minute is not None and usage.recent_starts:
                    usage.recent_starts.pop()
            self.release(places)

    def restore_run_usage(self, run: str, begun: Iterable[tuple[str | None, str]]) -> None:
        """Let *run* have used what those calls of it used that are recorded: agent and tool of each."""
        with self._lock:
            for use in self._usages.values():
                use.calls_by_run.pop(run, None)
            for agent, tool in begun if self._usages else ():
                for use in self.list_usages(agent, tool):
                    use.calls_by_run[run] = use.calls_by_run.get(run, 0) + 1

    def list_usages(self, agent: str | None, tool: str) -> list[LimitUsage]:
        """Return what is used of each limit that fits calls of *tool* by *agent*."""
        if not self._usages:
            return []
        keys = ((None, tool),) if agent is None else ((agent, tool), (agent, None), (None, tool))
        return [self._usages[key] for key in keys if key in self._usages]


def _to_name(one: Any) -> str | None:
    return one if one is None or isinstance(one, str) else str(getattr(one, "name", one))


def _describe_subject(limit: Limit) -> str:
    who = f"calls of {limit.agent!r}" if limit.agent is not None else "calls"
    return f"{who} to {limit.tool!r}" if limit.tool is not None else who
