"""Limits how many calls an agent or a tool may have per minute, at once and per run."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Never, TypeAlias

import msgspec

from praval_tools.errors import ToolUsageError
from praval_tools.misuse import MISSING, checks_own_calls, explain_misuse, refuse_wrong_call
from praval_tools.names import get_agent_name, get_name, shorten_repr

LimitKey = tuple[str | None, str | None]
_MINUTE = 60.0


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """
    A limit of calls.

    Args:
        agent: The agent whose calls count, and those made on its behalf; with None, those of all together.
        tool: The tool whose calls count; with None, those of all together.
        per_minute: Calls that begin within any sixty seconds.
        concurrent: Calls in flight at once; one that timed out counts until its function has ended.
        per_run: Calls of one journaled run.
    """

    agent: str | None = None
    tool: str | None = None
    per_minute: int | None = None
    concurrent: int | None = None
    per_run: int | None = None


class LimitUsage:
    """The calls that have used a limit."""

    __slots__ = ("in_flight", "limit", "recent_starts", "calls_by_run")

    def __init__(self, limit: Limit) -> None:
        self.limit, self.in_flight = limit, 0
        self.recent_starts: deque[float] = deque()
        self.calls_by_run: dict[str, int] = {}

    def explain_refusal(self, run: str | None, now: float) -> str:
        """Return the reason why no further call may begin, or an empty text where one may."""
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

    def count_call(self, run: str | None, now: float, places: list[LimitPlace]) -> None:
        """Count a call, and add its place to *places*."""
        place = self, now, run
        self.in_flight += 1
        places.append(place)  # directly behind: an interrupt comes before both or after both
        if self.limit.per_minute is not None:
            self.recent_starts.append(now)
        if self.limit.per_run is not None and run is not None:
            self.calls_by_run[run] = self.calls_by_run.get(run, 0) + 1

    def discount_call(self, run: str | None, started: float) -> None:
        """Undo what `count_call` did for calls per minute and per run."""
        if started in self.recent_starts:
            self.recent_starts.remove(started)
        if run is not None and self.calls_by_run.get(run, 0):
            self.calls_by_run[run] -= 1


LimitPlace: TypeAlias = tuple[LimitUsage, float, str | None]
"""The place of a call under a limit: its usage, when the call began, and in which run."""


@explain_misuse
class Limits:
    """
    The limits of one registry, kept outside its tools; a call needs a place under every limit that applies to it.

    Only the operator sets them: `require_operator` raises for everybody else. `apply_setting` calls what changes them,
    once that is to count.
    """

    def __init__(
        self, require_operator: Callable[[str], None], apply_setting: Callable[[Callable[[], object]], None],
        monotonic: Callable[[], float],
    ) -> None:  # fmt: skip
        self._require_operator, self._apply_setting, self._monotonic = require_operator, apply_setting, monotonic
        self.reset_after_fork()
        self._usages: dict[LimitKey, LimitUsage] = {}

    def reset_after_fork(self) -> None:
        """Take a new lock; in a forked process another thread of the parent may have held the old one."""
        self._lock = threading.RLock()

    def set(
        self, *, agent: object = None, tool: object = None, per_minute: int | None = None,
        concurrent: int | None = None, per_run: int | None = None,
    ) -> None:  # fmt: skip
        """Set or remove a limit, as `RegistryLimits.set` says."""
        self._require_operator("set a limit")
        numbers = {"per_minute": per_minute, "concurrent": concurrent, "per_run": per_run}
        invalid = [
            f"{name}={shorten_repr(number)}"
            for name, number in numbers.items()
            if number is not None and (type(number) is not int or number < 1)
        ]
        if invalid:
            raise ToolUsageError(f"{', '.join(invalid)}: a limit is a whole number from 1 on; None removes it.")
        key = (None if agent is None else get_agent_name(agent), None if tool is None else get_name(tool))
        if key == (None, None):
            raise ToolUsageError("A limit is for an agent, a tool, or both: pass agent=… or tool=….")
        is_removed = all(number is None for number in numbers.values())
        limit = Limit(agent=key[0], tool=key[1], **numbers)
        removed, limits = ([key], []) if is_removed else ([], [limit])
        self._apply_setting(partial(self._replace, removed, limits))

    def replace(self, removed: Iterable[LimitKey], limits: Iterable[Limit]) -> None:
        """Remove some limits and set others, all at once; calls look again once the caller changed the state."""
        self._require_operator("set limits")
        self._replace(removed, limits)

    def _replace(self, removed: Iterable[LimitKey], limits: Iterable[Limit]) -> None:
        with self._lock:
            kept = {(limit.agent, limit.tool): limit for limit in limits}
            for key in removed:
                if key not in kept:
                    self._usages.pop(key, None)
            for key, limit in kept.items():
                if (usage := self._usages.get(key)) is None:
                    self._usages[key] = LimitUsage(limit)
                else:
                    usage.limit = limit

    def all(self) -> list[Limit]:
        """Return every limit, in the order in which they were first set."""
        with self._lock:
            return [usage.limit for usage in self._usages.values()]

    @property
    def is_empty(self) -> bool:
        """Whether no limit is set."""
        return not self._usages

    @checks_own_calls
    def acquire(
        self, usages: Iterable[LimitUsage], run: str | None, places: list[LimitPlace], *more: Never, **unknown: Never
    ) -> str:
        """
        Take a place for a call under each of the limits of *usages*; the *places* are released when it has ended.

        Returns:
            The reason why the call may not begin, or an empty text where it may.
        """
        if places is MISSING or more or unknown:
            refuse_wrong_call(Limits.acquire, (usages, run, places, *more), unknown)
        now = self._monotonic()
        with self._lock:
            for usage in usages:
                if refusal := usage.explain_refusal(run, now):
                    return f"{_describe_subject(usage.limit)}: {refusal}"
            for usage in usages:
                usage.count_call(run, now, places)
        return ""

    @checks_own_calls
    def release(self, places: list[LimitPlace], *more: Never, **unknown: Never) -> None:
        """Give all *places* back and empty the list, so that no place is given back twice."""
        if places is MISSING or more or unknown:
            refuse_wrong_call(Limits.release, (places, *more), unknown)
        with self._lock:
            while places:
                places[-1][0].in_flight -= 1
                places.pop()

    def cancel(self, places: list[LimitPlace]) -> None:
        """Give back the *places* of a call that did not begin, which then does not count at all."""
        with self._lock:
            for usage, started, run in places:
                usage.discount_call(run, started)
            self.release(places)

    def restore_run_usage(self, run: str, calls: Iterable[tuple[tuple[str, ...], str]]) -> None:
        """Count for *run* its recorded *calls*: the members of the principal and the tool of each."""
        with self._lock:
            for usage in self._usages.values():
                usage.calls_by_run.pop(run, None)
            for members, tool in calls if self._usages else ():
                for usage in self.list_usages(members, tool):
                    usage.calls_by_run[run] = usage.calls_by_run.get(run, 0) + 1

    def list_usages(self, members: tuple[str, ...], tool: str) -> list[LimitUsage]:
        """Return the usages of the limits that apply to calls of *tool* by a principal with these *members*."""
        if not self._usages:
            return []
        keys = [*((agent, name) for agent in members for name in (tool, None)), (None, tool)]
        return [self._usages[key] for key in keys if key in self._usages]


def _describe_subject(limit: Limit) -> str:
    calls = f"calls of {limit.agent!r}" if limit.agent is not None else "calls"
    return f"{calls} to {limit.tool!r}" if limit.tool is not None else calls
